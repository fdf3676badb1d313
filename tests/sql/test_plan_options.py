"""What a caller may ask of a plan: thresholds, limits, scopes, settings; and what is refused."""

from __future__ import annotations

from typing import Any

import psycopg
import pytest

from tests.support.memories import Connection, refused, value
from tests.support.planner import call, plan, providers, put_provider, put_topic, titles

W = "w"


def fill_orchard(db: Connection) -> Connection:
    put_topic(
        db, W, "Orchard harvest festival", aliases=["apple party"], tags=["cider", "autumn"],
        summary="When pears ripen on the hill",
    )  # fmt: skip
    return db


@pytest.fixture
def orchard(db: Connection) -> Connection:
    return fill_orchard(db)


@pytest.fixture(scope="module")
def file_orchard(file_db: Connection) -> Connection:
    return fill_orchard(file_db)


@pytest.mark.covers("RP23", "RP55")
def test_the_defaults_are_the_documented_ones(db: Connection) -> None:
    defaults = value(db, "select remem._plan_defaults()")
    assert defaults == {
        "minimum_confidence": 0.42, "max_topics": 3, "limit": 8, "query_chars": 2000,
        "catalog_bytes": 600, "catalog_limit": 2000, "semantic": True,
        "deterministic_high_confidence": 0.82, "continuity": True, "continuity_confidence": 0.62,
        "continuity_boost": 0.10, "unresolved_boost": 0.16, "title_phrase": 0.96,
        "alias_phrase": 0.91, "title_overlap": 0.76, "alias_overlap": 0.70, "tag_overlap": 0.52,
        "summary_base": 0.20, "summary_token": 0.10, "summary_most": 0.38,
        "multilingual": False, "memories": True, "memory_coverage": 0.5,
        "memory_word_coverage": 0.75,
    }  # fmt: skip
    options = value(db, "select remem._plan_options()")
    assert {k: v["default"] for k, v in options.items() if v["default"] is not None} == defaults
    assert set(options) - set(defaults) == {
        "semantic_minimum_similarity", "memory_similarity", "memory_explained_similarity",
        "memory_clear_similarity", "memory_support", "memory_belongs", "supported_similarity",
        "joined_similarity",
    }  # fmt: skip
    assert plan(db, W, "x")["signals"]["semantic"]["minimum"] == 0.55


@pytest.mark.covers("RP23")
@pytest.mark.parametrize(
    ("prompt", "options", "confidence"),
    [
        ("Orchard harvest festival", {"title_phrase": 0.5}, 0.76),
        ("apple party", {"alias_phrase": 0.8}, 0.8),
        ("harvest", {"title_overlap": 0.9}, 0.3),
        ("apple", {"alias_overlap": 0.9}, 0.45),
        ("cider", {"tag_overlap": 0.9}, 0.45),
        ("pears", {"summary_base": 0.3}, 0.4),
        ("pears", {"summary_token": 0.3}, 0.5),
        ("pears ripen hill", {"summary_most": 0.1}, 0.3),
        ("pears again", {"continuity_boost": 0.2}, 0.5),
        ("nothing again", {"continuity_confidence": 0.5}, 0.5),
        ("nothing again", {"continuity": False}, 0),
    ],
)
def test_every_signal_has_its_weight(
    file_orchard: Connection, prompt: str, options: dict[str, Any], confidence: float
) -> None:
    found = plan(file_orchard, W, prompt, semantic=False, **options)
    assert found["confidence"] == pytest.approx(confidence, abs=1e-4)


@pytest.mark.covers("RP23")
def test_the_limits_of_a_plan(orchard: Connection) -> None:
    assert plan(orchard, W, "harvest", semantic=False)["stage"] == "none"
    found = plan(orchard, W, "harvest " + "x" * 500, semantic=False, minimum_confidence=0.2,
                 limit=5, query_chars=100)  # fmt: skip
    assert found["stage"] == "deterministic"
    assert found["requests"][0]["limit"] == 5
    assert len(found["requests"][0]["query"]) == 100
    put_provider(orchard, W, "postgres", result_limit=2)
    limited = plan(orchard, W, "apple party", limit=5)
    assert limited["requests"][0]["limit"] == 2


@pytest.mark.covers("RP23")
def test_settings_of_call_workspace_space_and_database_in_this_order(orchard: Connection) -> None:
    def put(workspace: str | None, number: int | None, space: str | None = None) -> None:
        call(
            orchard,
            "put_plan_setting",
            workspace=workspace,
            name="limit",
            value=None if number is None else str(number),
            space=space,
        )

    def limit(**options: int) -> int:
        return int(plan(orchard, W, "apple party", **options)["requests"][0]["limit"])

    assert limit() == 8
    put(None, 20)
    assert limit() == 20
    put(None, 30, "hash")
    assert limit() == 30
    put(W, 40)
    assert limit() == 40
    put(W, 50, "hash")
    assert limit() == 50
    assert limit(limit=60) == 60
    put("other", 70)
    assert limit() == 50
    put(W, None, "hash")
    put(W, None)
    assert limit() == 30


