"""set_language and reindex_text: what is stored, what recall says meanwhile, and what is left."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.consistency import problems
from tests.support.lifecycle import change
from tests.support.memories import (
    Connection,
    bodies,
    recall,
    refused,
    remember,
    remember_many,
    value,
)

GERMAN = [
    "Die Rechnungen werden am Monatsende verschickt.",
    "Der Server wurde nach Frankfurt umgezogen.",
    "Wir haben drei Versuche vereinbart, dann wird gerufen.",
]


def set_language(db: Connection, language: str | None, workspace: str = "w") -> bool:
    return bool(value(db, "select remem.set_language(%s, %s)", [workspace, language]))


def reindex(db: Connection, budget: str = "10 seconds", workspace: str = "w") -> dict[str, Any]:
    return dict(
        value(db, "select to_jsonb(remem.reindex_text(%s, %s::interval))", [workspace, budget])
    )


def text_index(db: Connection, workspace: str = "w") -> str:
    return str(
        value(
            db,
            "select text_index from remem.list_workspaces() where workspace = %s",
            [workspace],
        )
    )


def degraded(db: Connection, query: str = "Rechnung") -> list[str]:
    return list(value(db, "select remem.recall_explain('w', %s) -> 'degraded'", [query]))


def fill(db: Connection, copies: int = 1) -> None:
    items = [
        {"body": f"{body} {n}" if n else body, "session_ref": f"s{n % 3}" if n % 2 else None}
        for n in range(copies)
        for body in GERMAN
    ]
    remember_many(db, "w", [{k: v for k, v in item.items() if v} for item in items])


def test_a_change_of_language_makes_inflected_words_meet(db: Connection) -> None:
    fill(db)
    assert recall(db, "w", "Rechnung", mode="lexical") == []
    assert set_language(db, "german")
    assert degraded(db) == ["analyser_mix"]
    assert text_index(db) == "mixed"
    report = reindex(db)
    assert (report["done"], report["reindexed"], report["progress"]) == (True, 3, 1)
    assert report["language"] == "german"
    assert bodies(recall(db, "w", "Rechnung", mode="lexical")) == [GERMAN[0]]
    assert degraded(db) == []
    assert text_index(db) == "current"
    assert problems(db) == []


def test_the_same_language_again_changes_nothing(db: Connection) -> None:
    fill(db)
    assert not set_language(db, "english")
    assert reindex(db)["run_id"] is None
    assert set_language(db, "german")
    reindex(db)
    assert not set_language(db, "german")
    assert text_index(db) == "current"


def test_what_is_written_after_the_change_is_of_the_new_language_at_once(db: Connection) -> None:
    fill(db)
    set_language(db, "german")
    remember(db, "w", "Alle Rechnungen sind bezahlt.")
    assert bodies(recall(db, "w", "Rechnung", mode="lexical")) == ["Alle Rechnungen sind bezahlt."]
    assert reindex(db)["reindexed"] == 3
    assert problems(db) == []


def test_an_empty_or_new_workspace_needs_no_job(db: Connection) -> None:
    assert set_language(db, "german", "new")
    assert text_index(db, "new") == "current"
    assert value(db, "select language from remem.workspace where workspace = 'new'") == "german"
    assert reindex(db, workspace="new") == {
        "done": True,
        "reindexed": 0,
        "progress": 1,
        "language": "german",
        "analyser": value(db, "select analyser from remem.workspace where workspace = 'new'"),
        "run_id": None,
    }
    assert reindex(db, workspace="nowhere")["done"]


@pytest.mark.parametrize("language", ["klingon", "", None, "english; drop table", "pg_catalog."])
def test_an_unknown_language_is_refused_and_changes_nothing(
    db: Connection, language: str | None
) -> None:
    fill(db)
    with refused("RM001", argument="language"):
        set_language(db, language)
    assert text_index(db) == "current"
    with refused("RM001", argument="language"):
        set_language(db, language, "never")
    assert value(db, "select count(*) from remem.workspace") == 1


@pytest.mark.parametrize("budget", ["0", "-1 second", "2 hours", None])
def test_a_budget_has_bounds(db: Connection, budget: str | None) -> None:
    with refused("RM001", argument="budget"):
        db.execute("select remem.reindex_text('w', %s::interval)", [budget])


def test_every_language_of_the_server_can_be_set(db: Connection) -> None:
    fill(db)
    for (name,) in db.execute("select cfgname from pg_ts_config order by 1").fetchall():
        set_language(db, name)
        reindex(db)
        assert text_index(db) == "current"
        assert bodies(recall(db, "w", "Frankfurt", mode="lexical")) == [GERMAN[1]], name
    assert problems(db) == []


@pytest.mark.parametrize("language", ["german", "simple", "russian", "english"])
def test_cjk_is_found_by_two_characters_in_any_language(db: Connection, language: str) -> None:
    set_language(db, language)
    remember_many(
        db, "w", [{"body": "我们把支付网关迁移到了新加坡"}, {"body": "결제 서버는 재시작"}]
    )
    assert bodies(recall(db, "w", "网关", mode="lexical")) == ["我们把支付网关迁移到了新加坡"]
    assert bodies(recall(db, "w", "서버", mode="lexical")) == ["결제 서버는 재시작"]


def test_a_small_budget_does_a_part_and_the_next_calls_the_rest(db: Connection) -> None:
    fill(db, 100)
    set_language(db, "german")
    done, calls, parts = 0, 0, []
    while True:
        report = reindex(db, "1 millisecond")
        done += report["reindexed"]
        calls += 1
        parts.append(report["progress"])
        if report["done"]:
            break
        assert 0 < report["reindexed"] < 300
        assert degraded(db) == ["analyser_mix"]
    assert calls > 2
    assert done == 300
    assert parts == sorted(parts)
    assert problems(db) == []
    runs = db.execute("select kind, state, embedded, space from remem.embedding_runs('w')")
    assert runs.fetchall() == [("text-reindex", "completed", 300, None)]


def test_a_change_in_the_middle_begins_anew_and_ends_the_run(db: Connection) -> None:
    fill(db, 60)
    set_language(db, "german")
    assert not reindex(db, "1 millisecond")["done"]
    assert set_language(db, "french")
    while not reindex(db)["done"]:
        pass
    assert value(db, "select count(distinct analyser_no) from remem.memory") == 1
    assert problems(db) == []
    states = db.execute(
        "select state, last_error from remem.embedding_runs('w') order by started_at"
    ).fetchall()
    assert states == [("failed", "the analysis changed again"), ("completed", None)]


def test_past_versions_are_analysed_anew_for_as_of(db: Connection) -> None:
    remember(db, "w", "Die Rechnungen gehen monatlich raus.", ref="r")
    moment = value(db, "select clock_timestamp()")
    remember(db, "w", "Die Belege gehen jährlich raus.", ref="r")
    remember(db, "w", "Gelöschte Rechnungen.", ref="gone")
    change(db, "forget", "w", ref="gone")
    set_language(db, "german")
    assert reindex(db)["reindexed"] == 3
    then = recall(db, "w", "Rechnung", mode="lexical", as_of=moment.isoformat())
    assert bodies(then) == ["Die Rechnungen gehen monatlich raus."]
    assert problems(db) == []
    change(db, "unforget", "w", ref="gone")
    assert bodies(recall(db, "w", "Rechnung", mode="lexical")) == ["Gelöschte Rechnungen."]
    assert problems(db) == []


def test_a_memory_that_comes_back_in_the_middle_is_of_the_new_language(db: Connection) -> None:
    fill(db, 60)
    remember(db, "w", "Die letzte Rechnung.", ref="late")
    change(db, "forget", "w", ref="late")
    set_language(db, "german")
    reindex(db, "1 millisecond")
    change(db, "unforget", "w", ref="late")
    hits = recall(db, "w", "letzten Rechnungen", mode="lexical", k=1)
    assert bodies(hits) == ["Die letzte Rechnung."]
    while not reindex(db)["done"]:
        pass
    assert problems(db) == []


def test_an_upgrade_of_the_analysis_is_flagged_and_repaired(db: Connection) -> None:
    """As a server of another major version or other rules of ours left it."""
    fill(db, 3)
    db.execute("update remem.workspace set analyser = 'english/0/pg9'")
    db.execute("update remem.memory set lexemes = array['old'] where session_no is not null")
    db.execute("delete from remem.posting where session_no is not null")
    db.execute(
        "insert into remem.posting (workspace_key, word, memory_no, session_no, doc_len, tf)"
        " select remem._workspace_key(workspace), remem._word('old'), memory_no, session_no, 1, 1"
        " from remem.memory"
        " where session_no is not null"
    )
    db.execute("delete from remem.memory_entity")
    assert text_index(db) == "outdated"
    assert degraded(db) == ["analyser_mix"]
    remember(db, "w", "Written between the upgrade and the job.")
    while not reindex(db)["done"]:
        pass
    assert text_index(db) == "current"
    assert degraded(db) == []
    assert problems(db) == []


def test_answers_of_a_cache_do_not_outlive_a_change(db: Connection) -> None:
    fill(db)

    def asked() -> Any:
        return db.execute(
            "select r ->> 'tier', r -> 'degraded', jsonb_array_length(r -> 'hits')"
            " from remem.recall_cached('w', 'Rechnung', options => '{\"mode\": \"lexical\"}') r"
        ).fetchone()

    assert asked() == ("cold", [], 0)
    assert asked() == ("hot", [], 0)
    set_language(db, "german")
    assert asked() == ("cold", ["analyser_mix"], 0)
    reindex(db)
    assert asked() == ("cold", [], 1)


def test_lists_of_workspaces_are_read_page_by_page(db: Connection) -> None:
    for name in ("b", "a", "B", "字"):
        db.execute("select remem.create_workspace(%s)", [name])
    remember(db, "a", "x")
    rows = db.execute(
        "select workspace, language, space, memories from remem.list_workspaces()"
    ).fetchall()
    assert rows == [
        ("B", "english", "hash", 0),
        ("a", "english", "hash", 1),
        ("b", "english", "hash", 0),
        ("字", "english", "hash", 0),
    ]
    page = db.execute("select workspace from remem.list_workspaces('a', 1)").fetchall()
    assert page == [("b",)]
    with refused("RM001", argument="limit"):
        db.execute("select * from remem.list_workspaces(null, 0)")


def test_a_statistic_of_the_words_of_before_is_not_used(db: Connection) -> None:
    fill(db, 60)
    counted = "update remem.workspace set words_counted = 180"
    kept = "select words_counted from remem.workspace"
    db.execute(counted)
    set_language(db, "german")
    assert value(db, kept) is None
    assert not reindex(db, "1 millisecond")["done"]
    db.execute(counted)  # maintain counts in the middle of it
    while not reindex(db)["done"]:
        assert value(db, kept) == 180
    assert value(db, kept) is None
