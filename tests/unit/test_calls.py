"""What the client sends, and what it refuses before sending anything."""

from __future__ import annotations

import json
import struct
from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta, timezone
from typing import Any
from uuid import UUID

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from remem_pg import calls, checks
from remem_pg.calls import Reply
from remem_pg.errors import (
    InvalidArgument,
    RememError,
    TextRefused,
    UnknownOption,
    VectorRefused,
)
from remem_pg.models import MemoryFields, MemoryInput
from remem_pg.tenancy import calls as admin_calls
from remem_pg.vector import Vector


def refused(check: Callable[[], object], kind: type[RememError], *parts: str) -> RememError:
    with pytest.raises(kind) as caught:
        check()
    for part in parts:
        assert part in str(caught.value)
    return caught.value


# what is sent


def test_every_argument_is_named_and_cast() -> None:
    call = calls.remember("acme", checks.item({"body": "x", "tags": ["a"], "importance": 1}))
    assert call.sql == (
        "select r.* from remem.remember(workspace => %(workspace)s::text, body => %(body)s::text, "
        "tags => %(tags)s::text[], importance => %(importance)s::real) r"
    )
    assert call.params == {"workspace": "acme", "body": "x", "tags": ["a"], "importance": 1.0}
    assert not call.read


def test_an_argument_left_out_is_not_sent_so_that_the_servers_default_holds() -> None:
    assert "options" not in calls.recall("acme", "q", None, 8, {}).sql
    assert calls.get("acme", None, "r").params == {"workspace": "acme", "ref": "r"}
    assert "remem.version() r" in admin_calls.version().sql


def test_reads_are_marked_and_writes_are_not() -> None:
    reads = [
        calls.get("a", None, "r"),
        calls.list_memories("a", None, None, 5),
        calls.count("a", None),
        calls.recall("a", "q", None, 1, {}),
        calls.recall_explain("a", "q", None, 1, {}),
        admin_calls.current_space("a"),
        admin_calls.version(),
    ]
    writes: list[calls.Call[Any]] = [
        calls.remember("a", {"body": "x"}),
        calls.remember_many("a", [], "abort"),
        admin_calls.register_space({}),
        admin_calls.activate_space("s", None),
        admin_calls.grant_access("r", None, "read", None),
    ]
    assert all(call.read for call in reads)
    assert not any(call.read for call in writes)


def test_reserved_words_are_quoted() -> None:
    assert 'remem."list"(' in calls.list_memories("a", None, None, 5).sql
    assert '"limit" => %(limit)s::integer' in calls.list_memories("a", None, None, 5).sql


def test_in_a_tenant_the_function_takes_its_workspace_from_the_row_that_sets_it() -> None:
    call = calls.in_tenant(calls.count("acme", None), "acme")
    assert call.sql == (
        "select r.* from (select set_config('remem.workspace', %(workspace)s::text, true) "
        "as workspace offset 0) tenant cross join lateral "
        "remem.count(workspace => tenant.workspace) r"
    )


def test_a_call_about_the_whole_database_is_not_narrowed() -> None:
    for call in (admin_calls.version(), admin_calls.grant_access("r", "other", "read", None)):
        assert calls.in_tenant(call, "acme") is call


def test_items_travel_as_one_json_array_with_readable_numbers() -> None:
    item = checks.item(
        {
            "body": 'say "hé"\n',
            "metadata": {"a": [1, None, True], "when": datetime(2026, 1, 1, tzinfo=UTC)},
            "embedding": np.array([0.1, -2.5], dtype="f4"),
            "pinned": True,
            "turn_no": 3,
        }
    )
    call = calls.remember_many("acme", [item, checks.item({"body": "b"})], "report")
    assert json.loads(call.params["items"]) == [
        {
            "body": 'say "hé"\n',
            "pinned": True,
            "turn_no": 3,
            "metadata": {"a": [1, None, True], "when": "2026-01-01T00:00:00+00:00"},
            "embedding": [0.100000001, -2.5],
        },
        {"body": "b"},
    ]


@given(st.lists(st.floats(width=32, allow_nan=False, allow_infinity=False), min_size=1))
def test_both_forms_of_a_vector_give_every_float32_back(values: list[float]) -> None:
    vector = checks.vector(values, "embedding")
    from_json = [struct.unpack("f", struct.pack("f", v))[0] for v in json.loads(vector.as_json())]
    assert from_json == values
    binary = vector.as_binary()
    assert struct.unpack(">iiIii", binary[:20]) == (1, 0, 700, len(values), 1)
    cells = struct.unpack(">" + "if" * len(values), binary[20:])
    assert (set(cells[::2]), list(cells[1::2])) == ({4}, values)


