"""Graph expansion as a recall shows it: when it opens, how far it goes, and that it only adds."""

from __future__ import annotations

from typing import Any
from uuid import UUID

import pytest

from tests.support.memories import Connection, bodies, explain, recall, remember

WORDS = ["alpha", "beta", "gamma", "delta", "epsilon", "zeta"]


def put(db: Connection, body: str, **arguments: Any) -> UUID:
    made = remember(db, "w", body, **arguments).memory_id
    assert made is not None
    return made


def link(db: Connection, src: UUID, dst: UUID, weight: float = 1.0) -> None:
    db.execute(
        "select remem.relate('w', %s, %s, 'part_of', %s::real, 'verified')", [src, dst, weight]
    )


def webhooks(db: Connection, count: int) -> list[UUID]:
    """So many memories that the question "payment webhook" finds for certain."""
    return [put(db, f"payment webhook {word}", ref=word) for word in WORDS[:count]]


def asked(db: Connection, query: str = "payment webhook", **options: Any) -> list[Any]:
    """By words alone: the vector of a small workspace would find every memory."""
    return recall(db, "w", query, **{"k": 50, "mode": "lexical", **options})


def graph(db: Connection, query: str = "payment webhook", **options: Any) -> dict[str, Any]:
    note = explain(db, "w", query, **{"k": 50, "mode": "lexical", **options})["graph"]
    assert isinstance(note, dict)
    return note


@pytest.mark.covers("MN15")
@pytest.mark.parametrize("confident", [1, 2, 3, 4])
def test_the_graph_opens_below_three_high_confidence_hits(db: Connection, confident: int) -> None:
    hits = webhooks(db, confident)
    link(db, hits[0], put(db, "soup", ref="soup"))
    opens = confident < 3
    assert graph(db) == {
        "ran": opens,
        "reason": f"{confident} high-confidence hits",
        "added": int(opens),
    }
    assert ("soup" in bodies(asked(db))) is opens


@pytest.mark.covers("MN15")
def test_hits_of_little_relevance_do_not_keep_the_graph_shut(db: Connection) -> None:
    hits = webhooks(db, 5)
    link(db, hits[0], put(db, "soup"))
    query = "payment pelican zanzibar"
    assert all(hit.relevance < 0.7 for hit in asked(db, query, graph="never"))
    assert graph(db, query) == {"ran": True, "reason": "0 high-confidence hits", "added": 1}


@pytest.mark.covers("MN15")
def test_the_caller_opens_and_shuts_the_graph(db: Connection) -> None:
    hits = webhooks(db, 4)
    link(db, hits[0], put(db, "soup"))
    assert graph(db, graph="always") == {"ran": True, "reason": "asked for", "added": 1}
    assert "soup" in bodies(asked(db, graph="always"))
    few = put(db, "the only umbrella")
    link(db, few, hits[0])
    assert graph(db, "umbrella")["ran"] is True
    assert graph(db, "umbrella", graph="never") == {
        "ran": False,
        "reason": "switched off",
        "added": 0,
    }
    assert bodies(asked(db, "umbrella", graph="never")) == ["the only umbrella"]


@pytest.mark.covers("MN15", "ME8")
def test_a_route_may_leave_the_graph_out(db: Connection) -> None:
    (hit,) = webhooks(db, 1)
    link(db, hit, put(db, "soup"))
    assert graph(db)["ran"] is True
    db.execute("select remem.put_route('general', '{lexical}', workspace => 'w', graph_depth => 0)")
    assert graph(db)["reason"] == "the route does not follow the graph"
    assert bodies(asked(db)) == ["payment webhook alpha"]


@pytest.mark.covers("MN15", "ME8")
def test_a_caller_who_always_wants_the_graph_gets_it_on_every_route(db: Connection) -> None:
    (hit,) = webhooks(db, 1)
    link(db, hit, put(db, "soup"))
    db.execute("select remem.put_route('general', '{lexical}', workspace => 'w', graph_depth => 0)")
    assert graph(db, graph="always") == {"ran": True, "reason": "asked for", "added": 1}
    assert "soup" in bodies(asked(db, graph="always"))


@pytest.mark.covers("MN15", "ME30", "ME3")
@pytest.mark.parametrize("mode", ["simple", "retrieval_only"])
def test_modes_that_skip_stages_leave_the_graph_out_unless_asked(db: Connection, mode: str) -> None:
    (hit,) = webhooks(db, 1)
    link(db, hit, put(db, "soup"))
    for n in range(60):  # so many that the vectors alone do not find it
        put(db, f"payment filler {n}")
    options: dict[str, Any] = {"mode": mode, "k": 8}
    assert explain(db, "w", "payment webhook", **options)["graph"] == {
        "ran": False,
        "reason": "switched off",
        "added": 0,
    }
    assert "soup" not in bodies(recall(db, "w", "payment webhook", **options))
    asked_for = explain(db, "w", "payment webhook", graph="always", **options)["graph"]
    assert (asked_for["ran"], asked_for["reason"]) == (True, "asked for")


# -- what it adds is held to what the caller demands


@pytest.mark.covers("ME17", "RP34")
def test_a_neighbour_that_has_nothing_of_the_question_is_not_relevant(db: Connection) -> None:
    (hit,) = webhooks(db, 1)
    link(db, hit, put(db, "soup", ref="soup"))
    hits = {found.ref: found for found in asked(db)}
    assert set(hits) == {"alpha", "soup"}
    assert hits["soup"].relevance == 0 < hits["alpha"].relevance
    other = put(db, "the webhook of the canteen", ref="canteen")
    link(db, hit, other)
    (canteen,) = [found for found in asked(db, k=2, graph="never") if found.ref == "canteen"]
    assert 0 < canteen.relevance < 1