@pytest.mark.covers("RP23")
@pytest.mark.parametrize(
    ("code", "argument", "options"),
    [
        ("RM002", "minimumConfidence", {"minimumConfidence": 0.3}),
        ("RM002", "context.team", {"context": {"team": "x"}}),
        ("RM001", "minimum_confidence", {"minimum_confidence": "high"}),
        ("RM001", "minimum_confidence", {"minimum_confidence": 1.1}),
        ("RM001", "max_topics", {"max_topics": 0}),
        ("RM001", "max_topics", {"max_topics": 2.5}),
        ("RM001", "limit", {"limit": 101}),
        ("RM001", "limit", {"limit": True}),
        ("RM001", "catalog_bytes", {"catalog_bytes": -1}),
        ("RM001", "catalog_limit", {"catalog_limit": 9}),
        ("RM001", "query_chars", {"query_chars": 10**9}),
        ("RM001", "semantic", {"semantic": "yes"}),
        ("RM001", "semantic_minimum_similarity", {"semantic_minimum_similarity": [0.5]}),
        ("RM001", "context", {"context": "project"}),
        ("RM001", "context.project", {"context": {"project": 7}}),
        ("RM001", "context.project", {"context": {"project": [None]}}),
        ("RM001", "providers", {"providers": "notes"}),
        ("RM001", "providers", {"providers": ["x"] * 101}),
        ("RM001", "space", {"space": 1}),
    ],
)
def test_an_option_that_cannot_be_used_is_refused_by_name(
    file_orchard: Connection, code: str, argument: str, options: dict[str, Any]
) -> None:
    key = "option" if code == "RM002" else "argument"
    with refused(code, **{key: argument}):
        plan(file_orchard, W, "apple party", **options)


@pytest.mark.parametrize("options", ["[]", '"x"', "7", "null"])
def test_options_are_an_object(db: Connection, options: str) -> None:
    with refused("RM001", argument="options"):
        value(db, "select remem.plan('w', 'x', null, %s::jsonb)", [options])


def test_a_null_option_is_as_good_as_none(file_orchard: Connection) -> None:
    plain = plan(file_orchard, W, "apple party")
    nulls = plan(
        file_orchard, W, "apple party", limit=None, context=None, providers=None, space=None
    )
    assert nulls["requests"] == plain["requests"]


@pytest.mark.parametrize(
    ("code", "argument", "name", "given"),
    [
        ("RM002", "context", "context", "{}"),
        ("RM002", "speed", "speed", "1"),
        ("RM001", "limit", "limit", "0"),
        ("RM001", "semantic", "semantic", "1"),
    ],
)
def test_a_setting_that_cannot_be_used_is_refused_by_name(
    db: Connection, code: str, argument: str, name: str, given: str
) -> None:
    with refused(code, **{"option" if code == "RM002" else "argument": argument}):
        call(db, "put_plan_setting", workspace=W, name=name, value=given)
    with refused("RM202", space="nowhere"):
        call(db, "put_plan_setting", workspace=W, name="limit", value="3", space="nowhere")


def test_topics_of_a_scope_need_the_active_context(db: Connection) -> None:
    put_topic(db, W, "Orchard gate")
    put_topic(db, W, "Orchard wall", scope="workspace")
    put_topic(db, W, "Orchard plan", scope="project", scope_ref="hill")
    put_topic(db, W, "Orchard vale", scope="project", scope_ref="valley")
    put_topic(db, W, "Orchard chat", scope="session", scope_ref="hill")
    put_topic(db, W, "Orchard taste", scope="user", scope_ref="ann")

    def seen(**options: Any) -> set[str]:
        found = plan(db, W, "the Orchard", max_topics=50, minimum_confidence=0.3, **options)
        text = found["catalog"]["text"]
        assert set(titles(found)) == {
            name for name in known if name in str(plan(db, W, "x", catalog_bytes=9999, **options))
        }
        assert text
        return {t.removeprefix("Orchard ") for t in titles(found)}

    known = [f"Orchard {n}" for n in ("gate", "wall", "plan", "vale", "chat", "taste")]
    assert seen() == {"gate", "wall"}
    assert seen(context={"project": "hill"}) == {"gate", "wall", "plan"}
    assert seen(context={"project": ["hill", "valley"]}) == {"gate", "wall", "plan", "vale"}
    assert seen(context={"session": "hill", "user": None}) == {"gate", "wall", "chat"}
    assert seen(context={"user": "ann"}) == {"gate", "wall", "taste"}
    assert seen(context={"user": "Ann", "project": "hil"}) == {"gate", "wall"}
    assert seen(context={"user": "a' or '1'='1", "project": ["%", ""]}) == {"gate", "wall"}


