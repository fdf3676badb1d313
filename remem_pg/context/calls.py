"""The calls around a plan: planning itself, what its results need, and the catalog it is made
from."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any
from uuid import UUID

from remem_pg import calls, checks
from remem_pg.calls import Reply
from remem_pg.context.catalog_models import Topic
from remem_pg.errors import UnknownOption
from remem_pg.models import Memory
from remem_pg.vector import Vector

TOPIC: dict[str, str] = {
    "title": "text",
    "aliases": "text[]",
    "tags": "text[]",
    "summary": "text",
    "importance": "real",
    "unresolved": "boolean",
    "providers": "text[]",
    "scope": "text",
    "scope_ref": "text",
    "parent": "text",
    "freshness": "text",
    "source": "text",
}
"""What can be said of a topic, with the types of ``remem.put_topic``."""

PROVIDER: dict[str, str] = {
    "provider_id": "text",
    "name": "text",
    "summary": "text",
    "aliases": "text[]",
    "categories": "text[]",
    "enabled": "boolean",
    "result_limit": "integer",
}
"""What can be said of a provider, with the types of ``remem.put_provider``."""

_CHECKS = {
    "text": checks.text,
    "text[]": checks.texts,
    "real": checks.real,
    "integer": checks.integer,
    "boolean": checks.boolean,
}


def plan(
    workspace: str, prompt: str, vector: Vector | None, options: Mapping[str, Any]
) -> calls.Call[dict[str, Any]]:
    """Whether to recall for a prompt, where and for what; always with a bounded catalog."""
    arguments: dict[str, tuple[str, Any]] = {
        "workspace": ("text", checks.text(workspace, "workspace")),
        "prompt": ("text", checks.text(prompt, "prompt")),
        "prompt_embedding": ("real[]", vector),
        "options": ("jsonb", checks.document(options, "options") if options else None),
    }
    return calls.build("plan", arguments, lambda reply: dict(reply.value()), read=True)


def get_many(workspace: str, memory_ids: Sequence[UUID]) -> calls.Call[list[Memory]]:
    """The memories of these ids, in their order, without those that are not there."""
    return calls.Call(
        sql=(
            "select r.* from unnest(%(memory_ids)s::uuid[]) with ordinality as given (id, place) "
            "cross join lateral remem.get(workspace => %(workspace)s::text, "
            "memory_id => given.id) r order by given.place"
        ),
        params={
            "workspace": checks.text(workspace, "workspace"),
            "memory_ids": [checks.identifier(each, "memory_ids") for each in memory_ids],
        },
        parse=_memories,
        read=True,
        function="get",
    )


def links_between(workspace: str, memory_ids: Sequence[UUID]) -> calls.Call[list[dict[str, Any]]]:
    """How these memories contradict or agree with each other: src, dst, kind."""
    arguments: dict[str, tuple[str, Any]] = {
        "workspace": ("text", checks.text(workspace, "workspace")),
        "memory_ids": ("uuid[]", [checks.identifier(each, "memory_ids") for each in memory_ids]),
    }
    return calls.build("links_between", arguments, lambda reply: list(reply.value()), read=True)


def topic_memories(
    workspace: str, topic_ids: Sequence[UUID], k: int, options: Mapping[str, Any]
) -> calls.Call[list[dict[str, Any]]]:
    """The memories of these topics: memory_id, topic_id, relevance to the topic."""
    arguments: dict[str, tuple[str, Any]] = {
        "workspace": ("text", checks.text(workspace, "workspace")),
        "topic_ids": ("uuid[]", [checks.identifier(each, "topic_ids") for each in topic_ids]),
        "k": ("integer", checks.integer(k, "k")),
        "options": ("jsonb", checks.document(options, "options")),
    }
    return calls.build("topic_memories", arguments, lambda reply: list(reply.value()), read=True)


def put_topic(workspace: str, fields: Mapping[str, Any]) -> calls.Call[UUID]:
    """A topic in the catalog; answers its id."""
    arguments = _described(workspace, fields, TOPIC)
    return calls.build("put_topic", arguments, lambda reply: UUID(str(reply.value())))


def list_topics(workspace: str, after: UUID | str | None, limit: int) -> calls.Call[list[Topic]]:
    """A page of the catalog's topics."""
    arguments: dict[str, tuple[str, Any]] = {
        "workspace": ("text", checks.text(workspace, "workspace")),
        "after": ("uuid", None if after is None else checks.identifier(after, "after")),
        "limit": ("integer", checks.integer(limit, "limit")),
    }
    return calls.build(
        "list_topics",
        arguments,
        lambda reply: [Topic.from_row(row) for row in reply.rows],
        read=True,
    )


def drop_topic(workspace: str, topic_id: UUID | str, source: str | None) -> calls.Call[bool]:
    """A topic out of the catalog, or what one source said of it; whether there was one."""
    arguments: dict[str, tuple[str, Any]] = {
        "workspace": ("text", checks.text(workspace, "workspace")),
        "topic_id": ("uuid", checks.identifier(topic_id, "topic_id")),
        "source": ("text", calls.optional_text(source, "source")),
    }
    return calls.build("drop_topic", arguments, _any)


def put_provider(workspace: str, fields: Mapping[str, Any]) -> calls.Call[None]:
    """The descriptor of a provider."""
    arguments = _described(workspace, fields, PROVIDER)
    return calls.build("put_provider", arguments, lambda reply: None)


def _described(
    workspace: str, fields: Mapping[str, Any], known: Mapping[str, str]
) -> dict[str, tuple[str, Any]]:
    """The arguments of a put; None leaves a field out. Raises UnknownOption."""
    arguments: dict[str, tuple[str, Any]] = {
        "workspace": ("text", checks.text(workspace, "workspace"))
    }
    for name, value in fields.items():
        if name not in known:
            raise UnknownOption(
                detail={"option": name, "valid": list(known)}, hint=f"one of {', '.join(known)}"
            )
        if value is not None:
            arguments[name] = (known[name], _CHECKS[known[name]](value, name))
    return arguments


def catalog_without_embedding(workspace: str, limit: int) -> calls.Call[list[dict[str, Any]]]:
    """What of the catalog has no vector in the current space: kind, id, text."""
    arguments: dict[str, tuple[str, Any]] = {
        "workspace": ("text", checks.text(workspace, "workspace")),
        "limit": ("integer", checks.integer(limit, "limit")),
    }
    function = "catalog_without_embedding"
    return calls.build(function, arguments, lambda reply: reply.rows, read=True)


def put_catalog_embedding(
    workspace: str, entry: Mapping[str, Any], vector: Vector, space: str
) -> calls.Call[bool]:
    """The vector of a topic or a provider; False when its text is another one by now."""
    topic = entry["kind"] == "topic"
    arguments: dict[str, tuple[str, Any]] = {
        "workspace": ("text", checks.text(workspace, "workspace")),
        "topic_id" if topic else "provider_id": ("uuid" if topic else "text", entry["id"]),
        "embedding": ("real[]", vector),
        "text": ("text", entry["text"]),
        "space": ("text", space),
    }
    function = "put_topic_embedding" if topic else "put_provider_embedding"
    return calls.build(function, arguments, _any)


def _any(reply: Reply) -> bool:
    return bool(reply.value())


def _memories(reply: Reply) -> list[Memory]:
    return [Memory.from_row(row) for row in reply.rows]
