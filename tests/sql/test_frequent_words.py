"""The statistic of frequent words: when it is made, when recall believes it, and that it agrees."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.server import Server
from tests.support.databases import filled, owner
from tests.support.memories import Connection, value

MEMORIES = 6000


@pytest.fixture(scope="module")
def words(server: Server) -> Iterator[Connection]:
    """6,000 memories: every third holds w3, every tenth w10, every fiftieth w50."""

    def fill(db: Connection) -> None:
        db.execute("select remem.create_workspace('w'), remem.create_workspace('other')")
        for every in (3, 10, 50):
            db.execute(
                "insert into remem.posting (workspace_key, word, memory_no, doc_len, tf)"
                " select remem._workspace_key(w), remem._word(%s), n, 9, 1"
                " from generate_series(1, %s) n,"
                " unnest(array['w', 'other']) w where n %% %s = 0",
                [f"w{every}", MEMORIES, every],
            )
        db.execute(
            "insert into remem.tally (workspace, space_no, rows_delta, doc_len_delta)"
            " values ('w', 0, %s, 9), ('other', 0, 4999, 9)",
            [MEMORIES],
        )

    with filled(server, fill) as name, owner(server, name) as conn:
        yield conn


def frequencies(db: Connection, query: str, documents: int, counted: int | None) -> dict[str, int]:
    row = db.execute(
        "select lexemes, frequencies from remem._query_terms('w', %s,"
        " remem._language_dictionaries('english'), %s, %s, 1000)",
        [query, documents, counted],
    ).fetchone()
    assert row is not None
    assert row[1] == sorted(row[1])
    return dict(zip(*row, strict=True))


def test_only_frequent_words_of_large_workspaces_are_kept(words: Connection) -> None:
    with words.transaction(force_rollback=True):
        assert value(words, "select remem.count_words('w')") == 2
        assert value(words, "select remem.count_words('other')") is None
        assert value(words, "select remem.count_words('nowhere')") is None
        kept = words.execute(
            "select w.workspace, l, f.memories from remem.frequent_word f"
            " join remem.workspace w using (workspace_key)"
            " left join unnest(array['w3', 'w10', 'w50']) l on f.word = remem._word(l)"
        )
        assert set(kept) == {("w", "w3", MEMORIES // 3), ("w", "w10", MEMORIES // 10)}


def test_frequencies_are_the_same_read_and_counted_and_exact_beyond_the_cap(
    words: Connection,
) -> None:
    exact = {"w3": MEMORIES // 3, "w10": MEMORIES // 10, "w50": MEMORIES // 50, "nowher": 0}
    with words.transaction(force_rollback=True):
        words.execute("select remem.count_words('w')")
        assert frequencies(words, "w3 w10 w50 nowhere", MEMORIES, MEMORIES) == exact
        counted = frequencies(words, "w10 w50 nowhere", MEMORIES, None)
        assert counted == {word: n for word, n in exact.items() if word != "w3"}


def test_a_statistic_grows_with_the_workspace(words: Connection) -> None:
    with words.transaction(force_rollback=True):
        words.execute("select remem.count_words('w')")
        assert frequencies(words, "w3", 7200, MEMORIES)["w3"] == 2400


@pytest.mark.parametrize("documents", [4000, 9000])
def test_after_a_quarter_has_changed_words_are_counted_again(
    words: Connection, documents: int
) -> None:
    with words.transaction(force_rollback=True):
        words.execute("select remem.count_words('w')")
        assert value(words, "select remem.count_words('w')") is None
        words.execute("update remem.frequent_word set memories = 1")
        assert frequencies(words, "w10", MEMORIES, MEMORIES)["w10"] == 1
        assert frequencies(words, "w10", documents, MEMORIES)["w10"] == MEMORIES // 10
        words.execute(
            "insert into remem.tally (workspace, space_no, rows_delta, doc_len_delta)"
            " values ('w', 0, %s, 0)",
            [documents - MEMORIES],
        )
        remade = value(words, "select remem.count_words('w')")
        assert remade == (0 if documents < 5000 else 2)
        assert value(words, "select words_counted from remem.workspace where workspace = 'w'") == (
            None if documents < 5000 else documents
        )


def test_recall_reads_the_statistic(words: Connection) -> None:
    """As prepared by recall itself: the workspace's own count decides."""
    asked = (
        "select (remem._prepare_query(w, remem._space(w.space_no), 'w10', null,"
        " remem._default_options(), '{lexical}', null)).prepared from remem.workspace w"
        " where w.workspace = 'w'"
    )
    with words.transaction(force_rollback=True):
        words.execute("select remem.count_words('w')")
        words.execute(
            "update remem.frequent_word set memories = 77 where word = remem._word('w10')"
        )
        assert value(words, f"select (p.prepared).frequencies from ({asked}) p") == [77]


def test_a_dropped_workspace_leaves_no_words(words: Connection) -> None:
    with words.transaction(force_rollback=True):
        words.execute("select remem.count_words('w')")
        words.execute("select remem.drop_workspace('w')")
        assert value(words, "select count(*) from remem.frequent_word") == 0
