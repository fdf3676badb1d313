"""The page of the schema: tables whole, functions by their heads, nothing of one run."""

from __future__ import annotations

from scripts.docs_schema import normalise

DUMP = """--
-- PostgreSQL database dump
--

\\restrict {token}

-- Dumped from database version {version}

SET row_security = off;

--
-- Name: remem; Type: SCHEMA; Schema: -; Owner: -
--

CREATE SCHEMA remem;


--
-- Name: pin(text, uuid); Type: FUNCTION; Schema: remem; Owner: -
--

CREATE FUNCTION remem.pin(workspace text, memory_id uuid) RETURNS void
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog'
    AS $$
begin
  perform {body};
end
$$;


--
-- Name: FUNCTION pin(workspace text, memory_id uuid); Type: COMMENT; Schema: remem; Owner: -
--

COMMENT ON FUNCTION remem.pin(workspace text, memory_id uuid) IS 'Pins; SET search_path = 1.';


SET default_table_access_method = heap;

--
-- Name: t; Type: TABLE; Schema: remem; Owner: -
--

CREATE TABLE remem.t (
    a integer NOT NULL
);


--
-- PostgreSQL database dump complete
--

\\unrestrict {token}
"""
PAGE = """
CREATE SCHEMA remem;

CREATE FUNCTION remem.pin(workspace text, memory_id uuid) RETURNS void LANGUAGE plpgsql SECURITY \
DEFINER SET search_path TO 'pg_catalog';

CREATE TABLE remem.t (
    a integer NOT NULL
);
"""


def test_tables_are_whole_and_functions_are_heads() -> None:
    written = normalise(DUMP.format(token="abc", version="18.6", body="1"))
    assert written.endswith(PAGE)


def test_what_differs_from_run_to_run_and_a_changed_body_are_not_seen() -> None:
    first = normalise(DUMP.format(token="abc", version="18.6", body="1"))
    assert normalise(DUMP.format(token="xyz", version="18.7", body="2")) == first


def test_a_changed_column_is_seen() -> None:
    changed = DUMP.replace("a integer NOT NULL", "a bigint NOT NULL")
    first = normalise(DUMP.format(token="abc", version="18.6", body="1"))
    assert normalise(changed.format(token="abc", version="18.6", body="1")) != first
