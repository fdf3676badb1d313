"""Whose memories may be seen: what is global, and what belongs to the active project, session,
user."""

from __future__ import annotations

import json
import unicodedata
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from remem_pg import checks
from remem_pg.errors import InvalidArgument, UnknownOption

OWNED = ("project", "session", "user")
"""Scopes whose records name an owner. The fourth, ``global``, is the whole workspace."""


@dataclass(frozen=True, slots=True)
class Scope:
    """The active context. A record that is not global is seen only where its owner is named here.

    ``workspace`` is the tenant; ``project``, ``session`` and ``user`` are your own names, None
    where there is no such context.
    """

    workspace: str
    project: str | None = None
    session: str | None = None
    user: str | None = None

    def __post_init__(self) -> None:
        for scope, owner in self.owners().items():  # composed, as all text that is stored
            object.__setattr__(self, scope, unicodedata.normalize("NFC", owner))

    def allows(self, scope: str, scope_ref: str | None) -> bool:
        """Whether a record of this scope and owner may be seen. Nothing else decides that."""
        if scope == "global":
            return scope_ref is None
        return scope in OWNED and scope_ref is not None and scope_ref == getattr(self, scope)

    def owners(self) -> dict[str, str]:
        """The named owners by scope."""
        named = ((scope, getattr(self, scope)) for scope in OWNED)
        return {scope: owner for scope, owner in named if owner is not None}

    def filter(self) -> str:
        """The same rule as a jsonpath predicate over a memory's attributes."""
        terms = ['$.scope == "global"']
        for scope, owner in self.owners().items():
            terms.append(f'($.scope == "{scope}" && $.scope_ref == {json.dumps(owner)})')
        return f"({' || '.join(terms)})"


def as_scope(workspace: str, given: Scope | Mapping[str, Any] | None) -> Scope:
    """The scope that a caller means: a ``Scope`` of this workspace, or ``{"project": ...}``."""
    if given is None:
        return Scope(workspace)
    if isinstance(given, Scope):
        if given.workspace != workspace:
            raise InvalidArgument(
                "the scope is of another workspace",
                detail={"argument": "scope", "value": given.workspace, "expected": workspace},
            )
        given = given.owners()
    if not isinstance(given, Mapping):
        raise InvalidArgument(
            f"scope must be a Scope or a dict, not {type(given).__name__}",
            detail={"argument": "scope"},
            hint='write scope={"project": "phoenix"}',
        )
    owners: dict[str, str] = {}
    for name, owner in given.items():
        if name not in OWNED:
            raise UnknownOption(
                detail={"option": name, "valid": list(OWNED)}, hint=f"one of {', '.join(OWNED)}"
            )
        if owner is not None:
            owners[name] = checks.text(owner, f"scope.{name}")
    return Scope(workspace, **owners)
