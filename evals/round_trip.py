"""Whether an export brings everything back: the same figures after export, drop and import."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from remem_pg import Remem

Progress = Callable[[str], None]


def export_drop_import(dsn: str, workspaces: Sequence[str], progress: Progress) -> dict[str, Any]:
    """Exports every workspace with its vectors, erases it, and imports what was exported.

    Raises ValueError when something is left after the erasure or not everything comes back.
    """
    spent = {"export": 0.0, "drop": 0.0, "import": 0.0}
    counted = {"memories": 0, "bytes": 0, "vectors": 0}
    with tempfile.TemporaryDirectory() as place, Remem(
        dsn, workspace=workspaces[0], embedding=None
    ) as client:  # fmt: skip
        for number, name in enumerate(workspaces):
            progress(f"round trip: {name}")
            one = client.workspace(name)
            path = Path(place) / f"{number}.jsonl"
            at = time.perf_counter()
            with path.open("w") as file:
                done = one.export(partial(print, file=file), vectors=True)
            spent["export"] += time.perf_counter() - at
            at = time.perf_counter()
            while not (dropped := one.drop_workspace()).done:
                pass
            if dropped.remaining or one.count():
                raise ValueError(f"{name} is still there: {dropped.remaining}")
            spent["drop"] += time.perf_counter() - at
            at = time.perf_counter()
            with path.open() as file:
                report = one.import_records(file)
            spent["import"] += time.perf_counter() - at
            if report.records["memory"] != {"created": done.counts["memory"]}:
                raise ValueError(f"{name} came back as {report.records['memory']}")
            counted["memories"] += done.counts["memory"]
            counted["bytes"] += path.stat().st_size
            counted["vectors"] += report.vectors
    return counted | {f"{name}_seconds": round(seconds, 2) for name, seconds in spent.items()}


def differences(before: Mapping[str, Any], after: Mapping[str, Any], at: str = "") -> list[str]:
    """Where two documents differ, but for what is measured in milliseconds or turns a second."""
    found = []
    for key in sorted(before.keys() | after.keys()):
        if key.endswith("_ms") or key in ("question_embedding", "load_turns_per_second"):
            continue
        one, other = before.get(key), after.get(key)
        if isinstance(one, Mapping) and isinstance(other, Mapping):
            found += differences(one, other, f"{at}{key}.")
        elif one != other:
            found.append(f"{at}{key}: {one} before, {other} after")
    return found
