"""The lifecycle through both clients and the command."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import numpy as np
import pytest

from remem_pg import AsyncRemem, Conflict, InvalidArgument, NoAccess, NotFound, Remem
from tests.client.cli_runner import Cli
from tests.support.consistency import problems
from tests.support.memories import Connection


def test_a_memory_s_life(mem: Remem, db: Connection) -> None:
    mem.remember("We retry three times.", ref="retries", kind="decision", title="Retries")
    before = datetime.now(UTC)
    reply = mem.correct("We retry four times.", ref="retries", reason="typo", title=None)
    assert reply.outcome == "corrected"
    now = mem.get(ref="retries")
    assert now is not None
    assert (now.body, now.title, now.kind) == ("We retry four times.", None, "decision")
    (hit,) = mem.recall("how often do we retry?", as_of=before)
    assert hit.body == "We retry three times."
    first, second = mem.history(ref="retries")
    assert (first.how, first.reason, first.replaced_by) == ("corrected", "typo", second.memory_id)
    assert mem.pin(ref="retries").outcome == "updated"
    assert mem.unpin(ref="retries").outcome == "updated"
    assert mem.set_importance(0.9, ref="retries").outcome == "updated"
    assert mem.set_freshness("stale", ref="retries").outcome == "updated"
    assert mem.reinforce(ref="retries", strength=1).outcome == "updated"
    assert mem.resolve(ref="retries").outcome == "unchanged"
    assert mem.forget(ref="retries", reason="asked to").outcome == "forgotten"
    assert list(mem.recall("how often do we retry?")) == []
    (kept,) = mem.list(state="forgotten", filter="$.importance > 0.8")
    assert kept.forgotten_at is not None
    assert mem.remember("We retry four times.", ref="retries").outcome == "forgotten"
    assert mem.unforget(ref="retries").outcome == "unforgotten"
    assert mem.purge(ref="retries").outcome == "purged"
    assert [v.state for v in mem.history(ref="retries")] == ["purged", "purged"]
    assert problems(db) == []


def test_a_filter_is_shown_first(mem: Remem) -> None:
    for n in range(3):
        mem.remember(f"fact {n}", ref=f"r{n}", tags=["old"])
    report = mem.forget_where('$.tags == "old"')
    assert (report.preview, report.memories, mem.count()) == (True, 3, 3)
    assert {m["ref"] for m in report.sample} == {"r0", "r1", "r2"}
    with pytest.raises(Conflict):
        mem.forget_where('$.tags == "old"', False, expected=2)
    assert mem.forget_where('$.tags == "old"', False, expected=3).memories == 3
    assert mem.count() == 0
    assert mem.purge_forgotten(before=datetime(2020, 1, 1, tzinfo=UTC)) == 0
    assert mem.purge_forgotten() == 3


def test_one_of_two_that_supersede_learns_of_the_other(mem: Remem) -> None:
    old, one, two = (mem.remember(f"version {n}").memory_id for n in range(3))
    assert old is not None and one is not None and two is not None
    assert mem.supersede(old, one).outcome == "superseded"
    lost = mem.supersede(old, two)
    error = lost.exception()
    assert isinstance(error, Conflict)
    assert error.detail["replaced_by"] == str(one)


def test_a_workspace_is_dropped_whole(mem: Remem, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("remem_pg.writing.lifecycle.BATCH", 7)
    mem.remember_many([{"body": f"fact {n}"} for n in range(20)])
    other = mem.workspace("other")
    other.remember("stays")
    report = mem.drop_workspace()
    assert report.done
    assert report.deleted > 60
    assert report.remaining == {}
    assert (mem.count(), other.count()) == (0, 1)
    assert list(mem.recall("fact")) == []


def test_contradictions_are_shown(mem: Remem) -> None:
    for city in ("Porto", "Lisbon"):
        mem.remember(f"Mei lives in {city}.", subject="Mei", attribute="city")
    (pair,) = mem.conflicts()
    assert {pair.body, pair.other_body} == {"Mei lives in Porto.", "Mei lives in Lisbon."}


def test_wrong_arguments_are_refused_before_anything_is_sent(mem: Remem) -> None:
    with pytest.raises(InvalidArgument):
        mem.forget("no uuid")
    with pytest.raises(InvalidArgument):
        mem.recall("x", as_of=datetime(2026, 1, 1))
    with pytest.raises(NotFound):
        mem.forget(ref="nothing")
    with pytest.raises(InvalidArgument):
        mem.forget()


class Counting:
    """Two dimensions: the number of letters, and one."""

    id = "counting"
    dimensions = 2

    def __init__(self) -> None:
        self.seen: list[str] = []

    def embed(self, texts: list[str]) -> Any:
        self.seen += texts
        return np.array([[len(text), 1] for text in texts], dtype=np.float32)


def test_a_correction_is_embedded_with_what_it_takes_over(db_dsn: str, db: Connection) -> None:
    model = Counting()
    with Remem(db_dsn, workspace="acme", embedding=model) as mem:
        mem.remember("We retry.", ref="r", title="Retries", tags=["ops"])
        mem.correct("We never retry.", ref="r", summary="never")
        assert model.seen[-1] == "Retries\nnever\nWe never retry.\nops"
        mem.correct("Again.", ref="r", embedding=[1.0, 0.0])
        assert len(model.seen) == 2
        assert "stale_rows" not in mem.recall("again").degraded
    assert problems(db) == []


async def test_the_asynchronous_client_does_the_same(db_dsn: str) -> None:
    async with AsyncRemem(db_dsn, workspace="acme", embedding=None) as mem:
        await mem.remember("We retry.", ref="r")
        assert (await mem.correct("We never retry.", ref="r")).outcome == "corrected"
        assert len(await mem.history(ref="r")) == 2
        assert (await mem.pin(ref="r")).outcome == "updated"
        assert (await mem.forget(ref="r")).outcome == "forgotten"
        assert (await mem.list(state="forgotten"))[0].ref == "r"
        assert (await mem.unforget(ref="r")).outcome == "unforgotten"
        assert (await mem.forget_where("1 == 1")).memories == 1
        assert (await mem.purge(ref="r")).outcome == "purged"
        assert await mem.purge_forgotten() == 0
        assert await mem.conflicts() == []
        assert (await mem.drop_workspace()).done


def test_a_tenant_client_names_its_workspace(db_dsn: str, db: Connection) -> None:
    db.execute("select remem.configure('tenant_mode', 'strict')")
    with Remem(db_dsn, workspace="acme", embedding=None, tenant=True) as mem:
        mem.remember("We retry.", ref="r")
        assert mem.forget(ref="r").outcome == "forgotten"
        assert mem.drop_workspace().done


def test_a_reader_may_forget_nothing(
    db: Connection, db_dsn: str, make_role: Any, server: Any, database: str
) -> None:
    role = make_role()
    with Remem(db_dsn, workspace="acme", embedding=None) as mem:
        mem.remember("x", ref="r")
        mem.grant_access(role, "acme")
    with Remem(server.dsn(role, database), workspace="acme", embedding=None) as reader:
        assert len(reader.history(ref="r")) == 1
        for call in (reader.forget, reader.purge, reader.pin):
            with pytest.raises(NoAccess):
                call(ref="r")


# -- the command


@pytest.fixture
def cli(db_dsn: str) -> Cli:
    cli = Cli(db_dsn, REMEM_WORKSPACE="acme")
    cli("remember", "We retry three times.", "--ref", "retries")
    return cli


def test_the_command_corrects_and_shows_the_history(cli: Cli) -> None:
    done = cli("correct", "retries", "We retry four times.", "--reason", "typo")
    assert done.stdout.startswith("corrected ")
    said = cli("history", "retries").stdout
    assert "corrected" in said and "typo" in said and "We retry four times." in said
    document = cli.json("history", "retries")
    assert [v["state"] for v in document["versions"]] == ["superseded", "current"]


def test_the_command_forgets_and_brings_back(cli: Cli) -> None:
    assert cli.json("forget", "retries")["outcome"] == "forgotten"
    assert cli.json("recall", "how often do we retry?")["hits"] == []
    assert len(cli.json("list", "--state", "forgotten")["memories"]) == 1
    assert cli("unforget", "retries").stdout.startswith("unforgotten ")
    assert cli("pin", "retries").stdout.startswith("updated ")
    assert cli("unpin", "retries").stdout.startswith("updated ")
    assert cli("resolve", "retries").stdout.startswith("unchanged ")


def test_a_filter_changes_nothing_without_yes(cli: Cli) -> None:
    shown = cli("forget", "--where", '$.ref == "retries"')
    assert "1 memory" in shown.stdout and "We retry" in shown.stdout
    assert cli.json("forget", "--where", '$.ref == "retries"')["preview"] is True
    assert cli.json("count")["count"] == 1
    assert cli("forget", "--where", '$.ref == "retries"', "--yes").stdout == "Forgot 1 memory.\n"
    assert cli.json("count")["count"] == 0


def test_forgetting_takes_the_conditions_that_recall_takes(cli: Cli) -> None:
    cli("remember", "Costs $5.", "--ref", "price", "--kind", "decision")
    other = cli("forget", "--where", "kind = 'decision' and body = 'x'")
    assert other.returncode == 1 and other.stderr.startswith("RM001 where: ")
    assert cli("forget", "--where", "kind = 'decision'", "--yes").stdout == "Forgot 1 memory.\n"
    assert cli("forget", "--filter", '$.ref == "retries"', "--yes").stdout == "Forgot 1 memory.\n"
    assert cli.json("count")["count"] == 0


def test_supersede_takes_ids_and_refs(cli: Cli) -> None:
    new = cli.json("remember", "We retry five times.", "--ref", "again")["memory_id"]
    missing = cli("supersede", "retries", "nothing")
    assert missing.returncode == 1 and missing.stderr.startswith('RM101 no memory "nothing"')
    assert cli.json("supersede", "retries", new)["outcome"] == "superseded"
    assert [v["body"] for v in cli.json("history", "again")["versions"]][-1] == (
        "We retry five times."
    )


def test_what_was_ended_is_said_not_to_be_stored_again(cli: Cli) -> None:
    cli("purge", "retries", "--yes")
    again = cli("remember", "We retry three times.", "--ref", "retries")
    assert again.stdout.startswith("purged ")
    assert "Nothing was stored" in again.stderr and "rewrite" in again.stderr
    assert cli.json("count")["count"] == 0


def test_what_cannot_be_undone_asks(cli: Cli) -> None:
    for command in (["purge", "retries"], ["purge", "--forgotten"], ["drop-workspace"]):
        refused = cli(*command)
        assert refused.returncode == 1
        assert "--yes" in refused.stderr
    assert cli.json("count")["count"] == 1
    assert cli("purge", "retries", "--yes").stdout.startswith("purged ")
    cli("remember", "another", "--ref", "a")
    cli("forget", "a")
    assert cli.json("purge", "--forgotten", "--yes")["purged"] == 1
    assert cli.json("drop-workspace", "--yes")["done"] is True


def test_a_workspace_that_is_not_there_is_not_dropped(cli: Cli, db: Connection) -> None:
    db.execute("select remem.create_workspace('empty')")
    for command in (["drop-workspace", "--yes"], ["drop-workspace"]):
        refused = cli("-w", "acmee", *command)
        assert refused.returncode == 1
        assert refused.stderr.startswith('RM101 no workspace "acmee".')
        assert '"acme"? remem workspaces' in refused.stderr
    far = cli("-w", "zzz", "drop-workspace", "--yes")
    assert far.returncode == 1 and "Hint: remem workspaces" in far.stderr
    assert cli.json("-w", "empty", "drop-workspace", "--yes") == {
        "workspace": "empty",
        "done": True,
        "rows": 0,
    }
    # a drop that was cut off is in no list and goes on all the same
    db.execute("select remem.drop_workspace('acme', 1)")
    assert cli.json("drop-workspace", "--yes")["rows"] > 5
    assert cli("drop-workspace", "--yes").returncode == 1


def test_either_a_name_or_a_filter(cli: Cli) -> None:
    for command in (["forget"], ["forget", "x", "--where", "y"], ["purge"]):
        assert cli(*command).returncode == 2
    assert cli("history", "nothing").returncode == 1
