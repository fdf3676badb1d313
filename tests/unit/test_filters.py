"""What a condition of ``where`` may say, and the place that is named for everything else."""

from __future__ import annotations

import subprocess
import sys

import pytest

from remem_pg.errors import InvalidArgument, TextRefused
from remem_pg.filters.fields import FIELDS
from remem_pg.filters.where import DEPTH, LENGTH, compile_where

VALUES = {"text": "'x'", "number": "1", "boolean": "true", "time": "'2026-01-01'"}


def refusal(where: str) -> tuple[int, int, str]:
    with pytest.raises(InvalidArgument) as caught:
        compile_where(where)
    detail = caught.value.detail
    assert detail["argument"] == "where"
    assert detail["problem"] in str(caught.value)
    assert f"line {detail['line']}, column {detail['column']}" in str(caught.value)
    assert caught.value.hint
    return detail["line"], detail["column"], detail["token"]


@pytest.mark.parametrize("field", FIELDS)
def test_every_documented_field_can_be_named_in_any_case_and_in_quotes(field: str) -> None:
    value = VALUES.get(FIELDS[field])
    for name in (field, field.upper(), f'"{field}"'):
        condition = f"{name} = {value}" if value else f"'x' = any({name})"
        assert f"$.{field} == " in compile_where(condition)
        assert f"$.{field}" in compile_where(f"{name} is not null")


def test_the_condition_of_the_documents_is_one_predicate() -> None:
    assert compile_where(
        "kind = 'decision' and metadata.team = 'core' and occurred_at > '2026-01-01'"
        " and importance >= 0.7"
    ) == (
        '((($.kind == "decision") && ($.metadata."team" == "core"))'
        ' && (($.occurred_at > "2026-01-01T00:00:00+00:00") && ($.importance >= 0.7)))'
    )


@pytest.mark.parametrize(
    ("said", "stored"),
    [
        ("2026-03-01", "2026-03-01T00:00:00+00:00"),
        ("2026-03-01T09:30", "2026-03-01T09:30:00+00:00"),
        ("2026-03-01 09:30:15", "2026-03-01T09:30:15+00:00"),
        ("2026-03-01T09:30:15.250", "2026-03-01T09:30:15.25+00:00"),
        ("2026-03-01T09:30:00Z", "2026-03-01T09:30:00+00:00"),
        ("2026-03-01T00:30:00+02:00", "2026-02-28T22:30:00+00:00"),
        ("2026-03-01 00:30 +02", "2026-02-28T22:30:00+00:00"),
        ("2026-02-28T20:00:00-0530", "2026-03-01T01:30:00+00:00"),
        ("0099-01-01", "0099-01-01T00:00:00+00:00"),
    ],
)
def test_a_time_is_written_in_utc_as_it_is_stored(said: str, stored: str) -> None:
    assert compile_where(f"occurred_at = '{said}'") == f'($.occurred_at == "{stored}")'


