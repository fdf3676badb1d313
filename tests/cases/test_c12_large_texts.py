"""C12: a memory of 2 MB and one of 60,000 distinct tokens: stored whole, found by their words."""

from __future__ import annotations

from tests.support.memories import Connection, get, recall, remember


def test_a_memory_of_two_megabytes_is_stored_whole_and_found(db: Connection) -> None:
    lines = [f"line {n % 900} of the log says nothing new\n" for n in range(52_000)]
    lines[26_000] = "the pelican incident\n"
    body = "".join(lines)
    assert len(body) > 2 * 1024 * 1024 * 0.9
    remember(db, "w", "A short note about gardens.")
    ref = remember(db, "w", body)
    assert get(db, "w", memory_id=ref.memory_id).body == body
    for mode in ("auto", "lexical"):
        assert recall(db, "w", "log line 899", mode=mode)[0].memory_id == ref.memory_id


def test_a_word_behind_the_stated_limit_is_not_searched_and_one_before_it_is(
    db: Connection,
) -> None:
    limit_row = db.execute("select remem._lexeme_limit()").fetchone()
    assert limit_row is not None
    limit = limit_row[0]
    body = "again " * (limit - 1) + "zanzibar " + "pelican"
    ref = remember(db, "w", body)
    assert [h.memory_id for h in recall(db, "w", "zanzibar", mode="lexical")] == [ref.memory_id]
    assert recall(db, "w", "pelican", mode="lexical") == []
    assert get(db, "w", memory_id=ref.memory_id).body == body


def test_sixty_thousand_distinct_tokens_are_found_by_any_of_them(db: Connection) -> None:
    ref = remember(db, "w", " ".join(f"t{n:x}k" for n in range(60_000)))
    for n in (0, 30_000, 59_999):
        hits = recall(db, "w", f"t{n:x}k", mode="lexical")
        assert [hit.memory_id for hit in hits] == [ref.memory_id]
