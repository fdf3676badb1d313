"""`remem import`: line numbers, bounded batches, resuming, bad lines."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import pytest

from remem_pg.cli import lines as line_reading
from tests.client.cli_runner import Cli


@pytest.fixture
def cli(db_dsn: str) -> Cli:
    return Cli(db_dsn)


def lines_of(data: bytes, first: int = 1) -> list[line_reading.Line]:
    return list(line_reading.read_lines(io.BytesIO(data), first))


def write(path: Path, items: list[Any]) -> Path:
    path.write_text("".join(json.dumps(item) + "\n" for item in items), "utf-8")
    return path


def test_blank_lines_are_passed_over_but_counted() -> None:
    read = lines_of(b'{"body": "a"}\n\n   \n{"body": "b"}')
    assert [(line.number, line.item) for line in read] == [(1, {"body": "a"}), (4, {"body": "b"})]


@pytest.mark.parametrize(
    ("raw", "problem"),
    [
        (b"{", "not JSON"),
        (b"[1]", "not a JSON object"),
        (b'"text"', "not a JSON object"),
        (b'{"body": "\xff"}', "not UTF-8"),
        (b'{"importance": NaN}', "NaN is not a JSON number"),
        (b"[" * 100_000, "nested too deeply"),
    ],
)
def test_a_line_that_is_no_item_says_why(raw: bytes, problem: str) -> None:
    (line,) = lines_of(raw)
    assert line.item is None
    assert line.problem is not None
    assert problem in line.problem


def test_an_overlong_line_is_refused_and_the_next_one_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(line_reading, "MAX_LINE", 40)
    data = b'{"body": "' + b"x" * 200 + b'"}\n{"body": "short"}\n'
    first, second = lines_of(data)
    assert first.problem == "longer than 16 MiB"
    assert (second.number, second.item) == (2, {"body": "short"})


def test_a_byte_order_mark_is_no_part_of_the_first_line() -> None:
    (line,) = lines_of(b'\xef\xbb\xbf{"body": "a"}\n')
    assert line.item == {"body": "a"}


def test_reading_can_begin_at_a_later_line() -> None:
    read = lines_of(b'{"body": "a"}\nnot json\n{"body": "c"}\n', first=3)
    assert [line.item for line in read] == [{"body": "c"}]


def test_batches_are_bounded_by_lines_and_by_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(line_reading, "BATCH_LINES", 3)
    monkeypatch.setattr(line_reading, "BATCH_BYTES", 100)
    sizes = [10, 10, 10, 10, 90, 200, 5]
    lines = [line_reading.Line(n, size, item={}) for n, size in enumerate(sizes, 1)]
    grouped = [[line.size for line in batch] for batch in line_reading.batches(iter(lines))]
    assert grouped == [[10, 10, 10], [10, 90], [200], [5]]


def test_a_file_is_imported_and_a_second_import_changes_nothing(cli: Cli, tmp_path: Path) -> None:
    items = [{"ref": f"r{n}", "body": f"Note number {n} about the harbour."} for n in range(450)]
    path = write(tmp_path / "notes.jsonl", items)
    first = cli.json("import", str(path))
    assert first["outcomes"] == {"created": 450}
    assert first["lines"] == 450
    assert cli.json("import", str(path))["outcomes"] == {"unchanged": 450}
    assert cli.json("count")["count"] == 450


def test_items_come_from_standard_input(cli: Cli) -> None:
    done = cli("import", "-", "--json", stdin='{"body": "From a pipe."}\n')
    assert json.loads(done.stdout)["outcomes"] == {"created": 1}


def test_abort_names_the_bad_line_and_where_to_go_on(cli: Cli, tmp_path: Path) -> None:
    path = tmp_path / "bad.jsonl"
    path.write_text('{"ref": "a", "body": "One."}\n{"ref": "b", "body": "Two."}\nnot json\n')
    done = cli("import", str(path))
    assert done.returncode == 1
    assert "line 3: not JSON" in done.stderr
    assert "--from-line 3" in done.stderr
    assert cli.json("count")["count"] == 2


def test_abort_on_a_refused_item_stores_nothing_of_its_batch(cli: Cli, tmp_path: Path) -> None:
    path = write(tmp_path / "bad.jsonl", [{"body": "One."}, {"body": ""}, {"body": "Three."}])
    done = cli("import", str(path), "--json")
    error = json.loads(done.stdout)["error"]
    assert done.returncode == 1
    assert error["code"] == "RM001"
    assert error["detail"]["line"] == 2
    assert error["message"].startswith("line 2: ")
    assert cli.json("count")["count"] == 0


def test_report_stores_the_good_lines_and_names_the_bad_ones(cli: Cli, tmp_path: Path) -> None:
    path = tmp_path / "mixed.jsonl"
    path.write_text(
        '{"body": "One."}\n{"body": ""}\n[]\n'
        '{"body": "Four.", "colour": "red"}\n{"body": "Five."}\n'
    )
    done = cli("import", str(path), "--on-error", "report", "--json")
    document = json.loads(done.stdout)
    assert done.returncode == 4
    assert document["outcomes"] == {"created": 2}
    assert {(one["line"], one["code"]) for one in document["refused"]} == {
        (2, "RM001"),
        (3, "RM001"),
        (4, "RM002"),
    }
    assert document["refused_count"] == 3


def test_report_in_words_names_each_line_on_standard_error(cli: Cli, tmp_path: Path) -> None:
    path = tmp_path / "mixed.jsonl"
    path.write_text('{"body": "One."}\n{"body": ""}\n')
    done = cli("import", str(path), "--on-error", "report")
    assert done.returncode == 4
    assert "1 created, 1 refused" in done.stdout
    assert "line 2: RM001" in done.stderr


def test_a_file_that_is_not_there_is_wrong_usage(cli: Cli) -> None:
    done = cli("import", "/nowhere/at/all.jsonl")
    assert done.returncode == 2
    assert "Traceback" not in done.stderr


def test_rollback_stores_nothing_of_a_file_with_a_bad_line(cli: Cli, tmp_path: Path) -> None:
    items = [{"body": f"Note {n}."} for n in range(1200)]
    path = write(tmp_path / "bad.jsonl", [*items, {"body": "x", "kind": "poem"}])
    done = cli("import", str(path), "--on-error", "rollback")
    assert done.returncode == 1
    assert "line 1201" in done.stderr
    assert "Nothing was stored" in done.stderr
    assert cli.json("count")["count"] == 0
    path.write_text(path.read_text().replace('"kind": "poem"', '"kind": "task"') + "no json\n")
    assert "line 1202: not JSON" in cli("import", str(path), "--on-error", "rollback").stderr
    assert cli.json("count")["count"] == 0
    path = write(tmp_path / "good.jsonl", items)
    done = cli.json("import", str(path), "--on-error", "rollback")
    assert (done["lines"], done["outcomes"]) == (1200, {"created": 1200})


# -- remem's own exports ---------------------------------------------------------------------------


@pytest.mark.covers("ME37")
def test_an_export_is_recognised_and_comes_back(cli: Cli, tmp_path: Path) -> None:
    cli("remember", "Blue.", "--ref", "c")
    cli("remember", "Green.", "--ref", "c")
    file = tmp_path / "w.jsonl"
    document = cli.json("export", str(file))
    assert document["counts"]["memory"] == 2
    assert document["lines"] == len(file.read_text().splitlines())
    assert file.stat().st_mode & 0o077 == 0
    done = cli.json("import", str(file), "-w", "copy")
    assert done["records"]["memory"] == {"created": 2}
    assert done["from"] == "default"
    assert [v["body"] for v in cli.json("history", "c", "-w", "copy")["versions"]] == [
        "Blue.",
        "Green.",
    ]
    again = cli("import", str(file), "-w", "copy")
    assert "memory: 2 unchanged" in again.stdout


def test_an_export_goes_through_pipes(cli: Cli) -> None:
    cli("remember", "From a pipe.")
    exported = cli("export", "-")
    assert exported.returncode == 0
    assert "1 memory" in exported.stderr
    assert cli("import", "-", "-w", "copy", stdin=exported.stdout).returncode == 0
    assert cli.json("count", "-w", "copy")["count"] == 1


def test_a_failed_export_leaves_no_file(cli: Cli, tmp_path: Path) -> None:
    done = cli("export", str(tmp_path / "w.jsonl"), "-w", "nowhere")
    assert done.returncode == 1
    assert "Nothing was ever stored" in done.stderr
    assert list(tmp_path.iterdir()) == []


def test_what_ended_here_stays_so_and_is_counted(cli: Cli, tmp_path: Path) -> None:
    file = tmp_path / "old.jsonl"
    cli("remember", "A secret.", "--ref", "s")
    cli("export", str(file))
    cli("forget", "s")
    done = cli("import", str(file))
    assert done.returncode == 0
    assert "memory: 1 forgotten" in done.stdout
    assert "stay so" in done.stderr
    assert cli.json("count")["count"] == 0


def test_half_an_export_is_refused(cli: Cli, tmp_path: Path) -> None:
    file = tmp_path / "w.jsonl"
    cli("remember", "A memory.")
    cli("export", str(file))
    file.write_text("\n".join(file.read_text().splitlines()[:-1]))
    done = cli("import", str(file), "-w", "copy")
    assert done.returncode == 1
    assert "not whole" in done.stderr
    assert cli.json("count", "-w", "copy")["count"] == 0


# -- other systems' exports ------------------------------------------------------------------------

MEM0 = {
    "results": [
        {
            "id": "a1",
            "memory": "Likes tea.",
            "user_id": "ann",
            "created_at": "2026-03-01T09:30:00Z",
        },
        {"id": "a2", "memory": "Lives in Rome.", "user_id": "ann"},
        {"id": "a3"},
    ]
}


def test_the_mapping_is_shown_first_and_nothing_is_stored(cli: Cli, tmp_path: Path) -> None:
    path = tmp_path / "mem0.json"
    path.write_text(json.dumps(MEM0))
    for more in ([], ["--dry-run"]):
        done = cli("import", "--from", "mem0", str(path), *more)
        assert done.returncode == 0
        assert "user_id" in done.stdout
        assert "Likes tea." in done.stdout
        assert "record 3" in done.stderr
        assert cli.json("count")["count"] == 0
    shown = cli.json("import", "--from", "mem0", str(path))
    assert shown["survey"]["fields"]["body"] == [2, "Likes tea."]


def test_a_dry_run_lists_what_would_be_refused(cli: Cli, tmp_path: Path) -> None:
    path = tmp_path / "mem0.jsonl"
    records: list[dict[str, Any]] = [
        {"id": f"a{n}", "memory": f"Fact {n}."} for n in range(1, 1201)
    ]
    records[1]["memory"] = ""
    records[2]["memory"] = " \u200b\n"
    records[1101] = {"id": "late", "memory": "x", "created_at": "yesterday"}
    records[1102]["id"] = "r" * 500
    path.write_text("\n".join(map(json.dumps, records)))
    dry = cli("import", "--from", "mem0", str(path), "--dry-run")
    assert "1200 records, 4 refused" in dry.stdout
    named = [line.split(":")[0] for line in dry.stderr.splitlines()]
    assert named == ["record 2", "record 3", "record 1102", "record 1103"]
    assert "record 2: body is empty" in dry.stderr
    shown = cli("import", "--from", "mem0", str(path))
    assert "1000 records (the first of more), 2 refused" in shown.stdout
    # and these are the ones that an import refuses
    report = json.loads(
        cli("import", "--from", "mem0", str(path), "--yes", "--on-error", "report", "--json").stdout
    )
    assert [one["line"] for one in report["refused"]] == [2, 3, 1102, 1103]
    assert cli.json("count")["count"] == 1196


def test_with_yes_they_are_imported_and_found_again_by_their_ids(cli: Cli, tmp_path: Path) -> None:
    path = tmp_path / "mem0.json"
    path.write_text(json.dumps(MEM0))
    arguments = ["import", "--from", "mem0", str(path), "--yes"]
    assert cli(*arguments).returncode == 1  # the third has no text
    assert cli(*arguments, "--on-error", "report").returncode == 4
    memory = cli.json("get", "mem0:a1")
    assert (memory["body"], memory["scope_ref"]) == ("Likes tea.", "ann")
    assert memory["source_class"] == "imported"
    done = cli(*arguments, "--on-error", "report", "--json")
    assert json.loads(done.stdout)["outcomes"] == {"unchanged": 2}


def test_standard_input_is_read_once_so_it_needs_yes(cli: Cli) -> None:
    assert cli("import", "--from", "jsonl", "-", stdin='{"text": "x"}\n').returncode == 2
    done = cli("import", "--from", "jsonl", "-", "--yes", stdin='{"text": "x", "mood": "good"}\n')
    assert done.returncode == 0
    assert cli.json("list")["memories"][0]["metadata"] == {"mood": "good"}
