"""What a client does around a write, written once for the sync and the async client."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import chain
from typing import Any

from remem_pg import calls, checks
from remem_pg.errors import DimensionMismatch, InvalidArgument, RememError, UnknownSpace
from remem_pg.models import BulkReport, MemoryRef
from remem_pg.spaces.policy import forget_space, with_vectors
from remem_pg.steps import Flow, Run, Session, Together
from remem_pg.writing import staging

BATCH_CHARACTERS = 4_000_000
"""Where a statement of remember_many ends early: a JSON parameter has a limit, and memory too."""


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
    refs: list[MemoryRef] = []
    yield from _write(session, items, on_error, batch_size, refs.extend)
    return refs


def remember_stream(
    session: Session,
    items: Iterable[Any],
    on_error: str,
    batch_size: int,
    on_batch: Callable[[BulkReport], Any] | None,
) -> Flow[BulkReport]:
    """As ``remember_many``, keeping counts and the first refusals instead of every result."""
    report = BulkReport()

    def add(refs: Sequence[MemoryRef]) -> None:
        report.add(refs)
        if on_batch is not None:
            on_batch(report)

    yield from _write(session, items, on_error, batch_size, add)
    return report


def _write(
    session: Session,
    items: Iterable[Any],
    on_error: str,
    batch_size: int,
    sink: Callable[[list[MemoryRef]], Any],
) -> Flow[None]:
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

    def all_batches() -> Flow[None]:
        batch = first
        following = chain([second], iter(lambda: _take(numbered, batch_size), []))
        while batch:
            sink((yield from _batch(session, batch, on_error)))
            batch = next(following, [])

    if on_error == "abort" and second:
        yield Together(all_batches())
    else:
        yield from all_batches()


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
            answered = yield from staging.store(session, ready, on_error)
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
