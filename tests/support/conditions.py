"""Random conditions over rows, each with what it is of a row: true, false or unknown."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, timezone
from decimal import Decimal
from typing import Any

from hypothesis import strategies as st

START = datetime(2026, 1, 1, tzinfo=UTC)
TEXTS = [
    "core", "Core", "co%re", "c_re", "édge", "É", "a'b", 'a"b', "a\\b", "$", "", " ", "a\nb",
    "]", "^a", "(a|b)*", "\\1", "true", "5", "2026-01-01", "null", '") || (1 == 1', "'; drop --",
]  # fmt: skip
NUMBERS = ["0", "1", "-1", "0.5", "0.7", "1e2", "100", "-2.50", "3.0"]
TIMES = [START + timedelta(hours=12 * n, microseconds=250_000 * (n % 3)) for n in range(6)]
FRACTIONS = [0.0, 0.5, 0.7, 1.0]

COLUMNS = {
    "title": ("text", "title"),
    "subject": ("text", "subject"),
    "importance": ("number", "importance"),
    "confidence": ("number", "confidence"),
    "pinned": ("boolean", "pinned"),
    "occurred_at": ("time", "occurred_at"),
    "valid_from": ("time", "valid_from"),
    "metadata.word": ("text", "word"),
    "metadata.size": ("number", "size"),
    "metadata.done": ("boolean", "done"),
    'metadata.deep."a key".n': ("number", "deep"),
}
"""Every field of the test: its type, and its name in a row of this file."""

Row = dict[str, Any]


def rows() -> list[Row]:
    """Rows in which everything but importance and pinned may be missing."""
    return [
        {
            "title": TEXTS[n % len(TEXTS)] or None,
            "subject": TEXTS[(7 * n) % len(TEXTS)] if n % 3 else None,
            "importance": FRACTIONS[n % 4],
            "confidence": FRACTIONS[n // 4 % 4] if n % 5 else None,
            "pinned": n % 2 == 0,
            "occurred_at": TIMES[n % 6] if n % 4 else None,
            "valid_from": TIMES[n // 6 % 6] - timedelta(days=9) if n % 7 else None,
            "word": TEXTS[n % 19] if n % 6 else None,
            "size": float(NUMBERS[n % 9]) if n % 3 != 1 else None,
            "done": [True, False, None][n % 3],
            "deep": float(NUMBERS[n // 2 % 9]) if n % 8 else None,
            "tags": [TEXTS[n % 5], TEXTS[n % 7]] if n % 2 else [],
        }
        for n in range(120)
    ]


ROWS = rows()


# -- conditions: their text, and what they are of a row (True, False, None = unknown)


@dataclass
class Condition:
    text: str
    of: Callable[[Row], bool | None]


def quoted(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


def spelled(draw: st.DrawFn, kind: str) -> tuple[str, Any]:
    """A value as SQL writes it, and as Python knows it."""
    if kind == "text":
        text = draw(st.sampled_from(TEXTS) | st.text("abcE%_\\.' é\n", max_size=4))
        return quoted(text), text
    if kind == "number":
        number = draw(st.sampled_from(NUMBERS))
        return number, Decimal(number)
    if kind == "boolean":
        word = draw(st.sampled_from(["true", "FALSE"]))
        return word, word == "true"
    moment = draw(st.sampled_from(TIMES)) - draw(st.sampled_from([timedelta(), timedelta(days=9)]))
    shifted = moment.astimezone(draw(st.sampled_from([UTC, _zone(2), _zone(-7)])))
    form = draw(st.sampled_from(["T", " "]))
    return quoted(shifted.isoformat(form)), moment


def _zone(hours: int) -> timezone:
    return timezone(timedelta(hours=hours))


OPERATORS: dict[str, Callable[[Any, Any], bool]] = {
    "=": lambda a, b: a == b,
    "<>": lambda a, b: a != b,
    "!=": lambda a, b: a != b,
    "<": lambda a, b: a < b,
    "<=": lambda a, b: a <= b,
    ">": lambda a, b: a > b,
    ">=": lambda a, b: a >= b,
}
MIRROR = {"<": ">", "<=": ">=", ">": "<", ">=": "<=", "=": "=", "<>": "<>", "!=": "!="}


def comparable(value: Any) -> Any:
    if isinstance(value, float):
        return Decimal(repr(value))
    return value.encode() if isinstance(value, str) else value


def known(name: str, test: Callable[[Any], bool | None]) -> Callable[[Row], bool | None]:
    def of(row: Row) -> bool | None:
        found = row[name]
        return None if found is None else test(comparable(found))

    return of


def like(pattern: str, any_case: bool) -> re.Pattern[str]:
    out, escaped = "", False
    for character in pattern:
        if escaped or character not in "%_\\":
            out, escaped = out + re.escape(character), False
        elif character == "\\":
            escaped = True
        else:
            out += ".*" if character == "%" else "."
    return re.compile(out, re.S | (re.I if any_case else 0))


@st.composite
def leaves(draw: st.DrawFn) -> Condition:
    field = draw(st.sampled_from(sorted(COLUMNS)))
    kind, name = COLUMNS[field]
    forms = ["compare", "mirror", "null", "in"]
    forms += ["between"] if kind != "boolean" else ["bare"]
    forms += ["like"] if kind == "text" else []
    form = draw(st.sampled_from(forms))
    no = draw(st.sampled_from(["", "not "]))
    said, value = spelled(draw, kind)
    value = comparable(value)

    def flip(answer: bool | None) -> bool | None:
        return answer if answer is None or not no else not answer

    if form in ("compare", "mirror"):
        operators = ["=", "<>", "!="] if kind == "boolean" else sorted(OPERATORS)
        operator = draw(st.sampled_from(operators))
        test = known(name, lambda found: OPERATORS[operator](found, value))
        if form == "mirror":
            return Condition(f"{said} {MIRROR[operator]} {field}", test)
        return Condition(f"{field} {operator} {said}", test)
    if form == "bare":
        return Condition(field, known(name, bool))
    if form == "null":
        return Condition(f"{field} is {no}null", lambda row: flip(row[name] is None))
    if form == "in":
        more = [spelled(draw, kind) for _ in range(draw(st.integers(0, 3)))]
        values = [value, *(comparable(other) for _, other in more)]
        listed = ", ".join([said, *(text for text, _ in more)])
        return Condition(
            f"{field} {no}in ({listed})", lambda row: flip(known(name, lambda f: f in values)(row))
        )
    if form == "between":
        upper, high = spelled(draw, kind)
        top = comparable(high)
        return Condition(
            f"{field} {no}between {said} and {upper}",
            lambda row: flip(known(name, lambda found: value <= found <= top)(row)),
        )
    any_case = draw(st.booleans())
    # Postgres folds other letters by its locale only, we always do: a test of its own.
    letters = "aCcore%_.*\\'b\n" + ("" if any_case else "Éé")
    pattern = draw(st.text(letters, max_size=5).filter(_is_pattern))
    matches = like(pattern, any_case)
    return Condition(
        f"{field} {no}{'ilike' if any_case else 'like'} {quoted(pattern)}",
        lambda row: flip(known(name, lambda f: bool(matches.fullmatch(f.decode())))(row)),
    )


def _is_pattern(pattern: str) -> bool:
    return re.fullmatch(r"([^\\]|\\.)*", pattern, re.S) is not None


@st.composite
def tagged(draw: st.DrawFn) -> Condition:
    tags = draw(st.lists(st.sampled_from(TEXTS[:7]), min_size=1, max_size=3))
    listed = f"array[{', '.join(map(quoted, tags))}]"
    every = lambda row: set(tags) <= set(row["tags"])  # noqa: E731
    some = lambda row: bool(set(tags) & set(row["tags"]))  # noqa: E731
    return draw(
        st.sampled_from(
            [
                Condition(f"tags @> {listed}", every),
                Condition(f"{listed} <@ tags", every),
                Condition(f"tags && {listed}", some),
                Condition(f"{quoted(tags[0])} = any(tags)", lambda row: tags[0] in row["tags"]),
            ]
        )
    )


def negation(inner: Condition) -> Condition:
    def of(row: Row) -> bool | None:
        answer = inner.of(row)
        return None if answer is None else not answer

    return Condition(f"not ({inner.text})", of)


def loose_negation(inner: Condition) -> Condition:
    """not binds weaker than a comparison, and stronger than and."""
    return Condition(f"not {inner.text}", negation(inner).of)


def both(pair: tuple[Condition, Condition]) -> Condition:
    def of(row: Row) -> bool | None:
        answers = [condition.of(row) for condition in pair]
        return False if False in answers else None if None in answers else True

    return Condition(f"({pair[0].text} and {pair[1].text})", of)


def either(pair: tuple[Condition, Condition]) -> Condition:
    def of(row: Row) -> bool | None:
        answers = [condition.of(row) for condition in pair]
        return True if True in answers else None if None in answers else False

    return Condition(f"({pair[0].text} or {pair[1].text})", of)


CONDITIONS = st.recursive(
    leaves() | tagged() | leaves().map(loose_negation),
    lambda inner: (
        st.tuples(inner, inner).map(both)
        | st.tuples(inner, inner).map(either)
        | inner.map(negation)
    ),
    max_leaves=8,
)
