"""`import remem_pg` is cheap and brings nothing along."""

from __future__ import annotations

import inspect
import json
import re
import subprocess
import sys

import pytest

import remem_pg

SCRIPT = """
import json, sys, time
before = set(sys.modules)
start = time.perf_counter()
import remem_pg
spent = time.perf_counter() - start
new = sorted({name.split(".")[0] for name in set(sys.modules) - before})
print(json.dumps({"ms": spent * 1000, "new": new}))
"""


def measure() -> dict[str, object]:
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT], capture_output=True, text=True, check=True
    )
    result: dict[str, object] = json.loads(done.stdout)
    return result


def test_importing_the_package_imports_none_of_its_dependencies() -> None:
    new = measure()["new"]
    heavy = {"onnxruntime", "numpy", "tokenizers", "rich", "typer", "psycopg", "psycopg_pool"}
    assert isinstance(new, list)
    assert "remem_pg" in new
    assert heavy.isdisjoint(new)


def test_importing_the_package_takes_less_than_150_ms() -> None:
    # the best of five: other processes of the run share the machine
    assert min(float(str(measure()["ms"])) for _ in range(5)) < 150


def test_the_client_module_needs_no_model_and_no_terminal_library() -> None:
    script = "import sys, remem_pg.client, remem_pg.async_client; print(*sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    loaded = set(done.stdout.split())
    assert "psycopg" in loaded
    assert {"onnxruntime", "numpy", "tokenizers", "rich", "typer"}.isdisjoint(loaded)


def test_every_name_of_all_can_be_imported_and_is_listed() -> None:
    assert remem_pg.__all__ == sorted(remem_pg.__all__)
    for name in remem_pg.__all__:
        assert getattr(remem_pg, name) is not None
    assert set(remem_pg.__all__) <= set(dir(remem_pg))


def test_all_holds_every_error_class() -> None:
    from remem_pg import errors

    names = {
        name
        for name, cls in inspect.getmembers(errors, inspect.isclass)
        if issubclass(cls, errors.RememError)
    }
    assert names <= set(remem_pg.__all__)


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="no attribute 'Rember'"):
        remem_pg.Rember  # noqa: B018


def test_the_version_is_written_once() -> None:
    from remem_pg.version import COMPATIBILITY, __version__

    assert remem_pg.__version__ is __version__
    assert re.fullmatch(r"\d+\.\d+\.\d+(\.dev\d+)?", __version__)
    assert COMPATIBILITY == 1
