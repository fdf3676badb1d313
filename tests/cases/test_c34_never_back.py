"""C34: what is forgotten or superseded never comes back, by whatever way."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from psycopg.types.json import Jsonb

from tests.support.bulk import export, outcomes, take
from tests.support.consistency import problems
from tests.support.jobs import claim, complete, finish, register, start
from tests.support.lifecycle import change, rows
from tests.support.memories import (
    Connection,
    get,
    recall,
    remember,
    remember_many,
    value,
)

BODY = "The staging database is called heron."
QUESTION = "what is the staging database called?"
EXPORT = [
    {"body": BODY, "ref": "staging", "kind": "decision", "pinned": True, "title": "Staging"},
    {"body": "The heron is a bird.", "ref": "bird"},
]


def forget(db: Connection) -> None:
    change(db, "forget", "w", ref="staging")


def forget_where(db: Connection) -> None:
    rows(db, "forget_where", "w", filter='$.ref == "staging"', preview=False)


def supersede(db: Connection) -> None:
    old = get(db, "w", ref="staging").memory_id
    new = remember(db, "w", "There is no staging any more.", kind="decision").memory_id
    change(db, "supersede", "w", old=old, new=new)


def correct(db: Connection) -> None:
    change(db, "correct", "w", body="There is no staging any more.", ref="staging")


def new_version(db: Connection) -> None:
    remember(db, "w", "There is no staging any more.", ref="staging", kind="decision")


def purge(db: Connection) -> None:
    change(db, "purge", "w", ref="staging")


ENDINGS: list[Callable[[Connection], None]] = [
    forget,
    forget_where,
    supersede,
    correct,
    new_version,
    purge,
]


@pytest.fixture(params=ENDINGS, ids=lambda ending: ending.__name__)
def ended(request: pytest.FixtureRequest, db: Connection) -> Iterator[Connection]:
    remember_many(db, "w", EXPORT)
    src, dst = (get(db, "w", ref=r).memory_id for r in ("bird", "staging"))
    db.execute("select remem.relate('w', %s, %s, 'part_of')", [src, dst])
    for query in (QUESTION, "heron", "bird"):
        db.execute("select remem.recall_cached('w', %s)", [query])
    request.param(db)
    yield db
    assert problems(db) == []


def there(db: Connection, query: str = QUESTION, **options: Any) -> bool:
    return BODY in [hit.body for hit in recall(db, "w", query, k=20, **options)]


def test_not_through_a_cache(ended: Connection) -> None:
    for query in (QUESTION, "heron", "bird", QUESTION + " "):
        for _ in range(2):
            answer = value(ended, "select remem.recall_cached('w', %s)", [query])
            assert BODY not in [hit["body"] for hit in answer["hits"]]


def test_not_through_a_hop(ended: Connection) -> None:
    assert not there(ended, "which bird is it?", graph="always")


def test_not_through_the_pool_or_its_fallback(ended: Connection) -> None:
    for kind in ("decision", "preference", "task"):
        assert not there(ended, kind=kind)
        assert not there(ended, "zebra", kind=kind)
    ended.execute(
        "select remem.put_route('task', '{lexical}', 'w', pool => 'task',"
        " fallback_pools => '{decision}')"
    )
    assert not there(ended, "zebra", kind="task")


def test_not_through_an_arm_that_fails(ended: Connection, su: Connection) -> None:
    su.execute("alter table remem.posting rename to elsewhere")
    assert not there(ended)
    su.execute("alter table remem.elsewhere rename to posting")
    su.execute("alter table remem.embedding_1 rename to elsewhere")
    assert not there(ended)
    su.execute("alter table remem.elsewhere rename to embedding_1")


def test_not_through_a_rebuild(ended: Connection) -> None:
    for function in ("rebuild_entities", "rebuild_postings", "derive_topics"):
        ended.execute(f"select remem.{function}('w')".encode())
    for arms in (["vector"], ["lexical"], ["pointer"], ["phrase"], ["attribute"]):
        assert not there(ended, '"staging database" heron', arms=arms)


def test_not_through_the_results_of_arms_that_ran_before(db: Connection) -> None:
    remember_many(db, "w", EXPORT)
    arm = "select remem.recall_arm('w', %s, 'lexical')"
    found = value(db, arm, [QUESTION])
    assert found["memory_nos"]
    forget(db)
    hits = db.execute(
        "select body from remem.recall_from('w', %s, %s)", [QUESTION, Jsonb([found])]
    ).fetchall()
    assert (BODY,) not in hits


def test_not_as_a_topic(ended: Connection) -> None:
    ended.execute("select remem.derive_topics('w')")
    plan = value(ended, "select remem.plan('w', 'Staging')")
    if get(ended, "w", ref="staging") is None:
        assert plan["topics"] == []


def test_not_by_importing_an_old_export(ended: Connection, request: Any) -> None:
    outcomes = [reply.outcome for reply in remember_many(ended, "w", EXPORT)]
    assert outcomes[1] == "unchanged"
    if "new_version" in request.node.name:  # there the last word of the ref's owner counts
        assert outcomes[0] == "new_version"
        return
    assert outcomes[0] in ("forgotten", "superseded", "purged")
    assert not there(ended)


@pytest.mark.parametrize("named", [True, False], ids=["with ids", "without ids"])
@pytest.mark.parametrize("ending", ENDINGS, ids=lambda ending: ending.__name__)
def test_not_by_importing_the_file_of_an_old_export(
    db: Connection, ending: Callable[[Connection], None], named: bool
) -> None:
    remember_many(db, "w", EXPORT)
    old = [
        r if named else {k: v for k, v in r.items() if k != "memory_id"} for r in export(db, "w")
    ]
    ending(db)
    said = outcomes(take(db, "w", old))
    assert said[1] == "unchanged"
    if ending is new_version and not named:
        assert said[0] == "conflict"  # the ref says something else now
    else:
        assert said[0] in ("forgotten", "superseded", "purged")
    assert not there(db)
    for query in (QUESTION, "heron"):
        answer = value(db, "select remem.recall_cached('w', %s)", [query])
        assert BODY not in [hit["body"] for hit in answer["hits"]]
    assert problems(db) == []


def test_not_by_importing_an_old_export_without_refs(db: Connection) -> None:
    said = [remember(db, "w", body) for body in (BODY, "A bird.")]
    change(db, "forget", "w", memory_id=said[0].memory_id)
    change(db, "correct", "w", body="A big bird.", memory_id=said[1].memory_id)
    replies = remember_many(db, "w", [{"body": BODY}, {"body": "A bird."}])
    assert [reply.outcome for reply in replies] == ["forgotten", "superseded"]
    assert not there(db)


def test_not_by_bringing_a_vector(db: Connection) -> None:
    remember_many(db, "w", EXPORT)
    forget(db)
    item = {**EXPORT[0], "embedding": [0.5] * 384}
    assert remember_many(db, "w", [item])[0].outcome == "forgotten"
    assert value(db, "select count(*) from remem.embedding_1") == 1
    assert problems(db) == []


def test_not_through_a_re_embedding(ended: Connection) -> None:
    """Nothing of it is handed out to be embedded, and the new space does not know it."""
    register(ended)
    start(ended)
    while jobs := claim(ended):
        assert BODY not in " ".join(job.text for job in jobs)
        complete(ended, jobs)
    assert finish(ended)
    query = {"embedding": [1.0, 0.0, 0.0], "space": "new"}
    for mode in ("auto", "vector", "retrieval_only"):
        assert recall(ended, "w", QUESTION, k=50, mode=mode, **query)
        assert not there(ended, mode=mode, **query)


@pytest.mark.parametrize("arm", ["vector", "lexical"])
def test_not_through_a_fallback_of_a_filter(ended: Connection, arm: str) -> None:
    for filter in ('$.ref == "staging"', '$.kind == "decision"', "exists($.kind)"):
        for kind in (None, "decision", "task"):
            assert not there(ended, arms=[arm], filter=filter, kind=kind, graph="always")
