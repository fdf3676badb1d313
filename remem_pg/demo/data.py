"""The memories and questions of ``remem demo``: half a year of a made-up team that ships parcels.

Everything here is fiction written for the demo. The questions are worded as a colleague would ask
them, not copied from the memories, and each names the one memory that has to come first.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from remem_pg.models import MemoryInput

WORKSPACE = "parcel-team"


@dataclass(frozen=True)
class Question:
    """One question of the demo.

    Attributes:
        text: the question as a person would type it.
        expected: ref of the memory that must be the first hit.
        shows: what the question demonstrates, in a few words.
        contains: words that the first hit must hold, to tell a current version from an old one.
    """

    text: str
    expected: str
    shows: str
    contains: str


def _turn(
    session: str, turn: int, day: str, speaker: str, body: str, ref: str | None = None
) -> MemoryInput:
    return {
        "ref": ref or f"{session}/{turn}",
        "kind": "episodic",
        "session_ref": session,
        "turn_no": turn,
        "speaker": speaker,
        "occurred_at": f"{day}T10:{turn:02d}:00+00:00",
        "source_class": "user_stated",
        "body": body,
    }


# What was true at first. The second batch replaces three of these by the same ref.
FIRST: list[MemoryInput] = [
    {
        "ref": "retry-policy",
        "kind": "decision",
        "topic_key": "retries",
        "occurred_at": "2025-01-14T09:30:00+00:00",
        "body": "When a card charge does not go through we retry it five times, ten minutes apart.",
    },
    {
        "ref": "prod-region",
        "kind": "semantic",
        "subject": "production",
        "attribute": "region",
        "occurred_at": "2025-01-20T12:00:00+00:00",
        "body": "Production runs in Frankfurt, in a single availability zone.",
    },
    {
        "ref": "oncall-start",
        "kind": "semantic",
        "occurred_at": "2025-02-03T08:00:00+00:00",
        "body": "The on-call week starts on Monday at nine; Tomás keeps the rota.",
    },
    {
        "ref": "event-bus",
        "kind": "decision",
        "topic_key": "event-bus",
        "occurred_at": "2025-02-11T15:00:00+00:00",
        "body": "Decided: NATS JetStream is our broker for parcel events. Kafka was too much to "
        "operate for five people.",
    },
    {
        "ref": "ids",
        "kind": "decision",
        "topic_key": "identifiers",
        "occurred_at": "2025-02-18T10:00:00+00:00",
        "body": "Public parcel numbers are random, ten letters and digits, so that nobody can "
        "guess the next one.",
    },
    {
        "ref": "money",
        "kind": "decision",
        "topic_key": "money",
        "occurred_at": "2025-02-25T10:00:00+00:00",
        "body": "Amounts are stored as whole cents in a bigint column, never as floating point.",
    },
    {
        "ref": "INC-2291",
        "kind": "episodic",
        "title": "INC-2291: labels printed twice",
        "tags": ["incident", "printing"],
        "occurred_at": "2025-03-04T02:10:00+00:00",
        "body": "The label service printed every sticker twice for forty minutes. "
        "A consumer acknowledged its job only after a slow upload, so the queue handed it out "
        "again.",
    },
    {
        "ref": "INC-2304",
        "kind": "episodic",
        "title": "INC-2304: checkout down for 18 minutes",
        "tags": ["incident", "postgres"],
        "occurred_at": "2025-03-12T16:40:00+00:00",
        "body": "Checkout answered 503 for eighteen minutes. An ALTER TABLE waited for a "
        "lock, everything queued behind it and the connection pool ran dry. Since then "
        "migrations set lock_timeout to two seconds.",
    },
    {
        "ref": "INC-2340",
        "kind": "episodic",
        "title": "INC-2340: expired certificate",
        "tags": ["incident", "tls"],
        "occurred_at": "2025-04-22T05:15:00+00:00",
        "body": "The webhook endpoint refused all carriers for an hour because its TLS "
        "certificate had run out; renewal is automatic now.",
    },
    {
        "ref": "pref-jonas-pr",
        "kind": "preference",
        "subject": "Jonas",
        "source_class": "user_stated",
        "occurred_at": "2025-03-18T09:00:00+00:00",
        "body": "Jonas prefers to review small pull requests, two hundred lines at most, with the "
        "reason in the description.",
    },
    {
        "ref": "pref-mei-meetings",
        "kind": "preference",
        "subject": "Mei",
        "source_class": "user_stated",
        "occurred_at": "2025-03-19T09:00:00+00:00",
        "body": "Mei wants mornings free of meetings; anything with her goes after two o'clock.",
    },
    {
        "ref": "pref-aiko-docs",
        "kind": "preference",
        "subject": "Aiko",
        "source_class": "user_stated",
        "occurred_at": "2025-03-20T09:00:00+00:00",
        "body": "Aiko reads designs as one page of prose with a diagram, not as slides.",
    },
    {
        "ref": "runbook-rollback",
        "kind": "procedure",
        "title": "Rolling back",
        "source_ref": "runbook.md",
        "occurred_at": "2025-03-25T11:00:00+00:00",
        "body": "To undo a bad deploy run `ship rollback <service>`; it points traffic at the "
        "previous image within a minute. Database changes stay as they are.",
    },
    {
        "ref": "runbook-keys",
        "kind": "procedure",
        "title": "Rotating carrier keys",
        "source_ref": "runbook.md",
        "occurred_at": "2025-03-26T11:00:00+00:00",
        "body": "Create the new API key in the carrier's portal, add it to the vault beside the "
        "old one, restart the gateway, then revoke the old key after a day.",
    },
    {
        "ref": "flags",
        "kind": "semantic",
        "occurred_at": "2025-04-02T14:00:00+00:00",
        "body": "Feature flags older than ninety days fail the nightly build until someone deletes "
        "them.",
    },
    {
        "ref": "backup-drill",
        "kind": "task",
        "unresolved": True,
        "occurred_at": "2025-04-28T14:00:00+00:00",
        "body": "Restore last night's backup into an empty server and time it. Nobody has done "
        "this since January.",
    },
    {
        "ref": "task-gdpr",
        "kind": "task",
        "unresolved": True,
        "tags": ["privacy"],
        "occurred_at": "2025-05-06T13:00:00+00:00",
        "body": "The GDPR export still leaves out support tickets and delivery photos. Priya owns "
        "it; the deadline is the end of June.",
    },
    {
        "ref": "sammelrechnung",
        "kind": "decision",
        "occurred_at": "2025-05-08T09:00:00+00:00",
        "body": "Rechnungen an Geschäftskunden verschicken wir gesammelt am letzten Werktag des "
        "Monats, weil einzelne Rechnungen die Buchhaltung überlastet haben.",
    },
    {
        "ref": "kinyo-deploy",
        "kind": "decision",
        "occurred_at": "2025-05-12T09:00:00+00:00",
        "body": "金曜日の午後は本番環境へのデプロイを禁止する。週末に対応できる人が少ないため。",
    },
    # Two talks, turn by turn, with the speaker of each.
    _turn("standup-05-19", 1, "2025-05-19", "Priya", "Morning. What is holding up this release?"),
    _turn(
        "standup-05-19",
        2,
        "2025-05-19",
        "Mei",
        "The scanner freezes on old Android phones. I would hold the courier app back until that "
        "is fixed.",
    ),
    _turn(
        "standup-05-19",
        3,
        "2025-05-19",
        "Tomás",
        "Half of our drivers carry exactly those phones, so yes, let us wait a week.",
    ),
    _turn(
        "standup-05-19", 4, "2025-05-19", "Priya", "I can lend you my old Pixel to reproduce it."
    ),
    _turn(
        "cost-05-27",
        1,
        "2025-05-27",
        "Aiko",
        "The cloud bill grew by a third, and almost all of it is log storage.",
    ),
    _turn(
        "cost-05-27",
        2,
        "2025-05-27",
        "Tomás",
        "We keep debug lines for a year. Two weeks would do, and errors for three months.",
    ),
    _turn("cost-05-27", 3, "2025-05-27", "Priya", "Fine by me as long as audit records stay."),
]

# What changed later: three refs come again with other content and supersede the first version, and
# one note is the same text as the runbook's, written down a second time by somebody else.
LATER: list[MemoryInput] = [
    {
        "ref": "retry-policy",
        "kind": "decision",
        "topic_key": "retries",
        "occurred_at": "2025-05-30T09:30:00+00:00",
        "body": "When a card charge does not go through we retry it three times with growing "
        "pauses, then page whoever is on call.",
    },
    {
        "ref": "prod-region",
        "kind": "semantic",
        "subject": "production",
        "attribute": "region",
        "occurred_at": "2025-06-02T12:00:00+00:00",
        "body": "Production runs in Stockholm across three availability zones.",
    },
    {
        "ref": "oncall-start",
        "kind": "semantic",
        "occurred_at": "2025-06-10T08:00:00+00:00",
        "body": "The on-call week starts on Wednesday at noon; Aiko keeps the rota.",
    },
    {
        "ref": "wiki-rollback",
        "kind": "procedure",
        "title": "Rolling back",
        "source_ref": "wiki/rollback",
        "occurred_at": "2025-06-12T11:00:00+00:00",
        "body": "To undo a bad deploy run `ship rollback <service>`; it points traffic at the "
        "previous image within a minute. Database changes stay as they are.",
    },
]

QUESTIONS: list[Question] = [
    Question(
        "how many times do we try to charge a card that was declined?",
        "retry-policy",
        "a corrected fact: the current version",
        "three times",
    ),
    Question(
        "which broker was chosen for messaging?",
        "event-bus",
        "other words than the memory uses",
        "NATS",
    ),
    Question("what happened in INC-2291?", "INC-2291", "an identifier", "sticker"),
    Question(
        "why was checkout broken in the spring?",
        "INC-2304",
        "the cause of an incident",
        "ALTER TABLE",
    ),
    Question(
        "in which city is our production environment hosted?",
        "prod-region",
        "a corrected fact: the current version",
        "Stockholm",
    ),
    Question(
        "what did Mei say about the app for couriers?",
        "standup-05-19/2",
        "who said it",
        "scanner",
    ),
    Question(
        "how big should a pull request be when Jonas reviews it?",
        "pref-jonas-pr",
        "a preference",
        "two hundred",
    ),
    Question(
        "how can I undo a deploy that broke something?",
        "runbook-rollback",
        "a procedure, written down twice",
        "ship rollback",
    ),
    Question(
        "is anything missing from the personal data export under GDPR?",
        "task-gdpr",
        "unfinished work",
        "support tickets",
    ),
    Question(
        "Wann bekommen Geschäftskunden ihre Rechnung?",
        "sammelrechnung",
        "a question in German",
        "Werktag",
    ),
    Question(
        "金曜日にデプロイしてもいい?",
        "kinyo-deploy",
        "a question in Japanese",
        "禁止",
    ),
]
