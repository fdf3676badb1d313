"""The command line. ``main`` is the entry point of the script ``remem``."""

from __future__ import annotations

__all__ = ["main"]


def main() -> None:
    """Run ``remem`` with the arguments of the process; never returns normally."""
    from remem_pg.cli.app import run

    run()
