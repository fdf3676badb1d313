"""C35: a day is the same day in every time zone. For the server a naive datetime is UTC, and so it
is in a condition; a client refuses to write one."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone

import pytest

from remem_pg import InvalidArgument, Remem
from remem_pg.filters.where import compile_where
from tests.support.memories import (
    Connection,
    bodies,
    explain,
    get,
    recall,
    remember,
    remember_many,
    value,
)

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


@pytest.mark.parametrize("zone", ZONES)
@pytest.mark.parametrize(
    ("where", "found"),
    [
        ("occurred_at >= '2026-03-01' and occurred_at < '2026-03-02'", ["late"]),
        ("occurred_at between '2026-03-01' and '2026-03-01T23:59:59.999999'", ["late"]),
        ("occurred_at = '2026-03-02T05:00:00.25+05:30'", ["late"]),
        ("occurred_at = timestamptz '2026-03-01 23:30:00.25Z'", ["late"]),
        ("occurred_at > date '2026-03-02'", ["early"]),
        ("occurred_at < '2026-03-01T18:30:00.25-05:00'", []),
        ("created_at > '2026-01-01'", ["early", "late"]),
        ("created_at > '9999-12-31'", []),
    ],
)
def test_a_condition_means_the_same_moment_everywhere(
    db: Connection, zone: str, where: str, found: list[str]
) -> None:
    db.execute(f"set timezone = '{zone}'")
    for ref, at in (("late", "2026-03-01T23:30:00.25"), ("early", "2026-03-02T00:30:00")):
        remember_many(db, "w", [{"body": f"standup {ref}", "ref": ref, "occurred_at": at}])
    hits = recall(db, "w", "standup", filter=compile_where(where))
    assert sorted(hit.ref for hit in hits) == found


@pytest.mark.parametrize("zone", ZONES)
def test_yesterday_is_the_day_before_in_utc(db: Connection, zone: str) -> None:
    db.execute(f"set timezone = '{zone}'")
    midnight = datetime.now(UTC).replace(hour=0, minute=0, second=0, microsecond=0)
    for ref, at in (("first", midnight - timedelta(days=1)), ("last", midnight), ("before", None)):
        said = midnight - timedelta(days=1, seconds=1) if at is None else at
        said = said - timedelta(seconds=1) if ref == "last" else said
        remember_many(
            db, "w", [{"body": f"standup {ref}", "ref": ref, "occurred_at": said.isoformat()}]
        )
    remember_many(
        db, "w", [{"body": "standup now", "ref": "now", "occurred_at": midnight.isoformat()}]
    )
    hits = explain(db, "w", "what was the standup yesterday?", k=10)["hits"]
    assert {hit["ref"] for hit in hits if hit["signals"].get("time")} == {"first", "last"}


def test_a_client_refuses_a_datetime_without_a_zone(db_dsn: str) -> None:
    with Remem(db_dsn, workspace="w", embedding=None) as mem:
        for naive in (datetime(2026, 3, 1, 9, 30), "2026-03-01T09:30:00"):
            with pytest.raises(InvalidArgument) as caught:
                mem.remember("x", occurred_at=naive)
            assert caught.value.detail["argument"] == "occurred_at"
            with pytest.raises(InvalidArgument):
                mem.recall("x", as_of=naive)
        assert mem.count() == 0
