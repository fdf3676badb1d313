"""The commands about memories: remember, recall, get, list, count."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from datetime import datetime
from typing import TYPE_CHECKING, Annotated, Any
from uuid import UUID

import typer

from remem_pg.cli import output
from remem_pg.cli.connect import open_memory
from remem_pg.cli.settings import Settings, print_json

if TYPE_CHECKING:
    from remem_pg.models import RecallResult

Where = Annotated[
    str | None,
    typer.Option(
        metavar="CONDITION",
        help="A condition in SQL, such as \"kind = 'task' and metadata.team = 'core'\".",
    ),
]
ENDED = ("forgotten", "superseded", "purged")
"""Outcomes of what was ended on purpose and is not written again."""
_WHEN = ["%Y-%m-%d", "%Y-%m-%dT%H:%M:%S", "%Y-%m-%dT%H:%M:%S%z", "%Y-%m-%d %H:%M:%S"]


def remember(
    settings: Settings,
    body: Annotated[str, typer.Argument(help="The text to keep; - reads standard input.")],
    ref: Annotated[
        str | None,
        typer.Option(help="Your own key. The same ref again with other text makes a new version."),
    ] = None,
    kind: Annotated[
        str,
        typer.Option(help="semantic, episodic, decision, preference, procedure, task or other."),
    ] = "semantic",
    title: Annotated[str | None, typer.Option(help="A short name for it.")] = None,
    summary: Annotated[str | None, typer.Option(help="What it says, in one sentence.")] = None,
    tag: Annotated[list[str] | None, typer.Option("--tag", help="May be repeated.")] = None,
    alias: Annotated[
        list[str] | None, typer.Option("--alias", help="Another name for it. May be repeated.")
    ] = None,
    scope: Annotated[str, typer.Option(help="global, project, session or user.")] = "global",
    scope_ref: Annotated[str | None, typer.Option(help="Which project, session or user.")] = None,
    topic_key: Annotated[
        str | None, typer.Option(help="The topic it belongs to; becomes one of the catalog.")
    ] = None,
    subject: Annotated[str | None, typer.Option(help="Whom or what it is about.")] = None,
    attribute: Annotated[
        str | None, typer.Option(help="Which property of the subject it states.")
    ] = None,
    source_class: Annotated[
        str | None,
        typer.Option(
            help="Where it comes from: user_stated, codebase_verified, llm_generated, ..."
        ),
    ] = None,
    source_ref: Annotated[str | None, typer.Option(help="Where to look it up.")] = None,
    session: Annotated[str | None, typer.Option(help="Conversation it belongs to.")] = None,
    turn: Annotated[int | None, typer.Option(help="Its place in the conversation.")] = None,
    speaker: Annotated[str | None, typer.Option(help="Who said it.")] = None,
    importance: Annotated[
        float | None, typer.Option(min=0, max=1, help="0 to 1; without, 0.5.")
    ] = None,
    confidence: Annotated[
        float | None, typer.Option(min=0, max=1, help="How sure it is, 0 to 1.")
    ] = None,
    pinned: Annotated[
        bool, typer.Option("--pinned", help="Kept at the front of its kind, whatever its age.")
    ] = False,
    unresolved: Annotated[bool, typer.Option("--unresolved", help="Work not done yet.")] = False,
    occurred_at: Annotated[
        datetime | None,
        typer.Option(
            formats=_WHEN, metavar="TIME", help="When it happened; local time if no zone."
        ),
    ] = None,
    valid_from: Annotated[
        datetime | None, typer.Option(formats=_WHEN, metavar="TIME", help="True from then on.")
    ] = None,
    valid_to: Annotated[
        datetime | None, typer.Option(formats=_WHEN, metavar="TIME", help="True until then.")
    ] = None,
    metadata: Annotated[str | None, typer.Option(help="A JSON object.")] = None,
    on_conflict: Annotated[
        str,
        typer.Option(
            help="new_version or error, when the ref holds other text; rewrite: also what was "
            "forgotten, corrected or purged."
        ),
    ] = "new_version",
) -> int | None:
    """Keep one memory. Its reference is printed."""
    text = sys.stdin.read() if body == "-" else body
    fields: dict[str, Any] = {
        "ref": ref,
        "kind": kind,
        "title": title,
        "summary": summary,
        "tags": tag,
        "aliases": alias,
        "scope": scope,
        "scope_ref": scope_ref,
        "topic_key": topic_key,
        "subject": subject,
        "attribute": attribute,
        "source_class": source_class,
        "source_ref": source_ref,
        "session_ref": session,
        "turn_no": turn,
        "speaker": speaker,
        "importance": importance,
        "confidence": confidence,
        "pinned": pinned,
        "unresolved": unresolved,
        "occurred_at": _aware(occurred_at),
        "valid_from": _aware(valid_from),
        "valid_to": _aware(valid_to),
        "metadata": json_object("--metadata", metadata),
        "on_conflict": on_conflict,
    }
    given = {key: value for key, value in fields.items() if value not in (None, False, [])}
    stored = open_memory(settings, create=True).remember(text, **given)
    if settings.json:
        print_json(stored)
        return None
    name = f" (ref {output.clean(stored.ref)})" if stored.ref else ""
    settings.out.print(f"{stored.outcome} {stored.memory_id}{name}", soft_wrap=True)
    if stored.outcome in ENDED:
        settings.note(
            f"Nothing was stored: this was {stored.outcome} before. "
            "--on-conflict rewrite stores it all the same."
        )
    return None


def recall(
    settings: Settings,
    query: Annotated[str, typer.Argument(help="The question, in your own words.")],
    k: Annotated[int, typer.Option("-k", "--k", help="How many memories at most.")] = 8,
    kind: Annotated[
        list[str] | None, typer.Option("--kind", help="Only this kind. May be repeated.")
    ] = None,
    scope: Annotated[
        list[str] | None,
        typer.Option("--scope", help="Only this scope, whoever the owner is. May be repeated."),
    ] = None,
    filter: Annotated[
        str | None,
        typer.Option(help="jsonpath over the attributes, such as '$.speaker == \"Mei\"'."),
    ] = None,
    where: Where = None,
    project: Annotated[str | None, typer.Option(help="The project that is worked on.")] = None,
    session: Annotated[str | None, typer.Option(help="The conversation this is asked in.")] = None,
    user: Annotated[str | None, typer.Option(help="Whose agent this is.")] = None,
    mode: Annotated[
        str | None, typer.Option(help="auto, lexical, vector or retrieval_only.")
    ] = None,
    min_relevance: Annotated[
        float | None, typer.Option(help="Drop hits below this relevance, 0 to 1.")
    ] = None,
    as_of: Annotated[
        datetime | None,
        typer.Option(
            formats=_WHEN,
            metavar="TIME",
            help="What was known then: 2026-03-01 or 2026-03-01T09:30:00+02:00.",
        ),
    ] = None,
    option: Annotated[
        list[str] | None,
        typer.Option("--option", help="Any other recall option as NAME=JSON. May be repeated."),
    ] = None,
    rerank: Annotated[
        str | None,
        typer.Option(metavar="SPEC", help="Look again at the best: late, a directory, a URL."),
    ] = None,
    render: Annotated[
        str | None,
        typer.Option(metavar="FORMAT", help="As a text for a prompt: compact, verbose or json."),
    ] = None,
    budget: Annotated[int, typer.Option(help="Bytes of that text at most.")] = 4000,
    explain: Annotated[
        bool, typer.Option("--explain", help="Print the whole trace as JSON.")
    ] = False,
) -> int | None:
    """Find the memories that answer a question, with scores and reasons."""
    options: dict[str, Any] = {
        "kinds": kind or None,
        "scopes": scope or None,
        "scope": None if scope else scope_of(project, session, user),
        "filter": filter,
        "where": where,
        "session_ref": session,
        "mode": mode,
        "min_relevance": min_relevance,
        "as_of": _aware(as_of),
    }
    options = {key: value for key, value in options.items() if value is not None}
    options.update(extra_options(option or [], RECALL_FLAGS))
    memory = open_memory(settings, reranker=rerank)
    if explain:
        print_json(memory.recall_explain(query, k=k, **options))
        return None
    result = memory.recall(query, k=k, **options)
    text = None
    if render is not None:  # the server knows which formats there are
        text = memory.render(result, render, budget)  # type: ignore[arg-type]
    if settings.json:
        document = recall_document(settings, query, result)
        print_json(document if text is None else document | {"text": text})
    elif text is not None:
        typer.echo(output.clean(text))
        _print_degraded(settings, result)
    else:
        _print_recall(settings, result)
    return None


def recall_document(settings: Settings, query: str, result: RecallResult) -> dict[str, Any]:
    """The ``--json`` form of a recall."""
    return {
        "workspace": settings.workspace,
        "query": query,
        "degraded": list(result.degraded),
        "hits": [hit_document(hit) for hit in result],
    }


def hit_document(hit: Any) -> dict[str, Any]:
    """A hit with every field of ``recall_hit`` and its reasons under ``why``."""
    import dataclasses

    fields = {field.name: getattr(hit, field.name) for field in dataclasses.fields(hit)}
    return fields | {"why": output.why(hit)}


def _print_recall(settings: Settings, result: RecallResult) -> None:
    hits = list(result)
    if hits:
        settings.out.print(output.hits_table(hits))
    else:
        settings.out.print("Nothing found.")
    _print_degraded(settings, result)


def _print_degraded(settings: Settings, result: RecallResult) -> None:
    for line in output.degraded_lines(result.degraded):
        settings.err.print(line, style="yellow")


def get(
    settings: Settings,
    name: Annotated[str, typer.Argument(metavar="ID|REF", help="A memory id (uuid) or your ref.")],
    by_ref: Annotated[
        bool, typer.Option("--ref", help="Read it as a ref even if it looks like a uuid.")
    ] = False,
) -> int | None:
    """Show one memory with all its fields."""
    memory = open_memory(settings)
    memory_id = None if by_ref else _uuid(name)
    record = memory.get(memory_id) if memory_id else memory.get(ref=name)
    if record is None:
        from remem_pg.errors import NotFound

        raise NotFound(
            f'no memory "{output.shorten(name, 80)}" in workspace "{settings.workspace}"',
            hint="remem list shows what there is; -w names another workspace",
        )
    if settings.json:
        print_json(record)
    else:
        settings.out.print(output.record_table(record))
    return None


def list_(
    settings: Settings,
    filter: Annotated[str | None, typer.Option(help="jsonpath over the attributes.")] = None,
    where: Where = None,
    limit: Annotated[int, typer.Option("-n", "--limit", help="How many at most.")] = 50,
    after: Annotated[
        str | None, typer.Option(metavar="ID", help="Go on after this memory.")
    ] = None,
    state: Annotated[str, typer.Option(help="current, superseded, forgotten or all.")] = "current",
) -> int | None:
    """List memories, newest first."""
    records = list(
        open_memory(settings).list(
            filter=filter,
            where=where,
            after=required_uuid("--after", after),
            limit=limit,
            state=state,  # type: ignore[arg-type]  # the server knows which there are
        )
    )
    following = str(records[-1].memory_id) if records and len(records) == limit else None
    if settings.json:
        print_json({"workspace": settings.workspace, "memories": records, "after": following})
        return None
    if not records:
        settings.out.print(f'No memories in workspace "{settings.workspace}".')
        return None
    settings.out.print(output.records_table(records))
    if following:
        settings.note(f"More may follow: --after {following}")
    return None


def count(
    settings: Settings,
    filter: Annotated[str | None, typer.Option(help="jsonpath over the attributes.")] = None,
    where: Where = None,
) -> int | None:
    """Count the memories of the workspace."""
    total = open_memory(settings).count(filter=filter, where=where)
    if settings.json:
        print_json({"workspace": settings.workspace, "count": total})
    else:
        settings.out.print(str(total))
    return None


def scope_of(project: str | None, session: str | None, user: str | None) -> dict[str, str | None]:
    """The active context of a call."""
    return {"project": project, "session": session, "user": user}


RECALL_FLAGS = {"query": "QUERY", "k": "-k"}
"""Where the command line takes what is no option."""


def extra_options(pairs: list[str], flags: Mapping[str, str]) -> dict[str, Any]:
    """The options given as NAME=JSON, or a usage error; ``flags``: what is given otherwise."""
    import json

    options: dict[str, Any] = {}
    for pair in pairs:
        name, equals, text = pair.partition("=")
        if not equals or not name:
            raise typer.BadParameter(f"{pair!r} is not NAME=JSON", param_hint="--option")
        name = name.strip()
        if name in flags:
            raise typer.BadParameter(f"{name} is given as {flags[name]}", param_hint="--option")
        if name == "self":
            raise typer.BadParameter("there is no option self", param_hint="--option")
        try:
            options[name] = json.loads(text)
        except ValueError:
            # A bare word is the usual case: --option fusion=rrf.
            options[name] = text
    return options


def json_object(name: str, text: str | None) -> dict[str, Any] | None:
    """The JSON object of an option's value, or a usage error that names the option."""
    import json

    if text is None:
        return None
    try:
        value = json.loads(text)
    except ValueError as error:
        raise typer.BadParameter(f"not JSON: {error}", param_hint=name) from error
    if not isinstance(value, dict):
        raise typer.BadParameter("not a JSON object", param_hint=name)
    return value


def _aware(moment: datetime | None) -> datetime | None:
    """A time without a zone is local time, as the person at the terminal means it."""
    return moment.astimezone() if moment and moment.tzinfo is None else moment


def _uuid(text: str) -> UUID | None:
    try:
        return UUID(text)
    except ValueError:
        return None


def required_uuid(name: str, text: str | None) -> UUID | None:
    """The uuid of an option's value, or a usage error that names the option."""
    if text is None:
        return None
    value = _uuid(text)
    if value is None:
        raise typer.BadParameter(f"{text!r} is no id", param_hint=name)
    return value