@pytest.mark.parametrize(
    ("where", "place"),
    [
        ("colour = 'red'", (1, 1, "colour")),
        ("kind = 'a' and\n  colour = 'red'", (2, 3, "colour")),
        ("kind = 'a'; drop table memory", (1, 11, ";")),
        ("lower(kind) = 'a'", (1, 1, "lower")),
        ("kind = current_user", (1, 8, "current_user")),
        ("occurred_at > now()", (1, 15, "now")),
        ("kind in (select kind from memory)", (1, 10, "select")),
        ("exists(select 1)", (1, 1, "exists")),
        ("kind = $1", (1, 8, "$")),
        ("kind = %(a)s", (1, 8, "%")),
        ("kind::text = 'a'", (1, 5, "::")),
        ("kind || 'x' = 'y'", (1, 6, "||")),
        ("metadata ->> 'team' = 'core'", (1, 10, "->>")),
        ("kind ~ 'a'", (1, 6, "~")),
        ("kind similar to 'a'", (1, 6, "similar to")),
        ("kind like 'a' escape '!'", (1, 15, "escape")),
        ("kind = E'a'", (1, 8, "E'a'")),
        ("kind = U&'\\0061'", (1, 8, "U&'\\0061'")),
        ("kind = $$a$$", (1, 8, "$$a$$")),
        ("kind = null", (1, 8, "null")),
        ("kind in ('a', null)", (1, 15, "null")),
        ("kind = 'a' collate \"C\"", (1, 12, "collate")),
        ("importance = 1 + 1", (1, 16, "+")),
        ("importance = '0.7'", (1, 14, "'0.7'")),
        ("importance = true", (1, 1, "importance")),
        ("importance between 0 and '1'", (1, 26, "'1'")),
        ("kind = 5", (1, 8, "5")),
        ("pinned = 'true'", (1, 10, "'true'")),
        ("pinned > false", (1, 1, "pinned")),
        ("metadata.a > true", (1, 1, "metadata")),
        ("occurred_at > 'yesterday'", (1, 15, "'yesterday'")),
        ("occurred_at > '2026-02-30'", (1, 15, "'2026-02-30'")),
        ("occurred_at > '2026-01-01 10:00 CET'", (1, 15, "'2026-01-01 10:00 CET'")),
        ("occurred_at > 5", (1, 15, "5")),
        ("occurred_at like '2026%'", (1, 1, "occurred_at")),
        ("occurred_at > date '2026-01-01 10:00'", (1, 20, "'2026-01-01 10:00'")),
        ("occurred_at > timestamp '2026-01-01 10:00Z'", (1, 25, "'2026-01-01 10:00Z'")),
        ("importance >= 1e5000", (1, 15, "1e5000")),
        ("title like 'a\\'", (1, 12, "'a\\'")),
        ("title like ref", (1, 12, "ref")),
        ("valid_from < valid_to", (1, 14, "valid_to")),
        ('kind = "decision"', (1, 8, '"decision"')),
        ("metadata = 'x'", (1, 1, "metadata")),
        ("metadata.a in (1, 'a')", (1, 19, "'a'")),
        ("metadata.a between 1 and 'a'", (1, 1, "metadata")),
        ("metadata.a[0] = 1", (1, 1, "metadata")),
        ("metadata.* = 1", (1, 10, "*")),
        ("metadata.kind() = 1", (1, 10, "kind")),
        ("tags = 'a'", (1, 1, "tags")),
        ("tags in ('a')", (1, 1, "tags")),
        ("tags @> array[1]", (1, 15, "1")),
        ("tags @> 'a'", (1, 1, "tags")),
        ("tags <@ array['a']", (1, 1, "tags")),
        ("'a' <> any(tags)", (1, 12, "tags")),
        ("'a' = any(kind)", (1, 11, "kind")),
        ("'a' = all(tags)", (1, 7, "all")),
        ("kind", (1, 1, "kind")),
        ("true", (1, 1, "true")),
        ("1 = 1", (1, 1, "1")),
        ("pinned is true", (1, 1, "pinned")),
        ("kind is distinct from 'a'", (1, 9, "distinct")),
        ("(kind, ref) = ('a', 'b')", (1, 2, "kind")),
        ("kind = 'a' 'b'", (1, 8, "'a'")),
        ("kind = 'a' kind = 'b'", (1, 12, "kind")),
        ("kind = 'a') or (kind = 'b'", (1, 11, ")")),
        ("(kind = 'a'", (1, 9, "'a'")),
        ("kind = 'a' and", (1, 12, "and")),
        ("kind = 'abc", (1, 8, "'abc")),
        ("kind in ()", (1, 1, "kind")),
        ("", (1, 1, "")),
        (" \n", (1, 1, "")),
    ],
)
def test_anything_else_is_refused_with_its_place(where: str, place: tuple[int, int, str]) -> None:
    assert refusal(where) == place


@pytest.mark.parametrize("opening", ["(", "not ", "not ("])
def test_nesting_is_bounded(opening: str) -> None:
    closing = ")" * opening.count("(")
    compile_where(opening * DEPTH + "pinned" + closing * DEPTH)
    assert refusal(opening * 5000 + "pinned" + closing * 5000)[0] == 1


def test_a_name_of_very_many_parts_is_refused() -> None:
    assert refusal("metadata" + ".a" * 5000 + " = 1")[0] == 1


def test_a_caller_deep_in_its_own_calls_gets_an_error_of_the_same_kind() -> None:
    def deeper(left: int) -> str:
        return deeper(left - 1) if left else compile_where("(" * 20 + "pinned" + ")" * 20)

    room = sys.getrecursionlimit() - 200
    with pytest.raises(InvalidArgument):
        deeper(room)


def test_length_is_bounded_and_a_long_chain_is_not_deep() -> None:
    long = " or ".join(f"turn_no = {n}" for n in range(2000))
    assert len(long) < LENGTH
    predicate = compile_where(long)
    depth = deepest = 0
    for character in predicate:
        depth += (character == "(") - (character == ")")
        deepest = max(deepest, depth)
    assert deepest < 20
    with pytest.raises(InvalidArgument) as caught:
        compile_where(f"kind = '{'x' * LENGTH}'")
    assert caught.value.detail["limit"] == LENGTH


@pytest.mark.parametrize("where", ["kind = '\0'", "kind = '\ud800'"])
def test_what_no_text_can_hold_is_refused_as_such(where: str) -> None:
    with pytest.raises(TextRefused):
        compile_where(where)


def test_a_where_that_is_no_text_is_refused() -> None:
    with pytest.raises(InvalidArgument):
        compile_where(5)  # type: ignore[arg-type]


def test_sqlglot_is_loaded_with_the_first_condition_only() -> None:
    program = (
        "import sys, remem_pg; remem_pg.Remem; from remem_pg.filters import where;"
        "assert 'sqlglot' not in sys.modules; where.compile_where('pinned');"
        "assert 'sqlglot' in sys.modules"
    )
    subprocess.run([sys.executable, "-c", program], check=True)
