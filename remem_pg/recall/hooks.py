"""Functions of the caller's around routing and expansion: fail open, named in the result."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, TypeVar

from remem_pg import calls, checks
from remem_pg.errors import InvalidArgument
from remem_pg.steps import Flow, Run, Session, Work

T = TypeVar("T")

logger = logging.getLogger("remem_pg")

HOOK_FAILED = "hook_failed"
EXPANSION_FAILED = "expansion_failed"

EXPANDED_TEXTS = 4
EXPANDED_CHARACTERS = 200

Route = Mapping[str, Any]
Expander = Callable[[str], Sequence[str]]


@dataclass(frozen=True, slots=True)
class RecallRequest:
    """What is asked: a hook may answer with a changed copy (``dataclasses.replace``)."""

    query: str
    k: int
    options: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Hooks:
    """What a client calls around the routing of each recall.

    ``before_route(request)`` may return another request: query, k and options count. Then
    ``after_route(request, route)`` is given the route the server takes (kind, arms, pool,
    graph_depth, weights) and may return another: its kind, arms, weights, and whether the graph is
    followed count, unless the request's options say otherwise. It costs a round trip. None changes
    nothing. A hook that raises is left out and named: ``hook_failed`` in ``degraded``.
    """

    before_route: Callable[[RecallRequest], RecallRequest | None] | None = None
    after_route: Callable[[RecallRequest, Route], Route | None] | None = None


@dataclass(slots=True)
class Notes:
    """What a client's own stages did in one recall: degraded states, and entries of the trace;
    and the space that the query was embedded in."""

    degraded: list[str] = field(default_factory=list)
    trace: dict[str, Any] = field(default_factory=dict)
    space: str | None = None

    def failed(self, code: str, stage: str, error: BaseException) -> None:
        """Names a failure: the code in ``degraded``, the error's class in the trace."""
        logger.warning("%s of recall failed: %s", stage, type(error).__name__)
        if code not in self.degraded:
            self.degraded.append(code)
        self.trace.setdefault(stage, {})["error"] = type(error).__name__


def within(seconds: float | None, function: Callable[[], T]) -> T:
    """The function's result, in a thread when there is a limit.

    Raises TimeoutError when it takes longer; what it gives later is never looked at.
    """
    if seconds is None:
        return function()
    done = threading.Event()
    results: list[T] = []
    errors: list[BaseException] = []

    def work() -> None:
        try:
            results.append(function())
        except BaseException as error:
            errors.append(error)
        finally:
            done.set()

    threading.Thread(target=work, name="remem-stage", daemon=True).start()
    if not done.wait(seconds):
        raise TimeoutError(f"no answer within {seconds:g} s")
    if errors:
        raise errors[0]
    return results[0]


def routed(session: Session, request: RecallRequest, notes: Notes) -> Flow[RecallRequest]:
    """The request after the client's hooks."""
    hooks: Hooks | None = session.stages.hooks
    if hooks is None:
        return request
    if hooks.before_route is not None:
        try:
            changed = yield Work(partial(hooks.before_route, request))
            request = _request(changed, request)
            notes.trace["before_route"] = {"changed": changed is not None}
        except Exception as error:  # somebody else's code: the recall goes on without it
            notes.failed(HOOK_FAILED, "before_route", error)
    if hooks.after_route is not None:
        route = yield Run(calls.route_of(session.workspace, request.query, request.options))
        notes.trace["after_route"] = {"route": route}
        try:
            answer = yield Work(partial(hooks.after_route, request, dict(route)))
            overrides = _overrides(answer, route)
            checks.document(overrides, "route")
            # what the caller said of this recall stands above what a hook says of all
            options = {**overrides, **request.options}
            if isinstance(request.options.get("weights"), Mapping):
                options["weights"] = {
                    **(overrides.get("weights") or {}),
                    **request.options["weights"],
                }
            request = RecallRequest(request.query, request.k, options)
            notes.trace["after_route"]["overrides"] = overrides
        except Exception as error:  # as above
            notes.failed(HOOK_FAILED, "after_route", error)
    return request


def _request(changed: Any, request: RecallRequest) -> RecallRequest:
    """A hook's answer, refused here when the server could not even be asked."""
    if changed is None:
        return request
    if not isinstance(changed, RecallRequest):
        raise TypeError(f"before_route returned a {type(changed).__name__}, not a RecallRequest")
    checks.text(changed.query, "query")
    checks.integer(changed.k, "k")
    return RecallRequest(changed.query, changed.k, dict(changed.options))


def _overrides(answer: Any, route: Route) -> dict[str, Any]:
    """The options that say what the hook changed in the route."""
    if answer is None:
        return {}
    if not isinstance(answer, Mapping):
        raise TypeError(f"after_route returned a {type(answer).__name__}, not a route")
    changed = {k: v for k, v in answer.items() if k not in route or route[k] != v}
    overrides = {k: changed[k] for k in ("kind", "arms", "weights") if k in changed}
    if "graph_depth" in changed:
        overrides["graph"] = "auto" if changed["graph_depth"] else "never"
    return overrides


def expanded(session: Session, request: RecallRequest, notes: Notes) -> Flow[list[str]]:
    """The texts of the client's expander for this query, clipped; empty without one."""
    expander: Expander | None = session.stages.expander
    if expander is None or request.options.get("expanded") is not None:
        return []
    timeout = session.stages.expand_timeout
    try:
        given = yield Work(partial(within, timeout, partial(expander, request.query)))
        texts = clipped(given)
        notes.trace["expansion"] = {"texts": len(texts)}
        return texts
    except Exception as error:  # somebody else's code, often a language model: the query is enough
        notes.failed(EXPANSION_FAILED, "expansion", error)
        return []


def clipped(texts: Any) -> list[str]:
    """At most 4 texts of at most 200 characters, without empty ones. Raises for anything else."""
    if isinstance(texts, str | bytes) or not isinstance(texts, Sequence):
        raise InvalidArgument(
            f"an expander returns a list of texts, not a {type(texts).__name__}",
            detail={"argument": "expander"},
        )
    checked = [checks.text(text, "expanded").strip() for text in texts]
    return [text[:EXPANDED_CHARACTERS] for text in checked if text][:EXPANDED_TEXTS]
