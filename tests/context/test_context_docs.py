"""The examples of docs/context.md run as they stand there, one after the other."""

from __future__ import annotations

import contextlib
import io
import re
from pathlib import Path

import pytest

PAGE = Path(__file__).parents[2] / "docs" / "context.md"
DSN = "postgresql://app@db.example.org/app"


@pytest.mark.covers("RP22", "RP25", "RP46")
def test_the_examples_of_the_page_run(
    planning: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    notes = tmp_path / "docs" / "notes"
    notes.mkdir(parents=True)
    (notes / "food.md").write_text("# Office lunches\nWe eat at noon.\n")
    monkeypatch.chdir(tmp_path)
    blocks = re.findall(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    assert len(blocks) == 5
    names: dict[str, object] = {}
    printed: list[str] = []
    for block in blocks:
        with contextlib.redirect_stdout(io.StringIO()) as out:
            exec(compile(block.replace(DSN, planning), str(PAGE), "exec"), names)
        printed.append(out.getvalue())
    host, planner, budget, markdown, function = printed
    assert "We retry a failed charge three times" in host
    assert "memory:" not in host
    assert planner.strip() == "used"
    assert 0 < len(budget.strip().encode()) <= 400
    assert "We eat at noon." in markdown
    assert "Lunch is at noon on Thursdays." in function


def test_the_host_of_the_page_is_short() -> None:
    block = re.findall(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)[0]
    assert len([line for line in block.splitlines() if line.strip()]) <= 20
