"""C35, the server's part: a day is the same day in every time zone; a naive datetime is UTC."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone

import pytest

from tests.support.memories import Connection, bodies, get, recall, remember, remember_many, value

ZONES = ["UTC", "Pacific/Kiritimati", "Pacific/Pago_Pago", "America/St_Johns", "Asia/Kathmandu"]


@pytest.mark.parametrize("writing", ZONES)
@pytest.mark.parametrize("reading", ["UTC", "Asia/Tokyo", "America/Los_Angeles"])
def test_the_same_moment_is_filtered_alike_from_every_zone(
    db: Connection, writing: str, reading: str
) -> None:
    db.execute(f"set timezone = '{writing}'")
    remember_many(
        db,
        "w",
        [
            {"body": "standup late", "occurred_at": "2026-03-01T23:30:00"},
            {"body": "standup early", "occurred_at": "2026-03-02T00:30:00"},
        ],
    )
    db.execute(f"set timezone = '{reading}'")
    day = '$.occurred_at >= "2026-03-01" && $.occurred_at < "2026-03-02"'
    assert bodies(recall(db, "w", "standup", filter=day)) == ["standup late"]
    assert value(db, "select remem.count('w', %s)", [day]) == 1


@pytest.mark.parametrize("zone", ZONES)
def test_an_aware_datetime_keeps_its_moment(db: Connection, zone: str) -> None:
    db.execute(f"set timezone = '{zone}'")
    said = datetime(2026, 3, 1, 23, 30, tzinfo=timezone(timedelta(hours=-7)))
    (ref,) = remember_many(db, "w", [{"body": "x", "occurred_at": said.isoformat()}])
    stored = get(db, "w", memory_id=ref.memory_id).occurred_at
    assert stored == said
    assert stored.astimezone(UTC).day == 2


@pytest.mark.parametrize("zone", ZONES)
def test_validity_is_judged_by_the_moment_and_not_by_the_clock_on_the_wall(
    db: Connection, zone: str
) -> None:
    now = datetime.now(UTC)
    minute = timedelta(minutes=10)
    db.execute(f"set timezone = '{zone}'")
    remember(db, "w", "queue past", valid_to=now - minute)
    remember(db, "w", "queue present", valid_from=now - minute, valid_to=now + minute)
    remember(db, "w", "queue future", valid_from=now + minute)
    assert bodies(recall(db, "w", "queue")) == ["queue present"]


def test_a_datetime_without_a_zone_said_twice_from_two_zones_is_one_memory(
    db: Connection,
) -> None:
    item = {"body": "x", "ref": "r", "occurred_at": "2026-03-01T12:00:00"}
    db.execute("set timezone = 'Asia/Tokyo'")
    remember_many(db, "w", [item])
    db.execute("set timezone = 'America/Los_Angeles'")
    (again,) = remember_many(db, "w", [item])
    assert again.outcome == "unchanged"
