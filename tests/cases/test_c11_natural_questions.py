"""C11: a natural question finds the memory that shares a few of its words."""

from __future__ import annotations

import pytest

from tests.support.memories import Connection, recall, remember_many

MEMORIES = [
    "We decided to page the on-call engineer after three failed retries.",
    "The invoices are sent on the first working day of the month.",
    "Login tokens expire after twenty minutes without activity.",
    "Backups are copied to the second region every night.",
    "The search index is rebuilt when the schema changes.",
]
QUESTIONS = {
    "hey can you maybe tell me when exactly it was that we send the invoices out each month": 1,
    "I was wondering how many failed attempts or retries it takes until an engineer is paged": 0,
    "after how many minutes of no activity at all do all of those login tokens become useless": 2,
    "is there anybody who knows to which other region the nightly backups are being copied": 3,
    "what is it that has to happen to the schema before somebody rebuilds the whole index": 4,
}


@pytest.mark.parametrize("question", QUESTIONS)
@pytest.mark.parametrize("mode", ["auto", "lexical"])
def test_a_question_of_fifteen_words_finds_its_memory_first(
    db: Connection, question: str, mode: str
) -> None:
    assert len(question.split()) >= 15
    remember_many(db, "w", [{"body": body} for body in MEMORIES])
    assert recall(db, "w", question, mode=mode)[0].body == MEMORIES[QUESTIONS[question]]