def test_only_providers_that_can_be_asked_are_asked(db: Connection) -> None:
    put_provider(db, W, "notes")
    put_provider(db, W, "off", enabled=False)
    put_topic(db, W, "Orchard", providers=["notes", "off", "undescribed"])
    assert providers(plan(db, W, "Orchard")) == ["notes", "undescribed"]
    assert plan(db, W, "Orchard")["degraded"] == ["provider_unavailable:off"]
    assert providers(plan(db, W, "Orchard", providers=["undescribed"])) == ["undescribed"]
    last = plan(db, W, "last time", providers=["notes", "mine", "off"])
    assert providers(last) == ["notes", "mine"]
    nobody = plan(db, W, "last time", providers=[])
    assert (nobody["shouldRetrieve"], nobody["stage"]) == (False, "none")


@pytest.mark.parametrize(
    ("argument", "given"),
    [
        ("provider_id", {"provider_id": ""}),
        ("provider_id", {"provider_id": "x" * 201}),
        ("provider_id", {"provider_id": "a\nb"}),
        ("result_limit", {"result_limit": 0}),
        ("enabled", {"provider_id": "postgres", "enabled": False}),
    ],
)
def test_what_cannot_be_a_provider_is_refused_by_name(
    db: Connection, argument: str, given: dict[str, Any]
) -> None:
    with refused("RM001", argument=argument):
        put_provider(db, W, **{"provider_id": "notes", **given})


# -- the prompt ------------------------------------------------------------------------------------


def test_a_prompt_is_needed_and_bounded(file_orchard: Connection) -> None:
    with refused("RM001", argument="query"):
        plan(file_orchard, W, None)
    with refused("RM003", argument="query"):
        plan(file_orchard, W, "x" * 1048577)


def test_a_large_prompt_is_looked_at_from_both_ends(file_orchard: Connection) -> None:
    filler = "lorem ipsum dolor " * 58_000
    for prompt in ("apple party " + filler, filler + " apple party"):
        found = plan(file_orchard, W, prompt)
        assert (found["stage"], titles(found)) == ("deterministic", ["Orchard harvest festival"])
        assert found["degraded"] == ["prompt_truncated"]
        assert len(found["requests"][0]["query"]) <= 2000
        assert found["trace"]["timings"]["total"] < 1000


HOSTILE = [
    "'; drop schema remem; --",
    "\\u0000 \\x00",
    "$1 %s %I",
    "\u202e",
    "\x01\x7f",
    "a" * 5000,
]


@pytest.mark.parametrize("prompt", HOSTILE)
def test_any_text_is_a_prompt(file_orchard: Connection, prompt: str) -> None:
    assert plan(file_orchard, W, prompt)["stage"] == "none"


# -- reading only ----------------------------------------------------------------------------------


def test_a_plan_reads_only_and_leaves_no_setting(orchard: Connection) -> None:
    before = orchard.execute("select name, setting from pg_settings order by 1").fetchall()
    with orchard.transaction():
        orchard.execute("set transaction read only")
        assert plan(orchard, W, "apple party")["stage"] == "deterministic"
        assert plan(orchard, W, "apples")["trace"]["semanticAttempted"] is True
    after = orchard.execute("select name, setting from pg_settings order by 1").fetchall()
    assert before == after


def test_a_cancelled_plan_is_cancelled(orchard: Connection) -> None:
    with orchard.transaction():
        orchard.execute("lock table remem.topic_embedding in access exclusive mode")
        with psycopg.connect(orchard.info.dsn, autocommit=True) as other:
            other.execute("set statement_timeout = '200ms'")
            with pytest.raises(psycopg.errors.QueryCanceled):
                plan(other, W, "apples")


def test_the_trace_says_what_was_looked_at(file_orchard: Connection) -> None:
    trace = plan(file_orchard, W, "apple harvest")["trace"]
    assert (trace["catalogEntries"], trace["space"]) == (1, "hash")
    assert [set(m) for m in trace["catalogMatches"]] == [{"id", "title", "score", "signal"}]
    assert set(trace["timings"]) == {
        "open", "catalog", "deterministic", "semantic", "memories", "total"
    }  # fmt: skip


def test_the_same_plan_twice(file_orchard: Connection) -> None:
    for prompt in ("apple party", "last time", "apples", "cider and pears"):
        first, second = (plan(file_orchard, W, prompt) for _ in range(2))
        for found in (first, second):
            del found["trace"]["timings"]
        assert first == second
