"""What a provider may hand over: checked field by field, anything else is dropped and counted."""

from __future__ import annotations

import dataclasses
import hashlib
import math
import unicodedata
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from remem_pg.context.safe_text import flat
from remem_pg.context.scope import Scope

KINDS = ("semantic", "episodic", "decision", "preference", "procedure", "task", "other")
FRESHNESS = ("current", "stale", "superseded", "unknown")

ID_LIMIT = 512
"""Longest id, in characters."""

LABEL_LIMIT = 500
"""Characters of a title, source or other label that are kept."""

BODY_READ = 1_000_000
"""Longest body that is looked at at all, in characters."""

DUPLICATES_KEPT = 20


@dataclass(frozen=True, slots=True)
class Reference:
    """Where the same text was found again."""

    provider: str
    id: str
    source: str | None = None

    def document(self) -> dict[str, Any]:
        return {"providerId": self.provider, "id": self.id, "source": self.source}


@dataclass(frozen=True, slots=True)
class Record:
    """One result of a provider.

    ``score`` (0 to 1) is the provider's own measure of how well it answers, absolute: 0 is not at
    all. ``scope`` and ``scope_ref`` say whose it is, ``global`` has no ref. ``importance`` and
    ``confidence`` lie between 0 and 1. ``subject`` with ``attribute`` names a fact: two records
    with the same and different bodies are shown as a conflict. ``fingerprint`` marks equal content
    within one provider; equal text is recognised without it. ``conflicts_with`` and ``agrees_with``
    hold ids of the same provider. ``provider`` and ``duplicates`` are filled in here.
    """

    id: str
    body: str
    score: float = 0.0
    title: str | None = None
    kind: str = "other"
    scope: str = "global"
    scope_ref: str | None = None
    source: str | None = None
    source_class: str | None = None
    importance: float | None = None
    confidence: float | None = None
    freshness: str = "unknown"
    updated_at: datetime | None = None
    subject: str | None = None
    attribute: str | None = None
    fingerprint: str | None = None
    conflicts_with: tuple[str, ...] = ()
    agrees_with: tuple[str, ...] = ()
    provider: str = ""
    text_key: str = ""
    cut: bool = False
    duplicates: tuple[Reference, ...] = ()

    def reference(self) -> Reference:
        return Reference(self.provider, self.id, self.source)


_FIELDS = {field.name for field in dataclasses.fields(Record)} - {"provider", "text_key", "cut"}


def accepted(raw: Any, provider: str, scope: Scope, body_limit: int) -> Record | None:
    """The record that a provider's answer is, its body cut to ``body_limit`` characters; None when
    it is malformed or out of scope. A provider is never believed about scope: it is decided
    here."""
    try:
        fields = _fields(raw)
        if fields.pop("workspace", scope.workspace) != scope.workspace:
            return None
        record = _checked(fields, provider, body_limit)
    except Exception:  # somebody else's objects: whatever they raise, they are no record
        return None
    return record if scope.allows(record.scope, record.scope_ref) else None


def _fields(raw: Any) -> dict[str, Any]:
    if isinstance(raw, Record):
        return {name: getattr(raw, name) for name in _FIELDS}
    if not isinstance(raw, Mapping):
        raise TypeError("a record is a Record or a dict")
    fields = dict(raw)
    if unknown := fields.keys() - _FIELDS - {"workspace"}:
        raise ValueError(f"unknown fields {sorted(map(str, unknown))}")
    return fields


def _checked(fields: dict[str, Any], provider: str, body_limit: int) -> Record:
    identity = _text(fields.get("id"))
    body = _text(fields.get("body"))
    if not identity.strip() or len(identity) > ID_LIMIT or len(body) > BODY_READ:
        raise ValueError("no usable id or body")
    whole = flat(body)
    if not whole:
        raise ValueError("an empty body")
    scope = _text(fields.get("scope", "global"))
    shown = _shortened(whole, body_limit)
    return Record(
        id=identity,
        body=shown,
        score=_share(fields.get("score", 0.0)) or 0.0,
        title=_label(fields.get("title")),
        kind=_one_of(fields.get("kind", "other"), KINDS),
        scope="global" if scope == "workspace" else scope,
        scope_ref=_optional(fields.get("scope_ref")),
        source=_label(fields.get("source")),
        source_class=_label(fields.get("source_class")),
        importance=_share(fields.get("importance")),
        confidence=_share(fields.get("confidence")),
        freshness=_one_of(fields.get("freshness") or "unknown", FRESHNESS),
        updated_at=_moment(fields.get("updated_at")),
        subject=_label(fields.get("subject")),
        attribute=_label(fields.get("attribute")),
        fingerprint=_label(fields.get("fingerprint")),
        conflicts_with=_ids(fields.get("conflicts_with", ())),
        agrees_with=_ids(fields.get("agrees_with", ())),
        provider=provider,
        text_key=text_key(whole),
        cut=shown != whole,
        duplicates=_references(fields.get("duplicates", ()), provider),
    )


def text_key(text: str) -> str:
    """Equal for texts that say the same word by word: case, width and spaces do not count."""
    folded = " ".join(unicodedata.normalize("NFKC", text).casefold().split())
    return hashlib.sha256(folded.encode("utf-8", "replace")).hexdigest()


def _shortened(text: str, limit: int) -> str:
    return text if len(text) <= limit else text[:limit].rstrip()


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError("not a text")
    return value


def _optional(value: Any) -> str | None:
    return None if value is None else _text(value)


def _label(value: Any) -> str | None:
    return None if value is None else flat(_text(value))[:LABEL_LIMIT].strip() or None


def _one_of(value: Any, known: tuple[str, ...]) -> str:
    if value not in known:
        raise ValueError("an unknown word")
    return str(value)


def _share(value: Any) -> float | None:
    """A number brought between 0 and 1; not a number is malformed."""
    if value is None:
        return None
    if isinstance(value, bool | str | bytes) or not math.isfinite(number := float(value)):
        raise ValueError("not a finite number")
    return min(1.0, max(0.0, number))


def _moment(value: Any) -> datetime | None:
    if value is None:
        return None
    moment = datetime.fromisoformat(value) if isinstance(value, str) else value
    if not isinstance(moment, datetime):
        raise TypeError("not a time")
    return moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment


def _ids(value: Any) -> tuple[str, ...]:
    if isinstance(value, str | bytes | Mapping):
        raise TypeError("not a list of ids")
    return tuple(_text(member) for member in value)


def _references(value: Any, provider: str) -> tuple[Reference, ...]:
    if isinstance(value, str | bytes | Mapping):
        raise TypeError("not a list of references")
    found = []
    for member in value:
        if isinstance(member, Reference):
            found.append(Reference(provider, _text(member.id), _label(member.source)))
        else:
            found.append(Reference(provider, _text(member["id"]), _label(member.get("source"))))
    return tuple(found[:DUPLICATES_KEPT])
