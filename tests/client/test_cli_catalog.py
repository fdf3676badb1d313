"""topics, relate, route and their kin on the command line."""

from __future__ import annotations

import json
from collections.abc import Iterator
from uuid import uuid4

import pytest

from remem_pg import Remem
from remem_pg.embedding.base import descriptor_of
from tests.client.cli_runner import Cli
from tests.client.test_client_spaces import Letters


@pytest.fixture
def cli(db_dsn: str) -> Iterator[Cli]:
    with Remem(db_dsn, workspace="default", embedding=None) as memory:
        memory.remember("We retry failed payments three times.", ref="retries")
        memory.remember("The queue holds jobs for a day.", ref="queue")
    yield Cli(db_dsn)


def test_topics_are_put_listed_and_dropped(cli: Cli) -> None:
    assert cli("topics").stdout == 'No topics in workspace "default".\n'
    first = cli("put-topic", "Retries", "--alias", "backoff", "--importance", "0.9").stdout.strip()
    second = cli.json("put-topic", "Queue", "--unresolved")["topic_id"]
    shown = cli("topics").stdout
    assert first in shown and "Queue (unresolved)" in shown and "given" in shown
    page = cli.json("topics", "-n", "1")
    (only,) = page["topics"]
    assert page["after"] == only["topic_id"] and only["topic_id"] in (first, second)
    (other,) = cli.json("topics", "--after", page["after"])["topics"]
    assert {only["topic_id"], other["topic_id"]} == {first, second}
    assert cli("drop-topic", first).stdout == f"dropped {first}\n"
    again = cli("drop-topic", first)
    assert again.returncode == 1 and "remem topics" in again.stderr
    assert cli("topics", "--after", "x").returncode == 2


def test_a_topic_is_dropped_by_its_title(cli: Cli, db_dsn: str) -> None:
    first = cli("put-topic", "Retries").stdout.strip()
    with Remem(db_dsn, workspace="default", embedding=None) as memory:
        scoped = [memory.put_topic("Queue", scope="user", scope_ref=who) for who in ("ann", "bob")]
    assert cli("drop-topic", "retries").stdout == f"dropped {first}\n"
    again = cli("drop-topic", "Retries")
    assert again.returncode == 1 and "No such topic here: Retries" in again.stderr
    several = cli("drop-topic", "Queue")
    assert several.returncode == 1 and several.stderr.startswith("RM001 2 topics are called")
    assert all(str(one) in several.stderr.replace("\n", "") for one in scoped)


def test_links_are_made_by_ref_and_taken_back(cli: Cli) -> None:
    assert cli("relate", "retries", "queue", "--kind", "part_of").stdout == (
        "linked: retries part_of queue\n"
    )
    assert cli("relate", "retries", "queue", "--kind", "part_of").stdout.startswith("was linked")
    found = cli.json("recall", "payments", "--mode", "lexical", "--option", "graph=always")
    assert [hit["ref"] for hit in found["hits"] if hit["expanded_from"]] == ["queue"]
    assert cli.json("unrelate", "retries", "queue")["removed"] is True
    assert cli("unrelate", "retries", "queue").returncode == 1
    wrong = cli("relate", "retries", "nothing")
    assert wrong.returncode == 1 and wrong.stderr.startswith('RM101 no memory "nothing"')
    assert cli("relate", "retries", str(uuid4())).stderr.startswith("RM101")
    assert cli("relate", "retries", "queue", "--kind", "x").stderr.startswith("RM001")


def test_a_route_is_put_and_shown(cli: Cli) -> None:
    done = cli("put-route", "task", "lexical", "phrase", "--keyword", "chore", "--no-links")
    assert done.stdout == "task in default: lexical, phrase\n"
    found = cli.json("route", "which chore is next?")
    assert (found["kind"], found["arms"], found["graph_depth"]) == (
        "task",
        ["lexical", "phrase"],
        0,
    )
    assert "lexical, phrase" in cli("route", "x", "--kind", "task").stdout
    assert cli.json("-w", "other", "route", "which chore is next?")["kind"] is None
    assert cli("put-route", "task", "telepathy").returncode == 1


def test_hits_are_printed_as_a_text_for_a_prompt(cli: Cli) -> None:
    text = cli("recall", "payments", "--render", "compact").stdout
    assert text.startswith("semantic:\n[1] We retry failed payments three times.")
    document = json.loads(cli("recall", "payments", "--render", "json", "-k", "1").stdout)
    assert document["hits"][0]["ref"] == "retries"
    assert len(cli("recall", "payments", "--render", "verbose", "--budget", "50").stdout) <= 51
    both = cli.json("recall", "payments", "--render", "compact")
    assert both["text"].startswith("semantic:") and both["hits"][0]["ref"] == "retries"
    assert cli("recall", "payments", "--render", "x").returncode == 1


def test_a_space_is_dropped_once_nobody_uses_it(cli: Cli, db_dsn: str) -> None:
    used = cli("drop-space", "hash")
    assert used.returncode == 1 and used.stderr.startswith("RM102")
    with Remem(db_dsn, workspace="default", embedding=None) as memory:
        memory.register_space(dict(descriptor_of(Letters())))
    assert cli("drop-space", "letters").stdout == "letters: dropped\n"
    assert cli("drop-space", "letters").stderr.startswith("RM202")
