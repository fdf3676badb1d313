"""What a client does around its calls, written once for the sync and the async client."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import chain
from typing import Any, TypeVar, cast

from remem_pg import calls, checks, hooks, parallel, rerank_flow, telemetry
from remem_pg.calls import Call
from remem_pg.embedding_policy import decide, forget_space, with_vectors
from remem_pg.errors import DimensionMismatch, InvalidArgument, RememError, UnknownSpace
from remem_pg.models import MemoryRef, RecallResult
from remem_pg.result_cache import as_result
from remem_pg.steps import Flow, Run, Session, Together, Work
from remem_pg.vector import Vector

T = TypeVar("T")

BATCH_CHARACTERS = 4_000_000
"""Where a statement of remember_many ends early: a JSON parameter has a limit, and memory too."""


# write


def remember(session: Session, body: Any, fields: Mapping[str, Any]) -> Flow[MemoryRef]:
    """One memory, embedded by this client when it has the workspace's model."""
    if "body" in fields:
        raise TypeError("remember() got multiple values for argument 'body'")
    item = checks.item({"body": body, **fields})
    for attempt in (0, 1):
        ready = yield from with_vectors(session, [item])
        try:
            ref: MemoryRef = yield Run(calls.remember(session.workspace, ready[0]))
            return ref
        except (DimensionMismatch, UnknownSpace) as error:
            if "embedding" in item or not (yield from forget_space(session, attempt)):
                raise _alone(error) from error.__cause__
        except RememError as error:
            raise _alone(error) from error.__cause__
    raise AssertionError("unreachable: the second attempt returns or raises")


def _alone(error: RememError) -> RememError:
    """To the server one memory is a batch of one; its caller knows of no item 1."""
    error.item_no = None
    error.detail.pop("item", None)
    return error


def remember_many(
    session: Session, items: Iterable[Any], on_error: str, batch_size: int
) -> Flow[list[MemoryRef]]:
    """Many memories in statements of ``batch_size``; one report per item, in input order.

    ``abort``: all or nothing, also over several statements. ``report``: what is refused, by this
    client or by the server, is reported in its place and the rest is stored.
    """
    if on_error not in ("abort", "report"):
        raise InvalidArgument(
            detail={"argument": "on_error", "value": on_error, "valid": ["abort", "report"]}
        )
    if checks.integer(batch_size, "batch_size") < 1:
        raise InvalidArgument(detail={"argument": "batch_size", "value": batch_size, "minimum": 1})
    if isinstance(items, str | bytes | Mapping) or not isinstance(items, Iterable):
        raise InvalidArgument(
            f"items must be a list of objects, not {type(items).__name__}",
            detail={"argument": "items"},
        )
    numbered = enumerate(items, 1)
    first, second = _take(numbered, batch_size), _take(numbered, batch_size)

    def all_batches() -> Flow[list[MemoryRef]]:
        refs: list[MemoryRef] = []
        batch = first
        following = chain([second], iter(lambda: _take(numbered, batch_size), []))
        while batch:
            refs += yield from _batch(session, batch, on_error)
            batch = next(following, [])
        return refs

    if on_error == "abort" and second:
        stored: list[MemoryRef] = yield Together(all_batches())
        return stored
    return (yield from all_batches())


def _take(numbered: Iterator[tuple[int, Any]], batch_size: int) -> list[tuple[int, Any]]:
    """The next items of one statement: at most ``batch_size``, and few when they are long."""
    batch: list[tuple[int, Any]] = []
    characters = 0
    for number, raw in numbered:
        batch.append((number, raw))
        body = raw.get("body") if isinstance(raw, Mapping) else None
        characters += len(body) if isinstance(body, str) else 0
        if len(batch) == batch_size or characters > BATCH_CHARACTERS:
            break
    return batch


def _batch(
    session: Session, numbered: Sequence[tuple[int, Any]], on_error: str
) -> Flow[list[MemoryRef]]:
    numbers: list[int] = []
    items: list[dict[str, Any]] = []
    refs: dict[int, MemoryRef] = {}
    for number, raw in numbered:
        try:
            items.append(checks.item(raw, number))
            numbers.append(number)
        except RememError as error:
            if on_error == "abort":
                raise
            ref = raw.get("ref") if isinstance(raw, Mapping) else None
            refs[number] = MemoryRef(
                ref=ref if isinstance(ref, str) else None,
                outcome="refused",
                item_no=number,
                error=error.as_dict(),
            )
    for attempt in (0, 1):
        if not items:
            break
        ready = yield from with_vectors(session, items)
        try:
            answered = yield Run(calls.remember_many(session.workspace, ready, on_error))
        except (DimensionMismatch, UnknownSpace) as error:
            ours = error.item_no is None or "embedding" not in items[error.item_no - 1]
            if ours and (yield from forget_space(session, attempt)):
                continue
            raise _renumbered(error, numbers) from error.__cause__
        except RememError as error:
            raise _renumbered(error, numbers) from error.__cause__
        for position, ref in enumerate(answered, 1):
            number = numbers[(ref.item_no or position) - 1]
            refs[number] = _placed(ref, number)
        # a report does not raise: the items refused for a vector this client made go again
        again = [
            i
            for i, number in enumerate(numbers)
            if "embedding" in ready[i]
            and "embedding" not in items[i]
            and (refs[number].error or {}).get("code") in ("RM201", "RM202")
        ]
        if not again or not (yield from forget_space(session, attempt)):
            break
        numbers, items = [numbers[i] for i in again], [items[i] for i in again]
    return [refs[number] for number, _ in numbered]


def _placed(ref: MemoryRef, number: int) -> MemoryRef:
    """The server counts the items of its statement; the caller counts its own."""
    error = ref.error
    if error and "item" in (error.get("detail") or {}):
        error = {**error, "detail": {**error["detail"], "item": number}}
    return dataclasses.replace(ref, item_no=number, error=error)


def _renumbered(error: RememError, numbers: Sequence[int]) -> RememError:
    if error.item_no is not None:
        error.item_no = numbers[error.item_no - 1]
        error.detail["item"] = error.item_no
    return error


# recall


def recall(
    session: Session,
    build: Callable[[str, str, Vector | None, int, Mapping[str, Any]], Call[T]],
    query: str,
    k: int,
    query_embedding: Any,
    options: Mapping[str, Any],
) -> Flow[T]:
    """One recall, with a span over it when this client logs; see ``_recall``."""
    flow = _recall(session, build, query, k, query_embedding, options)
    if session.tiers.log and build is calls.recall:
        flow = telemetry.observed(session.workspace, k, flow)
    return flow


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
        if (given is None or texts) and _wants_vector(options):
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


def _wants_vector(options: Mapping[str, Any]) -> bool:
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
