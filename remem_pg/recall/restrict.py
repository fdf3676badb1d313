"""What a call may see, beyond its own filter: the condition ``where`` and the active context
``scope``, which is looked at again when the answer is there."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeVar, cast

from remem_pg.errors import InvalidArgument
from remem_pg.models import RecallResult

if TYPE_CHECKING:
    from remem_pg.context.scope import Scope

T = TypeVar("T")

OUT_OF_SCOPE = "out_of_scope"
"""The degraded state of an answer out of which the client took hits that it must not show."""


def as_filter(filter: str | None, where: str | None) -> str | None:
    """The jsonpath filter of a call that may be given a condition in SQL instead."""
    if where is None:
        return filter
    if filter is not None:
        raise InvalidArgument(
            "give either a filter or where, not both", detail={"argument": "filter, where"}
        )
    from remem_pg.filters.where import compile_where

    return compile_where(where)


def as_options(workspace: str, options: Mapping[str, Any]) -> tuple[dict[str, Any], Scope | None]:
    """The options that the server knows, and the context to check its answer with."""
    plain = dict(options)
    where, given = plain.pop("where", None), plain.pop("scope", None)
    if where is not None:
        plain["filter"] = as_filter(plain.get("filter"), where)
    if given is None:
        return plain, None
    if plain.get("scopes") is not None:
        raise InvalidArgument(
            "give either scope or scopes, not both", detail={"argument": "scope, scopes"}
        )
    from remem_pg.context.scope import as_scope

    scope = as_scope(workspace, given)
    plain["scopes"] = scope.owners()
    return plain, scope


def within(scope: Scope, answer: T) -> T:
    """An answer (a ``RecallResult`` or a document with hits) without what is out of scope."""
    if isinstance(answer, RecallResult):
        hits = [hit for hit in answer if _allowed(scope, hit.scope, hit.scope_ref)]
        if len(hits) == len(answer):
            return answer
        hits = [replace(hit, rank=rank) for rank, hit in enumerate(hits, 1)]
        codes = [*answer.degraded, OUT_OF_SCOPE]
        found = RecallResult(hits, codes, answer.space, answer.query, answer.trace)
        return cast(T, found)
    if isinstance(answer, dict):
        given = answer.get("hits") or []
        rows = [row for row in given if _allowed(scope, row.get("scope"), row.get("scope_ref"))]
        if len(rows) < len(given):
            codes = [*answer.get("degraded", ()), OUT_OF_SCOPE]
            numbered = [{**row, "rank": rank} for rank, row in enumerate(rows, 1)]
            return cast(T, {**answer, "hits": numbered, "degraded": codes})
    return answer


def _allowed(scope: Scope, of: str | None, ref: str | None) -> bool:
    """A hit that does not say whose it is, is not shown."""
    return of is not None and scope.allows(of, ref)
