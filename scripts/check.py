"""Every check of the checkout in turn (``check``), or every generated file anew (``docs``).

All steps run even when one fails, so that one run shows everything; the exit code is 1 then.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import time

from scripts.generated import ROOT

LINT = (
    ("ruff", ["-m", "ruff", "check", "."]),
    ("format", ["-m", "ruff", "format", "--check", "."]),
    ("types", ["-m", "mypy"]),
    ("sql", ["-m", "scripts.lint_sql"]),
    ("migrations", ["-m", "scripts.frozen"]),
)
GENERATED = (
    ("unicode tables", ["scripts/generate_unicode.py"]),
    ("sql/77_expected_indexes.sql", ["-m", "scripts.expected_indexes"]),
    ("docs/errors.md", ["-m", "scripts.docs_errors"]),
    ("docs/sql-api.md", ["-m", "scripts.docs_sql_api"]),
    ("docs/schema.sql", ["-m", "scripts.docs_schema"]),
    ("docs/coverage.md", ["-m", "scripts.docs_coverage"]),
)


def run(name: str, arguments: list[str]) -> bool:
    """One step in its own process; says how long it took and whether it passed."""
    started = time.perf_counter()
    print(f"-- {name}", flush=True)
    passed = subprocess.run([sys.executable, *arguments], cwd=ROOT, check=False).returncode == 0
    print(f"   {'ok' if passed else 'FAILED'}, {time.perf_counter() - started:.1f} s", flush=True)
    return passed


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("task", choices=["check", "docs"])
    parser.add_argument("--lint-only", action="store_true", help="leave out the generated files")
    arguments = parser.parse_args()
    if arguments.task == "docs":
        steps = list(GENERATED)
    else:
        steps = list(LINT)
        if not arguments.lint_only:
            steps += [(name, [*command, "--check"]) for name, command in GENERATED]
    failed = [name for name, command in steps if not run(name, list(command))]
    print(f"{arguments.task}: {'failed: ' + ', '.join(failed) if failed else 'all passed'}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
