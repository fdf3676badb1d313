"""The systems whose exports can be read, and how their records become items."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import IO, Any

from remem_pg import checks
from remem_pg.errors import InvalidArgument
from remem_pg.importers import reading

IMPORTED = "imported"
"""The source class of what came from another system, unless it says another."""

Item = dict[str, Any]
TEXTS = ("text", "content", "memory", "data", "body")
"""Keys under which systems keep a memory's text, the most telling first."""


@dataclass(frozen=True, slots=True)
class Source:
    """A system.

    ``mapping``: field of the record to field of the item, for people to read before they agree;
    ``convert``: a record as an item, or InvalidArgument; ``shapes``: what a file may look like.
    """

    name: str
    shapes: str
    mapping: Mapping[str, str]
    convert: Callable[[Mapping[str, Any]], Item]


def _scope(record: Mapping[str, Any]) -> Item:
    user = record.get("user_id")
    return {"scope": "user", "scope_ref": str(user)} if user else {}


def _rest(record: Mapping[str, Any], used: set[str]) -> Item:
    """What has no field of its own, under its own name."""
    return {key: value for key, value in record.items() if key not in used and value is not None}


def _within(name: str, rest: Item) -> Item:
    return {name: rest} if rest else {}


def _dated(value: Any) -> str | None:
    """A time as its system wrote it; one without a zone was UTC there. What is none is refused
    later, by name."""
    if not isinstance(value, str) or not value:
        return None
    try:
        moment = datetime.fromisoformat(value)
    except ValueError:
        return value
    return value if moment.tzinfo else moment.replace(tzinfo=UTC).isoformat()


def _mem0(record: Mapping[str, Any]) -> Item:
    payload = record.get("payload")
    if isinstance(payload, dict):  # a row of its vector store
        record = {"id": record.get("id"), **payload}
    text = record.get("memory", record.get("data"))
    if not isinstance(text, str):
        raise InvalidArgument(
            "a memory of mem0 has its text in memory (or, in its vector store, in payload.data)",
            detail={"keys": sorted(map(str, record))[:20]},
        )
    used = {"id", "memory", "data", "user_id", "created_at", "metadata", "categories"}
    used |= {"expiration_date", "score"}
    given = record.get("metadata")
    metadata = dict(given) if isinstance(given, dict) else {}
    metadata |= _within("mem0", _rest(record, used))
    item: Item = {"body": text, "source_class": IMPORTED, "metadata": metadata, **_scope(record)}
    if record.get("id"):
        item["ref"] = item["source_ref"] = f"mem0:{record['id']}"
    if isinstance(record.get("categories"), list) and record["categories"]:
        item["tags"] = [str(each) for each in record["categories"]]
    return item | _given(
        occurred_at=_dated(record.get("created_at")), valid_to=_dated(record.get("expiration_date"))
    )


def _langgraph(record: Mapping[str, Any]) -> Item:
    place = record.get("namespace", record.get("prefix"))
    parts = place.split(".") if isinstance(place, str) else place
    value = record.get("value")
    if (
        not isinstance(parts, list | tuple)
        or not isinstance(record.get("key"), str)
        or not isinstance(value, dict)
    ):
        raise InvalidArgument(
            "an item of LangGraph's store has namespace (or prefix), key and an object as value",
            detail={"keys": sorted(map(str, record))[:20]},
        )
    names = [str(part) for part in parts]
    text, found = _text_of(value)
    used = {"namespace", "prefix", "key", "value", "created_at", "createdAt", "expires_at", "score"}
    metadata = {"langgraph": {"namespace": names, "value": value, **_rest(record, used)}}
    if found is not None:
        # the text stands in the body; the rest of the value stays as it was
        metadata["langgraph"]["value"] = {k: v for k, v in value.items() if k != found}
    ref = f"langgraph:{'/'.join(names)}/{record['key']}"
    return {
        "body": text,
        "ref": ref,
        "source_ref": ref,
        "source_class": IMPORTED,
        "tags": names,
        "metadata": metadata,
    } | _given(
        occurred_at=_dated(record.get("created_at", record.get("createdAt"))),
        valid_to=_dated(record.get("expires_at")),
    )


def _text_of(value: Mapping[str, Any]) -> tuple[str, str | None]:
    """The text of a stored value and the key it stood under.

    No key: it stood one level deeper, as LangMem stores it, or there is none and the whole value
    as JSON is the text.
    """
    for key in TEXTS:
        if isinstance(value.get(key), str) and value[key].strip():
            return value[key], key
    if isinstance(value.get("content"), dict):
        text, found = _text_of(value["content"])
        if found is not None:
            return text, None
    return json.dumps(value, ensure_ascii=False, sort_keys=True), None


def _given(**fields: Any) -> Item:
    return {key: value for key, value in fields.items() if value is not None}


def _jsonl(record: Mapping[str, Any]) -> Item:
    text = next((k for k in ("body", *TEXTS) if isinstance(record.get(k), str)), None)
    if text is None:
        raise InvalidArgument(
            f"no text in the record: none of {', '.join(('body', *TEXTS[:-1]))}",
            detail={"keys": sorted(map(str, record))[:20]},
        )
    item = {key: value for key, value in record.items() if key in checks.FIELDS}
    item["body"] = record[text]
    if "ref" not in item and isinstance(record.get("id"), str | int):
        item["ref"] = str(record["id"])
    given = item.get("metadata")
    known = {*checks.FIELDS, text, *(("id",) if "ref" not in record else ())}
    rest = _rest(record, known)
    if rest:
        item["metadata"] = {**(given if isinstance(given, dict) else {}), **rest}
    return {"source_class": IMPORTED, **item}


_SOURCES = (
    Source(
        "mem0",
        "what get_all gives ({results: [...]}, or the list itself), one memory a line, "
        "or rows of its vector store ({id, payload})",
        {
            "memory | payload.data": "body",
            "id": "ref, source_ref (mem0:ID)",
            "user_id": "scope user, scope_ref",
            "categories": "tags",
            "created_at": "occurred_at",
            "expiration_date": "valid_to",
            "metadata": "metadata",
            "everything else": "metadata.mem0",
        },
        _mem0,
    ),
    Source(
        "langgraph",
        "items of its store (namespace, key, value), a line each or as one list, or rows of the "
        "table store (prefix, key, value)",
        {
            "value.text | content | memory | data | body": "body (else the whole value as JSON)",
            "namespace | prefix": "tags, metadata.langgraph.namespace",
            "namespace and key": "ref, source_ref (langgraph:NAMESPACE/KEY)",
            "created_at": "occurred_at",
            "expires_at": "valid_to",
            "the rest of value, everything else": "metadata.langgraph",
        },
        _langgraph,
    ),
    Source(
        "jsonl",
        "one JSON object a line, or one list of them",
        {
            "body | text | content | memory | data": "body",
            "id": "ref, where there is no ref",
            "the arguments of remember": "the same",
            "everything else": "metadata",
        },
        _jsonl,
    ),
)


def sources() -> dict[str, Source]:
    """Every system by name."""
    return {source.name: source for source in _SOURCES}


def records(source: Source, stream: IO[bytes]) -> Iterator[tuple[int, Item | InvalidArgument]]:
    """Number and item of each record, or why it is none; one at a time where the file has lines."""
    for number, record in reading.records(source.name, source.shapes, stream):
        if isinstance(record, InvalidArgument):
            yield number, record
            continue
        try:
            yield number, source.convert(record)
        except InvalidArgument as error:
            yield number, error


__all__ = ["Item", "Source", "records", "sources"]
