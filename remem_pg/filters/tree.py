"""From sqlglot's tree of a condition to a jsonpath predicate.

What is understood is listed here, node by node and argument by argument; anything else is refused.

The logic is SQL's, with three values: a comparison with a field that a memory lacks (or that is
null, or of another type) is unknown, so is its negation, and only what is true is found. Negations
are moved inwards to the comparisons, where that can be said in jsonpath.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from remem_pg.filters import fields as filter_fields
from remem_pg.filters.fields import Field

if TYPE_CHECKING:
    from sqlglot import exp

NULL = "nothing equals null: write is null, or is not null"

_COMPARISONS = {"EQ": "==", "NEQ": "==", "LT": "<", "LTE": "<=", "GT": ">", "GTE": ">="}
_MIRRORED = {"<": ">", "<=": ">=", ">": "<", ">=": "<=", "==": "=="}
_NAMED_TYPES = {"DATE": "date", "TIMESTAMP": "timestamp", "TIMESTAMPTZ": "timestamptz"}


class Refused(Exception):
    """``problem`` with ``node``, which is not understood."""

    def __init__(self, problem: str, node: Any) -> None:
        super().__init__(problem)
        self.problem = problem
        self.node = node


def condition(node: exp.Expr, negated: bool) -> str:
    """A condition that is true where ``node`` is (``negated``: where it is false)."""
    from sqlglot import exp

    node, negated = _bare(node, negated)
    if isinstance(node, exp.And | exp.Or):
        terms = [condition(term, negated) for term in _chain(node)]
        both = isinstance(node, exp.And) is not negated
        return _joined(" && " if both else " || ", terms)
    return _leaf(node, negated)


def _leaf(node: exp.Expr, negated: bool) -> str:
    kind = type(node).__name__
    if kind in _COMPARISONS:
        _only(node, "this", "expression")
        return _comparison(node, _COMPARISONS[kind], negated is not (kind == "NEQ"))
    if kind == "Column" or kind == "Dot":
        field = _field(node)
        if field.type not in ("boolean", "any"):
            raise Refused(f"{field.name} is no condition by itself", node)
        return _known(field, f"{field.path} == true", negated)
    if kind == "Is":
        return _is_null(node, negated)
    if kind == "In":
        return _in(node, negated)
    if kind == "Between":
        return _between(node, negated)
    if kind in ("Like", "ILike"):
        return _like(node, kind == "ILike", negated)
    if kind in ("ArrayContainsAll", "ArrayContainedBy", "ArrayOverlaps"):
        return _lists(node, kind, negated)
    raise Refused("this is no condition over the fields of a memory", node)


def _comparison(node: exp.Expr, operator: str, negated: bool) -> str:
    from sqlglot import exp

    left, right = _operand(node.this), _operand(node.expression)
    if isinstance(right, exp.Any):
        if operator != "==" or isinstance(node, exp.NEQ):
            raise Refused("any goes with =", right)
        field = _field(_operand(right.this))
        if field.type not in ("list", "any"):
            raise Refused(f"{field.name} is no list", right)
        return _known(field, f"{field.path} == {_value(left, field, element=True)}", negated)
    if _is_column(right) and not _is_column(left):
        left, right, operator = right, left, _MIRRORED[operator]
    field = _field(left)
    if field.type == "list":
        raise Refused(f"{field.name} is a list: write 'x' = any({field.name})", left)
    if field.type == "boolean" and operator != "==":
        raise Refused(f"{field.name} is true or false", node)
    value = _value(right, field)
    if value in ("true", "false") and operator != "==":
        raise Refused("true and false have no order", right)
    return _known(field, f"{field.path} {operator} {value}", negated)


def _is_null(node: exp.Expr, negated: bool) -> str:
    from sqlglot import exp

    _only(node, "this", "expression", "negate")
    if not isinstance(node.expression, exp.Null):
        raise Refused("is goes with null and not null", node)
    field = _field(_operand(node.this), whole=True)
    negated = negated is not bool(node.args.get("negate"))
    if field.type == "list":
        has = f"exists({field.path}[*])"
        return has if negated else f"!({has})"
    there = f'exists({field.path}) && !({field.path}.type() == "null")'
    return f"({there})" if negated else f"!({there})"


def _in(node: exp.Expr, negated: bool) -> str:
    _only(node, "this", "expressions")
    field = _scalar(node.this)
    values = [_value(_operand(value), field) for value in node.args["expressions"] or ()]
    if not values:
        raise Refused("in goes with a list of values", node)
    if len({_kind(value) for value in values}) > 1:
        raise Refused("the values are not of one type", node.args["expressions"][1])
    terms = [f"{field.path} == {value}" for value in dict.fromkeys(values)]
    return _known(field, _joined(" || ", terms), negated)


def _between(node: exp.Expr, negated: bool) -> str:
    _only(node, "this", "low", "high")
    field = _scalar(node.this)
    low, high = (_value(_operand(node.args[name]), field) for name in ("low", "high"))
    if field.type == "boolean" or _kind(low) != _kind(high) or _kind(low) == "boolean":
        raise Refused("between goes with two values of one ordered type", node)
    return _known(field, f"{field.path} >= {low} && {field.path} <= {high}", negated)


def _like(node: exp.Expr, any_case: bool, negated: bool) -> str:
    from sqlglot import exp

    _only(node, "this", "expression", "negate")
    field = _scalar(node.this)
    pattern = _operand(node.expression)
    if field.type not in ("text", "any"):
        raise Refused(f"{field.name} is no text", node.this)
    if not isinstance(pattern, exp.Literal) or not pattern.is_string:
        raise Refused("like goes with a text", pattern)
    try:
        matches = f"{field.path} {filter_fields.like(pattern.this, any_case)}"
    except ValueError as error:
        raise Refused(str(error), pattern) from None
    return _known(field, matches, negated is not bool(node.args.get("negate")))


def _lists(node: exp.Expr, kind: str, negated: bool) -> str:
    """tags @> array['a', 'b'] (all of them), tags && array['a', 'b'] (one of them)."""
    from sqlglot import exp

    _only(node, "this", "expression")
    left, right = _operand(node.this), _operand(node.expression)
    if kind == "ArrayContainedBy" or (kind == "ArrayOverlaps" and not _is_column(left)):
        left, right = right, left
    if not _is_column(left) or not isinstance(right, exp.Array):
        raise Refused("write tags @> array['a'] or tags && array['a', 'b']", node)
    field = _field(left)
    if field.type not in ("list", "any"):
        raise Refused(f"{field.name} is no list", left)
    _only(right, "expressions")
    elements = right.args["expressions"] or ()
    values = [_value(_operand(value), field, element=True) for value in elements]
    if not values:
        raise Refused("the array is empty", right)
    terms = [f"{field.path} == {value}" for value in dict.fromkeys(values)]
    return _known(field, _joined(" || " if kind == "ArrayOverlaps" else " && ", terms), negated)


# fields and values


def _scalar(node: exp.Expr) -> Field:
    field = _field(_operand(node))
    if field.type == "list":
        raise Refused(f"{field.name} is a list: write 'x' = any({field.name})", node)
    return field


def _field(node: exp.Expr, whole: bool = False) -> Field:
    from sqlglot import exp

    if not _is_column(node):
        raise Refused("a field belongs here", node)
    parts = [(part.this, bool(part.args.get("quoted"))) for part in _parts(node)]
    try:
        field = filter_fields.field(parts)
    except ValueError as error:
        raise Refused(str(error), next(node.find_all(exp.Identifier), node)) from None
    if len(parts) == 1 and field.type == "any" and not whole:
        raise Refused("metadata is a document: name a key of it, as in metadata.team", node)
    return field


def _value(node: exp.Expr, field: Field, element: bool = False) -> str:
    """A value as jsonpath says it, of the field's type."""
    from sqlglot import exp

    kind = "text" if field.type == "list" else field.type
    try:
        if isinstance(node, exp.Null):
            raise ValueError(NULL)
        if isinstance(node, exp.Boolean) and kind in ("boolean", "any"):
            return "true" if node.this else "false"
        if isinstance(node, exp.Cast):
            _only(node, "this", "to")
            named = _NAMED_TYPES.get(node.to.this.name)
            if kind == "time" and named and isinstance(node.this, exp.Literal):
                return filter_fields.moment(node.this.this, named)
        negative = isinstance(node, exp.Neg)
        literal = _operand(node.this) if negative else node
        if isinstance(literal, exp.Literal):
            if not literal.is_string and kind in ("number", "any"):
                return filter_fields.number(literal.this, negative)
            if literal.is_string and not negative:
                if kind == "time":
                    return filter_fields.moment(literal.this)
                if kind in ("text", "any"):
                    return filter_fields.text(literal.this)
    except ValueError as error:
        raise Refused(str(error), node) from None
    if _is_column(node):
        raise Refused("a field is compared with a value, and texts stand in 'quotes'", node)
    expected = {"any": "text, number, true or false", "boolean": "true or false"}
    of = f"the elements of {field.name} are" if element else f"{field.name} is"
    raise Refused(f"{of} compared with a {expected.get(kind, kind)}", node)


