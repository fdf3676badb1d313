"""The rules of ``sql/`` and ``migrations/``, checked on the parsed statements.

Own rules first (``RULES``), then pgspot over everything in load order: unqualified names under an
unsafe search_path, insecure SECURITY DEFINER functions, injection through format().
"""

from __future__ import annotations

import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pglast
from pglast import ast, visitors

from scripts.generated import ROOT

RULES = """
sql/ holds create or replace, comment, grant, revoke and do blocks, nothing else
every function pins search_path with pg_temp last; a private one with a SQL-standard body (return
  ..., begin atomic) may leave it out to be inlined, for such a body is bound when it is created
every function states its volatility and carries a comment
private functions are SECURITY INVOKER; public ones are SECURITY DEFINER and authorise first
one definition per function name
no triggers and no policies, anywhere
`when others` has its reason beside it
a file of sql/ has fewer than 400 lines
a migration calls no product function
"""

MAX_LINES = 400
# What a public function may do before it authorises: nothing. Its first statement is one of these.
_AUTHORISES = re.compile(r"\bremem\._authori[sz]e\w*\s*\(")
_FIRST_STATEMENT = re.compile(r"\bbegin\b(.*?);", re.IGNORECASE | re.DOTALL)
_PLAIN_STATEMENTS = (
    ast.CreateFunctionStmt,
    ast.CommentStmt,
    ast.DoStmt,
    ast.GrantStmt,
    ast.ViewStmt,
)


@dataclass(frozen=True, slots=True)
class Finding:
    file: str
    line: int
    text: str

    def __str__(self) -> str:
        return f"{self.file}:{self.line}: {self.text}"


@dataclass(frozen=True, slots=True)
class Function:
    """What the rules read of one ``create function``."""

    name: str
    options: dict[str, Any]
    body: str
    bound: bool
    replace: bool
    file: str
    line: int

    @property
    def private(self) -> bool:
        return self.name.startswith("_")


def without_templates(text: str) -> str:
    """The file as Postgres would read it: the placeholder of pgvector's schema filled in."""
    return text.replace("@extschema:vector@", "vectors")


def statements(text: str) -> Iterator[tuple[int, Any]]:
    """Pairs of line and statement. The line is where the statement starts, comments left out."""
    raw = text.encode()
    for statement in pglast.parse_sql(text):
        start = statement.stmt_location
        lead = raw[start:].decode()
        skipped = re.match(r"(?:\s+|--[^\n]*\n|/\*.*?\*/)*", lead, re.DOTALL)
        before = raw[:start].decode() + (skipped[0] if skipped else "")
        yield before.count("\n") + 1, statement.stmt


def as_function(node: Any, file: str, line: int) -> Function:
    options = {option.defname: option.arg for option in node.options or ()}
    for option in node.options or ():
        if option.defname == "set":
            options[f"set {option.arg.name}"] = [
                part.val.sval for part in option.arg.args or () if hasattr(part.val, "sval")
            ]
    written = options.get("as")
    body = "".join(part.sval for part in written) if written else ""
    name = node.funcname[-1].sval
    bound = node.sql_body is not None
    return Function(name, options, body, bound, bool(node.replace), file, line)


def check_function(function: Function) -> Iterator[str]:
    """What is wrong with one function by itself."""
    name, options = function.name, function.options
    path = options.get("set search_path")
    if path is None and function.bound and function.private:
        pass
    elif path is None:
        yield f"{name} does not pin search_path"
    elif path[-1] != "pg_temp" or path[0] != "pg_catalog":
        yield f"{name} pins search_path to {', '.join(path)}: pg_catalog is first, pg_temp last"
    if "volatility" not in options:
        yield f"{name} does not state its volatility"
    definer = "security" in options and options["security"].boolval
    if function.private:
        if definer:
            yield f"{name} is private and SECURITY DEFINER"
        return
    if not definer:
        yield f"{name} is public and not SECURITY DEFINER"
    language = options["language"].sval if "language" in options else "sql"
    body = re.sub(r"--[^\n]*", "", function.body)
    first = _FIRST_STATEMENT.search(body) if language == "plpgsql" else None
    # A body in SQL authorises in the first query it runs.
    head = first[1] if first else body.split(";")[0]
    if not _AUTHORISES.search(head):
        yield f"{name} is public and its first statement does not authorise"


def check_when_others(text: str) -> Iterator[tuple[int, str]]:
    lines = text.splitlines()
    for number, line in enumerate(lines, start=1):
        code = line.split("--")[0]
        if re.search(r"\bwhen\s+others\b", code, re.IGNORECASE):
            around = lines[max(0, number - 2) : number + 1]
            if not any("--" in near for near in around):
                yield number, "`when others` without its reason beside it"


