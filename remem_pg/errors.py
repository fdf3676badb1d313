"""Every error remem raises, in one tree under :class:`RememError`.

The server raises SQLSTATEs of class ``RM`` with a constant MESSAGE, a JSON object as DETAIL and the
next step as HINT. :func:`from_psycopg` turns them into the classes below by SQLSTATE, never by
message text. Errors found by the client itself (before anything is sent) are the same classes.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar

if TYPE_CHECKING:
    import psycopg

__all__ = [
    "BY_CODE",
    "CallAborted",
    "ClaimLost",
    "Conflict",
    "DatabaseNewer",
    "DimensionMismatch",
    "EmbeddedUnavailable",
    "EmbeddingUnavailable",
    "InvalidArgument",
    "NoAccess",
    "NotFound",
    "NotInstalled",
    "PgvectorMissing",
    "ReadOnly",
    "RememError",
    "ServerExhausted",
    "ServerUnavailable",
    "TenantNotSet",
    "TextRefused",
    "TransactionAborted",
    "UnknownOption",
    "UnknownSpace",
    "VectorRefused",
    "from_code",
    "from_psycopg",
]


class RememError(Exception):
    """remem could not do what was asked.

    ``message`` defaults to the first line of the class's docstring. ``str(error)`` is one sentence
    made from the code, the detail (or an explicit message), the item number and the hint.
    """

    code: str = ""
    default_hint: ClassVar[str | None] = None

    def __init__(
        self,
        message: str | None = None,
        *,
        detail: Mapping[str, Any] | None = None,
        hint: str | None = None,
        item_no: int | None = None,
    ) -> None:
        self.detail: dict[str, Any] = dict(detail or {})
        self.hint: str | None = hint or self.default_hint
        self.item_no: int | None = item_no if item_no is not None else _int(self.detail.get("item"))
        self._explicit = message is not None
        self.message: str = message if message is not None else type(self).summary()
        super().__init__(self.message)

    @classmethod
    def summary(cls) -> str:
        """The first line of the class's docstring without its full stop."""
        return (cls.__doc__ or cls.__name__).strip().splitlines()[0].rstrip(".")

    def sentence(self) -> str:
        """What went wrong, from the detail where it says more than the constant message."""
        if self._explicit:
            return self.message.rstrip(".")
        return self._describe(self.detail) or _facts(self.message, self.detail)

    def _describe(self, detail: Mapping[str, Any]) -> str | None:
        return None

    def as_dict(self) -> dict[str, Any]:
        """The form of a refused item's ``error`` document: code, message, detail, hint."""
        return {
            "code": self.code,
            "message": self.sentence(),
            "detail": self.detail,
            "hint": self.hint,
        }

    def __str__(self) -> str:
        text = self.sentence()
        if self.code:
            text = f"{self.code} {text}"
        if self.item_no is not None:
            text = f"{text} (item {self.item_no})"
        return f"{text}. Hint: {self.hint}" if self.hint else text

    def __reduce__(self) -> tuple[Any, ...]:
        # keyword-only arguments: without this an error does not survive pickling between processes
        return (_rebuild, (type(self), dict(self.__dict__)))


class InvalidArgument(RememError):
    """An argument is not valid."""

    code = "RM001"

    def _describe(self, detail: Mapping[str, Any]) -> str | None:
        argument = detail.get("argument")
        if argument is None:
            return None
        text = f"{argument} is not valid"
        if "value" in detail:
            text = f"{argument} = {_shown(detail['value'])} is not valid"
        # the hint lists what is valid in full; here it would be cut
        told = {"argument", "value"} | ({"valid"} if self.hint else set())
        return _facts(text, {k: v for k, v in detail.items() if k not in told})


class UnknownOption(RememError):
    """An option or field is not known."""

    code = "RM002"

    def _describe(self, detail: Mapping[str, Any]) -> str | None:
        name = detail.get("argument", detail.get("option"))
        if "value" in detail and name in (None, "options", "items"):
            name = detail["value"]
        return None if name is None else f"unknown option {_shown(name)}"


