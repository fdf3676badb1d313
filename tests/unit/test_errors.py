"""The error tree: one class per code, mapped by SQLSTATE, readable."""

from __future__ import annotations

import inspect
import json
import pickle
from types import SimpleNamespace
from typing import Any

import psycopg
import pytest
from psycopg import errors as pg

from remem_pg import errors
from remem_pg.errors import RememError, from_code, from_psycopg


class FromServer(psycopg.Error):
    """A psycopg error as the server would have raised it."""

    def __init__(self, state: str | None, **diagnostic: Any) -> None:
        super().__init__(diagnostic.get("message_primary", "text of the server"))
        self.sqlstate = state
        fields = ("message_primary", "message_detail", "message_hint", "context")
        self._diag = SimpleNamespace(**{name: diagnostic.get(name) for name in fields})

    @property
    def diag(self) -> Any:
        return self._diag


def classes() -> list[type[RememError]]:
    found = [c for _, c in inspect.getmembers(errors, inspect.isclass)]
    return [c for c in found if issubclass(c, RememError)]


def test_every_class_is_exported_and_has_a_sentence_of_its_own() -> None:
    summaries = [c.summary() for c in classes()]
    assert len(set(summaries)) == len(summaries) == 22
    assert {c.__name__ for c in classes()} <= set(errors.__all__)


def test_the_default_message_is_the_first_line_of_the_docstring() -> None:
    assert errors.ClaimLost().message == "The embedding claim was lost to another worker"
    assert str(errors.NotFound()) == "RM101 Nothing of that name or id exists here"


def test_every_code_maps_to_a_class_with_that_code() -> None:
    assert len(errors.BY_CODE) == 14
    for code, cls in errors.BY_CODE.items():
        assert cls.code == code
        assert type(from_psycopg(FromServer(code))) is cls


def test_a_dimension_mismatch_reads_as_one_sentence_with_item_and_hint() -> None:
    detail = {"got": 768, "expected": 384, "space": "minilm", "item": 3}
    error = from_psycopg(
        FromServer(
            "RM201",
            message_primary="vector dimension mismatch",
            message_detail=json.dumps(detail),
            message_hint="remem embeddings status",
        )
    )
    assert isinstance(error, errors.DimensionMismatch)
    assert str(error) == (
        'RM201 vector has 768 dimensions, space "minilm" has 384 (item 3). '
        "Hint: remem embeddings status"
    )
    assert (error.code, error.item_no, error.detail) == ("RM201", 3, detail)


@pytest.mark.parametrize(
    ("code", "detail", "sentence"),
    [
        ("RM001", {"argument": "k", "value": -1}, "k = -1 is not valid"),
        ("RM001", {"argument": "kind", "value": "x", "valid": ["a", "b"]},
         'kind = "x" is not valid: valid ["a", "b"]'),
        ("RM001", {}, "An argument is not valid"),
        ("RM002", {"option": "frobnicate"}, 'unknown option "frobnicate"'),
        ("RM003", {"argument": "title", "got": 70000, "limit": 65536},
         "text of title refused: got 70000, limit 65536"),
        ("RM003", {"argument": "body", "problem": "NUL at character 4"},
         "text of body refused: NUL at character 4"),
        ("RM202", {"space": "x"}, 'embedding space "x" is unknown or inactive'),
        ("RM202", {"space": "x", "expected": "y"},
         'vector is of space "x", the workspace uses "y"'),
        ("RM203", {"problem": "zero vector"}, "vector refused: zero vector"),
        ("RM201", {"space": "x"},
         'A vector has another number of dimensions than its embedding space: space "x"'),
    ],
)  # fmt: skip
def test_sentences_are_made_of_the_detail(code: str, detail: dict[str, Any], sentence: str) -> None:
    assert from_code(code, detail=detail).sentence() == sentence


def test_a_long_value_is_cut_in_the_sentence_and_whole_in_the_detail() -> None:
    error = from_code("RM001", detail={"argument": "x", "value": "y" * 500})
    assert len(str(error)) < 120
    assert error.detail["value"] == "y" * 500


def test_a_code_of_a_newer_server_keeps_its_code_and_message() -> None:
    error = from_psycopg(FromServer("RM777", message_primary="something new"))
    assert type(error) is RememError
    assert error.code == "RM777"
    assert str(error) == "RM777 something new"
    assert RememError.code == ""


