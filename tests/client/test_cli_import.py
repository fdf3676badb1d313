"""`remem import`: line numbers, bounded batches, resuming, bad lines."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import pytest

from remem_pg.cli import importing
from tests.client.cli_runner import Cli


@pytest.fixture
def cli(db_dsn: str) -> Cli:
    return Cli(db_dsn)


def lines_of(data: bytes, first: int = 1) -> list[importing.Line]:
    return list(importing.read_lines(io.BytesIO(data), first))


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
    monkeypatch.setattr(importing, "MAX_LINE", 40)
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
    monkeypatch.setattr(importing, "BATCH_LINES", 3)
    monkeypatch.setattr(importing, "BATCH_BYTES", 100)
    sizes = [10, 10, 10, 10, 90, 200, 5]
    lines = [importing.Line(n, size, item={}) for n, size in enumerate(sizes, 1)]
    grouped = [[line.size for line in batch] for batch in importing.batches(iter(lines))]
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
