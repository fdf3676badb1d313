"""What doctor says of models and clocks, without a database."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from remem_pg.operating import doctor
from remem_pg.operating.models import CheckRow

FAILED = {
    "model": "bge",
    "status": "failed",
    "at": "2026-03-01T09:30:00Z",
    "error": {"message": "the proxy says 407"},
}


def rows(monkeypatch: pytest.MonkeyPatch, models: dict[str, Any], spec: str) -> dict[str, CheckRow]:
    monkeypatch.setattr(doctor, "local_models", lambda: {"cache": "/c"} | models)
    report = doctor.examine(None, "an embedded Postgres", "w", spec)
    assert not report.reached
    return {row.check_name: row for row in report.rows}


@pytest.mark.covers("RE27")
def test_a_failed_download_is_a_warning_with_the_command_that_tries_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    retry = "remem embeddings download"
    found = rows(monkeypatch, {"last_download": FAILED, "retry": retry}, "hash")
    assert found["client_download"].status == "warning"
    assert "the proxy says 407" in found["client_download"].detail
    assert found["client_download"].remedy == retry
    assert found["client_embedding"].status == "warning"
    assert "the neural model could not be had" in found["client_embedding"].detail
    assert found["client_embedding"].remedy == retry


def test_a_download_that_went_well_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    models = {
        "models": [{"name": "bge", "complete": True}],
        "last_download": FAILED | {"status": "completed", "error": None},
    }
    found = rows(monkeypatch, models, "hash")
    assert found["client_models"].detail == "cache /c: bge"
    assert found["client_download"].detail == "bge was downloaded at 2026-03-01T09:30:00Z"
    assert found["client_embedding"].status == "ok"


@pytest.mark.covers("RE30")
def test_weights_that_are_incomplete_or_cannot_be_used_are_named(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    half = {"models": [{"name": "bge", "complete": False}]}
    found = rows(monkeypatch, half, "hash")["client_models"]
    assert (found.status, found.remedy) == ("warning", "remem embeddings download")
    assert "incomplete: bge" in found.detail
    whole = {"models": [{"name": "bge", "complete": True}], "missing_libraries": ["onnxruntime"]}
    found = rows(monkeypatch, whole, "hash")["client_models"]
    assert "not usable without onnxruntime" in found.detail


def test_what_this_machine_really_has_can_be_told(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    found = {r.check_name: r for r in doctor.examine(None, "a server", "w", "hash").rows}
    assert found["client_models"].detail == f"cache {tmp_path}/remem/models: no weights"
    (tmp_path / "remem" / "models" / "mine").mkdir(parents=True)
    found = {r.check_name: r for r in doctor.examine(None, "a server", "w", "hash").rows}
    assert "incomplete: mine" in found["client_models"].detail


def test_a_client_without_vectors_is_content(monkeypatch: pytest.MonkeyPatch) -> None:
    assert rows(monkeypatch, {}, "none")["client_embedding"].status == "ok"


def test_the_worst_row_is_the_status() -> None:
    def status(*found: str) -> str:
        return doctor.Report(tuple(CheckRow("x", s) for s in found), True).status

    assert status("ok", "ok") == "ok"
    assert status("ok", "warning") == "warning"
    assert status("warning", "error", "ok") == "error"


@pytest.mark.parametrize(
    ("ahead", "status"), [(0.0, "ok"), (3.0, "ok"), (8.0, "warning"), (-60.0, "warning")]
)
def test_clocks_that_differ_are_named(
    monkeypatch: pytest.MonkeyPatch, ahead: float, status: str
) -> None:
    from datetime import UTC, datetime

    from remem_pg.installing import obstacles

    def fetch(conn: object, query: str, *params: object) -> tuple[float]:
        return (datetime.now(UTC).timestamp() + ahead,)

    monkeypatch.setattr(obstacles, "fetch", fetch)
    row = doctor._clock(None)  # type: ignore[arg-type]
    assert row.status == status
    assert f"{abs(ahead):.1f}"[:2] in row.detail