@pytest.mark.parametrize("detail", [None, "", "not json", "[1, 2]"])
def test_a_detail_that_is_no_object_does_not_break_the_mapping(detail: str | None) -> None:
    error = from_psycopg(FromServer("RM101", message_detail=detail))
    assert isinstance(error, errors.NotFound)


def test_insufficient_privilege_is_no_access_with_the_grant_as_hint() -> None:
    error = from_psycopg(FromServer("42501", message_primary="permission denied for schema remem"))
    assert isinstance(error, errors.NoAccess)
    assert "remem.grant_access" in str(error)


@pytest.mark.parametrize("state", ["3F000", "42883", "42P01"])
def test_a_missing_object_in_our_own_statement_means_not_installed(state: str) -> None:
    error = from_psycopg(FromServer(state))
    assert isinstance(error, errors.NotInstalled)
    assert "remem migrate" in str(error)
    inside = FromServer(state, context="PL/pgSQL function remem.recall() line 3")
    assert from_psycopg(inside) is None


@pytest.mark.parametrize("state", ["08006", "08001", "57P01", "57P02", "57P03", "25P03"])
def test_a_server_that_went_away_is_unavailable(state: str) -> None:
    assert isinstance(from_psycopg(FromServer(state)), errors.ServerUnavailable)


@pytest.mark.parametrize("state", ["53000", "53100", "53200", "53300"])
def test_a_server_without_room_is_exhausted_and_says_that_nothing_was_stored(state: str) -> None:
    error = from_psycopg(FromServer(state))
    assert isinstance(error, errors.ServerExhausted)
    assert "nothing of this call was stored" in str(error)


def test_writing_where_only_reading_is_possible_names_the_primary() -> None:
    error = from_psycopg(FromServer("25006"))
    assert isinstance(error, errors.ReadOnly)
    assert "primary" in str(error)


@pytest.mark.parametrize("state", ["57014", "55P03", "40001", "40P01", "25P04"])
def test_a_call_that_the_server_broke_off_may_be_made_again(state: str) -> None:
    error = from_psycopg(FromServer(state))
    assert isinstance(error, errors.CallAborted)
    assert "call again" in str(error)


def test_a_transaction_that_failed_wants_a_rollback() -> None:
    error = from_psycopg(FromServer("25P02"))
    assert isinstance(error, errors.TransactionAborted)
    assert "roll the transaction back" in str(error)


def test_a_refused_connection_is_unavailable() -> None:
    with pytest.raises(psycopg.OperationalError) as caught:
        psycopg.connect("host=/nonexistent-directory dbname=x")
    error = from_psycopg(caught.value)
    assert isinstance(error, errors.ServerUnavailable)
    assert "/nonexistent-directory" in str(error)


@pytest.mark.parametrize(
    "exc", [pg.DivisionByZero(), pg.UniqueViolation(), psycopg.InterfaceError("closed")]
)
def test_what_is_not_remems_is_left_alone(exc: psycopg.Error) -> None:
    assert from_psycopg(exc) is None


def test_message_text_decides_nothing() -> None:
    translated = FromServer("XX000", message_primary="RM301 no access to this workspace")
    assert from_psycopg(translated) is None


def test_the_embedded_server_is_a_kind_of_server() -> None:
    with pytest.raises(errors.ServerUnavailable, match="REMEM_DSN"):
        raise errors.EmbeddedUnavailable


def test_an_error_survives_pickling() -> None:
    error = errors.NoAccess("not here", detail={"role": "x"}, hint="ask", item_no=2)
    copy = pickle.loads(pickle.dumps(error))
    assert (type(copy), str(copy), copy.detail) == (errors.NoAccess, str(error), {"role": "x"})


def test_as_dict_is_the_document_of_a_refused_item() -> None:
    error = errors.TextRefused(detail={"argument": "body", "problem": "NUL"}, hint="remove it")
    assert json.loads(json.dumps(error.as_dict())) == {
        "code": "RM003",
        "message": "text of body refused: NUL",
        "detail": {"argument": "body", "problem": "NUL"},
        "hint": "remove it",
    }
