"""Topics, links and routes through both clients."""

from __future__ import annotations

from collections.abc import Callable
from uuid import UUID, uuid4

import pytest

from remem_pg import (
    AsyncRemem,
    Conflict,
    InvalidArgument,
    NoAccess,
    NotFound,
    Remem,
    Route,
    Topic,
    UnknownSpace,
)
from tests.client.test_client_spaces import Letters
from tests.support.memories import Connection


@pytest.mark.covers("RP60")
def test_topics_come_a_page_at_a_time_and_go(mem: Remem) -> None:
    ids = [
        mem.put_topic(f"Topic {n}", importance=1 - n / 10, aliases=[f"alias {n}"], tags=["t"])
        for n in range(3)
    ]
    first = mem.topics(limit=2)
    assert [topic.topic_id for topic in first] == ids[:2]
    assert isinstance(first[0], Topic)
    assert (first[0].title, first[0].aliases, first[0].tags) == ("Topic 0", ["alias 0"], ["t"])
    assert (first[0].sources, first[0].derived, first[0].importance) == ([""], False, 1.0)
    assert [topic.topic_id for topic in mem.topics(first[-1].topic_id)] == ids[2:]
    assert mem.drop_topic(ids[0]) is True
    assert mem.drop_topic(ids[0]) is False
    assert [topic.topic_id for topic in mem.topics()] == ids[1:]
    with pytest.raises(NotFound):
        mem.topics(after=ids[0])
    with pytest.raises(InvalidArgument):
        mem.topics(limit=0)


def test_what_one_source_said_of_a_topic_goes_alone(mem: Remem) -> None:
    topic_id = mem.put_topic("Retries", aliases=["again"])
    mem.put_topic("Retries", aliases=["backoff"], source="wiki")
    assert mem.drop_topic(topic_id, source="wiki") is True
    (topic,) = mem.topics()
    assert (topic.aliases, topic.sources) == (["again"], [""])
    assert mem.drop_topic(topic_id, source="wiki") is False


def two(mem: Remem) -> list[UUID]:
    bodies = ("We retry failed payments three times.", "The queue holds jobs for a day.")
    stored = mem.remember_many([{"body": body} for body in bodies])
    return [ref.memory_id for ref in stored if ref.memory_id]


@pytest.mark.covers("RE12")
def test_recall_follows_a_link_until_it_is_taken_back(mem: Remem) -> None:
    src, dst = two(mem)
    assert mem.relate(src, str(dst), "part_of", weight=0.9) is True
    assert mem.relate(src, dst, "part_of", weight=0.9) is False
    assert mem.relate(src, dst, "part_of", weight=0.8, provenance="llm") is True
    found = mem.recall("how often are payments retried?", graph="always", mode="lexical")
    assert [hit.expanded_from for hit in found if hit.memory_id == dst] == [src]
    assert mem.unrelate(src, dst, "related") is False
    assert mem.unrelate(src, dst) is True
    found = mem.recall("how often are payments retried?", graph="always", mode="lexical")
    assert dst not in [hit.memory_id for hit in found]


def test_what_is_no_link_is_refused(mem: Remem) -> None:
    src, dst = two(mem)
    with pytest.raises(InvalidArgument) as kind:
        mem.relate(src, dst, "married_to")
    assert kind.value.detail["argument"] == "kind"
    with pytest.raises(InvalidArgument):
        mem.relate(src, src)
    with pytest.raises(InvalidArgument):
        mem.relate("not an id", dst)
    with pytest.raises(InvalidArgument):
        mem.relate(src, dst, weight=2)
    with pytest.raises(NotFound):
        mem.relate(src, uuid4())
    with pytest.raises(NotFound):
        mem.unrelate(uuid4(), dst)


@pytest.mark.covers("ME8")
def test_a_route_is_put_for_a_workspace_and_seen(mem: Remem) -> None:
    before = mem.route_of("what did we choose?", kind="decision")
    assert isinstance(before, Route)
    mem.put_route(
        "decision",
        ["lexical"],
        "acme",
        pool="decision",
        graph_depth=0,
        weights={"session": 0.5},
        keywords=["chose"],
    )
    route = mem.route_of("what have we chose?")
    assert route == Route("decision", "decision", ["lexical"], "decision", [], 0, {"session": 0.5})
    assert mem.workspace("other").route_of("what?", kind="decision") == before
    mem.put_route("decision", ["lexical", "vector"])
    assert mem.workspace("other").route_of("?", kind="decision").arms == ["lexical", "vector"]
    with pytest.raises(InvalidArgument):
        mem.put_route("decision", [])


def test_a_reader_changes_no_route_and_no_link(
    mem: Remem, make_role: Callable[..., str], connect: Callable[[str], Connection]
) -> None:
    src, dst = two(mem)
    role = make_role("reader")
    mem.grant_access(role, "acme", "read")
    with Remem(connect(role), workspace="acme", embedding=None) as reader:
        assert reader.topics() == []
        for refused in (
            lambda: reader.relate(src, dst),
            lambda: reader.unrelate(src, dst),
            lambda: reader.drop_topic(src),
            lambda: reader.drop_space("hash"),
            lambda: reader.put_route("decision", ["lexical"], "acme"),
        ):
            with pytest.raises(NoAccess):
                refused()


def test_a_space_that_nobody_uses_is_dropped(db_dsn: str) -> None:
    with Remem(db_dsn, workspace="acme", embedding=Letters()) as mem:
        mem.remember("banana")
        space = mem.current_space().name
        with pytest.raises(Conflict):
            mem.drop_space(space)
        with pytest.raises(UnknownSpace):
            mem.drop_space("nothing")
        mem.drop_workspace()
        assert mem.drop_space(space) == "dropped"
        assert space not in [each.name for each in mem.spaces()]


async def test_the_asynchronous_client_does_the_same(db_dsn: str) -> None:
    async with AsyncRemem(db_dsn, workspace="acme", embedding=Letters()) as mem:
        one = await mem.remember("We retry failed payments.", ref="one")
        other = await mem.remember("The queue holds jobs.", ref="other")
        assert one.memory_id and other.memory_id
        assert await mem.relate(one.memory_id, other.memory_id) is True
        assert await mem.unrelate(one.memory_id, other.memory_id) is True
        topic_id = await mem.put_topic("Retries")
        assert [topic.topic_id for topic in await mem.topics()] == [topic_id]
        assert await mem.drop_topic(topic_id) is True
        await mem.put_route("task", ["lexical"], "acme")
        assert (await mem.route_of("?", kind="task")).arms == ["lexical"]
        with pytest.raises(Conflict):
            await mem.drop_space("hash")
