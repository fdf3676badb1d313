"""Who may call what: strangers, readers, writers, workers, administrators and the owner."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import psycopg
import pytest

from tests.access.doors import BODY, REF, WORKING, WORKSPACE, doors, grant, refusal

Connection = psycopg.Connection[Any]
Enter = Callable[..., Connection]

# The golden list: which level of a grant in the workspace opens a function. "any" is any grant at
# all, "database" an administrator of every workspace.
LEVELS = {
    "activate_space": "admin",
    "build_space_index": "worker",
    "cancel_reembed": "admin",
    "catalog_without_embedding": "read",
    "claim_embeddings": "worker",
    "count_words": "worker",
    "complete_embeddings": "worker",
    "configure": "database",
    "conflicts": "read",
    "correct": "write",
    "count": "read",
    "create_workspace": "write",
    "current_space": "read",
    "derive_topics": "write",
    "doctor": "read",
    "drop_continuity_phrase": "admin",
    "drop_generic_word": "admin",
    "drop_provider": "admin",
    "drop_space": "worker",
    "drop_topic": "write",
    "drop_workspace": "admin",
    "forget": "write",
    "forget_where": "write",
    "embedding_backlog": "read",
    "embedding_problems": "read",
    "embedding_runs": "read",
    "embedding_work": "any",
    "export": "read",
    "fail_embeddings": "worker",
    "finish_reembed": "worker",
    "get": "read",
    "grant_access": "database",
    "embed": "any",
    "embed_many": "any",
    "hash_embed": "any",
    "history": "read",
    "import_staged": "write",
    "links_between": "read",
    "list": "read",
    "list_grants": "database",
    "list_workspaces": "any",
    "list_continuity_phrases": "read",
    "list_generic_words": "read",
    "list_providers": "read",
    "list_spaces": "read",
    "list_topics": "read",
    "log_recall": "read",
    "maintain": "database",
    "pin": "write",
    "plan": "read",
    "purge": "admin",
    "purge_forgotten": "admin",
    "put_continuity_phrase": "admin",
    "put_generic_word": "admin",
    "put_plan_setting": "admin",
    "put_provider": "admin",
    "put_provider_embedding": "worker",
    "put_route": "admin",
    "put_source_class": "database",
    "put_topic": "write",
    "put_topic_embedding": "worker",
    "rebuild_entities": "write",
    "rebuild_postings": "write",
    "recall": "read",
    "reembed": "worker",
    "recall_arm": "read",
    "recall_cached": "read",
    "recall_explain": "read",
    "recall_from": "read",
    "recall_from_explain": "read",
    "recall_many": "read",
    "register_space": "database",
    "reindex_text": "worker",
    "reinforce": "write",
    "relate": "write",
    "release_claims": "worker",
    "remember": "write",
    "remember_many": "write",
    "remember_staged": "write",
    "render": "read",
    "resolve": "write",
    "revoke_access": "database",
    "route_of": "read",
    "topic_memories": "read",
    "set_freshness": "write",
    "set_importance": "write",
    "set_language": "admin",
    "supersede": "write",
    "unforget": "write",
    "unpin": "write",
    "retry_embeddings": "worker",
    "space_index": "worker",
    "stage": "write",
    "start_reembed": "admin",
    "unrelate": "write",
    "version": "any",
}
OPENED = {
    None: set(),
    "read": {"any", "read"},
    "worker": {"any", "read", "worker"},
    "write": {"any", "read", "write"},
    "admin": {"any", "read", "write", "worker", "admin"},
}


def test_every_public_function_has_a_stated_level_and_a_working_call(furnished: Connection) -> None:
    names = {door.name for door in doors(furnished)}
    assert names == set(LEVELS) == set(WORKING)


def test_the_owner_needs_no_grant(furnished: Connection) -> None:
    assert furnished.execute("select count(*) from remem.access_grant").fetchone() == (0,)
    said = {door.name: refusal(door, furnished, door.working()) for door in doors(furnished)}
    assert said == dict.fromkeys(LEVELS, "")


def test_a_stranger_gets_rm301_from_every_public_function_whatever_the_arguments(
    enter: Enter,
) -> None:
    stranger = enter()
    said = {
        (door.name, way): refusal(door, stranger, values)
        for door in doors(stranger)
        for way, values in door.ways().items()
    }
    assert len(said) == 4 * len(LEVELS)
    assert said == dict.fromkeys(said, "RM301")


@pytest.mark.parametrize("level", ["read", "worker", "write", "admin"])
def test_a_grant_in_the_workspace_opens_the_functions_of_its_level_only(
    enter: Enter, furnished: Connection, level: str
) -> None:
    # create_workspace is called in the workspace of the grant, not in another one.
    mine = {"create_workspace": {"workspace": WORKSPACE}}
    someone = enter(level)
    said = {d.name: refusal(d, someone, mine.get(d.name, d.working())) for d in doors(someone)}
    assert said == {n: "" if need in OPENED[level] else "RM301" for n, need in LEVELS.items()}


@pytest.mark.parametrize("level", ["read", "worker", "write", "admin"])
def test_a_grant_in_all_workspaces_opens_the_functions_of_its_level_only(
    enter: Enter, level: str
) -> None:
    opened = OPENED[level] | ({"database"} if level == "admin" else set())
    someone = enter(level, workspace=None)
    said = {door.name: refusal(door, someone, door.working()) for door in doors(someone)}
    assert said == {n: "" if need in opened else "RM301" for n, need in LEVELS.items()}


@pytest.mark.parametrize("level", ["read", "worker", "write", "admin"])
def test_a_grant_elsewhere_opens_nothing_about_the_workspace(enter: Enter, level: str) -> None:
    someone = enter(level, workspace="elsewhere")
    said = {door.name: refusal(door, someone, door.working()) for door in doors(someone)}
    assert said == {n: "" if need == "any" else "RM301" for n, need in LEVELS.items()}


def test_a_reader_sees_what_the_owner_wrote(enter: Enter) -> None:
    reader = enter("read")
    assert reader.execute("select body from remem.get(%s, ref => %s)", (WORKSPACE, REF)).fetchall()
    best = reader.execute("select body from remem.recall(%s, 'retry')", (WORKSPACE,)).fetchone()
    assert best == (BODY,)


def test_what_a_writer_writes_is_there_for_others(enter: Enter) -> None:
    written = enter("write").execute(
        "select outcome from remem.remember(%s, 'The door code changed.')", (WORKSPACE,)
    )
    assert written.fetchone() == ("created",)
    assert enter("read").execute("select remem.count(%s)", (WORKSPACE,)).fetchone() == (3,)


def test_a_writer_of_all_workspaces_makes_new_ones(enter: Enter) -> None:
    writer = enter("write", workspace=None)
    assert writer.execute("select remem.create_workspace('fresh')").fetchone() == (True,)
    writer.execute("select remem.remember('fresher', 'Made by the first memory.')")
    assert writer.execute("select remem.count('fresher')").fetchone() == (1,)


def test_a_writer_makes_the_workspace_of_its_grant_and_no_other(enter: Enter) -> None:
    writer = enter("write", workspace="planned")
    assert writer.execute("select remem.create_workspace('planned')").fetchone() == (True,)
    with pytest.raises(psycopg.Error) as refused:
        writer.execute("select remem.create_workspace('unplanned')")
    assert refused.value.sqlstate == "RM301"


def test_a_refused_write_leaves_nothing(enter: Enter, furnished: Connection) -> None:
    reader = enter("read")
    for name in ("remember", "remember_many"):
        door = next(d for d in doors(reader) if d.name == name)
        with pytest.raises(psycopg.Error):
            door.call(reader, door.working())
    assert furnished.execute("select remem.count(%s)", (WORKSPACE,)).fetchone() == (2,)


def test_the_levels_are_a_closed_list(furnished: Connection, make_role: Callable[..., str]) -> None:
    role = make_role()
    for level in ("owner", "READ", "", None):
        with pytest.raises(psycopg.Error) as refused:
            grant(furnished, role, WORKSPACE, level)  # type: ignore[arg-type]
        assert refused.value.sqlstate == "RM001"
    assert furnished.execute("select count(*) from remem.access_grant").fetchone() == (0,)


def test_a_grant_to_a_role_that_does_not_exist_is_refused(furnished: Connection) -> None:
    with pytest.raises(psycopg.Error) as refused:
        grant(furnished, "nobody-of-that-name", WORKSPACE, "read")
    assert refused.value.sqlstate == "RM101"


@pytest.mark.parametrize("workspace", ["", "x" * 201, "a\u0001b", "a\u0085b"])
def test_a_grant_in_an_impossible_workspace_is_refused(
    furnished: Connection, make_role: Callable[..., str], workspace: str
) -> None:
    with pytest.raises(psycopg.Error) as refused:
        grant(furnished, make_role(), workspace, "read")
    assert refused.value.sqlstate == "RM001"


# -- the floor under the functions ----------------------------------------------------------------