class TextRefused(RememError):
    """A text cannot be stored: it holds a NUL or a lone surrogate, or is too long."""

    code = "RM003"

    def _describe(self, detail: Mapping[str, Any]) -> str | None:
        argument = detail.get("argument")
        if argument is None:
            return None
        if "problem" in detail:
            return f"text of {argument} refused: {detail['problem']}"
        rest = {k: v for k, v in detail.items() if k not in ("argument", "value")}
        return _facts(f"text of {argument} refused", rest)


class NotFound(RememError):
    """Nothing of that name or id exists here."""

    code = "RM101"


class Conflict(RememError):
    """What is there does not allow it: a ref, name or space is taken or in use."""

    code = "RM102"


class DimensionMismatch(RememError):
    """A vector has another number of dimensions than its embedding space."""

    code = "RM201"

    def _describe(self, detail: Mapping[str, Any]) -> str | None:
        if "got" not in detail or "expected" not in detail:
            return None
        space = f' "{detail["space"]}"' if detail.get("space") else ""
        return f"vector has {detail['got']} dimensions, space{space} has {detail['expected']}"


class UnknownSpace(RememError):
    """The embedding space is unknown or not active."""

    code = "RM202"

    def _describe(self, detail: Mapping[str, Any]) -> str | None:
        space = _shown(detail.get("space"))
        if "space" not in detail:
            return None
        if "expected" in detail:
            return f"vector is of space {space}, the workspace uses {_shown(detail['expected'])}"
        return f"embedding space {space} is unknown or inactive"


class VectorRefused(RememError):
    """A vector holds NaN or infinity, or is all zero."""

    code = "RM203"

    def _describe(self, detail: Mapping[str, Any]) -> str | None:
        problem = detail.get("problem")
        return None if problem is None else f"vector refused: {problem}"


class NoAccess(RememError):
    """The connected role has no access."""

    code = "RM301"
    default_hint = "an administrator grants it with remem.grant_access(role, workspace, level)"


class TenantNotSet(RememError):
    """The database is in strict mode and the setting remem.workspace is not set."""

    code = "RM302"


class ClaimLost(RememError):
    """The embedding claim was lost to another worker."""

    code = "RM401"


class EmbeddingUnavailable(RememError):
    """No embedding could be computed."""

    code = "RM501"


class DatabaseNewer(RememError):
    """The database was installed by a newer remem."""

    code = "RM901"


class PgvectorMissing(RememError):
    """The pgvector extension is missing or too old."""

    code = "RM902"


class ServerUnavailable(RememError):
    """No Postgres server answered."""

    default_hint = "check the DSN and that the server runs"


class EmbeddedUnavailable(ServerUnavailable):
    """The embedded Postgres server could not be started."""

    default_hint = "pip install 'remem-pg[embedded]', or set REMEM_DSN to a server of your own"


class ServerExhausted(RememError):
    """The Postgres server has no disk space, memory or connections left."""

    default_hint = (
        "nothing of this call was stored: make room on the server (disk, memory, max_connections), "
        "then call again"
    )


class ReadOnly(RememError):
    """The database can only be read here: a standby, or a read-only transaction."""

    default_hint = "connect to the primary to write (in the DSN: target_session_attrs=read-write)"


class CallAborted(RememError):
    """The server broke the call off: a timeout, a cancellation, a lock or a deadlock."""

    default_hint = (
        "nothing of this call was stored: call again, where it timed out with a longer "
        "statement_timeout or lock_timeout"
    )


class TransactionAborted(RememError):
    """An earlier statement failed in the caller's transaction, which takes no more statements."""

    default_hint = "roll the transaction back, then call again"


class NotInstalled(RememError):
    """remem is not installed in this database, or an older version is."""

    default_hint = "run: remem migrate"


BY_CODE: dict[str, type[RememError]] = {
    cls.code: cls for cls in RememError.__subclasses__() if cls.code
}
"""SQLSTATE -> class, one for each code of ``remem._error_catalog()``."""

_MISSING_OBJECT = frozenset({"3F000", "42883", "42P01"})
"""invalid_schema_name, undefined_function, undefined_table."""

_SERVER_GONE = frozenset({"57P01", "57P02", "57P03", "57P05", "25P03"})
"""Shut down by an administrator, after a crash, still starting, or idle too long (the last one:
within a transaction)."""

