"""The commands about the life of a memory: correct, forget, unforget, purge, history, pin, ..."""

from __future__ import annotations

import re
import sys
from typing import TYPE_CHECKING, Annotated, Any
from uuid import UUID

import typer

from remem_pg.cli import output
from remem_pg.cli import settings as conf
from remem_pg.cli.connect import open_memory
from remem_pg.cli.memories import json_object
from remem_pg.cli.settings import Settings, print_json

if TYPE_CHECKING:
    from remem_pg.client import Remem
    from remem_pg.errors import NotFound
    from remem_pg.models import MemoryRef

Name = Annotated[str, typer.Argument(metavar="ID|REF", help="A memory id (uuid) or your ref.")]
ByRef = Annotated[
    bool, typer.Option("--ref", help="Read it as a ref even if it looks like a uuid.")
]
Reason = Annotated[str | None, typer.Option(help="Why; kept in the history.")]
# --where took a jsonpath before it took what --where takes elsewhere; no condition begins so.
_JSONPATH = re.compile(r"[\s(!]*(?:\$|(?:lax|strict)\s|exists\s*\()")
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do it, do not ask.")]


def correct(
    settings: Settings,
    name: Name,
    body: Annotated[str, typer.Argument(help="The whole new text; - reads standard input.")],
    by_ref: ByRef = False,
    reason: Reason = None,
    changes: Annotated[
        str | None, typer.Option(help="Other fields as a JSON object; null takes one away.")
    ] = None,
) -> int | None:
    """Replace what a memory says; the former version stays in its history."""
    text = sys.stdin.read() if body == "-" else body
    given = json_object("--changes", changes) or {}
    reply = open_memory(settings).correct(text, **_key(name, by_ref), reason=reason, **given)
    return _told(settings, reply)


def forget(
    settings: Settings,
    name: Annotated[
        str | None, typer.Argument(metavar="ID|REF", help="A memory id (uuid) or your ref.")
    ] = None,
    by_ref: ByRef = False,
    where: Annotated[
        str | None,
        typer.Option(
            metavar="CONDITION",
            help="Everything that passes a condition in SQL, as in recall (or a jsonpath, from "
            "its $ on). Shown first; --yes forgets it.",
        ),
    ] = None,
    filter: Annotated[
        str | None, typer.Option(help="The same by a jsonpath over the attributes.")
    ] = None,
    reason: Reason = None,
    yes: Yes = False,
) -> int | None:
    """Hide a memory from every recall, or all that pass a filter; unforget brings one back."""
    if [name, where, filter].count(None) != 2:
        raise typer.BadParameter("give one of ID|REF, --where and --filter")
    memory = open_memory(settings)
    if name is not None:
        return _told(settings, memory.forget(**_key(name, by_ref), reason=reason))
    if where is not None and _JSONPATH.match(where):
        where, filter = None, where
    shown = memory.forget_where(filter, where=where)
    if not yes and not _confirmed(settings, shown):
        return None
    report = memory.forget_where(filter, False, where=where, reason=reason, expected=shown.memories)
    if settings.json:
        print_json(report)
    else:
        settings.out.print(f"Forgot {output.counted(report.memories, 'memory', 'memories')}.")
    return None


def _confirmed(settings: Settings, shown: Any) -> bool:
    """Shows what would go; asks where somebody can answer."""
    if settings.json:
        print_json(shown)
        return False
    count = output.counted(shown.memories, "memory", "memories")
    settings.out.print(f"{count} ({output.counted(shown.versions, 'version', 'versions')}):")
    for one in shown.sample:
        line = f"  {one.get('ref') or one['memory_id']}  {output.shorten(one['text'], 60)}"
        settings.out.print(output.clean(line), soft_wrap=True, markup=False, highlight=False)
    if shown.memories > len(shown.sample):
        settings.out.print(f"  and {shown.memories - len(shown.sample)} more")
    if not shown.memories:
        return False
    if not sys.stdin.isatty():
        settings.note("Nothing was changed: --yes forgets them.")
        return False
    return typer.confirm("Forget them?", default=False)


def unforget(settings: Settings, name: Name, by_ref: ByRef = False) -> int | None:
    """Bring a forgotten memory back."""
    return _told(settings, open_memory(settings).unforget(**_key(name, by_ref)))


def purge(
    settings: Settings,
    name: Annotated[
        str | None, typer.Argument(metavar="ID|REF", help="A memory id (uuid) or your ref.")
    ] = None,
    by_ref: ByRef = False,
    forgotten: Annotated[bool, typer.Option("--forgotten", help="All that is forgotten.")] = False,
    yes: Yes = False,
) -> int | None:
    """Erase a memory with all its versions, or all that is forgotten. There is no way back."""
    if (name is None) != forgotten:
        raise typer.BadParameter("give either ID|REF or --forgotten")
    memory = open_memory(settings)
    if name is None:
        _sure(settings, yes, f'everything forgotten in workspace "{settings.workspace}"')
        count = memory.purge_forgotten()
        if settings.json:
            print_json({"workspace": settings.workspace, "purged": count})
        else:
            settings.out.print(f"Purged {output.counted(count, 'memory', 'memories')}.")
        return None
    _sure(settings, yes, f'memory "{output.shorten(name, 80)}" with every version before it')
    return _told(settings, memory.purge(**_key(name, by_ref)))


