"""One hop over the links of a memory: how far, how many, and where it never goes."""

from __future__ import annotations

from typing import Any
from uuid import UUID

import pytest

from tests.support.memories import Connection, remember, value


def number(db: Connection, memory_id: Any) -> int:
    return int(value(db, "select memory_no from remem.memory where memory_id = %s", [memory_id]))


def put(db: Connection, body: str, **arguments: Any) -> UUID:
    made = remember(db, "w", body, **arguments).memory_id
    assert made is not None
    return made


def link(db: Connection, src: UUID, dst: UUID, kind: str = "part_of", **more: Any) -> None:
    given = {"weight": 1.0, "provenance": "verified"} | more
    db.execute(
        "select remem.relate('w', %s, %s, %s, %s::real, %s)",
        [src, dst, kind, given["weight"], given["provenance"]],
    )


def expand(
    db: Connection, parents: list[UUID], scores: list[float] | None = None, **options: Any
) -> list[tuple[str, str, float, str]]:
    """Body, parent's body, score and kind of the neighbours, best first."""
    return db.execute(
        "select m.body, p.body, round(e.score::numeric, 4)::float8, e.kind"
        " from remem._expand('w', %s::bigint[], %s::float8[], %s, %s::text::jsonpath, %s)"
        "   with ordinality e (memory_no, from_no, score, kind, place)"
        " join remem.memory m on m.workspace = 'w' and m.memory_no = e.memory_no"
        " join remem.memory p on p.workspace = 'w' and p.memory_no = e.from_no"
        " order by e.place",
        [
            [number(db, parent) for parent in parents],
            scores or [1.0] * len(parents),
            options.get("most", 50),
            options.get("row_filter"),
            options.get("by_entity", False),
        ],
    ).fetchall()


@pytest.mark.covers("MN14")
def test_a_hit_brings_what_is_linked_with_it_in_both_directions(db: Connection) -> None:
    stripe, secret, retry, far = (put(db, b) for b in ("stripe", "secret", "retry", "far"))
    link(db, stripe, secret)
    link(db, retry, stripe)
    link(db, secret, far)
    assert expand(db, [stripe]) == [
        ("secret", "stripe", 0.7, "part_of"),
        ("retry", "stripe", 0.7, "part_of"),
    ]
    assert expand(db, []) == []


@pytest.mark.covers("MN14")
@pytest.mark.parametrize(
    ("kind", "provenance", "weight", "score"),
    [
        ("part_of", "verified", 1.0, 0.7),
        ("member_of", "llm", 1.0, 0.7),
        ("contains", "heuristic", 1.0, 0.475),
        ("contained_by", "pending", 1.0, 0.38),
        ("supersedes", "verified", 1.0, 0.63),
        ("derived_from", "unverified", 1.0, 0.2125),
        ("scoped", "verified", 0.5, 0.28),
        ("related", "verified", 1.0, 0.42),
    ],
)
def test_a_step_costs_what_its_kind_origin_and_weight_say(
    db: Connection, kind: str, provenance: str, weight: float, score: float
) -> None:
    one, two = put(db, "one"), put(db, "two")
    link(db, one, two, kind, provenance=provenance, weight=weight)
    assert expand(db, [one]) == [("two", "one", score, kind)]
    assert expand(db, [two], [0.5])[0][2] == pytest.approx(score / 2, abs=1e-4)


@pytest.mark.covers("MN14")
@pytest.mark.parametrize("kind", ["contradicts", "conflicts_with", "not_conflict", "compatible"])
def test_links_that_disagree_are_never_followed(db: Connection, kind: str) -> None:
    one, two = put(db, "one"), put(db, "two")
    link(db, one, two, kind)
    assert expand(db, [one]) == expand(db, [two]) == []


def test_a_neighbour_comes_once_by_its_best_link_and_is_no_parent(db: Connection) -> None:
    a, b, c = put(db, "a"), put(db, "b"), put(db, "c")
    link(db, a, c, "related")
    link(db, a, c, "part_of")
    link(db, b, c, "part_of")
    link(db, a, b)
    assert expand(db, [a, b], [0.5, 1.0]) == [("c", "b", 0.7, "part_of")]
    assert expand(db, [a, b], [1.0, 0.5], most=0) == []


@pytest.mark.covers("MN14")
def test_a_parent_brings_its_ten_best_neighbours(db: Connection) -> None:
    hub = put(db, "hub")
    for n in range(15):
        link(db, hub, put(db, f"n{n:02}"), weight=n / 20)
    assert [row[0] for row in expand(db, [hub])] == [f"n{n:02}" for n in range(14, 4, -1)]
    assert len(expand(db, [hub], most=3)) == 3


@pytest.mark.covers("MN14")
def test_a_row_of_a_scope_comes_only_from_a_parent_of_that_scope(db: Connection) -> None:
    everywhere = put(db, "everywhere")
    a = {"scope": "project", "scope_ref": "a"}
    in_a, also_in_a = put(db, "in a", **a), put(db, "also in a", **a)
    in_b = put(db, "in b", scope="project", scope_ref="b")
    link(db, everywhere, in_a)
    link(db, in_a, also_in_a)
    # Nothing public makes such a link; a scope that changed later could.
    db.execute(
        "insert into remem.relation (workspace, src_no, dst_no, kind)"
        " values ('w', %s, %s, 'part_of')",
        [number(db, in_a), number(db, in_b)],
    )
    assert expand(db, [everywhere]) == []
    assert {row[0] for row in expand(db, [in_a])} == {"also in a", "everywhere"}
    assert expand(db, [in_b]) == []


@pytest.mark.covers("MN14")
def test_rows_that_are_past_forgotten_out_of_time_or_filtered_away_stay_away(
    db: Connection,
) -> None:
    hub = put(db, "hub")
    for body in ("superseded", "forgotten", "live task"):
        kind = "task" if body == "live task" else "semantic"
        link(db, hub, put(db, body, ref=body, kind=kind))
    link(db, hub, put(db, "expired", valid_to="2020-01-01T00:00:00Z"))
    link(db, hub, put(db, "early", valid_from="2999-01-01T00:00:00Z"))
    remember(db, "w", "the next version", ref="superseded")
    db.execute("update remem.memory set forgotten_at = now() where body = 'forgotten'")
    assert {row[0] for row in expand(db, [hub])} == {"live task", "the next version"}
    assert {row[0] for row in expand(db, [hub], row_filter='$.kind == "task"')} == {"live task"}


def test_links_of_another_workspace_are_not_seen(db: Connection) -> None:
    one, two = put(db, "one"), put(db, "two")
    db.execute(
        "insert into remem.relation (workspace, src_no, dst_no, kind)"
        " values ('v', %s, %s, 'part_of')",
        [number(db, one), number(db, two)],
    )
    assert expand(db, [one]) == []


def test_a_name_that_few_memories_share_joins_them_when_asked(db: Connection) -> None:
    one, _ = put(db, "we met Bob and Alice"), put(db, "we owe Bob")
    for n in range(30):
        put(db, f"lunch {n} with Alice")
    assert expand(db, [one]) == []
    assert [row[0] for row in expand(db, [one], by_entity=True)] == ["we owe Bob"]
    assert expand(db, [one], by_entity=True)[0][3] == "entity"
