"""A Markdown text as records: front matter for all of it, a record for each heading."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, date, datetime
from functools import cache
from itertools import pairwise
from typing import Any

from remem_pg.context.scope import OWNED
from remem_pg.errors import InvalidArgument
from remem_pg.text import fold

FRONT_MATTER = 64_000
"""Characters in which front matter has to end."""

MOST_SECTIONS = 2_000

_FRONT = re.compile(r"---[ \t]*\n(.*?)^(?:---|\.\.\.)[ \t]*$\n?", re.DOTALL | re.MULTILINE)
_NO_SLUG = re.compile(r"[^\w]+")
_AMBIGUOUS = re.compile(r"^(?: {0,3}(?:```|~~~|<|=+[ \t]*$|-+[ \t]*$)| {1,3}#)", re.MULTILINE)
"""What can make a line that begins with # no heading, or another one a heading."""

_HEADING = re.compile(r"(#{1,6})(?:[ \t](.*))?$")


@dataclass(frozen=True, slots=True)
class Section:
    """One record to be: ``fields`` of a ``Record`` without its score, and the words beside its
    body that it is found by."""

    fields: Mapping[str, Any]
    found_by: str = ""


@dataclass(frozen=True, slots=True)
class Front:
    """What front matter says, for all records of a file."""

    fields: dict[str, Any] = field(default_factory=dict)
    title: str | None = None
    found_by: str = ""


def sections(name: str, text: str) -> list[Section]:
    """The records of a file; ``name`` is its path below the folder.

    Raises ValueError when its front matter cannot be read: what it says about whose the file is
    would be lost.
    """
    front, body, _ = _front(text.replace("\r\n", "\n").replace("\r", "\n"))
    stem = name.rsplit("/", 1)[-1].rsplit(".", 1)[0]
    found: list[Section] = []
    slugs: Counter[str] = Counter()
    for path, content in _headed(body):
        content = content.strip()
        if not content or len(found) >= MOST_SECTIONS:
            continue
        titles = [title for title in (front.title, *path) if title]
        if len(titles) > 1 and titles[0] == titles[1]:
            del titles[0]
        identity = name
        if path:
            slug = _NO_SLUG.sub("-", fold(path[-1])).strip("-")[:80] or "section"
            slugs[slug] += 1
            identity += f"#{slug}" if slugs[slug] == 1 else f"#{slug}-{slugs[slug]}"
        title = " / ".join(titles) or stem
        fields = {
            **front.fields,
            "id": identity,
            "title": title,
            "body": content,
            "source": front.fields.get("source") or identity,
        }
        found.append(Section(fields, f"{title} {front.found_by}"))
    return found


def _front(text: str) -> tuple[Front, str, bool]:
    """Front matter, the text below it, and whether there was any."""
    head = _FRONT.match(text[:FRONT_MATTER]) if text.startswith("---") else None
    if head is None:
        return Front(), text, False
    said = _yaml(head[1])
    if not isinstance(said, Mapping):
        if said is None:
            return Front(), text[head.end() :], True
        return Front(), text, False  # two rules with text between them
    return _said(said), text[head.end() :], True


def _yaml(text: str) -> Any:
    try:
        import yaml
    except ImportError as error:
        raise missing("PyYAML") from error
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    try:
        return yaml.load(text, Loader=loader)
    except (yaml.YAMLError, ValueError, RecursionError, OverflowError, TypeError) as error:
        raise ValueError("front matter that is no YAML") from error


def _said(given: Mapping[Any, Any]) -> Front:
    fields: dict[str, Any] = {}
    for name in (
        "kind",
        "scope",
        "scope_ref",
        "importance",
        "confidence",
        "freshness",
        "subject",
        "attribute",
        "source",
        "source_class",
    ):
        if given.get(name) is not None:
            fields[name] = given[name]
    for owner in OWNED:
        # "project: phoenix" alone says whose it is
        if owner in given and "scope" not in given and "scope" not in fields:
            fields |= {"scope": owner, "scope_ref": _plain(given[owner])}
    moment = next(
        (given[name] for name in ("updated_at", "updated", "date") if name in given), None
    )
    if isinstance(moment, date):
        at = moment if isinstance(moment, datetime) else datetime(*moment.timetuple()[:3])
        fields["updated_at"] = at if at.tzinfo else at.replace(tzinfo=UTC)
    title = _plain(given.get("title"))
    others = [*_listed(given.get("aliases")), *_listed(given.get("tags"))]
    summary = _plain(given.get("summary")) or _plain(given.get("description")) or ""
    return Front(fields, title, " ".join([*others, summary]))


def _plain(value: Any) -> str | None:
    """A text or a number as text."""
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        return None
    return str(value).strip() or None


def _listed(value: Any) -> list[str]:
    if isinstance(value, str):
        value = value.split(",")
    if not isinstance(value, Sequence):
        return []
    return [text for member in value[:100] if (text := _plain(member)) is not None]


Heading = tuple[int, str, int, int]
"""Depth, title, and the lines from and to which it stands."""


def _headed(text: str) -> list[tuple[list[str], str]]:
    """The text below each heading with the headings above it; first what stands before any."""
    rows = text.split("\n")
    found: list[tuple[list[str], str]] = []
    path: list[tuple[int, str]] = []
    begin = 0
    headings = parsed_headings(text) if _AMBIGUOUS.search(text) else plain_headings(rows)
    for depth, title, first, last in headings:
        found.append(([above for _, above in path], "\n".join(rows[begin:first])))
        path = [(level, above) for level, above in path if level < depth]
        path.append((depth, " ".join(title.split())[:200]))
        begin = last
    found.append(([above for _, above in path], "\n".join(rows[begin:])))
    return found


def plain_headings(rows: Sequence[str]) -> Iterator[Heading]:
    """Headings where nothing is ambiguous, line by line: many times faster than parsing."""
    for number, row in enumerate(rows):
        if row.startswith("#") and (found := _HEADING.match(row)):
            title = (found[2] or "").strip(" \t")
            bare = title.rstrip("#")  # marks at the end close it, when a space is before them
            if not bare or bare[-1] in " \t":
                title = bare.rstrip(" \t")
            yield len(found[1]), title, number, number + 1


def parsed_headings(text: str) -> Iterator[Heading]:
    """Headings as a Markdown parser sees them, without those inside lists and quotations."""
    tokens = _parser().parse(text)
    for token, inline in pairwise(tokens):
        if token.type == "heading_open" and not token.level and token.map is not None:
            yield int(token.tag[1:]), inline.content, token.map[0], token.map[1]


@cache
def _parser() -> Any:
    """Finds headings, not what looks like one in code or HTML. Inline marks stay."""
    try:
        from markdown_it import MarkdownIt
    except ImportError as error:
        raise missing("markdown-it-py") from error
    parser = MarkdownIt("zero", {"maxNesting": 20, "html": True})
    parser.enable(
        ["heading", "lheading", "fence", "code", "html_block", "list", "blockquote", "hr"]
    )
    parser.core.ruler.enableOnly(["normalize", "block"])
    return parser


def missing(package: str) -> InvalidArgument:
    """The error of a folder without the packages that read it."""
    return InvalidArgument(
        f"a Markdown folder needs {package}", hint="pip install 'remem-pg[markdown]'"
    )
