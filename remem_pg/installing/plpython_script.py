"""The script that puts a model inside the database, as text for a superuser.

Only a superuser may make functions in plpython3u, for they run as the server's account. So what is
theirs is as small as can be: a schema of its own, one function that turns texts into vectors and
one that describes the model. Where they find Python's packages and the model's files is written
into the function itself, because any role can change a setting. remem's own functions call them
(sql/37_embed.sql), and nobody else may.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from remem_pg.embedding.base import descriptor_of, fingerprint
from remem_pg.errors import InvalidArgument
from remem_pg.installing.scripts import quote_literal
from remem_pg.version import __version__

if TYPE_CHECKING:
    from remem_pg.embedding.onnx import OnnxEmbedding

SCHEMA = "remem_plpython"

QUOTE = "$remem_plpython$"

# {packages}, {arguments} and {identity} are Python literals.
_BODY = """
held = GD.get("remem_plpython")
if held is None or held[0] != {identity}:
    import site, sys
    before = list(sys.path)
    for directory in {packages}:
        site.addsitedir(directory)
    sys.path[:] = [p for p in sys.path if p not in before] + before
    from remem_pg.embedding.in_database import DatabaseModel
    held = ({identity}, DatabaseModel({arguments}, {identity}))
    GD["remem_plpython"] = held
return held[1].embed(texts)
"""

_SCRIPT = """\
set local search_path = pg_catalog, pg_temp;
do $$
begin
  if not exists (select from pg_namespace where nspname = 'remem') then
    raise exception 'the schema remem is not in this database'
      using hint = 'remem init comes first';
  end if;
  if exists (select from pg_namespace n join pg_roles o on o.oid = n.nspowner
      where n.nspname = '{schema}' and not o.rolsuper) then
    raise exception 'the schema {schema} is there and belongs to no superuser'
      using hint = 'drop it first';
  end if;
end
$$;
create extension if not exists plpython3u;
create schema if not exists {schema};
comment on schema {schema} is
  'A model inside the database: called by the functions of remem, by nobody else.';
create or replace function {schema}.embed(texts text[]) returns real[]
language plpython3u stable strict parallel restricted
set search_path = pg_catalog, pg_temp
as {quote}{body}{quote};
comment on function {schema}.embed(text[]) is
  'One vector per text; the model is loaded once per session.';
create or replace function {schema}.describe() returns jsonb
language sql immutable parallel safe
as {quote}select {descriptor}::pg_catalog.jsonb{quote};
comment on function {schema}.describe() is 'The embedding space that the vectors are of.';
revoke all on schema {schema} from public;
revoke all on all functions in schema {schema} from public;
do $$
declare
  v_owner regrole := (select nspowner from pg_namespace where nspname = 'remem');
begin
  execute format('grant usage on schema {schema} to %s', v_owner);
  execute format('grant execute on all functions in schema {schema} to %s', v_owner);
end
$$;
select remem.register_space({schema}.describe());
{extra}"""

_HEAD = """\
-- remem {version}: the model {name} inside the database.
-- Run as a superuser in the database that remem is in: psql --set ON_ERROR_STOP=1
begin;
"""

UNINSTALL = f"""\
-- remem {__version__}: takes the model out of the database; plpython3u and the vectors stay.
drop schema if exists {SCHEMA} cascade;
"""


def render(
    model: OnnxEmbedding,
    packages: Sequence[Path],
    *,
    embed_on_write: bool = False,
    default_space: bool = False,
) -> str:
    """The statements, with every path written out, to be run in one transaction."""
    descriptor = descriptor_of(model)
    body = _BODY.format(
        identity=ascii(fingerprint(descriptor)),
        packages=ascii([str(path) for path in packages]),
        arguments=ascii(model.arguments),
    )
    literal = quote_literal(json.dumps(descriptor))
    extra = ""
    if default_space:
        extra += f"select remem.activate_space('{fingerprint(descriptor)}');\n"
    if embed_on_write:
        extra += "select remem.configure('embed_on_write', 'on');\n"
    if QUOTE in body + literal or "\\" in literal:
        raise InvalidArgument(
            "a path or a prompt of the model cannot be written into a function",
            detail={"argument": "embedding"},
        )
    return _SCRIPT.format(
        schema=SCHEMA,
        quote=QUOTE,
        body=body,
        descriptor=literal,
        extra=extra,
    )


def script(
    model: OnnxEmbedding,
    packages: Sequence[Path],
    *,
    embed_on_write: bool = False,
    default_space: bool = False,
) -> str:
    """What `render` gives as one script for psql, to be read before it is run."""
    head = _HEAD.format(version=__version__, name=json.dumps(descriptor_of(model)["name"]))
    text = render(model, packages, embed_on_write=embed_on_write, default_space=default_space)
    return f"{head}{text}commit;\n"