def drop_workspace(settings: Settings, yes: Yes = False) -> int | None:
    """Delete the workspace with everything in it. There is no way back."""
    memory = open_memory(settings)
    names = [each.workspace for each in memory.workspaces()]
    there = settings.workspace in names
    if there:
        count = output.counted(memory.count(), "memory", "memories")
        _sure(settings, yes, f'workspace "{settings.workspace}" with {count}')
    elif not yes:
        raise _no_workspace(settings, names)
    report = memory.drop_workspace()
    # what an interrupted drop has left, or routes that were put first, are in no list
    if not there and not report.deleted:
        raise _no_workspace(settings, names)
    if settings.json:
        print_json({"workspace": settings.workspace, "done": report.done, "rows": report.deleted})
    else:
        rows = output.counted(report.deleted, "row", "rows")
        settings.out.print(output.clean(f"Deleted {rows}; nothing is left."), soft_wrap=True)
    return None


def _no_workspace(settings: Settings, names: list[str]) -> NotFound:
    from difflib import get_close_matches

    from remem_pg.errors import NotFound

    near = get_close_matches(settings.workspace or "", names, n=3)
    meant = "is it one of " + ", ".join(f'"{name}"' for name in near) + "? " if near else ""
    return NotFound(
        f'no workspace "{output.shorten(settings.workspace or "", 80)}"',
        detail={"workspace": settings.workspace, "near": near},
        hint=f"{meant}remem workspaces lists what there is",
    )


def _sure(settings: Settings, yes: bool, what: str) -> None:
    """Asks before what cannot be undone; refuses where nobody can answer."""
    if yes:
        return
    if settings.json or not sys.stdin.isatty():
        from remem_pg.errors import InvalidArgument

        raise InvalidArgument(f"this would erase {what}", hint="pass --yes to do it")
    settings.out.print(output.clean(f"This erases {what}."), soft_wrap=True)
    if not typer.confirm("Erase it?", default=False):
        settings.out.print("Nothing was changed.")
        raise typer.Exit(conf.REFUSED)


def supersede(
    settings: Settings,
    old: Annotated[str, typer.Argument(metavar="OLD", help="The one that is over: id or ref.")],
    new: Annotated[str, typer.Argument(metavar="NEW", help="The one in its place: id or ref.")],
    by_ref: Annotated[
        bool, typer.Option("--ref", help="Read both as refs even if they look like uuids.")
    ] = False,
    reason: Reason = None,
) -> int | None:
    """Say that one memory takes the place of another."""
    memory = open_memory(settings)
    ids = [id_of(settings, memory, name, by_ref) for name in (old, new)]
    return _told(settings, memory.supersede(ids[0], ids[1], reason))


def pin(settings: Settings, name: Name, by_ref: ByRef = False) -> int | None:
    """Pin a memory: it counts as important."""
    return _told(settings, open_memory(settings).pin(**_key(name, by_ref)))


def unpin(settings: Settings, name: Name, by_ref: ByRef = False) -> int | None:
    """Take the pin of a memory away."""
    return _told(settings, open_memory(settings).unpin(**_key(name, by_ref)))


def resolve(settings: Settings, name: Name, by_ref: ByRef = False) -> int | None:
    """Say that the unresolved work of a memory is done."""
    return _told(settings, open_memory(settings).resolve(**_key(name, by_ref)))


def history(settings: Settings, name: Name, by_ref: ByRef = False) -> int | None:
    """Show every version of a memory: what replaced what, when and why."""
    versions = open_memory(settings).history(**_key(name, by_ref))
    if not versions:
        raise _not_here(settings, name)
    if settings.json:
        print_json({"workspace": settings.workspace, "versions": versions})
        return None
    for one in versions:
        ended = f", {one.how} {one.ended_at:%Y-%m-%d %H:%M}" if one.ended_at else ""
        why = f": {one.reason}" if one.reason else ""
        head = f"{one.version}. {one.state} {one.memory_id}{ended}{why}"
        settings.out.print(output.clean(head), soft_wrap=True, markup=False, highlight=False)
        if one.body is not None:
            body = "   " + output.shorten(one.body, 160)
            settings.out.print(output.clean(body), soft_wrap=True, markup=False, highlight=False)
    return None


def _key(name: str, by_ref: bool) -> dict[str, Any]:
    if not by_ref:
        try:
            return {"memory_id": UUID(name)}
        except ValueError:
            pass
    return {"ref": name}


def id_of(settings: Settings, memory: Remem, name: str, by_ref: bool) -> UUID:
    """The id of a memory that is named by id or ref."""
    key = _key(name, by_ref)
    if "memory_id" in key:
        return UUID(str(key["memory_id"]))
    record = memory.get(**key)
    if record is None:
        raise _not_here(settings, name)
    return record.memory_id


def _not_here(settings: Settings, name: str) -> NotFound:
    from remem_pg.errors import NotFound

    return NotFound(
        f'no memory "{output.shorten(name, 80)}" in workspace "{settings.workspace}"',
        hint="remem list --state all shows what there is; -w names another workspace",
    )


def _told(settings: Settings, reply: MemoryRef) -> int | None:
    """The outcome; one that lost against another change is a refusal."""
    lost = reply.outcome == "conflict"
    if settings.json:
        print_json(reply)
    else:
        name = f" (ref {output.clean(reply.ref)})" if reply.ref else ""
        settings.out.print(f"{reply.outcome} {reply.memory_id}{name}", soft_wrap=True)
        if lost:
            settings.note("Another change came first: remem history shows it.")
    return conf.REFUSED if lost else None
