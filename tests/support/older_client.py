"""What a program of the version before does, run in its own process with that version's client.

python older_client.py DSN VERSION
"""

from __future__ import annotations

import asyncio
import json
import sys
from datetime import UTC, datetime
from typing import Any

import remem_pg
from remem_pg import AsyncRemem, Conflict, InvalidArgument, NoAccess, Remem, UnknownOption

WHEN = datetime(2026, 3, 1, 9, 30, tzinfo=UTC)
SPACE = {"name": "older", "backend": "callable", "asset": "older", "dimensions": 3}


def written(mem: Remem) -> None:
    first = mem.remember(
        "We retry three times, then page.", ref="retries", kind="decision", title="Retries",
        summary="Three tries.", tags=["ops"], aliases=["retry policy"], scope="project",
        scope_ref="billing", topic_key="retries", subject="retries", attribute="count",
        source_class="user_stated", source_ref="chat 1", importance=0.7, confidence=0.9,
        pinned=True, unresolved=True, occurred_at=WHEN, valid_from=WHEN,
        entities=["Payments"], metadata={"n": 1},
    )  # fmt: skip
    assert first.outcome == "created"
    assert mem.remember("We retry five times, then page.", ref="retries").outcome == "new_version"
    assert mem.remember("We retry five times, then page.", ref="retries").outcome == "unchanged"
    refs = mem.remember_many(
        [
            {"body": "The deployment is on Tuesday.", "session_ref": "s", "speaker": "Ana"},
            {"body": "Then I will be away.", "session_ref": "s", "speaker": "Ben"},
            {"body": "", "ref": "refused"},
        ],
        on_error="report",
    )
    assert [ref.outcome for ref in refs] == ["created", "created", "refused"]
    try:
        mem.remember("We retry never.", ref="retries", on_conflict="error")
    except Conflict as error:
        assert error.hint
    else:
        raise AssertionError("a conflict was not raised")


def read(mem: Remem) -> None:
    hit = mem.recall("how often do we retry?")[0]
    assert (hit.ref, hit.body) == ("retries", "We retry five times, then page.")
    assert hit.score > 0 and hit.why
    memory = mem.get(ref="retries")
    assert memory is not None and memory.memory_id == hit.memory_id
    assert memory.kind == "decision" or memory.kind == "semantic"
    assert {m.memory_id for m in mem.list()} == {m.memory_id for m in mem.iterate(page=1)}
    assert mem.count() == len(mem.list()) == 3
    assert mem.count('$.speaker == "Ana"') == 1
    assert mem.recall_explain("deployment", k=2)["hits"]
    filtered = mem.recall("what is on Tuesday?", filter='$.speaker == "Ana"', mode="lexical", k=3)
    assert [h.body for h in filtered] == ["The deployment is on Tuesday."]
    try:
        mem.recall("x", no_such_option=1)
    except UnknownOption as error:
        assert error.hint
    else:
        raise AssertionError("an unknown option was taken")
    try:
        mem.recall("x", k=0)
    except InvalidArgument:
        pass
    else:
        raise AssertionError("k = 0 was taken")


def administered(mem: Remem, dsn: str) -> None:
    assert mem.create_workspace("older-german", language="german")
    mem.grant_access("pg_monitor", mem.workspace_name, "read")
    assert mem.revoke_access("pg_monitor", mem.workspace_name)
    mem.configure("tenant_mode", "shared")
    assert mem.register_space(SPACE).name == "older"
    assert mem.current_space().name == "hash"
    assert mem.version().version != remem_pg.__version__
    try:
        mem.grant_access("no_such_role", mem.workspace_name)
    except (InvalidArgument, NoAccess, remem_pg.NotFound):
        pass
    else:
        raise AssertionError("a role that is not there got a grant")


async def asynchronously(dsn: str) -> None:
    async with AsyncRemem(dsn, workspace="older-async", embedding="hash", tenant=True) as mem:
        for number in range(3):
            await mem.remember(f"The vault opens at {number + 7}.", ref="vault")
        for parallel in (False, True):
            hits = await mem.recall("when does the vault open?", parallel=parallel)
            assert [hit.body for hit in hits] == ["The vault opens at 9."]
        assert await mem.count() == 1


def main() -> dict[str, Any]:
    dsn, version = sys.argv[1:]
    assert remem_pg.__version__ == version, f"{remem_pg.__file__} is {remem_pg.__version__}"
    with Remem(dsn, workspace="older", embedding="hash") as mem:
        written(mem)
        read(mem)
        administered(mem, dsn)
    with Remem(dsn, workspace="older", embedding="hash", cache=True, log=True) as mem:
        tiers = [mem.recall("how often do we retry?").trace["tier"] for _ in range(2)]
        assert tiers == ["cold", "hot"], tiers
        read(mem)
    asyncio.run(asynchronously(dsn))
    return {"version": remem_pg.__version__}


if __name__ == "__main__":
    print(json.dumps(main()))