@pytest.mark.covers("ME17", "RP34")
def test_min_relevance_gates_what_the_graph_adds(db: Connection) -> None:
    hits = webhooks(db, 2)
    link(db, hits[0], put(db, "soup"))
    assert "soup" in bodies(asked(db))
    for least in (0.01, 0.9):
        found = asked(db, graph="always", min_relevance=least)
        assert found
        assert all(hit.relevance >= least for hit in found)
        assert "soup" not in bodies(found)
        assert graph(db, graph="always", min_relevance=least)["added"] == 0


@pytest.mark.covers("ME17", "RP28")
def test_an_excluded_word_stays_out_of_the_graph(db: Connection) -> None:
    (hit,) = webhooks(db, 1)
    for body in ("soup in staging", "soup at noon"):
        link(db, hit, put(db, body))
    assert set(bodies(asked(db, graph="always"))) == {
        "payment webhook alpha",
        "soup in staging",
        "soup at noon",
    }
    found = bodies(asked(db, "payment webhook -staging", graph="always"))
    assert set(found) == {"payment webhook alpha", "soup at noon"}


@pytest.mark.covers("ME17", "RP36")
def test_the_graph_never_repeats_a_text(db: Connection) -> None:
    """Neither that of a hit, nor that of a better neighbour; copies stay with their hit."""
    one = put(db, "payment webhook alpha", session_ref="a", importance=1)
    link(db, one, put(db, "payment webhook alpha", session_ref="b"))
    link(db, one, put(db, "Payment  WEBHOOK alpha", session_ref="c"))
    for ref, weight in (("near", 1.0), ("far", 0.5)):
        link(db, one, put(db, "soup", ref=ref, session_ref=f"of {ref}"), weight)
    hits = asked(db, graph="always")
    assert bodies(hits) == ["payment webhook alpha", "soup"]
    assert hits[1].ref == "near"
    assert [copy["session_ref"] for copy in hits[0].duplicates] == ["b", "c"]


@pytest.mark.covers("ME17")
def test_without_a_hit_the_graph_has_nowhere_to_start(db: Connection) -> None:
    (hit,) = webhooks(db, 1)
    link(db, hit, put(db, "soup"))
    assert asked(db, "pelican", graph="always") == []
    assert graph(db, "pelican", graph="always")["added"] == 0


@pytest.mark.covers("ME17")
def test_what_the_graph_adds_stands_below_its_parent_and_is_no_match(db: Connection) -> None:
    first, second = webhooks(db, 2)
    link(db, first, put(db, "soup", ref="soup"))
    link(db, second, put(db, "bread", ref="bread"), weight=0.5)
    own = asked(db, graph="never")
    hits = asked(db, graph="always")
    by_ref = {hit.ref: hit for hit in hits}
    assert [hit.ref for hit in hits if hit.ref in WORDS] == [hit.ref for hit in own]
    for hit in own:
        assert by_ref[hit.ref].score == pytest.approx(hit.score)
        assert "graph" not in by_ref[hit.ref].signals
    for ref, parent, share in (("soup", "alpha", 0.7), ("bread", "beta", 0.35)):
        added = by_ref[ref]
        assert added.expanded_from == by_ref[parent].memory_id
        assert added.arms == ["graph"]
        assert added.score == pytest.approx(share * by_ref[parent].score, abs=1e-6)
        assert added.signals["graph"] == pytest.approx(added.score, abs=1e-3)
        assert not {"bm25", "matched", "base"} & set(added.signals)
    # They are no candidates of the ranking: that is over when they come.
    traces = [
        explain(db, "w", "payment webhook", k=50, mode="lexical", graph=graph)
        for graph in ("never", "always")
    ]
    assert [trace["candidates"] for trace in traces] == [2, 2]
    assert [trace["returned"] for trace in traces] == [2, 4]


@pytest.mark.covers("ME17", "MN14")
def test_the_graph_is_limited_in_breadth_depth_and_number(db: Connection) -> None:
    webhooks(db, 6)
    best = [hit.memory_id for hit in asked(db, graph="never")]
    for n in range(15):
        link(db, best[0], put(db, f"n{n:02}"), weight=0.2 + n / 20)
    neighbour = put(db, "of the fifth")
    link(db, best[4], neighbour)
    link(db, neighbour, put(db, "two steps away"))
    link(db, best[5], put(db, "of the sixth"))
    found = bodies(asked(db, graph="always"))
    # Ten for a parent, the best ones; one step; the best five hits are parents.
    assert {body for body in found if body.startswith("n")} == {f"n{n:02}" for n in range(5, 15)}
    assert "of the fifth" in found
    assert not {"of the sixth", "two steps away"} & set(found)
    assert len(asked(db, graph="always", k=7)) == 7


@pytest.mark.covers("ME17", "ME21")
def test_the_arm_of_names_needs_a_name_and_only_finds(db: Connection) -> None:
    put(db, "Lunch at one.", ref="named", entities=["Mei Lin"])
    put(db, "The queue of lunches.", ref="words")
    assert "pointer" not in explain(db, "w", "queue")["arms"]
    assert asked(db, "queue", mode="auto", arms=["pointer"]) == []
    trace = explain(db, "w", "queue of mei lin", mode="auto", arms=["lexical", "pointer"])
    assert trace["arms"]["pointer"]["found"] == 1
    # It brings a candidate; by itself it lifts none above a match of the question's words.
    assert [hit["ref"] for hit in trace["hits"]][:1] == ["words"]
    assert trace["weights"]["pointer"] == 0
