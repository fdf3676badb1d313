"""A folder of Markdown files as a provider."""

from __future__ import annotations

import os
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from remem_pg import MarkdownProvider
from remem_pg.context import markdown_files
from remem_pg.context.scope import Scope
from remem_pg.errors import InvalidArgument

SCOPE = Scope("acme")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    notes = tmp_path / "notes"
    (notes / "team").mkdir(parents=True)
    write(
        notes / "retries.md", "# Retry policy\nWe retry a failed charge three times, then page.\n"
    )
    write(notes / "team" / "mei.markdown", "# Mei\nMei wants mornings free of meetings.\n")
    write(notes / "deploys.md", "# Deployments\nDeployments happen on Tuesdays before noon.\n")
    return notes


def write(path: Path, text: str) -> None:
    path.write_text(text, encoding="utf-8")


def found(
    provider: MarkdownProvider, query: str, scope: Scope = SCOPE, limit: int = 8
) -> list[str]:
    return [str(dict(each)["id"]) for each in provider.search(query, scope, limit)]  # type: ignore[arg-type]


@pytest.mark.covers("RP31")
def test_sections_are_found_by_their_words(folder: Path) -> None:
    provider = MarkdownProvider("notes", folder)
    assert found(provider, "how often do we retry a charge?") == ["retries.md#retry-policy"]
    assert found(provider, "when does Mei have meetings?") == ["team/mei.markdown#mei"]
    assert found(provider, "deployment day") == ["deploys.md#deployments"]
    assert found(provider, "a weekend pasta recipe") == []
    assert found(provider, "") == []
    assert found(provider, "what is it?") == []


@pytest.mark.covers("RP31")
def test_scores_are_lexical_absolute_and_in_order(folder: Path) -> None:
    write(folder / "more.md", "# Paging\nWe page the person on call.\n")
    records: Any = MarkdownProvider("notes", folder).search("retry a charge, then page", SCOPE, 8)
    scores = [record["score"] for record in records]
    assert scores == sorted(scores, reverse=True)
    assert scores[0] > 0.9
    assert all(0 < score <= 1 for score in scores)


def test_making_one_reads_nothing() -> None:
    MarkdownProvider("notes", "/does/not/exist")
    with pytest.raises(InvalidArgument):
        MarkdownProvider("notes", 5)  # type: ignore[arg-type]


def test_a_folder_that_is_not_there_is_a_failure_until_it_is(tmp_path: Path) -> None:
    provider = MarkdownProvider("notes", tmp_path / "later")
    with pytest.raises(FileNotFoundError):
        found(provider, "x")
    (tmp_path / "later").mkdir()
    write(tmp_path / "later" / "a.md", "zebra\n")
    assert found(provider, "zebra") == ["a.md"]


