"""``where``: a condition in SQL over the fields of a memory, as the jsonpath that ``filter`` takes.

sqlglot reads it as Postgres would; ``filter_tree`` says what is taken from its tree. Everything
else is refused with its line and column. Nothing of the text gets into the result but the names of
fields and values, written anew.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NoReturn

from remem_pg import checks
from remem_pg.errors import InvalidArgument
from remem_pg.filters.fields import FIELDS
from remem_pg.filters.tree import NULL, Refused, condition

if TYPE_CHECKING:
    from sqlglot import exp

__all__ = ["compile_where"]

LENGTH = 100_000
"""Longest condition, in characters."""

DEPTH = 30
"""Deepest nesting of parentheses and of ``not``."""

HINT = (
    "a condition such as kind = 'decision' and metadata.team = 'core' and occurred_at >"
    " '2026-01-01' and importance >= 0.7"
)

# What may stand in a condition at all, by the names of sqlglot's tokens.
_TOKENS = frozenset({
    "VAR", "IDENTIFIER", "STRING", "NUMBER", "DOT", "COMMA", "L_PAREN", "R_PAREN", "L_BRACKET",
    "R_BRACKET", "DASH", "AND", "OR", "NOT", "EQ", "NEQ", "LT", "LTE", "GT", "GTE", "IN", "BETWEEN",
    "IS", "NULL", "ISNULL", "NOTNULL", "TRUE", "FALSE", "LIKE", "ILIKE", "ANY", "ARRAY", "AT_GT",
    "LT_AT", "DAMP", "DATE", "TIMESTAMP", "TIMESTAMPTZ",
})  # fmt: skip
# After what a parenthesis opens a group or a list; after a name it would call a function.
_OPENS = frozenset({
    "IN", "ANY", "AND", "OR", "NOT", "COMMA", "L_PAREN", "EQ", "NEQ", "LT", "LTE", "GT", "GTE",
    "LIKE", "ILIKE", "BETWEEN", "DASH",
})  # fmt: skip


def compile_where(where: str) -> str:
    """The jsonpath predicate that a condition means.

    Raises:
        InvalidArgument: it is no condition over the documented fields; ``detail`` holds ``line``,
            ``column`` (both from 1), ``token`` and ``problem``.
    """
    source = checks.text(where, "where")
    if len(source) > LENGTH:
        raise InvalidArgument(
            "where is too long",
            detail={"argument": "where", "got": len(source), "limit": LENGTH},
        )
    return _Compiler(source).compiled()


class _Compiler:
    def __init__(self, source: str) -> None:
        self.source = source
        self._ends: dict[int, int] = {}  # of each token by its start

    def compiled(self) -> str:
        tree = self._parsed()
        try:
            return condition(tree, False)
        except Refused as refused:
            self._refuse(refused.problem, self._start(refused.node))
        except RecursionError:  # a name of very many parts
            self._refuse("nested too deep", 0)

    # reading

    def _parsed(self) -> exp.Expr:
        from sqlglot import exp
        from sqlglot.dialects.postgres import Postgres
        from sqlglot.errors import ParseError, TokenError

        dialect = Postgres()
        try:
            tokens = dialect.tokenize(self.source)
        except TokenError:
            self._refuse("a quotation mark or a comment is not closed", self._open_quote())
        if not tokens:
            self._refuse("there is no condition", 0)
        self._check_tokens(tokens)
        try:
            (tree,) = dialect.parser().parse_into(exp.Condition, tokens, self.source)
        except RecursionError:  # the caller's own stack counts too
            self._refuse("nested too deep", 0)
        except (ParseError, ValueError) as error:
            found = getattr(error, "errors", None) or [{}]
            description = str(found[0].get("description") or "it cannot be read").split(" for <")[0]
            self._refuse(_sentence(description), self._offset(found[0], tokens))
        if tree is None:
            self._refuse("there is no condition", 0)
        return tree

    def _check_tokens(self, tokens: Sequence[Any]) -> None:
        self._ends = {token.start: token.end + 1 for token in tokens}
        depth = nots = last = 0
        before = ""
        for token in tokens:
            kind = token.token_type.name
            # After a dot a key of metadata may be a word of SQL; the parser says which it takes.
            key = before == "DOT" and token.text.isidentifier()
            if kind not in _TOKENS and not key and token.text.lower() not in FIELDS:
                self._refuse("this has no place in a condition", token.start)
            if kind == "NULL" and before not in ("IS", "NOT", "DOT"):
                self._refuse(NULL, token.start)
            if kind == "L_PAREN" and before and before not in _OPENS:
                self._refuse("functions cannot be called", last)
            depth += (kind in ("L_PAREN", "L_BRACKET")) - (kind in ("R_PAREN", "R_BRACKET"))
            nots = nots + 1 if kind == "NOT" else 0
            if max(depth, nots) > DEPTH:
                self._refuse(f"nested more than {DEPTH} deep", token.start)
            before, last = kind, token.start

    # refusing

    def _refuse(self, problem: str, start: int) -> NoReturn:
        line = self.source.count("\n", 0, start) + 1
        column = start - (self.source.rfind("\n", 0, start) + 1) + 1
        token = self._token_at(start)
        raise InvalidArgument(
            f"where: {problem}, at line {line}, column {column}"
            + (f" ({_shown(token)})" if token else ""),
            detail={
                "argument": "where",
                "line": line,
                "column": column,
                "token": token,
                "problem": problem,
            },
            hint=HINT,
        )

    def _token_at(self, start: int) -> str:
        return self.source[start : self._ends.get(start)].strip()[:80]

    def _start(self, node: Any) -> int:
        """Where the first part of a node stands that says where it does."""
        found = [part.meta["start"] for part in node.walk() if "start" in part.meta]
        return min(found, default=0)

    def _offset(self, error: dict[str, Any], tokens: Sequence[Any]) -> int:
        for token in tokens:
            if (token.line, token.col) == (error.get("line"), error.get("col")):
                return int(token.start)
        return int(tokens[-1].start)

    def _open_quote(self) -> int:
        return max(0, *(self.source.rfind(mark) for mark in ("'", '"', "/*", "$$")))


def _shown(text: str) -> str:
    return repr(text if len(text) <= 40 else text[:37] + "...")


def _sentence(description: str) -> str:
    words = description.rstrip(".").replace("Invalid expression / Unexpected", "unexpected")
    return words[:1].lower() + words[1:]
