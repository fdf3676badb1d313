"""Read a conversation file of the LoCoMo form: sessions of turns, and questions with evidence.

The form, one object per conversation (a list of them, or a single one)::

    {"sample_id": "...",
     "conversation": {"session_1": [{"speaker", "text", "dia_id", "blip_caption"?}, ...],
                      "session_1_date_time": "1:56 pm on 8 May, 2023", ...},
     "qa": [{"question", "evidence": ["D1:3", ...], "category": 1}, ...]}

Rules for what is not as it should be:

- A turn without text and without caption is left out. One without ``dia_id`` is called
  ``D<session>:<number>``.
- An evidence entry that is a turn's id counts as it is. Otherwise every id written in it counts
  ("D8:6; D9:17" is two, "D30:05" is D30:5, "D:11:26" is D11:26). What still names no turn is
  dropped from the question's evidence.
- A question is scored when it has text, is not of category 5 (unanswerable), and at least one
  evidence turn remains. The others are counted by reason.
- A date that no known format reads leaves the session's turns without ``occurred_at``; the order
  of turns comes from the session and turn numbers either way.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

UNANSWERABLE = frozenset({"5", "adversarial"})

_SESSION_KEY = re.compile(r"session_(\d+)")
_TURN_ID = re.compile(r"([A-Za-z]+):?(\d+):(\d+)")

# Tried in turn after ISO 8601. A date of slashes is read month first unless that is impossible.
_DATE_FORMATS = tuple(
    f"{before}{date}{after}"
    for date in (
        "%d %B %Y",
        "%d %b %Y",
        "%B %d %Y",
        "%b %d %Y",
        "%Y/%m/%d",
        "%m/%d/%Y",
        "%d/%m/%Y",
        "%d.%m.%Y",
        "%Y-%m-%d",
    )
    for before, after in (
        ("", ""),
        ("", " %H:%M"),
        ("", " %H:%M:%S"),
        ("", " %I:%M %p"),
        ("", " %I:%M:%S %p"),
        ("%H:%M ", ""),
        ("%I:%M %p ", ""),
    )
)


class DatasetError(ValueError):
    """The file is not a conversation file; the message says where it stops being one."""


@dataclass(frozen=True, slots=True)
class Turn:
    """One utterance. ``ref`` is unique in its conversation, ``number`` in its session (from 1)."""

    ref: str
    session: str
    number: int
    speaker: str | None
    body: str
    occurred_at: datetime | None


@dataclass(frozen=True, slots=True)
class Question:
    """A question and the refs of the turns that answer it (never empty)."""

    text: str
    category: str
    evidence: frozenset[str]


@dataclass(frozen=True, slots=True)
class Conversation:
    name: str
    turns: tuple[Turn, ...]
    questions: tuple[Question, ...]


@dataclass(frozen=True, slots=True)
class Dataset:
    """All conversations of a file, with a count of what was left out and why."""

    conversations: tuple[Conversation, ...]
    sha256: str
    left_out: dict[str, int] = field(default_factory=dict)

    @property
    def questions(self) -> int:
        return sum(len(c.questions) for c in self.conversations)

    @property
    def turns(self) -> int:
        return sum(len(c.turns) for c in self.conversations)


def load(path: Path, limit: int | None = None) -> Dataset:
    """Read ``path``; ``limit`` keeps the first so many conversations.

    Raises DatasetError when the file is no JSON or holds no conversation, OSError when unreadable.
    """
    raw = path.read_bytes()
    try:
        document = json.loads(raw)
    except ValueError as error:
        raise DatasetError(f"{path} is not JSON: {error}") from error
    samples = document if isinstance(document, list) else [document]
    left_out: Counter[str] = Counter()
    conversations = tuple(
        _conversation(sample, number, left_out)
        for number, sample in enumerate(samples[:limit], start=1)
    )
    if not conversations:
        raise DatasetError(f"{path} holds no conversation")
    return Dataset(conversations, hashlib.sha256(raw).hexdigest(), dict(sorted(left_out.items())))


def parse_date(text: Any) -> datetime | None:
    """The moment ``text`` names, in UTC unless it says otherwise; None when no format fits.

    Understands ISO 8601, seconds or milliseconds since 1970, and the day, month and clock orders
    people write ("1:56 pm on 8 May, 2023", "May 8, 2023 13:56", "2023/05/08").
    """
    if isinstance(text, int | float) and not isinstance(text, bool):
        seconds = text / 1000 if abs(text) > 1e11 else text
        try:
            return datetime.fromtimestamp(seconds, UTC)
        except (OverflowError, OSError, ValueError):
            return None
    if not isinstance(text, str):
        return None
    try:
        return _aware(datetime.fromisoformat(text.strip()))
    except ValueError:
        pass
    plain = re.sub(
        r"\b(on|at|the|of|mon|tues?|wed(nes)?|thu(rs)?|fri|sat(ur)?|sun)(day)?\b", " ", text.lower()
    )
    plain = re.sub(r"(?<=\d)(st|nd|rd|th)\b", "", plain)
    plain = re.sub(r"\b([ap])\.?m\b\.?", r"\1m", plain)
    plain = re.sub(r"(?<=\d)(?=[ap]m\b)", " ", plain)
    plain = " ".join(plain.replace(",", " ").split())
    for form in _DATE_FORMATS:
        try:
            return _aware(datetime.strptime(plain, form))
        except ValueError:
            continue
    return None


def resolve_evidence(evidence: Any, refs: dict[str, str]) -> tuple[frozenset[str], int]:
    """The refs that ``evidence`` names, and how many of its ids name nothing.

    ``refs`` maps each turn's id, as the file writes it, to its ref. ``evidence`` is a list of ids
    or one text of ids.
    """
    entries = [evidence] if isinstance(evidence, str) else evidence
    if not isinstance(entries, list):
        return frozenset(), 0
    found: set[str] = set()
    lost = 0
    for entry in entries:
        written = str(entry).strip()
        if written in refs:
            found.add(refs[written])
            continue
        ids = [f"{a}{int(b)}:{int(c)}" for a, b, c in _TURN_ID.findall(written)]
        ids = ids or re.split(r"[\s,;]+", written)
        hits = [refs[i] for i in ids if i in refs]
        found.update(hits)
        lost += len(ids) - len(hits)
    return frozenset(found), lost


def _conversation(sample: Any, number: int, left_out: Counter[str]) -> Conversation:
    body = sample.get("conversation") if isinstance(sample, dict) else None
    if not isinstance(body, dict):
        raise DatasetError(f'conversation {number} has no object "conversation"')
    turns: list[Turn] = []
    refs: dict[str, str] = {}  # id in the file -> ref of the first turn that carries it
    for session, entries in _sessions(body):
        start = parse_date(body.get(f"session_{session}_date_time"))
        for index, entry in enumerate(entries, start=1):
            text = _body(entry)
            if text is None:
                left_out["turns without text"] += 1
                continue
            dia_id = str(entry.get("dia_id") or f"D{session}:{index}")
            ref = f"{dia_id}#{session}.{index}" if dia_id in refs else dia_id
            refs.setdefault(dia_id, ref)
            turns.append(
                Turn(
                    ref=ref,
                    session=f"session_{session}",
                    number=index,
                    speaker=str(entry.get("speaker") or "").strip() or None,
                    body=text,
                    # Turns have no clock of their own: a second apart keeps their order.
                    occurred_at=start and start + timedelta(seconds=index - 1),
                )
            )
    name = str(sample.get("sample_id") or f"conversation-{number}")
    return Conversation(name, tuple(turns), tuple(_questions(sample.get("qa"), refs, left_out)))


def _sessions(body: dict[str, Any]) -> Iterable[tuple[int, list[Any]]]:
    """The sessions by number, whatever their order in the file."""
    numbered = (
        (int(match[1]), turns)
        for key, turns in body.items()
        if (match := _SESSION_KEY.fullmatch(key)) and isinstance(turns, list)
    )
    return sorted(numbered, key=lambda pair: pair[0])


def _body(entry: Any) -> str | None:
    """The text that is remembered: what was said, and what a picture showed."""
    if not isinstance(entry, dict):
        return None
    said = str(entry.get("text") or "").strip()
    caption = str(entry.get("blip_caption") or "").strip()
    parts = [said, f"[image: {caption}]" if caption else ""]
    return " ".join(part for part in parts if part) or None


def _questions(qa: Any, refs: dict[str, str], left_out: Counter[str]) -> Iterator[Question]:
    for entry in qa if isinstance(qa, list) else []:
        text = str(entry.get("question") or "").strip() if isinstance(entry, dict) else ""
        if not text:
            left_out["questions without text"] += 1
            continue
        category = str(entry.get("category", "none")).strip().lower()
        if category in UNANSWERABLE:
            left_out["unanswerable questions"] += 1
            continue
        found, lost = resolve_evidence(entry.get("evidence"), refs)
        left_out["evidence ids that name no turn"] += lost
        if not found:
            left_out["questions without evidence"] += 1
            continue
        yield Question(text, category, found)


def _aware(moment: datetime) -> datetime:
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)
