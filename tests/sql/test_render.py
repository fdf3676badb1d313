"""Hits as text: three formats, never a byte over the budget."""

from __future__ import annotations

import json
from typing import Any
from uuid import UUID

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from psycopg.types.json import Jsonb

from tests.support.memories import Connection, refused, remember, value

FORMATS = ["compact", "verbose", "json"]
HITS = "array(select h from jsonb_populate_recordset(null::remem.recall_hit, %s) h)"


def render(conn: Connection, hits: list[dict[str, Any]], form: str, budget: int = 4000) -> str:
    query = f"select remem.render('acme', {HITS}, %s, %s)"
    return str(value(conn, query, [Jsonb(hits), form, budget]))


def hit(rank: int, body: str, **fields: Any) -> dict[str, Any]:
    return {
        "rank": rank,
        "memory_id": str(UUID(int=rank)),
        "kind": "semantic",
        "body": body,
        "score": 0.5,
        "relevance": 0.25,
        "signals": {"cosine": 0.5},
        "arms": ["vector", "lexical"],
        **fields,
    }


@pytest.mark.covers("MN16")
def test_a_recall_renders_from_sql_in_one_statement(db: Connection) -> None:
    remember(db, "acme", "We retry three times, then page.", kind="decision", title="Retries")
    query = """
        select remem.render('acme', array(select h from remem.recall('acme', 'retry') h), %s)
    """
    assert (
        value(db, query, ["compact"]) == "decision:\n[1] Retries: We retry three times, then page."
    )
    assert "We retry three times" in value(db, query, ["verbose"])
    said = json.loads(value(db, query, ["json"]))
    assert (said["omitted"], said["hits"][0]["title"]) == (0, "Retries")


@pytest.mark.covers("MN16")
def test_compact_groups_by_kind_one_line_a_hit(db: Connection) -> None:
    hits = [
        hit(1, "Retry\nthree\ttimes.", kind="decision", title="Retries"),
        hit(2, "Tuesdays."),
        hit(3, "Page\u2028then.", kind="decision"),
    ]
    assert render(db, hits, "compact").splitlines() == [
        "decision:",
        "[1] Retries: Retry three times.",
        "[3] Page then.",
        "semantic:",
        "[2] Tuesdays.",
    ]


@pytest.mark.covers("MN16")
def test_verbose_shows_where_a_hit_comes_from(db: Connection) -> None:
    shown = render(
        db,
        [
            hit(
                1,
                "Retry.\nTwice.",
                title="Retries",
                source_class="document",
                source_ref="runbook.md",
                session_ref="s1",
                occurred_at="2026-03-01T09:30:00Z",
                freshness="stale",
                duplicates=[{"source_ref": "copy.md"}, {"ref": "r2"}],
                degraded=["no_embedding"],
            )
        ],
        "verbose",
    )
    assert shown.splitlines() == [
        "[1] semantic Retries",
        "  score 0.500, relevance 0.250, found by vector + lexical",
        "  signals cosine 0.5",
        "  source document runbook.md session s1",
        "  occurred 2026-03-01T09:30Z, stale",
        "  same text in 2 more: copy.md, r2",
        "  degraded no_embedding",
        "  Retry.",
        "  Twice.",
    ]


@pytest.mark.covers("MN16")
def test_short_texts_stay_whole_beside_a_long_one(db: Connection) -> None:
    hits = [hit(1, "x" * 5000), hit(2, "Short and whole."), hit(3, "y" * 200)]
    shown = render(db, hits, "compact", 600)
    assert len(shown) > 590
    assert "[2] Short and whole." in shown
    assert "y" * 200 in shown
    assert "xxx..." in shown


@pytest.mark.covers("MN16")
def test_what_does_not_fit_is_counted(db: Connection) -> None:
    hits = [hit(n, f"Sentence {n} " + "word " * 30) for n in range(1, 21)]
    shown = render(db, hits, "compact", 500)
    assert shown.endswith(" more)")
    shown_hits = sum(line.startswith("[") for line in shown.splitlines())
    assert shown.endswith(f"(+{20 - shown_hits} more)")
    assert 3 <= shown_hits < 20
    document = json.loads(render(db, hits, "json", 1000))
    assert len(document["hits"]) + document["omitted"] == 20
    assert [h["rank"] for h in document["hits"]] == list(range(1, len(document["hits"]) + 1))


def test_nothing_renders_as_nothing(db: Connection) -> None:
    assert [render(db, [], form) for form in FORMATS] == ["", "", '{"hits": [], "omitted": 0}']
    assert value(db, "select remem.render('acme', null, 'compact')") == ""


@pytest.mark.parametrize(("argument", "given_"), [("format", "xml"), ("budget_bytes", 39)])
def test_an_unusable_argument_is_refused(db: Connection, argument: str, given_: Any) -> None:
    query = f"select remem.render('acme', null, {argument} => %s)"
    with refused("RM001", argument=argument):
        db.execute(query, [given_])


TEXTS = st.text(
    st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=300
) | st.text("aé漢🎉\u0301 \n", max_size=400)


@settings(
    max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(
    bodies=st.lists(st.tuples(TEXTS, TEXTS | st.none()), max_size=12),
    budget=st.integers(40, 400) | st.integers(40, 6000),
)
def test_no_text_exceeds_its_budget(
    db: Connection, bodies: list[tuple[str, str | None]], budget: int
) -> None:
    kinds = ["semantic", "decision", "task"]
    hits = [hit(n + 1, b, title=t, kind=kinds[n % 3]) for n, (b, t) in enumerate(bodies)]
    for form in FORMATS:
        shown = render(db, hits, form, budget)
        assert len(shown.encode()) <= budget, form
        if form == "json":
            document = json.loads(shown)
            assert [h["body"] for h in document["hits"]] == [
                b for b, _ in bodies[: len(document["hits"])]
            ]
        elif form == "compact" and "(+" not in "".join(b + (t or "") for b, t in bodies):
            lines = shown.splitlines() if "\x1c" not in shown else shown.split("\n")
            assert sum(line.startswith("[") for line in lines) <= len(hits)
            assert bool(hits) == bool(shown)


@pytest.mark.parametrize("budget", range(4, 18))
def test_a_text_is_cut_between_code_points(db: Connection, budget: int) -> None:
    cut = value(db, "select remem._shorten('aé漢🎉bcédéf', %s)", [budget])
    assert len(cut.encode()) <= budget
    assert cut == "aé漢🎉bcédéf" or ("aé漢🎉bcédéf".startswith(cut[:-3]) and cut.endswith("..."))
    # Not a code point less than fits.
    longer = "aé漢🎉bcédéf"[: len(cut) - 2] + "..."
    assert cut == "aé漢🎉bcédéf" or len(longer.encode()) > budget