def test_an_empty_vector_is_an_empty_array() -> None:
    assert Vector(()).as_binary() == struct.pack(">iiI", 0, 0, 700)


def test_the_fields_of_the_types_are_the_fields_that_are_checked() -> None:
    assert MemoryInput.__annotations__.keys() <= {"body"} | MemoryFields.__annotations__.keys()
    assert {"body", *MemoryFields.__annotations__} == set(checks.FIELDS)


def test_a_recall_result_collects_the_degraded_states_of_warning_and_hits() -> None:
    call = calls.recall("a", "q", None, 8, {"space": "f"})
    row = {"rank": 1, "memory_id": UUID(int=1), "body": "b", "degraded": ["stale_rows"]}
    result = call.parse(Reply([row], ("no_embedding", "stale_rows")))
    assert (result.degraded, result.space, result.query) == (
        ("no_embedding", "stale_rows"),
        "f",
        "q",
    )


# what is refused


@pytest.mark.parametrize("field", [n for n, (kind, _) in checks.FIELDS.items() if kind == "text"])
@pytest.mark.parametrize("bad", ["a\0b", "a\ud800b"])
def test_nul_and_lone_surrogates_are_refused_in_every_text_field(field: str, bad: str) -> None:
    error = refused(lambda: checks.item({"body": "x", field: bad}, 7), TextRefused, field, "item 7")
    assert (error.item_no, error.detail["argument"]) == (7, field)


@pytest.mark.parametrize(
    ("value", "where"),
    [
        ({"k": "a\0"}, "metadata.k"),
        ({"k": {"l": ["ok", "\udfff"]}}, "metadata.k.l[1]"),
        ({"k\0": 1}, "metadata (a key)"),
        ({"a": {"\ud800": 1}}, "metadata.a (a key)"),
    ],
)
def test_metadata_is_searched_for_texts_that_cannot_be_stored(
    value: dict[str, Any], where: str
) -> None:
    error = refused(lambda: checks.item({"body": "x", "metadata": value}), TextRefused)
    assert error.detail["argument"] == where


@pytest.mark.parametrize("field", ["tags", "aliases", "entities"])
def test_a_bad_member_of_a_list_is_named_by_its_place(field: str) -> None:
    item = {"body": "x", field: ["ok", "a\0"]}
    assert refused(lambda: checks.item(item), TextRefused).detail["argument"] == f"{field}[1]"


@pytest.mark.parametrize(
    "value",
    [float("nan"), float("inf"), {1, 2}, b"bytes", object(), date(2026, 1, 1), 10**5000],
    ids=["nan", "infinity", "set", "bytes", "object", "date", "huge"],
)
def test_metadata_that_is_no_json_is_refused_by_name(value: object) -> None:
    error = refused(
        lambda: checks.item({"body": "x", "metadata": {"k": value}}), InvalidArgument, "metadata"
    )
    assert str(error.detail["argument"]).startswith("metadata")


def test_metadata_must_be_an_object_with_text_keys() -> None:
    refused(lambda: checks.item({"body": "x", "metadata": [1]}), InvalidArgument, "dict")
    refused(lambda: checks.item({"body": "x", "metadata": {1: 2}}), InvalidArgument, "int")


def test_metadata_nested_a_hundred_deep_passes_and_a_cycle_does_not() -> None:
    deep: Any = "bottom"
    for _ in range(100):
        deep = {"k": deep}
    assert checks.item({"body": "x", "metadata": deep})["metadata"].count('"k"') == 100
    cycle: dict[str, Any] = {}
    cycle["self"] = cycle
    refused(
        lambda: checks.item({"body": "x", "metadata": cycle}), InvalidArgument, "nested too deeply"
    )


@pytest.mark.parametrize("field", ["occurred_at", "valid_from", "valid_to"])
def test_a_naive_time_is_refused_by_name(field: str) -> None:
    for naive in (datetime(2026, 3, 1, 9), "2026-03-01T09:00:00", "2026-03-01"):
        refused(
            lambda naive=naive: checks.item({"body": "x", field: naive}),  # type: ignore[misc]
            InvalidArgument,
            field,
            "has no time zone",
        )


def test_an_aware_time_keeps_its_moment() -> None:
    east = datetime(2026, 3, 1, 9, 30, tzinfo=timezone(timedelta(hours=5, minutes=30)))
    for form in (east, east.isoformat(), "2026-03-01T04:00:00Z"):
        sent = checks.item({"body": "x", "occurred_at": form})["occurred_at"]
        assert datetime.fromisoformat(sent) == east