def check_file(file: str, text: str, migration: bool) -> tuple[list[Finding], list[Function]]:
    """All findings of one file that need no other file, and its functions."""
    text = without_templates(text)
    found = [Finding(file, line, why) for line, why in check_when_others(text)]
    functions: list[Function] = []
    length = len(text.splitlines())
    if not migration and length >= MAX_LINES:
        found.append(Finding(file, length, f"{length} lines; split it by what it does"))
    for line, node in statements(text):
        if isinstance(node, ast.CreateTrigStmt | ast.CreateEventTrigStmt | ast.CreatePolicyStmt):
            found.append(Finding(file, line, "rules live in functions: no triggers, no policies"))
        elif migration:
            called = sorted(set(product_calls(node)))
            if called:
                why = f"a migration calls no product function: {', '.join(called)}"
                found.append(Finding(file, line, why))
        elif not isinstance(node, _PLAIN_STATEMENTS):
            found.append(Finding(file, line, f"{type(node).__name__} belongs in a migration"))
        elif isinstance(node, ast.CreateFunctionStmt | ast.ViewStmt) and not node.replace:
            found.append(Finding(file, line, "create without or replace"))
        if isinstance(node, ast.CreateFunctionStmt) and not migration:
            function = as_function(node, file, line)
            functions.append(function)
            found += [Finding(file, line, why) for why in check_function(function)]
    return found, functions


def product_calls(node: Any) -> Iterator[str]:
    """Functions of the schema remem that a statement of a migration calls."""
    calls: list[str] = []

    class Calls(visitors.Visitor):  # type: ignore[misc]
        def visit_FuncCall(self, ancestors: Any, call: Any) -> None:
            parts = [part.sval for part in call.funcname]
            if parts[0] == "remem":
                calls.append(".".join(parts))

    Calls()(node)
    yield from calls


def commented(text: str) -> set[str]:
    """Names of the functions that a file comments on."""
    return {
        node.object.objname[-1].sval
        for _, node in statements(without_templates(text))
        if isinstance(node, ast.CommentStmt) and isinstance(node.object, ast.ObjectWithArgs)
    }


def lint(sql: dict[str, str], migrations: dict[str, str]) -> list[Finding]:
    """Every finding of the own rules; both arguments map file name to text."""
    found: list[Finding] = []
    functions: list[Function] = []
    for file, text in migrations.items():
        found += check_file(file, text, migration=True)[0]
    with_comment: set[str] = set()
    for file, text in sql.items():
        of_file, its_functions = check_file(file, text, migration=False)
        found += of_file
        functions += its_functions
        with_comment |= commented(text)
    first: dict[str, Function] = {}
    for function in functions:
        if function.name in first:
            there = first[function.name]
            why = f"{function.name} is defined in {there.file}:{there.line} too"
            found.append(Finding(function.file, function.line, why))
        first.setdefault(function.name, function)
        if function.name not in with_comment:
            found.append(Finding(function.file, function.line, f"{function.name} has no comment"))
    return sorted(found, key=lambda finding: (finding.file, finding.line))


def spot(sql: dict[str, str], migrations: dict[str, str]) -> str:
    """What pgspot says about all files as one script; empty when it is content.

    The first line stands for what the installer does before: the schema is its own, and nothing
    but pg_catalog and that schema is on the path. Bodies in plpgsql are left out, because the
    parser behind pgspot knows no composite types; they are safe when their path is, which is one
    of our own rules. Functions with a SQL-standard body are left out, because pgspot reads none.
    """
    head = "create schema remem; set search_path = pg_catalog, remem, pg_temp;\n"
    script = head + "\n".join(map(_for_pgspot, [*migrations.values(), *sql.values()]))
    with tempfile.NamedTemporaryFile("w", suffix=".sql", encoding="utf-8") as file:
        file.write(script)
        file.flush()
        done = subprocess.run(
            [sys.executable, "-m", "pgspot", "--no-plpgsql", file.name],
            check=False,
            capture_output=True,
            text=True,
        )
    return (done.stdout + done.stderr).strip() if done.returncode else ""


def _for_pgspot(text: str) -> str:
    raw = without_templates(text).encode()
    kept = []
    for statement in pglast.parse_sql(raw.decode()):
        node, start = statement.stmt, statement.stmt_location
        if not (isinstance(node, ast.CreateFunctionStmt) and node.sql_body is not None):
            end = start + statement.stmt_len if statement.stmt_len else len(raw)
            kept.append(raw[start:end].decode().rstrip() + ";\n")
    return "".join(kept)


def main() -> int:
    sql = {f"sql/{p.name}": p.read_text("utf-8") for p in sorted((ROOT / "sql").glob("*.sql"))}
    migrations = {
        f"migrations/{p.name}": p.read_text("utf-8")
        for p in sorted((ROOT / "migrations").glob("*.sql"))
    }
    found = lint(sql, migrations)
    for finding in found:
        print(finding, file=sys.stderr)
    spotted = spot(sql, migrations)
    if spotted:
        print(f"pgspot:\n{spotted}", file=sys.stderr)
    if not found and not spotted:
        print(f"sql: {len(sql)} files and {len(migrations)} migrations keep the rules")
    return 1 if found or spotted else 0


if __name__ == "__main__":
    sys.exit(main())