@pytest.mark.covers("RP31")
def test_what_changed_is_read_again_and_nothing_else(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    old = time.time() - 3600
    for path in folder.rglob("*.m*"):
        os.utime(path, (old, old))
    monkeypatch.setattr(markdown_files, "RACY_NS", 0)  # the files were only just written
    provider = MarkdownProvider("notes", folder)
    reads: list[str] = []
    original = markdown_files.read

    def counting(root: Path, path: str, most: int) -> Any:
        reads.append(Path(path).name)
        return original(root, path, most)

    monkeypatch.setattr(markdown_files, "read", counting)
    assert found(provider, "retry") == ["retries.md#retry-policy"]
    assert sorted(reads) == ["deploys.md", "mei.markdown", "retries.md"]
    reads.clear()
    found(provider, "retry")
    assert reads == []
    write(folder / "retries.md", "# Paging\nNothing of the kind.\n")
    write(folder / "new.md", "retry again\n")
    (folder / "deploys.md").unlink()
    assert found(provider, "retry") == ["new.md"]
    assert sorted(reads) == ["new.md", "retries.md"]
    assert found(provider, "deployments") == []


@pytest.mark.covers("RP31")
def test_a_change_of_equal_size_and_time_is_seen(folder: Path) -> None:
    path = folder / "retries.md"
    provider = MarkdownProvider("notes", folder)
    found(provider, "zebra")
    before = path.stat()
    write(path, path.read_text().replace("charge", "zebras"))
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert found(provider, "zebra") == ["retries.md#retry-policy"]


@pytest.mark.covers("RP31", "RP52")
def test_links_out_of_the_folder_and_hidden_files_are_not_read(
    folder: Path, tmp_path: Path
) -> None:
    secret = tmp_path / "secret"
    secret.mkdir()
    write(secret / "keys.md", "zebra password\n")
    (folder / "keys.md").symlink_to(secret / "keys.md")
    (folder / "all").symlink_to(secret, target_is_directory=True)
    (folder / "loop").symlink_to(folder, target_is_directory=True)
    (folder / "gone.md").symlink_to(secret / "nothing.md")
    (folder / ".git").mkdir()
    write(folder / ".git" / "a.md", "zebra\n")
    write(folder / ".hidden.md", "zebra\n")
    write(folder / "zebra.txt", "zebra\n")
    (folder / "dir.md").mkdir()
    os.mkfifo(folder / "pipe.md")
    assert found(MarkdownProvider("notes", folder), "zebra") == []


@pytest.mark.covers("RP31", "RP52")
def test_a_link_put_in_place_after_the_scan_is_not_followed(folder: Path, tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.mkdir()
    write(secret / "mei.markdown", "zebra\n")
    write(secret / "retries.md", "zebra\n")
    (folder / "retries.md").unlink()
    (folder / "retries.md").symlink_to(secret / "retries.md")
    with pytest.raises(OSError, match=r".+"):
        markdown_files.read(folder, str(folder / "retries.md"), 1000)
    (folder / "team").rename(folder / "moved")
    (folder / "team").symlink_to(secret, target_is_directory=True)
    with pytest.raises(OSError, match="outside"):
        markdown_files.read(folder, str(folder / "team" / "mei.markdown"), 1000)


def test_the_folder_itself_may_be_a_link(folder: Path, tmp_path: Path) -> None:
    link = tmp_path / "link"
    link.symlink_to(folder, target_is_directory=True)
    assert found(MarkdownProvider("notes", link), "retry") == ["retries.md#retry-policy"]


@pytest.mark.covers("RP31")
def test_broken_bytes_large_and_unreadable_files_harm_nothing(folder: Path) -> None:
    (folder / "broken.md").write_bytes(b"\xff\xfe zebra \xc3\x28 \x00 end\n")
    (folder / "bom.md").write_bytes(b"\xef\xbb\xbf# Giraffe\nlong neck\n")
    write(folder / "large.md", "zebra " * 1000)
    write(folder / "bad.md", "---\nscope: [\n---\nzebra\n")
    provider = MarkdownProvider("notes", folder, most_bytes=2000)
    assert found(provider, "zebra") == ["broken.md"]
    assert found(provider, "giraffe") == ["bom.md#giraffe"]
    assert set(provider.skipped) == {"large.md", "bad.md"}
    write(folder / "bad.md", "zebra\n")
    assert sorted(found(provider, "zebra")) == ["bad.md", "broken.md"]
    assert set(provider.skipped) == {"large.md"}


@pytest.mark.covers("RP31", "RP52")
def test_other_owners_records_take_no_place(folder: Path) -> None:
    for n in range(20):
        write(folder / f"p{n}.md", f"---\nproject: other\n---\nzebra {n}\n")
    write(folder / "q.md", "---\nproject: phoenix\n---\nzebra and more\n")
    write(folder / "odd.md", "---\nscope: 7\n---\nzebra\n")
    provider = MarkdownProvider("notes", folder)
    assert found(provider, "zebra", limit=3) == []
    assert found(provider, "zebra", Scope("acme", project="phoenix"), 3) == ["q.md"]


def test_words_of_scripts_without_spaces_are_found(folder: Path) -> None:
    write(folder / "ja.md", "# 再試行\n請求は三回まで再試行する。\n")
    assert found(MarkdownProvider("notes", folder), "再試行は何回?") == ["ja.md#再試行"]


def test_accents_and_word_forms_do_not_matter(folder: Path) -> None:
    write(folder / "cafe.md", "The café opens early; we are baking pastries.\n")
    provider = MarkdownProvider("notes", folder)
    assert found(provider, "CAFE opening") == ["cafe.md"]
    assert found(provider, "a pastry") == ["cafe.md"]


def test_several_threads_may_search_at_once(folder: Path) -> None:
    provider = MarkdownProvider("notes", folder)
    answers: list[list[str]] = []

    def work() -> None:
        for n in range(10):
            write(folder / f"{threading.get_ident()}.md", f"walrus {n}\n")
            answers.append(found(provider, "retry policy"))

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert answers == [["retries.md#retry-policy"]] * 40


@pytest.mark.covers("RP31")
def test_thousands_of_files_are_bounded_and_searched_in_little_time(tmp_path: Path) -> None:
    for n in range(1500):
        if n % 100 == 0:
            (tmp_path / f"d{n // 100}").mkdir()
        write(tmp_path / f"d{n // 100}" / f"f{n}.md", f"# Topic {n}\nword{n} and common text\n")
    provider = MarkdownProvider("notes", tmp_path, most_files=1000)
    assert provider.refresh() == 1000
    started = time.monotonic()
    assert found(provider, "word7") == ["d0/f7.md#topic-7"]
    assert time.monotonic() - started < 2
