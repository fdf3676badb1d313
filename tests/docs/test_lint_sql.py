"""Each rule of sql/ refuses what it is for, and the checkout keeps them all."""

from __future__ import annotations

import pytest

from scripts.generated import ROOT
from scripts.lint_sql import MAX_LINES, lint, spot

PUBLIC = """
create or replace function remem.look(workspace text) returns int
language plpgsql stable security definer
set search_path = pg_catalog, remem, pg_temp
as $$
begin
  perform remem._authorize(workspace, 'read');
  return 1;
end
$$;
comment on function remem.look(text) is 'Looks.';
"""
PRIVATE = """
create or replace function remem._half(n int) returns int
language sql immutable parallel safe
set search_path = pg_catalog, remem, pg_temp
as $$ select n / 2 $$;
comment on function remem._half(int) is 'Half of it.';
"""


def findings(sql: str, migration: str = "") -> list[str]:
    return [f.text for f in lint({"sql/10_a.sql": sql}, {"migrations/0001_a.sql": migration})]


def test_functions_that_keep_the_rules_pass() -> None:
    assert findings(PUBLIC + PRIVATE) == []


@pytest.mark.parametrize(
    ("old", "new", "why"),
    [
        ("create or replace", "create", "create without or replace"),
        ("set search_path = pg_catalog, remem, pg_temp\n", "", "does not pin search_path"),
        ("pg_catalog, remem, pg_temp", "pg_catalog, remem", "pg_temp last"),
        ("pg_catalog, remem, pg_temp", "public, pg_catalog, pg_temp", "pg_catalog is first"),
        ("plpgsql stable", "plpgsql", "does not state its volatility"),
        ("security definer", "", "not SECURITY DEFINER"),
        ("perform remem._authorize(workspace, 'read');", "", "first statement does not authorise"),
        ("  perform remem", "  workspace := lower(workspace);\n  perform remem", "first statement"),
        ("  perform remem", "  -- perform remem", "first statement does not authorise"),
        ("comment on function remem.look(text) is 'Looks.';", "", "look has no comment"),
        ("remem.look(workspace text) ", "remem._look(workspace text) ", "private and SECURITY"),
    ],
)
def test_a_function_that_breaks_a_rule_is_named(old: str, new: str, why: str) -> None:
    assert old in PUBLIC
    found = findings(PUBLIC.replace(old, new))
    assert any(why in text for text in found), found


def test_a_public_function_in_sql_authorises_in_its_first_query() -> None:
    head = "create or replace function remem.f() returns int language sql stable security definer "
    head += "set search_path = pg_catalog, remem, pg_temp as $$"
    tail = "$$; comment on function remem.f() is 'F.';"
    assert findings(f"{head} select 1 from remem._authorize_any() {tail}") == []
    assert findings(f"{head} select 1; select remem._authorize_any() {tail}") != []


def test_a_private_function_with_a_bound_body_may_leave_its_path_to_be_inlined() -> None:
    bound = PRIVATE.replace("set search_path = pg_catalog, remem, pg_temp\n", "")
    assert any("does not pin search_path" in text for text in findings(bound))
    bound = bound.replace("as $$ select n / 2 $$", "return n / 2")
    assert findings(bound) == []
    assert spot({"sql/10_a.sql": bound + PUBLIC}, {}) == ""


def test_a_function_defined_twice_is_named_with_both_places() -> None:
    found = lint({"sql/10_a.sql": PRIVATE, "sql/20_b.sql": PRIVATE}, {})
    assert [str(f) for f in found] == [
        "sql/20_b.sql:2: _half is defined in sql/10_a.sql:2 too",
    ]


@pytest.mark.parametrize(
    "statement",
    [
        "create table remem.t (n int);",
        "alter table remem.t add column m int;",
        "drop function remem.look(text);",
        "insert into remem.setting values ('a', 'b');",
    ],
)
def test_what_changes_tables_does_not_belong_in_sql(statement: str) -> None:
    assert any("belongs in a migration" in text for text in findings(statement))
    assert findings("", migration=statement) == []


@pytest.mark.parametrize(
    "statement",
    [
        "create trigger t before insert on remem.memory for each row execute function remem.f();",
        "create policy p on remem.memory using (true);",
    ],
)
def test_triggers_and_policies_are_refused_everywhere(statement: str) -> None:
    assert any("no triggers, no policies" in text for text in findings(statement))
    assert any("no triggers, no policies" in text for text in findings("", migration=statement))


def test_a_migration_that_calls_a_product_function_is_refused() -> None:
    default = "alter table remem.memory add column n int default remem._half(4);"
    assert any("remem._half" in text for text in findings("", migration=default))
    assert findings("", migration=default.replace("remem._half(4)", "abs(4)")) == []


def test_when_others_needs_its_reason_beside_it() -> None:
    bare = "do $$ begin perform 1;\n\nexception when others then\n\n  perform 2; end $$;"
    assert any("when others" in text for text in findings(bare))
    reasoned = bare.replace("then", "then  -- a failed probe is no probe")
    assert findings(reasoned) == []


def test_a_file_of_sql_stays_short() -> None:
    assert any("split it" in text for text in findings(PRIVATE + "-- line\n" * MAX_LINES))
    assert findings(PRIVATE + "-- line\n" * (MAX_LINES // 2)) == []


def test_pgspot_reads_what_the_rules_do_not() -> None:
    unsafe = "create or replace function remem.f() returns int language sql as $$ select 1 + 1 $$;"
    assert "PS001" in spot({"sql/10_a.sql": unsafe}, {})
    assert spot({"sql/10_a.sql": PUBLIC + PRIVATE}, {}) == ""


def test_the_checkout_keeps_the_rules() -> None:
    sql = {p.name: p.read_text("utf-8") for p in (ROOT / "sql").glob("*.sql")}
    migrations = {p.name: p.read_text("utf-8") for p in (ROOT / "migrations").glob("*.sql")}
    assert sql
    assert migrations
    assert [str(f) for f in lint(sql, migrations)] == []
