"""The deterministic rewrite of a question, asked for by name."""

from __future__ import annotations

import pytest

from tests.support.memories import Connection, explain, recall, remember


@pytest.mark.covers("MN4", "ME5")
def test_the_statement_of_a_question_is_searched_beside_it(db: Connection) -> None:
    remember(db, "w", "Ann visited Rome in spring.", ref="rome")
    remember(db, "w", "The bakery opens at seven.", ref="bakery")
    query = "When did Ann visit Rome?"
    plain = explain(db, "w", query)
    expanded = explain(db, "w", query, expanded="statement")
    assert expanded["query"]["statement"] == "Ann visit Rome"
    assert expanded["query"]["terms"] == plain["query"]["terms"]
    assert expanded["hits"][0]["ref"] == "rome"
    # The vector of the statement counts where it is nearer than that of the question.
    nearer = expanded["hits"][0]["signals"]["cosine"]
    assert nearer >= plain["hits"][0]["signals"]["cosine"]


@pytest.mark.parametrize("query", ["?", "the", "Ann visits Rome", "what"])
def test_a_question_without_a_statement_is_asked_as_it_is(db: Connection, query: str) -> None:
    remember(db, "w", "Ann visited Rome in spring.", ref="rome")
    plain = recall(db, "w", query)
    assert recall(db, "w", query, expanded="statement") == plain


def test_another_word_is_no_expansion(db: Connection) -> None:
    with pytest.raises(Exception, match="RM001") as refused:
        recall(db, "w", "Ann", expanded="hyde")
    assert getattr(refused.value, "sqlstate", None) == "RM001"