def _bare(node: exp.Expr, negated: bool) -> tuple[exp.Expr, bool]:
    """A condition without the parentheses and negations around it."""
    from sqlglot import exp

    while isinstance(node, exp.Paren | exp.Not):
        _only(node, "this")
        negated = negated is not isinstance(node, exp.Not)
        node = node.this
    return node, negated


def _chain(node: exp.Expr) -> list[exp.Expr]:
    """The terms of a and b and c, which is a tree as deep as it is long."""
    terms: list[exp.Expr] = []
    kind = type(node)
    while type(node) is kind:
        _only(node, "this", "expression")
        terms.append(node.expression)
        node = node.this
    return [node, *reversed(terms)]


def _only(node: exp.Expr, *names: str) -> None:
    """Refuses a node that says more than is understood here."""
    for name, value in node.args.items():
        if name not in names and value not in (None, False, []):
            raise Refused(f"{name} is not supported here", node)


def _operand(node: Any) -> Any:
    from sqlglot import exp

    while isinstance(node, exp.Paren):
        _only(node, "this")
        node = node.this
    return node


def _is_column(node: Any) -> bool:
    from sqlglot import exp

    return isinstance(node, exp.Column | exp.Dot)


def _parts(node: exp.Expr) -> Iterator[exp.Identifier]:
    """The names of a dotted name, first to last."""
    from sqlglot import exp

    if isinstance(node, exp.Dot):
        _only(node, "this", "expression")
        yield from _parts(node.this)
        last = [node.expression]
    elif isinstance(node, exp.Column):
        _only(node, "this", "table", "db", "catalog")
        names = (node.args.get(name) for name in ("catalog", "db", "table", "this"))
        last = [name for name in names if name is not None]
    else:
        raise Refused("a field belongs here", node)
    for name in last:
        if not isinstance(name, exp.Identifier):
            raise Refused("a field belongs here", node)
        yield name


def _known(field: Field, matches: str, negated: bool) -> str:
    """What is true, or surely false: a list that a memory lacks is empty, everything else that it
    lacks, or that is null, is unknown."""
    if not negated:
        return f"({matches})"
    if field.type == "list":
        return f"!({matches})"
    null = f" && !({field.path} == null)" if field.type == "any" else ""
    return f"(exists({field.path}){null} && !({matches}))"


def _joined(operator: str, terms: Sequence[str]) -> str:
    """Terms joined as a balanced tree: Postgres reads a chain of thousands by recursion."""
    if len(terms) == 1:
        return terms[0]
    half = len(terms) // 2
    return f"({_joined(operator, terms[:half])}{operator}{_joined(operator, terms[half:])})"


def _kind(value: str) -> str:
    """Of what type a value of jsonpath is."""
    if value in ("true", "false"):
        return "boolean"
    return "text" if value.startswith('"') else "number"
