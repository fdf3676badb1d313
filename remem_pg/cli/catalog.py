"""Topics, links and routes: what prompts are recognised by, what recall follows and searches."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated
from uuid import UUID

import typer

from remem_pg.cli import settings as conf
from remem_pg.cli.connect import open_memory
from remem_pg.cli.lifecycle import ByRef, id_of
from remem_pg.cli.memories import json_object, required_uuid
from remem_pg.cli.output import clean, record_table, shorten
from remem_pg.cli.settings import Settings, print_json

if TYPE_CHECKING:
    from remem_pg.client import Remem

Src = Annotated[str, typer.Argument(metavar="SRC", help="Where the link begins: id or ref.")]
Dst = Annotated[str, typer.Argument(metavar="DST", help="Where it ends: id or ref.")]


def topics(
    settings: Settings,
    limit: Annotated[int, typer.Option("-n", "--limit", help="How many at most.")] = 50,
    after: Annotated[str | None, typer.Option(metavar="ID", help="Go on after this topic.")] = None,
) -> int | None:
    """List the topics that prompts are recognised by, the weightiest first."""
    found = open_memory(settings).topics(required_uuid("--after", after), limit)
    following = str(found[-1].topic_id) if found and len(found) == limit else None
    if settings.json:
        print_json({"workspace": settings.workspace, "topics": found, "after": following})
        return None
    if not found:
        settings.out.print(f'No topics in workspace "{settings.workspace}".')
        return None
    from rich.table import Table

    table = Table(box=None, pad_edge=False)
    for name in ("topic", "sources", "vector", "id"):
        table.add_column(name, no_wrap=name == "id", overflow="fold")
    for topic in found:
        marks = ", ".join(
            mark
            for mark in ("unresolved" * topic.unresolved, topic.freshness, topic.scope_ref or "")
            if mark and mark != "current"
        )
        table.add_row(
            shorten(topic.title, 80) + (f" ({clean(marks)})" if marks else ""),
            clean(", ".join(source or "given" for source in topic.sources)),
            "yes" if topic.embedded else "no",
            str(topic.topic_id),
        )
    settings.out.print(table)
    if following:
        settings.note(f"More may follow: --after {following}")
    return None


def put_topic(
    settings: Settings,
    title: Annotated[str, typer.Argument(help="What it is called.")],
    alias: Annotated[
        list[str] | None, typer.Option("--alias", help="Another name. May be repeated.")
    ] = None,
    tag: Annotated[list[str] | None, typer.Option("--tag", help="May be repeated.")] = None,
    summary: Annotated[str | None, typer.Option(help="What it is about.")] = None,
    importance: Annotated[float | None, typer.Option(help="0 to 1.")] = None,
    unresolved: Annotated[bool, typer.Option("--unresolved", help="It is open work.")] = False,
) -> int | None:
    """Put a topic into the catalog; a second time it replaces what was said of it."""
    said = {"aliases": alias, "tags": tag, "summary": summary, "importance": importance}
    topic_id = open_memory(settings, create=True).put_topic(title, unresolved=unresolved, **said)
    if settings.json:
        print_json({"workspace": settings.workspace, "topic_id": topic_id, "title": title})
    else:
        settings.out.print(str(topic_id))
    return None


def drop_topic(
    settings: Settings,
    topic: Annotated[str, typer.Argument(metavar="ID|TITLE", help="Of remem topics.")],
    source: Annotated[str | None, typer.Option(help="Only what this source said of it.")] = None,
) -> int | None:
    """Take a topic out of the catalog. Its memories stay."""
    memory = open_memory(settings)
    topic_id = _topic_id(memory, topic)
    there = topic_id is not None and memory.drop_topic(topic_id, source)
    if settings.json:
        print_json({"workspace": settings.workspace, "topic_id": topic_id, "dropped": there})
    elif there:
        settings.out.print(f"dropped {topic_id}")
    else:
        settings.note(f"No such topic here: {shorten(topic, 80)}. remem topics lists them.")
    return None if there else conf.REFUSED


def _topic_id(memory: Remem, topic: str) -> UUID | None:
    """The id that a topic's id or title names; None for a title that no topic has. Raises
    InvalidArgument where several topics have it, each in a scope of its own."""
    try:
        return UUID(topic)
    except ValueError:
        pass
    found: list[UUID] = []
    after = None
    while page := memory.topics(after, 1000):
        found += [t.topic_id for t in page if t.title.casefold() == topic.strip().casefold()]
        after = page[-1].topic_id
    if len(found) > 1:
        from remem_pg.errors import InvalidArgument

        raise InvalidArgument(
            f'{len(found)} topics are called "{shorten(topic, 80)}"',
            detail={"argument": "topic", "topics": [str(one) for one in found]},
            hint=f"name one by its id: {', '.join(map(str, found[:3]))}",
        )
    return found[0] if found else None


def relate(
    settings: Settings,
    src: Src,
    dst: Dst,
    kind: Annotated[str, typer.Option(help="related, part_of, derived_from, ...")] = "related",
    weight: Annotated[float, typer.Option(help="0 to 1.")] = 1.0,
    provenance: Annotated[
        str, typer.Option(help="verified, llm, heuristic, pending or unverified.")
    ] = "verified",
    by_ref: ByRef = False,
) -> int | None:
    """Link two memories; recall finds the one through the other."""
    memory = open_memory(settings)
    begin, end = (id_of(settings, memory, name, by_ref) for name in (src, dst))
    changed = memory.relate(
        begin,
        end,
        kind,
        weight=weight,
        provenance=provenance,  # type: ignore[arg-type]  # the server knows which there are
    )
    if settings.json:
        print_json({"src": begin, "dst": end, "kind": kind, "changed": changed})
    else:
        said = "linked" if changed else "was linked already"
        settings.out.print(clean(f"{said}: {src} {kind} {dst}"), soft_wrap=True)
    return None


def unrelate(
    settings: Settings,
    src: Src,
    dst: Dst,
    kind: Annotated[str | None, typer.Option(help="Only links of this kind.")] = None,
    by_ref: ByRef = False,
) -> int | None:
    """Take the links from one memory to another back."""
    memory = open_memory(settings)
    begin, end = (id_of(settings, memory, name, by_ref) for name in (src, dst))
    there = memory.unrelate(begin, end, kind)
    if settings.json:
        print_json({"src": begin, "dst": end, "kind": kind, "removed": there})
    else:
        said = "no longer linked" if there else "there was no such link"
        settings.out.print(clean(f"{said}: {src} to {dst}"), soft_wrap=True)
    return None if there else conf.REFUSED


def route(
    settings: Settings,
    query: Annotated[str, typer.Argument(help="A question.")],
    kind: Annotated[str | None, typer.Option(help="The kind that is asked for.")] = None,
) -> int | None:
    """Show the route that a question takes: arms, pool, links, weights."""
    found = open_memory(settings).route_of(query, **({} if kind is None else {"kind": kind}))
    if settings.json:
        print_json(found)
        return None
    settings.out.print(record_table(found))
    return None


def put_route(
    settings: Settings,
    kind: Annotated[str, typer.Argument(metavar="KIND", help="Or general.")],
    arms: Annotated[
        list[str],
        typer.Argument(
            metavar="ARM...", help="vector, lexical, pointer, phrase, attribute, fusion."
        ),
    ],
    pool: Annotated[
        str | None, typer.Option(metavar="KIND", help="Whose important memories come first.")
    ] = None,
    fallback: Annotated[
        list[str] | None,
        typer.Option("--fallback", metavar="KIND", help="The next pool. May be repeated."),
    ] = None,
    links: Annotated[bool, typer.Option(help="Whether links may be followed.")] = True,
    weights: Annotated[
        str | None, typer.Option(metavar="JSON", help="Over the defaults, as an object.")
    ] = None,
    keyword: Annotated[
        list[str] | None,
        typer.Option("--keyword", help="A word that hints at the kind. May be repeated."),
    ] = None,
    everywhere: Annotated[bool, typer.Option("--all", help="For all workspaces.")] = False,
) -> int | None:
    """Say how questions of a kind are answered; a second time it replaces what it said."""
    memory = open_memory(settings, create=True)
    where = None if everywhere else memory.workspace_name
    memory.put_route(
        kind,
        arms,
        where,
        pool=pool,
        fallback_pools=fallback or (),
        graph_depth=int(links),
        weights=json_object("--weights", weights),
        keywords=keyword or (),
    )
    if settings.json:
        print_json({"workspace": where, "kind": kind, "arms": arms})
    else:
        place = "all workspaces" if where is None else where
        settings.out.print(clean(f"{kind} in {place}: {', '.join(arms)}"), soft_wrap=True)
    return None
