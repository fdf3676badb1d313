"""C33: the same fact in many sessions comes back once, with every reference reachable."""

from __future__ import annotations

import pytest

from tests.support.memories import Connection, get, recall, remember, remember_many


@pytest.mark.covers("RP36")
@pytest.mark.parametrize("mode", ["auto", "lexical", "vector"])
@pytest.mark.parametrize("copies", [2, 13, 120])
def test_a_fact_said_in_many_sessions_is_one_hit_with_all_references(
    db: Connection, mode: str, copies: int
) -> None:
    refs = remember_many(
        db,
        "w",
        [
            {"body": "The staging database is heron.", "session_ref": f"s{n}",
             "source_ref": f"chat:{n}"}
            for n in range(copies)
        ],
    )  # fmt: skip
    remember_many(db, "w", [{"body": f"Note {n} about databases."} for n in range(10)])
    hits = recall(db, "w", "what is the staging database?", k=8, mode=mode)
    assert len(hits) == 8
    same = [hit for hit in hits if hit.body == "The staging database is heron."]
    assert len(same) == 1
    reached = {str(same[0].memory_id), *(d["memory_id"] for d in same[0].duplicates)}
    assert reached == {str(ref.memory_id) for ref in refs}
    for duplicate in same[0].duplicates:
        memory = get(db, "w", memory_id=duplicate["memory_id"])
        assert (memory.session_ref, memory.source_ref) == (
            duplicate["session_ref"],
            duplicate["source_ref"],
        )


@pytest.mark.covers("RP37")
@pytest.mark.parametrize("sources", [2, 13])
def test_a_fact_merged_as_it_was_written_keeps_every_source(db: Connection, sources: int) -> None:
    for n in range(sources):
        remember(db, "w", "The staging database is heron.", source_ref=f"wiki:{n}")
    (hit,) = recall(db, "w", "what is the staging database?")
    named = [hit.source_ref, *(copy["source_ref"] for copy in hit.duplicates)]
    assert named == [f"wiki:{n}" for n in range(sources)]
    assert {copy["memory_id"] for copy in hit.duplicates} == {str(hit.memory_id)}


@pytest.mark.covers("RP36", "RP38")
@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("build 41 failed", "build 42 failed"),
        ("Version 2.1 is out.", "Version 2.10 is out."),
        ("It cost 5 euros.", "It cost -5 euros."),
        ("It took 0.5 s.", "It took 05 s."),
        ("Room ４１ is free.", "Room 42 is free."),
    ],
)
def test_texts_that_differ_in_a_number_are_two(db: Connection, one: str, other: str) -> None:
    remember(db, "w", one)
    remember(db, "w", other)
    hits = recall(db, "w", one)
    assert {hit.body for hit in hits} == {one, other}
    assert {hit.duplicates for hit in hits} == {None}