_ABORTED = frozenset({"57014", "55P03", "40001", "40P01", "25P04"})
"""query_canceled (statement_timeout, too), lock_not_available, serialization_failure,
deadlock_detected, transaction_timeout."""

_FAILED_TRANSACTION = "25P02"
"""in_failed_sql_transaction."""

# What a server says that runs and lets nobody of that name in; other FATALs are about its state.
_REFUSED = re.compile(r'FATAL:\s+(role "|database "|password |no pg_hba|permission denied)')
_READ_ONLY = "25006"
"""read_only_sql_transaction."""


def from_code(
    code: str,
    *,
    detail: Mapping[str, Any] | None = None,
    hint: str | None = None,
    item_no: int | None = None,
) -> RememError:
    """The error of one RM code; an unknown code of a newer server is a plain RememError."""
    cls = BY_CODE.get(code, RememError)
    error = cls(detail=detail, hint=hint, item_no=item_no)
    if cls is RememError:
        error.code = code
    return error


def from_psycopg(exc: psycopg.Error) -> RememError | None:
    """The remem error for an error psycopg raised, or None when it is not one of remem's.

    Only the SQLSTATE decides. The caller raises the result ``from exc``.
    """
    import psycopg

    state = exc.sqlstate
    if state is None:
        # no answer from a server: refused, timed out, closed in the middle of a statement
        if isinstance(exc, psycopg.OperationalError):
            said = _first_line(exc)
            if _REFUSED.search(said):  # it runs, and wants no session of this role or database
                return ServerUnavailable(
                    f"Postgres refused the connection: {said}",
                    hint="check the role, the password and the database in the DSN",
                )
            return ServerUnavailable(f"no answer from Postgres: {said}")
        return None
    if state.startswith("RM"):
        error = from_code(state, detail=_json(exc.diag.message_detail), hint=exc.diag.message_hint)
        if type(error) is RememError and exc.diag.message_primary:
            error.message = exc.diag.message_primary
        return error
    if state == "42501":
        return NoAccess(
            f"the role may not use remem here: {_first_line(exc)}", hint=exc.diag.message_hint
        )
    # with a context the object is missed by a function of the server, not by this client's call
    if state in _MISSING_OBJECT and not exc.diag.context:
        return NotInstalled(f"remem is not installed here, or is older: {_first_line(exc)}")
    if state.startswith("53"):
        return ServerExhausted(f"the Postgres server has nothing left: {_first_line(exc)}")
    if state == _READ_ONLY:
        return ReadOnly(f"nothing can be written here: {_first_line(exc)}")
    if state in _ABORTED:
        return CallAborted(f"Postgres broke the call off: {_first_line(exc)}")
    if state == _FAILED_TRANSACTION:
        return TransactionAborted()
    if state.startswith("08") or state in _SERVER_GONE:
        return ServerUnavailable(f"the Postgres server went away: {_first_line(exc)}")
    return None


def _rebuild(cls: type[RememError], state: dict[str, Any]) -> RememError:
    error = cls(state["message"])
    error.__dict__.update(state)
    return error


def _first_line(exc: psycopg.Error) -> str:
    text = exc.diag.message_primary or str(exc)
    lines = text.strip().splitlines()
    return lines[0] if lines else type(exc).__name__


def _json(detail: str | None) -> dict[str, Any]:
    if not detail:
        return {}
    try:
        parsed = json.loads(detail)
    except ValueError:
        return {"text": detail}
    return parsed if isinstance(parsed, dict) else {"value": parsed}


def _int(value: Any) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def _shown(value: Any) -> str:
    """A value as it is printed in a sentence: JSON, cut at 60 characters."""
    text = json.dumps(value, ensure_ascii=False, default=str)
    return text if len(text) <= 60 else f"{text[:57]}..."


def _facts(text: str, detail: Mapping[str, Any]) -> str:
    """``text: key value, key value`` for the keys of a detail that a person can use."""
    facts = [f"{k} {_shown(v)}" for k, v in detail.items() if k != "item" and v is not None]
    return f"{text}: {', '.join(facts)}" if facts else text
