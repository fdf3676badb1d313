"""A trap in pgvector's distance functions: vectors of two spaces that meet are an error.

It replaces the functions behind the operators and the index, so no caller can go past it.
"""

from __future__ import annotations

from typing import Any

import psycopg

SPARSE = 100
"""A hash vector has fewer positive components than this, a neural one of 384 about a half."""


def set_trap(su: psycopg.Connection[Any], differs: str) -> None:
    """From now on every distance of halfvecs is refused where ``differs`` (SQL over $1 and $2, with
    %P the product of the two) is true. Needs a superuser; the database is thrown away."""
    row = su.execute(
        "select n.nspname from pg_extension e join pg_namespace n on n.oid = e.extnamespace"
        " where e.extname = 'vector'"
    ).fetchone()
    assert row is not None
    schema = row[0]
    su.execute("create schema trap; grant usage on schema trap to public")
    for name, symbol in (
        ("cosine_distance", "halfvec_cosine_distance"),
        ("halfvec_negative_inner_product", "halfvec_negative_inner_product"),
    ):
        su.execute(
            f"create function trap.{name}({schema}.halfvec, {schema}.halfvec) returns float8"
            f" as '$libdir/vector', '{symbol}' language c immutable strict parallel safe"
        )  # type: ignore[arg-type]
    condition = differs.replace("%P", "trap.halfvec_negative_inner_product($1, $2)")
    condition = condition.replace("%S", schema)
    for name in ("cosine_distance", "halfvec_negative_inner_product"):
        su.execute(
            f"create or replace function {schema}.{name}({schema}.halfvec, {schema}.halfvec)"
            " returns float8 language plpgsql immutable strict parallel safe as $trap$ begin"
            f" if {condition} then raise exception 'vectors of two spaces met'; end if;"
            f" return trap.{name}($1, $2); end $trap$"
        )  # type: ignore[arg-type]


NO_PRODUCT = "%P = 0"
"""For models whose vectors share no direction (``Shares`` with different lanes)."""

HASH_AND_NEURAL = (
    f"(bit_count(%S.binary_quantize($1)) < {SPARSE})"
    f" <> (bit_count(%S.binary_quantize($2)) < {SPARSE})"
)
"""For the built-in hash and a neural model of as many dimensions."""
