"""The command line. ``main`` is the entry point of the script ``remem``."""

from __future__ import annotations

__all__ = ["main"]


def main() -> None:
    """Run ``remem`` with the arguments of the process; never returns normally."""
    try:
        from remem_pg.cli.app import run

        run()
    except KeyboardInterrupt:  # while the commands are imported; afterwards they report it
        raise SystemExit(130) from None
