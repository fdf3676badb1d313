"""One pure builder per SQL function: what is sent, with which parameters, and how it is read.

Every argument is named and cast, so that Postgres resolves the signature without guessing and a
function that gains an argument still answers. Nothing here does I/O; arguments are checked (see
``checks``), so a call that was built can be sent.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Generic, TypeVar
from uuid import UUID

from remem_pg import checks
from remem_pg.models import Hit, Memory, MemoryRef, RecallResult
from remem_pg.vector import Vector

T = TypeVar("T")

__all__ = ["Call", "Reply"]


@dataclass(frozen=True, slots=True)
class Reply:
    """What came back: rows by column name, and the codes of the RM501 warning."""

    rows: list[dict[str, Any]]
    degraded: tuple[str, ...] = ()

    def value(self) -> Any:
        """The one value of a scalar function."""
        return next(iter(self.rows[0].values()))


@dataclass(frozen=True, slots=True)
class Call(Generic[T]):
    """A statement: ``sql`` with psycopg placeholders, ``params``, and ``parse`` of its reply.

    ``read`` marks a call that changes nothing and may be sent again after a lost connection.
    """

    sql: str
    params: dict[str, Any]
    parse: Callable[[Reply], T]
    read: bool = False
    function: str = ""


def build(
    function: str,
    arguments: Mapping[str, tuple[str, Any]],
    parse: Callable[[Reply], T],
    *,
    read: bool = False,
) -> Call[T]:
    """``select * from remem.function(name => value, ...)`` over the arguments that are not None."""
    given = {name: pair for name, pair in arguments.items() if pair[1] is not None}
    placeholders = ", ".join(
        f"{_quoted(name)} => %({name})s::{kind}" for name, (kind, _) in given.items()
    )
    return Call(
        sql=f"select r.* from remem.{_quoted(function)}({placeholders}) r",
        params={name: value for name, (_, value) in given.items()},
        parse=parse,
        read=read,
        function=function,
    )


_SET = "select set_config('remem.workspace', %(workspace)s::text, true) as workspace"
_SET_IF_EMPTY = (
    "select case when set_config('remem.workspace', coalesce(nullif(current_setting("
    "'remem.workspace', true), ''), %(workspace)s::text), true) <> '' "
    "then %(workspace)s::text end as workspace"
)


def in_tenant(call: Call[T], workspace: str, *, keep: bool = False) -> Call[T]:
    """The same call with ``remem.workspace`` set for its transaction, in one round trip.

    The function takes its workspace from the row that sets the setting, so the setting is made
    before the function runs, whatever the planner does. A call that names no workspace, or
    another one, is about the whole database and stays as it is. With ``keep`` a setting that is
    there already stays, so that it goes on refusing what its owner wanted refused.
    """
    if call.params.get("workspace") != workspace:
        return call
    head, body = call.sql.split(" from ", 1)
    body = body.replace("%(workspace)s::text", "tenant.workspace")
    setting = _SET_IF_EMPTY if keep else _SET
    return replace(call, sql=f"{head} from ({setting} offset 0) tenant cross join lateral {body}")


def _quoted(name: str) -> str:
    return f'"{name}"' if name in {"limit", "list", "value", "name", "role", "level"} else name


def _refs(reply: Reply) -> list[MemoryRef]:
    return [MemoryRef.from_row(row) for row in reply.rows]


def _memories(reply: Reply) -> list[Memory]:
    return [Memory.from_row(row) for row in reply.rows]


def optional_text(value: Any, argument: str) -> str | None:
    return None if value is None else checks.text(value, argument)


# write


def remember(workspace: str, item: Mapping[str, Any]) -> Call[MemoryRef]:
    """One memory; ``item`` comes from ``checks.item``."""
    arguments = {"workspace": ("text", checks.text(workspace, "workspace"))}
    arguments |= {name: (checks.FIELDS[name][0], value) for name, value in item.items()}
    return build("remember", arguments, lambda reply: _refs(reply)[0])


def remember_many(
    workspace: str, items: Sequence[Mapping[str, Any]], on_error: str
) -> Call[list[MemoryRef]]:
    """Many memories in one statement; ``items`` come from ``checks.item``."""
    return build(
        "remember_many",
        {
            "workspace": ("text", checks.text(workspace, "workspace")),
            "items": ("jsonb", "[" + ",".join(map(item_json, items)) + "]"),
            "on_error": ("text", checks.text(on_error, "on_error")),
        },
        _refs,
    )


def item_json(item: Mapping[str, Any]) -> str:
    """A checked item as a JSON object. Metadata is JSON text already, a vector prints itself."""
    plain = {k: v for k, v in item.items() if k not in ("metadata", "embedding")}
    members = [json.dumps(plain, ensure_ascii=False)[1:-1]]
    if "metadata" in item:
        members.append(f'"metadata":{item["metadata"]}')
    if "embedding" in item:
        members.append(f'"embedding":{item["embedding"].as_json()}')
    return "{" + ",".join(members) + "}"


# read


def get(workspace: str, memory_id: UUID | str | None, ref: str | None) -> Call[Memory | None]:
    """One memory by id or by ref."""
    return build(
        "get",
        {
            "workspace": ("text", checks.text(workspace, "workspace")),
            "memory_id": (
                "uuid",
                None if memory_id is None else checks.identifier(memory_id, "memory_id"),
            ),
            "ref": ("text", optional_text(ref, "ref")),
        },
        lambda reply: Memory.from_row(reply.rows[0]) if reply.rows else None,
        read=True,
    )


def list_memories(
    workspace: str,
    filter: str | None,
    after: UUID | str | None,
    limit: int,
    state: str = "current",
) -> Call[list[Memory]]:
    """A page of memories, newest first; ``after`` is the last id of the page before."""
    return build(
        "list",
        {
            "workspace": ("text", checks.text(workspace, "workspace")),
            "filter": ("text", optional_text(filter, "filter")),
            "after": ("uuid", None if after is None else checks.identifier(after, "after")),
            "limit": ("integer", checks.integer(limit, "limit")),
            # An older server knows no states.
            "state": ("text", None if state == "current" else checks.text(state, "state")),
        },
        _memories,
        read=True,
    )


def count(workspace: str, filter: str | None) -> Call[int]:
    """How many current memories there are."""
    return build(
        "count",
        {
            "workspace": ("text", checks.text(workspace, "workspace")),
            "filter": ("text", optional_text(filter, "filter")),
        },
        lambda reply: int(reply.value()),
        read=True,
    )


# recall


def _recall_arguments(
    workspace: str, query: str, vector: Vector | None, k: int, options: Mapping[str, Any]
) -> dict[str, tuple[str, Any]]:
    return {
        "workspace": ("text", checks.text(workspace, "workspace")),
        "query": ("text", checks.text(query, "query")),
        "query_embedding": ("real[]", vector),
        "k": ("integer", checks.integer(k, "k")),
        "options": ("jsonb", checks.document(options, "options") if options else None),
    }


def recall(
    workspace: str, query: str, vector: Vector | None, k: int, options: Mapping[str, Any]
) -> Call[RecallResult]:
    """The hits, and every degraded state: from the warning and from the hits."""
    arguments = _recall_arguments(workspace, query, vector, k, options)
    return build("recall", arguments, partial(_recalled, query, options), read=True)


def _recalled(query: str, options: Mapping[str, Any], reply: Reply) -> RecallResult:
    hits = [Hit.from_row(row) for row in reply.rows]
    from_hits = [code for hit in hits for code in hit.degraded or ()]
    return RecallResult(hits, [*reply.degraded, *from_hits], options.get("space"), query)


def recall_explain(
    workspace: str, query: str, vector: Vector | None, k: int, options: Mapping[str, Any]
) -> Call[dict[str, Any]]:
    """The same recall as a document with its trace."""
    arguments = _recall_arguments(workspace, query, vector, k, options)
    return build("recall_explain", arguments, _explained, read=True)


def _explained(reply: Reply) -> dict[str, Any]:
    trace: dict[str, Any] = dict(reply.value())
    trace["degraded"] = list(dict.fromkeys([*(trace.get("degraded") or ()), *reply.degraded]))
    return trace


def recall_arm(
    workspace: str, query: str, arm: str, vector: Vector | None, k: int, options: Mapping[str, Any]
) -> Call[dict[str, Any] | None]:
    """One arm of the recall, as ``recall_from`` takes it; None where the query does not use it."""
    arguments = _recall_arguments(workspace, query, vector, k, options)
    arguments["arm"] = ("text", checks.text(arm, "arm"))
    return build("recall_arm", arguments, lambda reply: reply.value(), read=True)


def recall_from(
    workspace: str,
    query: str,
    vector: Vector | None,
    k: int,
    options: Mapping[str, Any],
    arms: Sequence[Mapping[str, Any]],
) -> Call[RecallResult]:
    """The recall out of what ``recall_arm`` gave for its arms."""
    arguments = _recall_arguments(workspace, query, vector, k, options)
    arguments["arms"] = ("jsonb", json.dumps(arms))
    return build("recall_from", arguments, partial(_recalled, query, options), read=True)


def recall_from_explain(
    workspace: str,
    query: str,
    vector: Vector | None,
    k: int,
    options: Mapping[str, Any],
    arms: Sequence[Mapping[str, Any]],
) -> Call[dict[str, Any]]:
    """The same out of given arms, as a document with its trace."""
    arguments = _recall_arguments(workspace, query, vector, k, options)
    arguments["arms"] = ("jsonb", json.dumps(arms))
    return build("recall_from_explain", arguments, _explained, read=True)


def recall_cached(
    workspace: str,
    query: str,
    vector: Vector | None,
    k: int,
    options: Mapping[str, Any],
    parse: Callable[[Reply], dict[str, Any]],
) -> Call[dict[str, Any]]:
    """The recall that uses the server's cache and writes its log; sent twice, it does no harm."""
    arguments = _recall_arguments(workspace, query, vector, k, options)
    return build("recall_cached", arguments, parse, read=True)


def route_of(workspace: str, query: str, options: Mapping[str, Any]) -> Call[dict[str, Any]]:
    """The route that a recall with these options would take."""
    arguments = _recall_arguments(workspace, query, None, 1, options)
    kept = {name: arguments[name] for name in ("workspace", "query", "options")}
    return build("route_of", kept, lambda reply: dict(reply.value()), read=True)
