"""Results that disagree, brought side by side. Which of them is right is not decided here."""

from __future__ import annotations

from collections.abc import Sequence

from remem_pg.context.ranking import Ranked
from remem_pg.context.record import Record, text_key


def grouped(items: Sequence[Ranked]) -> list[list[Ranked]]:
    """The items in order, those that conflict with each other as one group at the place of its
    first. Two conflict when one is linked with the other as its contradiction, or when both state
    the same subject and attribute in different words, and nothing says that they agree."""
    groups = list(range(len(items)))

    def root(place: int) -> int:
        while groups[place] != place:
            place = groups[place]
        return place

    for later in range(len(items)):
        for earlier in range(later):
            if conflicting(items[earlier].record, items[later].record):
                first, second = sorted((root(earlier), root(later)))
                groups[second] = first
    found: dict[int, list[Ranked]] = {}
    for place, item in enumerate(items):
        found.setdefault(root(place), []).append(item)
    return list(found.values())


def conflicting(one: Record, other: Record) -> bool:
    """Whether two records disagree."""
    if _linked(one, other, "conflicts_with"):
        return True
    if _linked(one, other, "agrees_with") or one.text_key == other.text_key:
        return False
    fact = _fact(one)
    return fact is not None and fact == _fact(other)


def _linked(one: Record, other: Record, field: str) -> bool:
    if one.provider != other.provider:
        return False
    return not (
        _ids(other).isdisjoint(getattr(one, field)) and _ids(one).isdisjoint(getattr(other, field))
    )


def _ids(record: Record) -> set[str]:
    """Its id, and those of the copies that it stands for."""
    copies = (copy.id for copy in record.duplicates if copy.provider == record.provider)
    return {record.id, *copies}


def _fact(record: Record) -> tuple[str, str] | None:
    if not record.subject or not record.attribute:
        return None
    return text_key(record.subject), text_key(record.attribute)
