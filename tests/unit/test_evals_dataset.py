"""Reading conversation files: every shape that occurs, and what becomes of what is broken."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pytest

from evals.dataset import DatasetError, load, parse_date, resolve_evidence

FIXTURE = Path(__file__).parent / "evals_conversations.json"


def write(tmp_path: Path, document: Any) -> Path:
    path = tmp_path / "conversations.json"
    path.write_text(json.dumps(document), encoding="utf-8")
    return path


def test_turns_come_in_session_and_turn_order_whatever_the_order_of_keys() -> None:
    first = load(FIXTURE).conversations[0]
    assert [turn.ref for turn in first.turns] == [
        *("D1:1", "D1:2", "D1:3", "D1:4"),
        *("D2:1", "D2:2", "D2:3"),
        *("D10:1", "D10:2"),
    ]
    assert [turn.session for turn in first.turns][::4] == ["session_1", "session_2", "session_10"]
    assert [turn.number for turn in first.turns][:5] == [1, 2, 3, 4, 1]


def test_a_caption_is_part_of_the_body() -> None:
    turns = {turn.ref: turn for turn in load(FIXTURE).conversations[0].turns}
    assert turns["D2:2"].body == "That is the new rack. [image: a server rack with blue cables]"
    assert turns["D10:2"].body == "[image: a printed runbook]"
    assert turns["D2:2"].speaker == "Ines"


def test_a_turn_is_dated_by_its_session_and_a_second_later_than_the_one_before() -> None:
    turns = {turn.ref: turn for turn in load(FIXTURE).conversations[0].turns}
    assert turns["D1:1"].occurred_at == datetime(2024, 2, 5, 9, 30, tzinfo=UTC)
    assert turns["D1:3"].occurred_at == datetime(2024, 2, 5, 9, 30, 2, tzinfo=UTC)
    # the tenth session's date is in no format at all
    assert turns["D10:1"].occurred_at is None


def test_questions_keep_only_evidence_that_names_turns() -> None:
    dataset = load(FIXTURE)
    asked = {q.text: q for c in dataset.conversations for q in c.questions}
    assert asked["Which queue did the team choose?"].evidence == {"D1:2"}
    assert asked["What was ordered and who received it?"].evidence == {"D1:4", "D2:1"}
    assert asked["Where is the runbook?"].evidence == {"D10:2"}
    assert asked["Which queue did the team choose?"].category == "4"
    assert "Who is the mayor?" not in asked


def test_what_is_left_out_is_counted_by_reason() -> None:
    dataset = load(FIXTURE)
    assert (len(dataset.conversations), dataset.turns, dataset.questions) == (2, 11, 4)
    assert dataset.left_out == {
        "evidence ids that name no turn": 2,
        "questions without evidence": 2,
        "questions without text": 1,
        "turns without text": 1,
        "unanswerable questions": 1,
    }


def test_limit_keeps_the_first_conversations() -> None:
    assert [c.name for c in load(FIXTURE, limit=1).conversations] == ["platform-team"]


def test_turns_without_or_with_repeated_ids_get_refs_of_their_own(tmp_path: Path) -> None:
    turns = [{"speaker": "A", "text": "one"}, {"text": "two", "dia_id": "x"}]
    again = [{"text": "three", "dia_id": "x"}]
    path = write(tmp_path, {"conversation": {"session_1": turns, "session_2": again}})
    only = load(path).conversations[0]
    assert [turn.ref for turn in only.turns] == ["D1:1", "x", "x#2.1"]
    assert only.name == "conversation-1"
    assert only.questions == ()


@pytest.mark.parametrize(
    ("evidence", "found", "lost"),
    [
        (["D8:6; D9:17"], {"D8:6", "D9:17"}, 0),
        (["D9:1 D8:6"], {"D9:1", "D8:6"}, 0),
        (["D30:05"], {"D30:5"}, 0),
        (["D:11:26"], {"D11:26"}, 0),
        (["D", "D8:6"], {"D8:6"}, 1),
        (["D8:6", "D8:6"], {"D8:6"}, 0),
        (["D99:1"], set(), 1),
        ("D8:6", {"D8:6"}, 0),
        ([], set(), 0),
        (None, set(), 0),
    ],
)
def test_evidence_with_slips_is_read_as_it_was_meant(
    evidence: Any, found: set[str], lost: int
) -> None:
    refs = {ref: ref for ref in ("D8:6", "D9:17", "D9:1", "D30:5", "D11:26")}
    assert resolve_evidence(evidence, refs) == (found, lost)


@pytest.mark.parametrize(
    "text",
    [
        "1:56 pm on 8 May, 2023",
        "1:56 PM, May 8, 2023",
        "May 8th, 2023 at 1:56 p.m.",
        "Monday, 8 May 2023 13:56",
        "8 May 2023 01:56 pm",
        "2023-05-08T13:56",
        "2023-05-08 13:56:00",
        "2023-05-08T13:56:00Z",
        "2023/05/08 13:56",
        "05/08/2023 13:56",
        "13:56 08.05.2023",
        1683554160,
        1683554160000,
    ],
)
def test_dates_are_read_in_the_forms_people_write(text: str | int) -> None:
    assert parse_date(text) == datetime(2023, 5, 8, 13, 56, tzinfo=UTC)


def test_an_offset_in_the_date_is_kept() -> None:
    moment = parse_date("2023-05-08T13:56:00+02:00")
    assert moment == datetime(2023, 5, 8, 13, 56, tzinfo=timezone(timedelta(hours=2)))


def test_a_day_above_twelve_decides_the_order_of_slashes() -> None:
    assert parse_date("28/05/2023") == datetime(2023, 5, 28, tzinfo=UTC)


@pytest.mark.parametrize("text", ["", "soon", "32 May 2023", None, [], True, 1e30, float("nan")])
def test_what_is_no_date_is_none(text: Any) -> None:
    assert parse_date(text) is None


@pytest.mark.parametrize("document", [[], [1], {}, {"conversation": []}])
def test_a_file_of_another_form_is_refused(tmp_path: Path, document: Any) -> None:
    with pytest.raises(DatasetError):
        load(write(tmp_path, document))


def test_a_file_that_is_no_json_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "conversations.json"
    path.write_text("not json")
    with pytest.raises(DatasetError, match="is not JSON"):
        load(path)
