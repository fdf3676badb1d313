"""The README reaches every page, and every link of every page leads somewhere."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGES = sorted(ROOT.glob("docs/*.md"))
LINK = re.compile(r"\]\(([^)#\s]*)(?:#([^)\s]*))?\)")


def links(page: Path) -> list[tuple[str, str]]:
    text = re.sub(r"```.*?```", "", page.read_text("utf-8"), flags=re.DOTALL)
    return [(file, anchor) for file, anchor in LINK.findall(text) if "://" not in file]


def anchors(page: Path) -> set[str]:
    headings = re.findall(r"^#+ (.+)$", page.read_text("utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def test_the_readme_links_every_page_once() -> None:
    linked = [file for file, _ in links(ROOT / "README.md") if file.startswith("docs/")]
    assert len(linked) == len(set(linked))
    # coverage is about this project's own tests, not about using it
    assert {f"docs/{page.name}" for page in PAGES} - set(linked) == {"docs/coverage.md"}


@pytest.mark.parametrize("page", [ROOT / "README.md", *PAGES], ids=lambda page: page.name)
def test_every_link_leads_somewhere(page: Path) -> None:
    for file, anchor in links(page):
        target = page.parent / file if file else page
        assert target.exists(), file
        if anchor:
            assert anchor in anchors(target), f"{file}#{anchor}"


def test_every_command_stands_once_on_its_page() -> None:
    from remem_pg.cli.app import app, embeddings

    names = [command.name for command in app.registered_commands]
    names += [f"embeddings {command.name}" for command in embeddings.registered_commands]
    page = (ROOT / "docs" / "cli.md").read_text("utf-8")
    rows = re.findall(r"^\| `remem ([^`]*)`", page, re.MULTILINE)
    for name in names:
        # forget, purge and import have a row for one memory and one for many
        found = [row for row in rows if re.match(rf"{name}(?![\w-])", row)]
        assert 1 <= len(found) <= (2 if name in ("forget", "purge", "import") else 1), name
