"""The pure builders of what stands around a recall: several at once, the text of hits, routes,
links between memories."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from typing import Any
from uuid import UUID

from remem_pg import calls, checks
from remem_pg.calls import Call, Reply, build, optional_text
from remem_pg.context.catalog_models import Route
from remem_pg.errors import InvalidArgument
from remem_pg.models import Hit, RecallResult
from remem_pg.vector import Vector


def recall_many(
    workspace: str,
    queries: Sequence[str],
    vectors: Sequence[Vector | None],
    k: int,
    options: Mapping[str, Any],
) -> Call[list[RecallResult]]:
    """The hits of each query, in the order of the queries; ``vectors`` may be shorter."""
    given = [*vectors, *[None] * (len(queries) - len(vectors))]
    items = [
        {"query": query, "embedding": None if vector is None else list(vector.values)}
        for query, vector in zip(queries, given, strict=True)
    ]
    arguments = {
        "workspace": ("text", checks.text(workspace, "workspace")),
        "queries": ("jsonb", checks.json_text(items, "queries")),
        "k": ("integer", checks.integer(k, "k")),
        "options": ("jsonb", checks.document(options, "options") if options else None),
    }
    parse = partial(_recalled, list(queries), options.get("space"))
    return build("recall_many", arguments, parse, read=True)


def _recalled(queries: Sequence[str], space: str | None, reply: Reply) -> list[RecallResult]:
    hits: list[list[Hit]] = [[] for _ in queries]
    for row in reply.rows:
        hits[row["query_no"] - 1].append(Hit.from_row(row))
    return [
        # Every hit names the states of its query; without one there is what the call warned of.
        RecallResult(found, (found[0].degraded or ()) if found else reply.degraded, space, query)
        for query, found in zip(queries, hits, strict=True)
    ]


def render(workspace: str, hits: Iterable[Hit], format: str, budget_bytes: int) -> Call[str]:
    """Hits as a text of at most so many bytes."""
    given = list(hits)
    for place, hit in enumerate(given):
        if not isinstance(hit, Hit):
            raise InvalidArgument(
                f"hits[{place}] must be a Hit, not {type(hit).__name__}",
                detail={"argument": "hits"},
                hint="pass what recall answered, or some of its hits",
            )
    return Call(
        sql=(
            "select r.* from remem.render(workspace => %(workspace)s::text, hits => array("
            "select h.hit from jsonb_array_elements(%(hits)s::jsonb) with ordinality e (doc, n) "
            "cross join lateral (select r from jsonb_populate_record("
            "null::remem.recall_hit, e.doc) r) h (hit) order by e.n), format => %(format)s::text, "
            "budget_bytes => %(budget_bytes)s::integer) r"
        ),
        params={
            "workspace": checks.text(workspace, "workspace"),
            "hits": checks.json_text([dataclasses.asdict(hit) for hit in given], "hits"),
            "format": checks.text(format, "format"),
            "budget_bytes": checks.integer(budget_bytes, "budget_bytes"),
        },
        parse=lambda reply: str(reply.value()),
        read=True,
        function="render",
    )


# routes


def route_of(workspace: str, query: str, options: Mapping[str, Any]) -> Call[Route]:
    """The route that a recall of this query would take."""
    asked = calls.route_of(workspace, query, options)

    def parse(reply: Reply) -> Route:
        return Route.from_row(asked.parse(reply))

    return Call(asked.sql, asked.params, parse, asked.read, asked.function)


def put_route(
    workspace: str | None,
    kind: str,
    arms: Sequence[str],
    pool: str | None,
    fallback_pools: Sequence[str],
    graph_depth: int,
    weights: Mapping[str, float] | None,
    keywords: Sequence[str],
) -> Call[None]:
    """How a kind of question is answered in one workspace, or (None) in all."""
    arguments: dict[str, tuple[str, Any]] = {
        "kind": ("text", checks.text(kind, "kind")),
        "arms": ("text[]", checks.texts(arms, "arms")),
        "workspace": ("text", optional_text(workspace, "workspace")),
        "pool": ("text", optional_text(pool, "pool")),
        "fallback_pools": ("text[]", checks.texts(fallback_pools, "fallback_pools")),
        "graph_depth": ("integer", checks.integer(graph_depth, "graph_depth")),
        "signals": ("jsonb", checks.document(weights or {}, "weights")),
        "keywords": ("text[]", checks.texts(keywords, "keywords")),
    }
    return build("put_route", arguments, lambda reply: None)


# links


def _link(
    workspace: str, src: UUID | str, dst: UUID | str, kind: str | None
) -> dict[str, tuple[str, Any]]:
    return {
        "workspace": ("text", checks.text(workspace, "workspace")),
        "src": ("uuid", checks.identifier(src, "src")),
        "dst": ("uuid", checks.identifier(dst, "dst")),
        "kind": ("text", optional_text(kind, "kind")),
    }


def relate(
    workspace: str, src: UUID | str, dst: UUID | str, kind: str, weight: float, provenance: str
) -> Call[bool]:
    """A link between two memories; says whether anything changed."""
    arguments = _link(workspace, src, dst, checks.text(kind, "kind")) | {
        "weight": ("real", checks.real(weight, "weight")),
        "provenance": ("text", checks.text(provenance, "provenance")),
    }
    return build("relate", arguments, lambda reply: bool(reply.value()))


def unrelate(workspace: str, src: UUID | str, dst: UUID | str, kind: str | None) -> Call[bool]:
    """Takes a link back; says whether there was one."""
    return build("unrelate", _link(workspace, src, dst, kind), lambda reply: bool(reply.value()))
