"""Writes the context: ranked results within three budgets, escaped, labelled, inside one fence.

No model is called and nothing is decided between results. Short bodies stay whole; where not all
fit, long ones are shortened, and only when that is not enough the lowest ranks go.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from remem_pg.context.conflicts import grouped
from remem_pg.context.fence import Fence, catalog_lines, catalog_text
from remem_pg.context.filling import Budgets, Filling
from remem_pg.context.meter import Meter
from remem_pg.context.ranking import Ranked
from remem_pg.context.safe_text import escaped, lines


@dataclass(frozen=True, slots=True)
class SynthesisRequest:
    """What a synthesiser of the caller's is given: the results in order, those that conflict side
    by side, its budget, and ``count(text)`` in the unit of the budget."""

    results: tuple[Ranked, ...]
    budget: int
    unit: str
    count: Callable[[str], int]


Synthesizer = Callable[[SynthesisRequest], Any]
"""A function, also a coroutine function, that gives the text of what was recalled. It is escaped
and put inside the fence; over budget, late, or no text, it is replaced by the built-in one."""


@dataclass(frozen=True, slots=True)
class Written:
    """A context: its text, what of it is the catalog's and the recall's, in the meter's unit."""

    text: str = ""
    selected: tuple[Ranked, ...] = ()
    omitted: int = 0
    catalog_cost: int = 0
    recall_cost: int = 0
    provider_costs: dict[str, int] = field(default_factory=dict)


def write(
    catalog: str,
    catalog_omitted: int,
    results: Sequence[Ranked],
    budgets: Budgets,
    meter: Meter,
    recalled: str | None = None,
) -> Written:
    """The context. ``recalled`` is the text of another synthesiser, instead of the built-in one.

    The fence counts as the catalog's, and as the recall's where there is no catalog.
    """
    groups = grouped(results)
    entries = catalog_lines(catalog)
    fence = Fence([*entries, recalled or "", *(item.record.body for item in results)])
    head = catalog_text(entries, catalog_omitted, budgets.catalog, meter, fence)
    frame = Fence.around if not head else _bare
    if recalled is not None:
        part, filling = recalled, None
        selected, omitted = tuple(results), 0
    else:
        filling = Filling(budgets, meter, lambda content: frame(fence, content))
        part = filling.fill(groups)
        selected, omitted = filling.selected(), len(results) - len(filling.selected())
    text = fence.around(head + part)
    return Written(
        text=text,
        selected=selected,
        omitted=omitted,
        catalog_cost=meter(fence.around(head)) if head else 0,
        recall_cost=meter(frame(fence, part)) if part else 0,
        provider_costs=filling.costs() if filling else {},
    )


def _bare(fence: Fence, content: str) -> str:
    return content


def written_by(text: Any, budget: int, meter: Meter) -> str:
    """Another synthesiser's text made safe. Raises for what is no text or does not fit."""
    if not isinstance(text, str):
        raise TypeError("a synthesiser gives a text")
    content = "".join(f"{escaped(line)}\n" for line in lines(text))
    if meter(Fence().around(content)) > budget:
        raise OverflowError("over budget")
    return content
