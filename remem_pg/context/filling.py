"""Which results are written, and how much of each: as many as fit, each as long as possible."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from remem_pg.context.meter import Meter
from remem_pg.context.ranking import Ranked
from remem_pg.context.safe_text import escaped, flat, shortened

RECALLED = "Recalled:"

EXCERPTS = (280, 200, 140, 100)
"""Code points of an excerpt, tried in turn until all results fit."""

LEAST = 16
"""Code points of an excerpt below which a result is rather left out."""

UNSAID = ("unspecified", "unknown")
"""Source classes that say nothing."""


@dataclass(frozen=True, slots=True)
class Budgets:
    """What may be written, in the meter's unit."""

    catalog: int
    recall: int
    provider: int


@dataclass(slots=True)
class _Place:
    """A result in the text: how many code points of its body stand there."""

    item: Ranked
    length: int
    disputed: bool = False
    opens: int = 0
    """How many results, this one first, stand together as a conflict."""

    def text(self, number: int) -> str:
        head = f"Conflict, {self.opens} results, not settled here:\n" if self.opens else ""
        return head + item_text(self.item, number, self.length, self.disputed)


class Filling:
    """Puts results into the recall's budget and their providers' budgets."""

    def __init__(self, budgets: Budgets, meter: Meter, framed: Callable[[str], str]) -> None:
        self._budgets = budgets
        self._meter = meter
        self._framed = framed
        self._places: list[_Place] = []
        self._note = ""

    def fill(self, groups: Sequence[Sequence[Ranked]]) -> str:
        """The text of as many as fit, each as long as possible, the best first."""
        count = sum(map(len, groups))
        if not count:
            return ""
        for length in (max(len(i.record.body) for group in groups for i in group), *EXCERPTS):
            self._take(groups, length)
            if len(self._places) == count:
                break
        else:
            self._note = _note(count)  # room for the longest there can be
            self._take(groups, EXCERPTS[-1], squeeze=True)
            if not self._places:
                self._note = ""
                self._take(groups, EXCERPTS[-1], squeeze=True)
        self._lengthen()
        left_out = count - len(self._places)
        self._note = _note(left_out) if left_out and self._places else ""
        if not self._fits(self._places):
            self._note = ""
        return self._content(self._places)

    def selected(self) -> tuple[Ranked, ...]:
        return tuple(place.item for place in self._places)

    def costs(self) -> dict[str, int]:
        return {name: self._meter(text) for name, text in self._by_provider(self._places).items()}

    def _take(self, groups: Sequence[Sequence[Ranked]], length: int, squeeze: bool = False) -> None:
        self._places = []
        for group in groups:
            together = [_Place(item, min(length, len(item.record.body))) for item in group]
            if len(group) > 1:
                together[0].opens = len(group)
            if self._fits([*self._places, *together]):
                self._places += together
            elif squeeze:
                self._one_by_one(group, length)

    def _one_by_one(self, group: Sequence[Ranked], length: int) -> None:
        for item in group:
            whole = min(length, len(item.record.body))
            place = _Place(item, whole, disputed=len(group) > 1)
            if self._fits([*self._places, place]):
                self._places.append(place)
                continue
            place.length = self._longest(place, len(self._places), min(LEAST, whole), whole)
            if place.length:
                self._places.append(place)

    def _lengthen(self) -> None:
        for number, place in enumerate(self._places):
            whole = len(place.item.record.body)
            if place.length < whole:
                place.length = self._longest(place, number, place.length, whole)

    def _longest(self, place: _Place, number: int, least: int, most: int) -> int:
        """The greatest length from ``least`` to ``most`` with which the place fits, else 0."""

        def fits(length: int) -> bool:
            tried = _Place(place.item, length, place.disputed, place.opens)
            return self._fits([*self._places[:number], tried, *self._places[number + 1 :]])

        if not fits(least):
            return 0
        if fits(most):
            return most
        while most - least > 1:
            middle = (least + most) // 2
            if fits(middle):
                least = middle
            else:
                most = middle
        return least

    def _fits(self, places: Sequence[_Place]) -> bool:
        if self._meter(self._framed(self._content(places))) > self._budgets.recall:
            return False
        costs = map(self._meter, self._by_provider(places).values())
        return all(cost <= self._budgets.provider for cost in costs)

    def _content(self, places: Sequence[_Place]) -> str:
        if not places:
            return ""
        texts = [place.text(number) for number, place in enumerate(places, 1)]
        return "".join([f"{RECALLED}\n", *texts, self._note])

    @staticmethod
    def _by_provider(places: Sequence[_Place]) -> dict[str, str]:
        texts: dict[str, str] = {}
        for number, place in enumerate(places, 1):
            provider = place.item.record.provider
            texts[provider] = texts.get(provider, "") + place.text(number)
        return texts


def _note(count: int) -> str:
    return f"{count} more left out for space, whatever their worth.\n"


def item_text(item: Ranked, number: int, length: int, disputed: bool = False) -> str:
    """One result: labels and title, an excerpt of ``length`` code points, where it comes from."""
    record = item.record
    labels = [record.freshness, record.kind, f"rank {item.rank:.2f}"]
    if disputed:
        labels.append("others disagree")
    title = f" {escaped(shortened(record.title, 120))}" if record.title else ""
    excerpt = shortened(record.body, length)
    if record.cut and length >= len(record.body):
        excerpt += "..."
    origin = f"{record.provider}/{record.id}"
    said = [part for part in (record.source, record.source_class) if part and part not in UNSAID]
    said = [part for part in said if part != record.id]
    if said:
        origin += f" ({', '.join(shortened(part, 80) for part in said)})"
    also = [f"{other.provider}/{other.id}" for other in record.duplicates[:3]]
    if also:
        origin += f"; same text: {', '.join(also)}"
    if len(record.duplicates) > 3:
        origin += f" and {len(record.duplicates) - 3} more"
    head = f"{number}. [{'; '.join(labels)}]{title}"
    return f"{head}\n{escaped(excerpt)}\nsource: {escaped(flat(origin))}\n"