@pytest.mark.parametrize("value", [date(2026, 1, 1), 1700000000, "yesterday", "a\0"])
def test_what_is_no_time_is_refused(value: object) -> None:
    refused(lambda: checks.instant(value, "valid_to"), RememError, "valid_to")


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("turn_no", 2**31),
        ("turn_no", -(2**31) - 1),
        ("turn_no", "3"),
        ("turn_no", 1.5),
        ("turn_no", True),
        ("importance", float("nan")),
        ("importance", 1e39),
        ("importance", "0.5"),
        ("importance", False),
        ("importance", 10**400),
        ("pinned", "false"),
        ("pinned", 1),
        ("tags", "one"),
        ("tags", {"a": 1}),
        ("tags", 5),
        ("tags", ["a", None]),
        ("body", b"bytes"),
        ("body", 5),
        ("embedding", "0.1,0.2"),
        ("embedding", [[0.1], [0.2]]),
        ("embedding", [None, 1.0]),
        ("embedding", ["a"]),
    ],
)
def test_a_value_of_the_wrong_type_is_refused_by_name(field: str, value: object) -> None:
    refused(lambda: checks.item({"body": "x", field: value}, 2), InvalidArgument, field, "item 2")


@pytest.mark.parametrize("bad", [float("nan"), float("inf"), -float("inf"), 1e39])
@pytest.mark.parametrize("form", [list, tuple, np.array])
def test_a_vector_with_a_value_that_is_not_finite_is_refused(
    bad: float, form: Callable[[list[float]], Any]
) -> None:
    refused(
        lambda: checks.item({"body": "x", "embedding": form([0.5, bad])}, 3),
        VectorRefused,
        "embedding",
        "item 3",
    )


def test_an_unknown_field_is_refused_with_the_valid_ones_in_the_hint() -> None:
    error = refused(lambda: checks.item({"body": "x", "bodi": 1}, 1), UnknownOption, '"bodi"')
    assert error.hint is not None
    assert all(name in error.hint for name in checks.FIELDS)


def test_an_item_without_body_or_that_is_no_dict_is_refused() -> None:
    refused(lambda: checks.item({"ref": "x"}, 1), InvalidArgument, "body is missing")
    refused(lambda: checks.item("text", 2), InvalidArgument, "dict", "item 2")


def test_a_set_of_tags_is_the_same_list_every_time() -> None:
    assert checks.item({"body": "x", "tags": {"b", "a", "c"}})["tags"] == ["a", "b", "c"]


def test_none_is_the_same_as_leaving_a_field_out() -> None:
    assert checks.item({"body": "x", "tags": None, "ref": None}) == {"body": "x"}


@pytest.mark.parametrize("k", [2**31, "8", 1.0, None, True])
def test_k_must_be_a_32_bit_integer(k: Any) -> None:
    refused(lambda: calls.recall("a", "q", None, k, {}), InvalidArgument, "k ")


def test_ids_options_and_names_are_checked() -> None:
    refused(lambda: calls.get("a", "not-a-uuid", None), InvalidArgument, "memory_id", "a uuid")
    refused(lambda: calls.count("a\0", None), TextRefused, "workspace")
    refused(lambda: calls.recall("a", "q", None, 1, {"weights": {"x": float("nan")}}),
            InvalidArgument, "options.weights.x")  # fmt: skip
    refused(lambda: admin_calls.grant_access("r\ud800", None, "read", None), TextRefused, "role")


def test_a_text_too_long_to_send_is_refused_before_it_is_copied() -> None:
    error = refused(lambda: checks.text("x" * (checks.TEXT_LIMIT + 1), "body"), TextRefused)
    assert error.detail["limit"] == checks.TEXT_LIMIT


# anything at all

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)
ANYTHING = JSON | st.binary() | st.datetimes() | st.sampled_from(["\0", "a\ud800", "\udfff\0b"])


# the first example builds the table of all characters, which takes seconds on a busy machine
@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.dictionaries(st.sampled_from(list(checks.FIELDS)), ANYTHING))
def test_any_item_is_sent_as_valid_json_or_refused_with_a_typed_error(item: dict[str, Any]) -> None:
    try:
        checked = checks.item(item, 1)
    except RememError as error:
        assert error.item_no == 1
        assert str(error).encode("utf-8", "replace")
        return
    sent = calls.remember_many("acme", [checked], "abort").params["items"]
    assert "\\u0000" not in sent
    assert json.loads(sent.encode("utf-8"))[0]["body"] == item["body"]
