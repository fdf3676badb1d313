"""The generators: marks found wherever they stand, signatures as a reader wants them."""

from __future__ import annotations

from pathlib import Path

import pytest

from scripts.docs_coverage import collect, read_rows, render
from scripts.docs_errors import client_only
from scripts.docs_errors import render as render_errors
from scripts.docs_sql_api import Catalog, Column, Function, signature, split_arguments
from scripts.docs_sql_api import render as render_api
from scripts.generated import ROOT, settle

MARKED = """
import pytest

pytestmark = pytest.mark.covers("RP1")


@pytest.mark.covers("RP2", "RP3")
def test_decorated():
    pass


# {comment}
async def test_comment_above():
    pass


class TestGroup:
    @pytest.mark.parametrize("n", [pytest.param(1, marks=pytest.mark.covers("RP5"))])
    def test_parameter(self, n):
        # {inside}
        pass
"""


# Put together here, so that this file itself is not taken for a test of these rows.
COMMENT = "covers" + ": RP4"
INSIDE = "covers" + ": MN1, ME2"


@pytest.fixture
def marked(tmp_path: Path) -> Path:
    tests = tmp_path / "tests"
    (tests / "unit").mkdir(parents=True)
    (tests / "unit" / "test_marks.py").write_text(
        MARKED.replace("{comment}", COMMENT).replace("{inside}", INSIDE)
    )
    (tests / "client.js").write_text("// covers" + ": RE6\n")
    return tests


def test_marks_are_found_on_modules_functions_parameters_and_in_comments(marked: Path) -> None:
    file = "tests/unit/test_marks.py"
    assert collect(marked) == {
        "RP1": [file],
        "RP2": [f"{file}::test_decorated"],
        "RP3": [f"{file}::test_decorated"],
        "RP4": [f"{file}::test_comment_above"],
        "RP5": [f"{file}::TestGroup::test_parameter"],
        "MN1": [f"{file}::TestGroup::test_parameter"],
        "ME2": [f"{file}::TestGroup::test_parameter"],
        "RE6": ["tests/client.js"],
    }


def test_rows_without_a_test_are_listed_as_open() -> None:
    page = render({"RP1": "Says no", "RP2": "Phrases"}, {"RP2": ["tests/a.py::test_b"]})
    assert "| RP2 | Phrases | `tests/a.py::test_b` |" in page
    assert "- RP1 Says no" in page
    assert "1 of 2 rows" in page


def test_the_list_of_rows_is_complete() -> None:
    rows = list(read_rows(ROOT / "scripts" / "checklist.txt"))
    wanted = [("RP", 54), ("MN", 19), ("ME", 32), ("RE", 32)]
    numbers = {p: [int(row[2:]) for row in rows if row.startswith(p)] for p, _ in wanted}
    assert [row[:2] for row in rows] == [p for p, _ in wanted for _ in numbers[p]]
    for prefix, last in wanted:
        # what was planned from the beginning, then single rows as they are taken up
        assert numbers[prefix][:last] == list(range(1, last + 1))
        assert numbers[prefix] == sorted(set(numbers[prefix]))


def test_arguments_are_split_outside_quotes_and_parentheses() -> None:
    assert split_arguments("a text, b text DEFAULT 'x, y'::text, c numeric(3,1)") == [
        "a text",
        "b text DEFAULT 'x, y'::text",
        "c numeric(3,1)",
    ]
    assert split_arguments("") == []


def test_a_signature_shows_defaults_without_casts() -> None:
    function = Function(
        "count",
        "workspace text, filter text DEFAULT NULL::text, options jsonb DEFAULT '{}'::jsonb",
        "SETOF bigint",
        "stable",
        "",
    )
    assert signature(function) == (
        "remem.count(workspace text, filter text = null, options jsonb = '{}') -> setof bigint"
    )


def test_a_long_signature_has_an_argument_a_line() -> None:
    arguments = ", ".join(f"argument_number_{n} text" for n in range(6))
    lines = signature(Function("f", arguments, "void", "stable", "")).splitlines()
    assert lines[0] == "remem.f("
    assert lines[1] == "  argument_number_0 text,"
    assert lines[-1] == ") -> void"


def test_the_sql_page_groups_functions_and_escapes_table_cells() -> None:
    catalog = Catalog(
        [Function("look", "", "hit", "stable", "Looks.")],
        [Column("hit", "A hit.", "rank", "integer", "a|b")],
        [("status", "Counts.")],
    )
    page = render_api(catalog, [("Reading.", ["look"])])
    assert "## Reading.\n\n### look\n" in page
    assert "Looks. (stable)" in page
    assert "| rank | integer | a\\|b |" in page
    assert "| remem.status | Counts. |" in page


def test_the_error_page_pairs_codes_with_classes_and_lists_the_client_s_own() -> None:
    page = render_errors([("RM101", "not found")])
    assert "| RM101 | not found | `NotFound` |" in page
    assert {"ServerUnavailable", "NotInstalled"} <= {cls.__name__ for cls in client_only()}
    assert "| `NotInstalled` |" in page


def test_a_stale_file_fails_the_check_and_shows_the_difference(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    page = tmp_path / "page.md"
    assert settle(page, "one\n", check=True) == 1
    assert settle(page, "one\n", check=False) == 0
    assert settle(page, "one\n", check=True) == 0
    assert settle(page, "two\n", check=True) == 1
    assert page.read_text() == "one\n"
    assert "+two" in capsys.readouterr().err
