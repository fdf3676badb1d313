"""The pure builders of the calls for operators: doctor and maintain."""

from __future__ import annotations

from remem_pg import checks
from remem_pg.calls import Call, build, optional_text
from remem_pg.operating.models import CheckRow, MaintainRow


def doctor(workspace: str | None) -> Call[list[CheckRow]]:
    """What is wrong in a workspace or (None) in the whole database."""
    return build(
        "doctor",
        {"workspace": ("text", optional_text(workspace, "workspace"))},
        lambda reply: [CheckRow.from_row(row) for row in reply.rows],
        read=True,
    )


def maintain(budget: float) -> Call[list[MaintainRow]]:
    """Upkeep of the whole database for about ``budget`` seconds."""
    seconds = checks.real(budget, "budget")
    return build(
        "maintain",
        {"budget": ("interval", f"{seconds:.3f} seconds")},
        lambda reply: [MaintainRow.from_row(row) for row in reply.rows],
    )
