"""Every number of a context call, with its range."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from remem_pg.errors import InvalidArgument, UnknownOption

if TYPE_CHECKING:
    from remem_pg.context.meter import Tokenizer
    from remem_pg.context.plan import PlannerHook
    from remem_pg.context.provider import Provider
    from remem_pg.context.synthesis import Synthesizer

RANGES: dict[str, tuple[float, float]] = {
    "minimum_confidence": (0, 1),
    "max_topics": (1, 50),
    "semantic_minimum_similarity": (0, 1),
    "deterministic_high_confidence": (0, 1),
    "catalog_limit": (10, 20_000),
    "max_results": (1, 100),
    "min_relevance": (0, 1),
    "catalog_budget": (0, 20_000),
    "recall_budget": (0, 50_000),
    "provider_budget": (0, 50_000),
    "body_limit": (128, 50_000),
    "plan_timeout_ms": (50, 60_000),
    "provider_timeout_ms": (50, 60_000),
    "planner_timeout_ms": (50, 60_000),
    "synthesis_timeout_ms": (50, 60_000),
    "embed_timeout_ms": (50, 60_000),
}


@dataclass(frozen=True, slots=True)
class ContextSettings:
    """How ``Remem.context`` plans, searches and writes.

    Planning: ``minimum_confidence`` for a topic to count, at most ``max_topics`` of them;
    ``semantic`` False leaves stage 1 out, ``semantic_minimum_similarity`` is its threshold (None:
    that of the embedding space); below ``deterministic_high_confidence`` stage 1 is asked.
    ``catalog_limit``: the topics looked at, the most important ones.
    ``planner`` is stage 2, a function of a ``PlannerRequest``; see there.

    Searching: ``providers`` beside Postgres; ``max_results`` of each; ``min_relevance`` (0 to 1)
    that a memory needs; ``body_limit`` characters kept of a body; ``episodic``: on continuity plans
    the latest events too.

    Writing, each budget on its own, in bytes of UTF-8 or in tokens of ``tokenizer``:
    ``catalog_budget`` for the list of topics with the fence around everything, ``recall_budget``
    for what was found, ``provider_budget`` for what one provider may have of that. ``synthesizer``
    writes the second instead of the built-in function; see ``SynthesisRequest``.

    All ``_timeout_ms`` are milliseconds: the plan, each provider, the ``planner``, the
    ``synthesizer``, the embedding of the prompt. A model that is not loaded yet is loaded before
    they count, which may take half a minute. A number outside its range is brought to its edge,
    what is no number is the default.
    """

    minimum_confidence: float = 0.42
    max_topics: int = 3
    semantic: bool = True
    semantic_minimum_similarity: float | None = None
    deterministic_high_confidence: float = 0.82
    catalog_limit: int = 2_000
    planner: PlannerHook | None = None
    providers: tuple[Provider, ...] = ()
    max_results: int = 8
    min_relevance: float = 0.5
    body_limit: int = 2_000
    episodic: bool = False
    catalog_budget: int = 600
    recall_budget: int = 1_400
    provider_budget: int = 900
    tokenizer: Tokenizer | None = None
    synthesizer: Synthesizer | None = None
    plan_timeout_ms: int = 2_000
    provider_timeout_ms: int = 2_000
    planner_timeout_ms: int = 1_500
    synthesis_timeout_ms: int = 1_000
    embed_timeout_ms: int = 2_000

    def __post_init__(self) -> None:
        for field in dataclasses.fields(self):
            value = getattr(self, field.name)
            if field.name in RANGES:
                value = _in_range(value, field.default, *RANGES[field.name])
            elif field.type == "bool":
                value = bool(value)
            elif field.name == "providers":
                value = tuple(value or ())
                for provider in value:
                    _check_provider(provider)
            elif value is not None and not callable(value):
                raise InvalidArgument(
                    f"{field.name} must be a function, not {type(value).__name__}",
                    detail={"argument": field.name},
                )
            object.__setattr__(self, field.name, value)

    def changed(self, options: Mapping[str, Any]) -> ContextSettings:
        """These settings with others for one call. Raises UnknownOption."""
        known = [field.name for field in dataclasses.fields(self)]
        for name in options:
            if name not in known:
                raise UnknownOption(
                    detail={"option": name, "valid": known},
                    hint=f"Valid options: {', '.join(known)}",
                )
        return dataclasses.replace(self, **options) if options else self


def _in_range(value: Any, default: Any, low: float, high: float) -> Any:
    if value is None and default is None:
        return None
    number = isinstance(value, int | float) and not isinstance(value, bool)
    if not number or math.isnan(value):
        return default
    inside = min(high, max(low, value))
    return int(inside) if isinstance(default, int) else float(inside)


def _check_provider(provider: Any) -> None:
    identity = getattr(provider, "id", None)
    usable = isinstance(identity, str) and 0 < len(identity) <= 200 and identity.isprintable()
    if not usable or not callable(getattr(provider, "search", None)):
        raise InvalidArgument(
            f"{type(provider).__name__} is no provider",
            detail={"argument": "providers"},
            hint="a provider has an id (a text) and search(query, scope, limit)",
        )
