"""Links between memories: made, changed, taken back, carried to new versions."""

from __future__ import annotations

from typing import Any
from uuid import UUID

import pytest

from tests.support.consistency import problems
from tests.support.memories import Connection, refused, remember, value

NOBODY = UUID("00000000-0000-4000-8000-000000000009")


def relate(db: Connection, src: Any, dst: Any, workspace: str = "w", **arguments: Any) -> bool:
    types = {"weight": "::real"}
    given = "".join(f", {name} => %({name})s{types.get(name, '')}" for name in arguments)
    return bool(
        value(
            db,
            f"select remem.relate(%(workspace)s, %(src)s, %(dst)s{given})",
            {"workspace": workspace, "src": src, "dst": dst, **arguments},
        )
    )


def links(db: Connection) -> list[tuple[str, str, str, float, str]]:
    return db.execute(
        "select s.body, r.kind, d.body, r.weight, r.provenance from remem.relation r"
        " join remem.memory s on s.workspace = r.workspace and s.memory_no = r.src_no"
        " join remem.memory d on d.workspace = r.workspace and d.memory_no = r.dst_no"
        " order by 1, 2, 3"
    ).fetchall()


def pair(db: Connection, **arguments: Any) -> tuple[UUID | None, UUID | None]:
    made = [remember(db, "w", body, ref=body, **arguments).memory_id for body in ("one", "two")]
    return made[0], made[1]


@pytest.mark.covers("MN14")
def test_a_link_is_there_once_and_changes_when_it_is_made_again(db: Connection) -> None:
    one, two = pair(db)
    assert relate(db, one, two)
    assert not relate(db, one, two)
    assert links(db) == [("one", "related", "two", 1.0, "verified")]
    assert relate(db, one, two, weight=0.5, provenance="llm")
    assert not relate(db, one, two, weight=0.5, provenance="llm")
    assert relate(db, one, two, kind="part_of")
    assert relate(db, two, one, kind="contains")
    assert [row[1] for row in links(db)] == ["part_of", "related", "contains"]
    assert problems(db) == []


@pytest.mark.covers("MN14")
@pytest.mark.parametrize(
    "kind",
    [
        "derived_from",
        "supersedes",
        "part_of",
        "member_of",
        "contains",
        "contained_by",
        "scoped",
        "related",
        "contradicts",
        "conflicts_with",
        "not_conflict",
        "compatible",
    ],
)
def test_every_kind_of_link_can_be_kept(db: Connection, kind: str) -> None:
    one, two = pair(db)
    assert relate(db, one, two, kind=kind)
    assert links(db)[0][1] == kind


def test_a_link_is_taken_back_of_one_kind_or_of_all(db: Connection) -> None:
    one, two = pair(db)
    for kind in ("related", "part_of", "contains"):
        relate(db, one, two, kind=kind)
    call = "select remem.unrelate('w', %s, %s, %s)"
    assert value(db, call, [one, two, "related"])
    assert not value(db, call, [one, two, "related"])
    assert not value(db, call, [two, one, None])
    assert value(db, call, [one, two, None])
    assert links(db) == []
    with refused("RM101", argument="src"):
        db.execute(call, [NOBODY, two, None])
    with refused("RM001", argument="kind"):
        db.execute(call, [one, two, "friend"])


def test_what_cannot_be_linked_is_refused_by_name(db: Connection) -> None:
    one, two = pair(db)
    other = remember(db, "v", "elsewhere").memory_id
    with refused("RM101", argument="src", value=str(NOBODY)):
        relate(db, NOBODY, two)
    with refused("RM101", argument="dst", value=str(NOBODY)):
        relate(db, one, NOBODY)
    with refused("RM101", argument="dst"):
        relate(db, one, other)
    with refused("RM101", argument="src"):
        relate(db, one, two, workspace="v")
    with refused("RM101", argument="src"):
        relate(db, None, two)
    with refused("RM001", argument="dst"):
        relate(db, one, one)
    with refused("RM001", argument="kind", value="friend") as said:
        relate(db, one, two, kind="friend")
    assert "derived_from" in said.detail["valid"]
    with refused("RM001", argument="provenance"):
        relate(db, one, two, provenance="rumour")
    for weight in (-0.1, 1.1, float("nan"), float("inf"), None):
        with refused("RM001", argument="weight"):
            relate(db, one, two, weight=weight)
    assert links(db) == []


def test_a_former_version_is_no_end_of_a_new_link(db: Connection) -> None:
    one, two = pair(db)
    remember(db, "w", "one, again", ref="one")
    with refused("RM101", argument="src"):
        relate(db, one, two)
    with refused("RM101", argument="dst"):
        relate(db, two, one)


@pytest.mark.covers("MN14")
def test_a_link_does_not_cross_scopes(db: Connection) -> None:
    scopes: dict[str, Any] = {
        "global": {},
        "a": {"scope": "project", "scope_ref": "a"},
        "a too": {"scope": "project", "scope_ref": "a"},
        "b": {"scope": "project", "scope_ref": "b"},
        "user a": {"scope": "user", "scope_ref": "a"},
    }
    ids = {name: remember(db, "w", name, **given).memory_id for name, given in scopes.items()}
    for src, dst in [("a", "b"), ("a", "user a")]:
        with refused("RM001", argument="dst"):
            relate(db, ids[src], ids[dst])
    for src, dst in [("a", "a too"), ("a", "global"), ("global", "user a")]:
        assert relate(db, ids[src], ids[dst])


def test_a_new_version_takes_over_the_links_of_the_former_one(db: Connection) -> None:
    one, two = pair(db)
    relate(db, one, two, kind="part_of", weight=0.5)
    relate(db, two, one, kind="contains")
    db.execute(
        "select remem.remember_many('w', %s::jsonb)",
        ['[{"ref": "one", "body": "one b"}, {"ref": "two", "body": "two b"}]'],
    )
    assert ("one b", "part_of", "two b", 0.5, "verified") in links(db)
    assert ("two b", "contains", "one b", 1.0, "verified") in links(db)
    assert problems(db) == []


def test_links_are_changes_of_the_workspace_so_that_caches_notice(db: Connection) -> None:
    one, two = pair(db)
    changed = (
        "select coalesce(bool_or(not pg_visible_in_snapshot(changed_xid, %s::pg_snapshot)), false)"
        " from remem.memory where workspace = 'w'"
    )
    for call, notices in [("relate", True), ("relate", False), ("unrelate", True)]:
        before = value(db, "select pg_current_snapshot()::text")
        value(db, f"select remem.{call}('w', %s, %s)", [one, two])
        assert value(db, changed, [before]) is notices
