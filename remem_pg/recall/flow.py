"""What a client does around a recall, written once for the sync and the async client."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar, cast

from remem_pg import calls, checks
from remem_pg.calls import Call
from remem_pg.errors import DimensionMismatch, UnknownSpace
from remem_pg.models import RecallResult
from remem_pg.recall import hooks, parallel, restrict, telemetry
from remem_pg.recall.result_cache import as_result
from remem_pg.rerank import flow as rerank_flow
from remem_pg.spaces.policy import decide, forget_space
from remem_pg.steps import Flow, Run, Session, Work
from remem_pg.vector import Vector

if TYPE_CHECKING:
    from remem_pg.context.scope import Scope

T = TypeVar("T")


def recall(
    session: Session,
    build: Callable[[str, str, Vector | None, int, Mapping[str, Any]], Call[T]],
    query: str,
    k: int,
    query_embedding: Any,
    options: Mapping[str, Any],
) -> Flow[T]:
    """One recall, with a span over it when this client logs; see ``_recall``."""
    plain, scope = restrict.as_options(session.workspace, options)
    flow = _recall(session, build, query, k, query_embedding, plain)
    if session.tiers.log and build is calls.recall:
        flow = telemetry.observed(session.workspace, k, flow)
    return flow if scope is None else _within(scope, flow)


def _within(scope: Scope, flow: Flow[T]) -> Flow[T]:
    """The answer without hits of owners that are not in the context, whoever gave them."""
    return restrict.within(scope, (yield from flow))


def _recall(
    session: Session,
    build: Callable[[str, str, Vector | None, int, Mapping[str, Any]], Call[T]],
    query: str,
    k: int,
    query_embedding: Any,
    options: Mapping[str, Any],
) -> Flow[T]:
    """One recall (``build`` is ``calls.recall`` or ``calls.recall_explain``) with the client's own
    stages around it: hooks, expansion, the second look.

    A model or a stage that fails, or a model that is not the workspace's, never fails a recall:
    the answer is found without it and names the state.
    """
    checks.text(query, "query")
    checks.integer(k, "k")
    notes = hooks.Notes()
    tiered = session.tiers.on and build is calls.recall  # an explanation is of a fresh search
    second_look, sent = rerank_flow.plan(session.stages, options)
    at_once, sent = parallel.plan(sent)
    request = hooks.RecallRequest(query, k, sent)
    request = yield from hooks.routed(session, request, notes)
    extra = yield from hooks.expanded(session, request, notes)
    if extra:
        request = dataclasses.replace(request, options={**request.options, "expanded": extra})
    if second_look is None:
        if tiered:
            document = yield from _search(
                session, session.tiers.call, request, query_embedding, notes, at_once
            )
            document = _noted(document, notes)
            return cast(T, as_result(document, notes.space, request.query))
        result = yield from _search(session, build, request, query_embedding, notes, at_once)
        return cast(T, _noted(result, notes))
    wider = dataclasses.replace(request, k=max(request.k, second_look.pool))
    search = session.tiers.call if tiered else calls.recall_explain
    document = yield from _search(session, search, wider, query_embedding, notes, at_once)
    hits = yield from rerank_flow.reranked(
        second_look, request.query, request.options.get("mode"), request.k, document, notes
    )
    document = _noted(document, notes)
    rows = document.pop("hits", [])
    if build is calls.recall:
        codes = document["degraded"]
        return cast(T, RecallResult(hits, codes, notes.space, request.query, document))
    return cast(T, document | {"hits": rerank_flow.as_rows(hits, rows)})


def _search(
    session: Session,
    build: Callable[[str, str, Vector | None, int, Mapping[str, Any]], Call[T]],
    request: hooks.RecallRequest,
    query_embedding: Any,
    notes: hooks.Notes,
    at_once: bool,
) -> Flow[T]:
    """The query and its expansion embedded, and the call; once more when the space has moved."""
    query, options = request.query, request.options
    given = None if query_embedding is None else checks.vector(query_embedding, "query_embedding")
    texts = _expanded_texts(options)
    for attempt in (0, 1):
        vector, sent, degraded = given, dict(options), []
        if (given is None or texts) and wants_vector(options):
            decision = yield from decide(session, writing=False)
            degraded = [] if given is not None else list(decision.degraded)
            if decision.space is not None and given is None:
                found = yield Work(partial(session.embedder.embed_query, session.workspace, query))
                if found is None:
                    degraded.append("no_embedding")
                elif found[0] is None:
                    degraded.append("zero_vector")
                else:
                    vector, sent["space"] = found[0], decision.space
            if texts and vector is not None and sent.get("space") == decision.space:
                extra = yield Work(partial(session.embedder.embed, texts, query=False))
                if extra is None:
                    degraded.append(hooks.EXPANSION_FAILED)
                else:
                    sent["expanded_embeddings"] = [list(v.values) for v in extra if v is not None]
        try:
            if at_once:
                result = yield from parallel.recalled(
                    build, session.workspace, query, vector, request.k, sent, notes
                )
            else:
                result = yield Run(build(session.workspace, query, vector, request.k, sent))
        except (DimensionMismatch, UnknownSpace):
            if given is not None or not (yield from forget_space(session, attempt)):
                raise
            continue
        # the workspace moved to another space since the decision was made
        moved = vector is not given and "space_mismatch" in _degraded(result)
        if moved and (yield from forget_space(session, attempt)):
            continue
        notes.degraded[:0] = degraded
        notes.space = sent.get("space")
        return result
    raise AssertionError("unreachable: the second attempt returns or raises")


def wants_vector(options: Mapping[str, Any]) -> bool:
    """Whether an arm of this recall compares vectors."""
    arms = options.get("arms")
    return options.get("mode") != "lexical" and (not arms or "vector" in arms or "fusion" in arms)


def _expanded_texts(options: Mapping[str, Any]) -> list[str]:
    """The texts of an expansion that still need vectors. The server refuses wrong ones."""
    texts = options.get("expanded")
    if not isinstance(texts, list | tuple) or options.get("expanded_embeddings") is not None:
        return []
    return [text for text in texts if isinstance(text, str)] if all(texts) else []


def _degraded(result: Any) -> Sequence[str]:
    codes: Sequence[str] = result["degraded"] if isinstance(result, dict) else result.degraded
    return codes


def _noted(result: Any, notes: hooks.Notes) -> Any:
    """Adds what this client knows and the server cannot: why no vector was sent, its stages."""
    codes = list(dict.fromkeys([*notes.degraded, *_degraded(result)]))
    if isinstance(result, dict):
        return {**result, **notes.trace, "degraded": codes}
    return RecallResult(result, codes, result.space, result.query, notes.trace)
