-- Written by `./run docs` from a dump of a fresh installation; not to be run.
-- Tables, types, indexes and rights in full; functions by their heads, their bodies are in sql/.

CREATE SCHEMA remem;

COMMENT ON SCHEMA remem IS 'Long-term memory for software agents. Functions are the only door.';

CREATE TYPE remem._arm_result AS (
	arm text,
	state text,
	memory_nos bigint[],
	scores double precision[],
	matched double precision[],
	elapsed_ms double precision,
	error text
);

COMMENT ON TYPE remem._arm_result IS 'The finds and the state of one arm; internal.';

CREATE TYPE remem.memory_item AS (
	body text,
	ref text,
	kind text,
	title text,
	summary text,
	tags text[],
	aliases text[],
	scope text,
	scope_ref text,
	topic_key text,
	subject text,
	attribute text,
	source_class text,
	source_ref text,
	importance real,
	confidence real,
	pinned boolean,
	unresolved boolean,
	session_ref text,
	turn_no integer,
	speaker text,
	occurred_at timestamp with time zone,
	valid_from timestamp with time zone,
	valid_to timestamp with time zone,
	entities text[],
	metadata jsonb,
	embedding real[],
	on_conflict text,
	space text
);

COMMENT ON TYPE remem.memory_item IS 'The keys of one item of remember_many, with their types.';

CREATE TYPE remem._prepared_item AS (
	item_no integer,
	item remem.memory_item,
	attrs jsonb,
	fingerprint bytea,
	content_hash bytea,
	lexemes text[],
	tfs integer[],
	doc_len integer
);

COMMENT ON TYPE remem._prepared_item IS 'A validated item with its analysed text; internal.';

CREATE TABLE remem.memory (
    workspace text NOT NULL COLLATE pg_catalog."C",
    memory_no bigint NOT NULL,
    memory_id uuid DEFAULT gen_random_uuid() NOT NULL,
    ref text COLLATE pg_catalog."C",
    kind text NOT NULL,
    scope text NOT NULL,
    scope_ref text COLLATE pg_catalog."C",
    title text,
    body text NOT NULL,
    summary text,
    aliases text[],
    tags text[],
    entities text[],
    topic_key text COLLATE pg_catalog."C",
    subject text,
    attribute text,
    source_class text NOT NULL COLLATE pg_catalog."C",
    source_ref text,
    provenance jsonb,
    importance real DEFAULT 0.5 NOT NULL,
    confidence real,
    pinned boolean DEFAULT false NOT NULL,
    unresolved boolean DEFAULT false NOT NULL,
    session_no integer,
    turn_no integer,
    speaker text,
    occurred_at timestamp with time zone,
    valid_from timestamp with time zone,
    valid_to timestamp with time zone,
    created_at timestamp with time zone DEFAULT now() NOT NULL,
    updated_at timestamp with time zone DEFAULT now() NOT NULL,
    superseded_at timestamp with time zone,
    superseded_by uuid,
    forgotten_at timestamp with time zone,
    freshness text DEFAULT 'current'::text NOT NULL,
    attrs jsonb NOT NULL,
    fingerprint bytea NOT NULL,
    content_hash bytea NOT NULL,
    doc_len integer NOT NULL,
    lexemes text[] NOT NULL,
    analyser_no integer NOT NULL,
    changed_xid xid8 DEFAULT pg_current_xact_id() NOT NULL,
    CONSTRAINT memory_confidence CHECK (((confidence >= (0)::double precision) AND (confidence <= (1)::double precision))),
    CONSTRAINT memory_freshness CHECK ((freshness = ANY (ARRAY['current'::text, 'stale'::text, 'unknown'::text]))),
    CONSTRAINT memory_importance CHECK (((importance >= (0)::double precision) AND (importance <= (1)::double precision))),
    CONSTRAINT memory_kind CHECK ((kind = ANY (ARRAY['semantic'::text, 'episodic'::text, 'decision'::text, 'preference'::text, 'procedure'::text, 'task'::text, 'other'::text]))),
    CONSTRAINT memory_scope CHECK ((scope = ANY (ARRAY['global'::text, 'project'::text, 'session'::text, 'user'::text]))),
    CONSTRAINT memory_scope_ref CHECK (((scope = 'global'::text) = (scope_ref IS NULL))),
    CONSTRAINT memory_validity CHECK ((valid_from < valid_to))
);

COMMENT ON TABLE remem.memory IS 'Every memory and every former version of it; written and read only through functions.';

CREATE TYPE remem._import_memory AS (
	item_no integer,
	prepared remem._prepared_item,
	stored remem.memory,
	forgotten_by name,
	forgotten_why text
);

COMMENT ON TYPE remem._import_memory IS 'A memory of an export between reading and writing.';

CREATE TYPE remem._memory_evidence AS (
	memory_no bigint,
	memory_id uuid,
	name text,
	owner text,
	cosine double precision,
	relevance double precision,
	coverage double precision,
	shared integer
);

COMMENT ON TYPE remem._memory_evidence IS 'A memory that recall finds for a plan; internal.';

CREATE TABLE remem.embedding_space (
    space_no integer NOT NULL,
    name text NOT NULL COLLATE pg_catalog."C",
    fingerprint text NOT NULL COLLATE pg_catalog."C",
    backend text NOT NULL,
    asset text NOT NULL,
    dimensions integer NOT NULL,
    pooling text NOT NULL,
    normalization text NOT NULL,
    dtype text NOT NULL,
    query_prompt text DEFAULT ''::text NOT NULL,
    document_prompt text DEFAULT ''::text NOT NULL,
    state text NOT NULL,
    cosine_floor real NOT NULL,
    cosine_full real NOT NULL,
    vector_weight real NOT NULL,
    created_at timestamp with time zone DEFAULT now() NOT NULL,
    CONSTRAINT embedding_space_dimensions CHECK (((dimensions >= 1) AND (dimensions <= 4000))),
    CONSTRAINT embedding_space_state CHECK ((state = ANY (ARRAY['building'::text, 'active'::text, 'retired'::text]))),
    CONSTRAINT embedding_space_thresholds CHECK ((cosine_floor < cosine_full)),
    CONSTRAINT embedding_space_weight CHECK (((vector_weight >= (0)::double precision) AND (vector_weight <= (1)::double precision)))
);

COMMENT ON TABLE remem.embedding_space IS 'One row per embedding model identity. Vectors of different spaces are never compared.';

COMMENT ON COLUMN remem.embedding_space.cosine_floor IS 'Cosine at which a hit starts to be relevant (relevance 0).';

COMMENT ON COLUMN remem.embedding_space.cosine_full IS 'Cosine at which a hit is as relevant as this model can say (relevance 1).';

COMMENT ON COLUMN remem.embedding_space.vector_weight IS 'Share of the vector score beside the lexical one when recall fuses them.';

CREATE TYPE remem._plan_context AS (
	workspace text,
	space remem.embedding_space,
	options jsonb,
	owners text[],
	query text,
	words text,
	tokens text[],
	counts boolean[],
	continuity text[],
	provider_ids text[],
	provider_names text[],
	provider_texts text[],
	provider_limits integer[],
	given text[],
	disabled text[],
	topics bigint,
	cutoff_weight real,
	cutoff_no bigint,
	degraded text[],
	generic text[],
	distinctive text,
	is_foreign boolean,
	vector real[],
	vector_problem text
);

COMMENT ON TYPE remem._plan_context IS 'What a plan goes by; internal.';

CREATE TYPE remem._query AS (
	workspace text,
	space_no integer,
	text text,
	folded text,
	words text,
	lexemes text[],
	frequencies bigint[],
	idfs double precision[],
	idf_mass double precision,
	original_lexemes text[],
	expanded_lexemes text[],
	excluded text[],
	vector real[],
	more_vectors jsonb,
	phrases text[],
	entities text[],
	session_nos integer[],
	kind_hint text,
	time_from timestamp with time zone,
	time_to timestamp with time zone,
	allowed bigint[],
	row_filter jsonpath,
	check_validity boolean,
	shards text[],
	shard_filters jsonpath[],
	documents bigint,
	vectors bigint,
	mean_len double precision,
	as_of timestamp with time zone,
	scope_filter jsonpath,
	selective boolean
);

COMMENT ON TYPE remem._query IS 'A prepared query: what the arms are given; internal.';

CREATE TYPE remem._scored AS (
	memory_no bigint,
	score double precision,
	relevance double precision,
	signals jsonb,
	arms text[],
	copies bigint[],
	from_no bigint
);

COMMENT ON TYPE remem._scored IS 'A scored candidate; internal.';

CREATE TYPE remem._topic_match AS (
	topic_no bigint,
	topic_id uuid,
	title text,
	score double precision,
	signal text,
	unresolved boolean,
	scope text,
	scope_ref text,
	providers text[]
);

COMMENT ON TYPE remem._topic_match IS 'A topic that a stage of the planner found; internal.';

CREATE TYPE remem.access_grant_record AS (
	role text,
	workspace text,
	level text,
	max_source_class text,
	holds boolean,
	granted_at timestamp with time zone,
	granted_by text
);

COMMENT ON TYPE remem.access_grant_record IS 'A grant in a list: workspace null is all of them, holds false is a role that was dropped, renamed or made again.';

CREATE TYPE remem.batch_done AS (
	memory_id uuid,
	count bigint
);

COMMENT ON TYPE remem.batch_done IS 'How many memories a bounded job did, and the last of them; null when none are left.';

CREATE TYPE remem.catalog_text AS (
	kind text,
	id text,
	text text
);

COMMENT ON TYPE remem.catalog_text IS 'A topic or provider without a vector in the current space, or a topic without that of its title, with the text to embed.';

CREATE TYPE remem.check_row AS (
	check_name text,
	status text,
	detail text,
	remedy text
);

COMMENT ON TYPE remem.check_row IS 'One finding of doctor.';

COMMENT ON COLUMN remem.check_row.check_name IS 'What was looked at; behind a colon the embedding space that it is about.';

COMMENT ON COLUMN remem.check_row.status IS 'ok, warning (it works, but worse than it could or not for long) or error (something is broken or open).';

COMMENT ON COLUMN remem.check_row.remedy IS 'A command that can be pasted: one that ends with a semicolon into psql, any other into a shell.';

CREATE TYPE remem.conflict_candidate AS (
	subject text,
	attribute text,
	memory_id uuid,
	ref text,
	body text,
	other_id uuid,
	other_ref text,
	other_body text,
	linked text
);

COMMENT ON TYPE remem.conflict_candidate IS 'Two current memories that say different things of the same attribute of the same subject.';

CREATE TYPE remem.drop_report AS (
	done boolean,
	deleted bigint,
	remaining jsonb
);

COMMENT ON TYPE remem.drop_report IS 'What drop_workspace deleted, and how many rows each table still has of the workspace.';

CREATE TYPE remem.embedding_coverage AS (
	space text,
	fingerprint text,
	state text,
	total bigint,
	embedded bigint,
	empty bigint,
	pending bigint,
	claimed bigint,
	waiting bigint,
	set_aside bigint,
	index_state text,
	cutover text,
	activated boolean
);

COMMENT ON TYPE remem.embedding_coverage IS 'How much of a workspace has a vector in one space: memories, topics and providers together.';

CREATE TYPE remem.embedding_job AS (
	claim_id uuid,
	item_no integer,
	kind text,
	id text,
	text text,
	content_hash text,
	failures integer,
	space text,
	run_id uuid
);

COMMENT ON TYPE remem.embedding_job IS 'One text to embed: complete_embeddings takes the claim_id and the item_no back with the vector.';

CREATE TYPE remem.embedding_outcome AS (
	item_no integer,
	outcome text
);

COMMENT ON TYPE remem.embedding_outcome IS 'What became of one vector: stored, empty, changed, lost or refused.';

CREATE TYPE remem.embedding_problem AS (
	space text,
	kind text,
	id text,
	state text,
	failures integer,
	abandoned integer,
	last_error text,
	due_at timestamp with time zone,
	updated_at timestamp with time zone
);

COMMENT ON TYPE remem.embedding_problem IS 'A row that could not be embedded: waiting for another try or set aside.';

CREATE TYPE remem.forget_report AS (
	preview boolean,
	memories bigint,
	versions bigint,
	sample jsonb
);

COMMENT ON TYPE remem.forget_report IS 'What forget_where forgot, or would: current memories, all their versions, and the first twenty of them.';

CREATE TYPE remem.import_result AS (
	item_no integer,
	type text,
	outcome text,
	memory_id uuid,
	ref text,
	error jsonb
);

COMMENT ON TYPE remem.import_result IS 'What became of one record of an export.';

CREATE TYPE remem.job_run_record AS (
	run_id uuid,
	kind text,
	state text,
	space text,
	claimed bigint,
	embedded bigint,
	failed bigint,
	last_error text,
	metadata jsonb,
	started_at timestamp with time zone,
	updated_at timestamp with time zone,
	completed_at timestamp with time zone
);

COMMENT ON TYPE remem.job_run_record IS 'One run of a job, or one switch of space.';

CREATE TYPE remem.maintain_row AS (
	task text,
	state text,
	rows bigint,
	detail text,
	command text
);

COMMENT ON TYPE remem.maintain_row IS 'One task of maintain.';

COMMENT ON COLUMN remem.maintain_row.state IS 'done, partial (the budget ended first: call again), busy (another session maintains) or due (a client has to run the command).';

COMMENT ON COLUMN remem.maintain_row.rows IS 'How many rows the task changed or removed.';

COMMENT ON COLUMN remem.maintain_row.command IS 'VACUUM, ANALYZE or REINDEX, which no function can run; a statement for psql, outside a transaction.';

CREATE TYPE remem.memory_record AS (
	memory_id uuid,
	workspace text,
	ref text,
	kind text,
	scope text,
	scope_ref text,
	title text,
	body text,
	summary text,
	aliases text[],
	tags text[],
	topic_key text,
	subject text,
	attribute text,
	source_class text,
	source_ref text,
	provenance jsonb,
	importance real,
	confidence real,
	pinned boolean,
	unresolved boolean,
	session_ref text,
	turn_no integer,
	speaker text,
	occurred_at timestamp with time zone,
	valid_from timestamp with time zone,
	valid_to timestamp with time zone,
	created_at timestamp with time zone,
	updated_at timestamp with time zone,
	superseded_at timestamp with time zone,
	superseded_by uuid,
	forgotten_at timestamp with time zone,
	freshness text,
	metadata jsonb
);

COMMENT ON TYPE remem.memory_record IS 'A memory as the caller sees it.';

CREATE TYPE remem.memory_ref AS (
	memory_id uuid,
	ref text,
	outcome text,
	item_no integer,
	error jsonb
);

COMMENT ON TYPE remem.memory_ref IS 'What became of one memory: created, unchanged, merged, new_version or refused when written; forgotten, superseded or purged when it was not written because it had been; and the words of the lifecycle.';

CREATE TYPE remem.memory_version AS (
	version integer,
	memory_id uuid,
	ref text,
	state text,
	kind text,
	title text,
	body text,
	created_at timestamp with time zone,
	ended_at timestamp with time zone,
	how text,
	reason text,
	ended_by text,
	replaced_by uuid
);

COMMENT ON TYPE remem.memory_version IS 'One version of a memory: current, superseded, forgotten or purged, and what ended it.';

CREATE TYPE remem.planner_word AS (
	workspace text,
	language text,
	word text
);

COMMENT ON TYPE remem.planner_word IS 'A continuity phrase or generic word in normalised form; workspace is null where it holds for all.';

CREATE TYPE remem.provider_record AS (
	provider_id text,
	name text,
	aliases text[],
	summary text,
	categories text[],
	enabled boolean,
	result_limit integer,
	builtin boolean,
	embedded boolean,
	updated_at timestamp with time zone
);

COMMENT ON TYPE remem.provider_record IS 'A provider descriptor as the caller sees it.';

CREATE TYPE remem.recall_hit AS (
	rank integer,
	memory_id uuid,
	ref text,
	kind text,
	title text,
	body text,
	score double precision,
	relevance double precision,
	signals jsonb,
	arms text[],
	source_class text,
	source_ref text,
	session_ref text,
	occurred_at timestamp with time zone,
	freshness text,
	duplicates jsonb,
	expanded_from uuid,
	degraded text[],
	scope text,
	scope_ref text
);

COMMENT ON TYPE remem.recall_hit IS 'One recalled memory: score orders, relevance (0 to 1) is absolute, signals say why.';

CREATE TYPE remem.recall_many_hit AS (
	query_no integer,
	rank integer,
	memory_id uuid,
	ref text,
	kind text,
	title text,
	body text,
	score double precision,
	relevance double precision,
	signals jsonb,
	arms text[],
	source_class text,
	source_ref text,
	session_ref text,
	occurred_at timestamp with time zone,
	freshness text,
	duplicates jsonb,
	expanded_from uuid,
	degraded text[],
	scope text,
	scope_ref text
);

COMMENT ON TYPE remem.recall_many_hit IS 'A recalled memory with the number of its query.';

CREATE TYPE remem.reindex_report AS (
	done boolean,
	reindexed bigint,
	progress double precision,
	language text,
	analyser text,
	run_id uuid
);

COMMENT ON TYPE remem.reindex_report IS 'What one call of reindex_text did, and how far (0 to 1) the workspace is.';

CREATE TYPE remem.space_info AS (
	space_no integer,
	name text,
	fingerprint text,
	backend text,
	dimensions integer,
	state text,
	descriptor jsonb,
	cosine_floor real,
	cosine_full real
);

COMMENT ON TYPE remem.space_info IS 'An embedding space as the caller sees it.';

CREATE TYPE remem.space_status AS (
	name text,
	fingerprint text,
	backend text,
	dimensions integer,
	state text,
	workspace_state text,
	memories bigint,
	vectors bigint,
	coverage double precision,
	set_aside bigint,
	workspaces bigint,
	index_state text,
	index_bytes bigint,
	table_bytes bigint
);

COMMENT ON TYPE remem.space_status IS 'An embedding space in a list: its state in the database and in one workspace, how full it is, how large.';

CREATE TYPE remem.topic_record AS (
	topic_id uuid,
	title text,
	aliases text[],
	tags text[],
	summary text,
	importance real,
	unresolved boolean,
	providers text[],
	scope text,
	scope_ref text,
	parent text,
	freshness text,
	sources text[],
	derived boolean,
	embedded boolean,
	updated_at timestamp with time zone
);

COMMENT ON TYPE remem.topic_record IS 'A topic as the caller sees it: merged from its sources; embedded in the workspace''s current space or not.';

CREATE TYPE remem.workspace_info AS (
	workspace text,
	language text,
	space text,
	text_index text,
	memories bigint,
	created_at timestamp with time zone
);

COMMENT ON TYPE remem.workspace_info IS 'A workspace in a list; text_index is current, mixed (reindex_text is due) or outdated (another version analysed it).';

CREATE FUNCTION remem._add_entities(workspace text, memory_nos bigint[]) RETURNS void LANGUAGE sql SET search_path TO 'pg_catalog', 'remem', 'pg_temp';

CREATE FUNCTION remem._add_hash_vectors(workspace text, memory_nos bigint[]) RETURNS void LANGUAGE plpgsql SET search_path TO 'pg_catalog', 'remem', 'pg_temp';

CREATE FUNCTION remem._add_item_entities(workspace text, items remem._prepared_item[], memory_nos bigint[]) RETURNS void LANGUAGE sql SET search_path TO 'pg_catalog', 'remem', 'pg_temp' SET enable_memoize TO 'off';

CREATE TABLE remem.workspace (
    workspace text NOT NULL COLLATE pg_catalog."C",
    language text NOT NULL,
    analyser_no integer DEFAULT 1 NOT NULL,
    analyser text NOT NULL,
    space_no integer NOT NULL,
    created_at timestamp with time zone DEFAULT now() NOT NULL,
    scoped boolean DEFAULT false NOT NULL,
    reindexed_to bigint,
    next_space_no integer,
    words_counted bigint,
    workspace_key bigint NOT NULL,
    CONSTRAINT workspace_name CHECK ((((octet_length(workspace) >= 1) AND (octet_length(workspace) <= 200)) AND (workspace !~ '[\u0001-\u001f\u007f-\u009f]'::text)))
);

COMMENT ON TABLE remem.workspace IS 'One row per tenant: language, analyser identity, current embedding space.';

COMMENT ON COLUMN remem.workspace.reindexed_to IS 'Up to which memory reindex_text has come; null when no row is of another analyser.';

COMMENT ON COLUMN remem.workspace.next_space_no IS 'The embedding space in building, or null; jobs fill it, recall does not read it.';

COMMENT ON COLUMN remem.workspace.workspace_key IS 'The workspace as a number, which leads the keys of its postings: _workspace_key of its name.';

CREATE FUNCTION remem._add_live(workspace remem.workspace, items remem._prepared_item[], memory_nos bigint[], session_nos integer[], turn_nos integer[]) RETURNS void LANGUAGE plpgsql SET search_path TO 'pg_catalog', 'remem', 'pg_temp';

CREATE FUNCTION remem._add_postings(workspace_key bigint, items remem._prepared_item[], memory_nos bigint[], session_nos integer[]) RETURNS void LANGUAGE sql SET search_path TO 'pg_catalog', 'remem', 'pg_temp';

CREATE FUNCTION remem._add_tally(workspace text, space_no integer, rows_delta bigint, doc_len_delta bigint DEFAULT 0) RETURNS void LANGUAGE plpgsql SET search_path TO 'pg_catalog', 'remem', 'pg_temp';

CREATE FUNCTION remem._add_topics(workspace remem.workspace, memory_nos bigint[]) RETURNS void LANGUAGE plpgsql SET search_path TO 'pg_catalog', 'remem', 'pg_temp';

CREATE FUNCTION remem._add_vectors(workspace text, space_no integer, memory_nos bigint[], items remem._prepared_item[]) RETURNS bigint LANGUAGE plpgsql SET search_path TO 'pg_catalog', 'remem', 'pg_temp';

CREATE FUNCTION remem._entity_names(text) RETURNS text LANGUAGE plpgsql IMMUTABLE STRICT PARALLEL SAFE SET search_path TO 'pg_catalog', 'remem', 'pg_temp' SET plan_cache_mode TO 'force_generic_plan';

CREATE FUNCTION remem._aliases_of(title text, aliases text[]) RETURNS TABLE(name text, other text) LANGUAGE sql STABLE ROWS 2 PARALLEL SAFE;

CREATE FUNCTION remem._analyse_items(workspace remem.workspace, space remem.embedding_space, dictionaries regdictionary[], items remem._prepared_item[]) RETURNS remem._prepared_item[] LANGUAGE plpgsql STABLE SET search_path TO 'pg_catalog', 'remem', 'pg_temp' SET plan_cache_mode TO 'force_generic_plan';

CREATE FUNCTION remem._analyser_name(language text) RETURNS text LANGUAGE plpgsql STABLE PARALLEL SAFE SET search_path TO 'pg_catalog', 'remem', 'pg_temp';

CREATE FUNCTION remem._analyser_version() RETURNS integer LANGUAGE sql IMMUTABLE PARALLEL SAFE SET search_path TO 'pg_catalog', 'remem', 'pg_temp';

CREATE FUNCTION remem._arm_attribute(query remem._query, n integer) RETURNS TABLE(memory_no bigint, score double precision) LANGUAGE plpgsql STABLE SET search_path TO 'pg_catalog', 'remem', 'pg_temp' SET plan_cache_mode TO 'force_generic_plan';

CREATE FUNCTION remem._arm_lexical(query remem._query, n integer, budget integer, OUT memory_nos bigint[], OUT scores double precision[], OUT matched double precision[]) RETURNS record LANGUAGE plpgsql STABLE SET search_path TO 'pg_catalog', 'remem', 'pg_temp' SET plan_cache_mode TO 'force_generic_plan' SET enable_seqscan TO 'off' SET enable_nestloop TO 'off';

CREATE FUNCTION remem._arm_lexical_at(query remem._query, n integer, budget integer, OUT memory_nos bigint[], OUT scores double precision[], OUT matched double precision[]) RETURNS record LANGUAGE plpgsql STABLE SET search_path TO 'pg_catalog', 'remem', 'pg_temp' SET plan_cache_mode TO 'force_generic_plan' SET enable_seqscan TO 'off' SET enable_nestloop TO 'off';

CREATE FUNCTION remem._arm_phrase(query remem._query, n integer) RETURNS TABLE(memory_no bigint, score double precision) LANGUAGE plpgsql STABLE SET search_path TO 'pg_catalog', 'remem', 'pg_temp' SET plan_cache_mode TO 'force_generic_plan' SET enable_seqscan TO 'off';

CREATE FUNCTION remem._arm_pointer(query remem._query, n integer) RETURNS TABLE(memory_no bigint, score double precision) LANGUAGE plpgsql STABLE SET search_path TO 'pg_catalog', 'remem', 'pg_temp' SET plan_cache_mode TO 'force_generic_plan';

CREATE FUNCTION remem._arm_rows(k integer) RETURNS integer LANGUAGE sql IMMUTABLE PARALLEL SAFE;

CREATE FUNCTION remem._arm_states(arms jsonb) RETURNS jsonb LANGUAGE sql IMMUTABLE PARALLEL SAFE SET search_path TO 'pg_catalog', 'remem', 'pg_temp';

CREATE FUNCTION remem._arm_vector(workspace text, space_no integer, query real[], n integer, exact boolean, allowed bigint[], row_filter jsonpath, check_validity boolean, OUT memory_nos bigint[], OUT cosines double precision[]) RETURNS record LANGUAGE plpgsql STABLE SET search_path TO 'pg_catalog', 'remem', 'pg_temp';

CREATE FUNCTION remem._arm_vector_at(query remem._query, n integer, OUT memory_nos bigint[], OUT scores double precision[]) RETURNS record LANGUAGE plpgsql STABLE SET search_path TO 'pg_catalog', 'remem', 'pg_temp' SET "hnsw.iterative_scan" TO 'strict_order' SET "hnsw.ef_search" TO '80';

CREATE FUNCTION remem._arm_vectors(query remem._query, n integer, OUT memory_nos bigint[], OUT cosines double precision[]) RETURNS record LANGUAGE plpgsql STABLE SET search_path TO 'pg_catalog', 'remem', 'pg_temp';

CREATE FUNCTION remem._ask_memories(context remem._plan_context, topics remem._topic_match[], matches remem._topic_match[], stage text, prompt_embedding real[], minimum double precision, OUT sure boolean[], OUT claimed remem._topic_match[], OUT claimed_sure boolean[], OUT memories jsonb, OUT reason text, OUT confidence double precision, OUT looked jsonb) RETURNS record LANGUAGE plpgsql STABLE SET search_path TO 'pg_catalog', 'remem', 'pg_temp';

CREATE FUNCTION remem._assigned(text) RETURNS text LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE SET search_path TO 'pg_catalog', 'remem', 'pg_temp';

CREATE FUNCTION remem._authorize(workspace text, demand text) RETURNS void LANGUAGE plpgsql STABLE SET search_path TO 'pg_catalog', 'remem', 'pg_temp';

CREATE FUNCTION remem._authorize_admin() RETURNS void LANGUAGE plpgsql STABLE SET search_path TO 'pg_catalog', 'remem', 'pg_temp';

CREATE FUNCTION remem._authorize_admin_of(workspace text) RETURNS void LANGUAGE plpgsql STABLE SET search_path TO 'pg_catalog', 'remem', 'pg_temp';

CREATE FUNCTION remem._authorize_any() RETURNS void LANGUAGE plpgsql STABLE SET search_path TO 'pg_catalog', 'remem', 'pg_temp';

CREATE FUNCTION remem._authorize_grants(workspace text) RETURNS void LANGUAGE plpgsql STABLE SET search_path TO 'pg_catalog', 'remem', 'pg_temp';

CREATE FUNCTION remem._base_score(cosine double precision, best_cosine double precision, score double precision, best_score double precision, vector_weight double precision) RETURNS double precision LANGUAGE sql IMMUTABLE PARALLEL SAFE;

CREATE FUNCTION remem._begin_staged() RETURNS void LANGUAGE plpgsql SET search_path TO 'pg_catalog', 'remem', 'pg_temp';

CREATE FUNCTION remem._bigrams(folded text) RETURNS text[] LANGUAGE plpgsql IMMUTABLE STRICT PARALLEL SAFE SET search_path TO 'pg_catalog', 'remem', 'pg_temp';

CREATE FUNCTION remem._cache_cold(workspace text, query text, query_embedding real[], k integer, options jsonb, semantic boolean, keyed boolean, OUT document jsonb, OUT snapshot pg_snapshot, OUT expires_at timestamp with time zone, OUT key bytea, OUT scope_key bytea, OUT vector real[]) RETURNS record LANGUAGE plpgsql STABLE SET search_path TO 'pg_catalog', 'remem', 'pg_temp';

CREATE FUNCTION remem._cache_config(workspace text) RETURNS text LANGUAGE sql STABLE SET search_path TO 'pg_catalog', 'remem', 'pg_temp';

CREATE FUNCTION remem._cache_expiry(workspace text) RETURNS timestamp with time zone LANGUAGE sql STABLE SET search_path TO 'pg_catalog', 'remem', 'pg_temp';

CREATE FUNCTION remem._cache_find(workspace text, query text, query_embedding real[], k integer, options jsonb, semantic boolean, token text, OUT answer jsonb, OUT tier text, OUT token_now text, OUT similarity double precision, OUT age_ms double precision) RETURNS record LANGUAGE plpgsql STABLE SET search_path TO 'pg_catalog', 'remem', 'pg_temp';

CREATE FUNCTION remem._cache_hits(workspace text, hits jsonb) RETURNS jsonb LANGUAGE sql STABLE SET search_path TO 'pg_catalog', 'remem', 'pg_temp';

CREATE FUNCTION remem._cache_keys(workspace text, query text, query_embedding real[], k integer, options jsonb, semantic boolean, OUT key bytea, OUT scope_key bytea, OUT vector real[]) RETURNS record LANGUAGE plpgsql STABLE SET search_path TO 'pg_catalog', 'remem', 'pg_temp';

CREATE FUNCTION remem._cache_store(workspace text, key bytea, scope_key bytea, vector real[], document jsonb, snapshot pg_snapshot, expires_at timestamp with time zone) RETURNS void LANGUAGE plpgsql SET search_path TO 'pg_catalog', 'remem', 'pg_temp';

CREATE FUNCTION remem._cache_token(key bytea, hits integer, made_at timestamp with time zone, expires_at timestamp with time zone, snapshot pg_snapshot) RETURNS text LANGUAGE sql IMMUTABLE PARALLEL SAFE;

CREATE FUNCTION remem._cached_options(options jsonb) RETURNS jsonb LANGUAGE plpgsql STABLE SET search_path TO 'pg_catalog', 'remem', 'pg_temp';

CREATE FUNCTION remem._caller() RETURNS name LANGUAGE plpgsql STABLE PARALLEL SAFE SET search_path TO 'pg_catalog', 'remem', 'pg_temp';

CREATE FUNCTION remem._candidates(query remem._query, vector_weight double precision, results remem._arm_result[], pool bigint[], cap integer, OUT memory_nos bigint[], OUT cosines double precision[], OUT scores double precision[], OUT matched double precision[], OUT excluded integer, OUT capped integer) RETURNS record LANGUAGE plpgsql STABLE SET search_path TO 'pg_catalog', 'remem', 'pg_temp' SET plan_cache_mode TO 'force_generic_plan';

CREATE FUNCTION remem._cap_source_class(source_class text, max_source_class text) RETURNS text LANGUAGE sql STABLE SET search_path TO 'pg_catalog', 'remem', 'pg_temp';

CREATE FUNCTION remem._carry_relations(workspace text, old_nos bigint[], new_nos bigint[]) RETURNS void LANGUAGE sql SET search_path TO 'pg_catalog', 'remem', 'pg_temp';

CREATE FUNCTION remem._catalog(context remem._plan_context) RETURNS jsonb LANGUAGE plpgsql STABLE SET search_path TO 'pg_catalog', 'remem', 'pg_temp' SET plan_cache_mode TO 'force_generic_plan';

CREATE FUNCTION remem._chars_alnum() RETURNS text LANGUAGE sql IMMUTABLE PARALLEL SAFE SET search_path TO 'pg_catalog', 'remem', 'pg_temp';

CREATE FUNCTION remem._chars_excluded() RETURNS text LANGUAGE sql IMMUTABLE PARALLEL SAFE SET search_path TO 'pg_catalog', 'remem', 'pg_temp';

CREATE FUNCTION remem._chars_lower() RETURNS text LANGUAGE sql IMMUTABLE PARALLEL SAFE SET search_path TO 'pg_catalog', 'remem', 'pg_temp';

CREATE FUNCTION remem._chars_unspaced() RETURNS text LANGUAGE sql IMMUTABLE PARALLEL SAFE SET search_path TO 'pg_catalog', 'remem', 'pg_temp';

CREATE FUNCTION remem._chars_upper() RETURNS text LANGUAGE sql IMMUTABLE PARALLEL SAFE SET search_path TO 'pg_catalog', 'remem', 'pg_temp';

CREATE FUNCTION remem._chars_word() RETURNS text LANGUAGE sql IMMUTABLE PARALLEL SAFE SET search_path TO 'pg_catalog', 'remem', 'pg_temp';

CREATE FUNCTION remem._check_as_of(value jsonb) RETURNS void LANGUAGE plpgsql STABLE SET search_path TO 'pg_catalog', 'remem', 'pg_temp';

CREATE FUNCTION remem._check_context(context jsonb) RETURNS void LANGUAGE plpgsql STABLE SET search_path TO 'pg_catalog', 'remem', 'pg_temp';

CREATE FUNCTION remem._check_expansion(options jsonb) RETURNS void LANGUAGE plpgsql STABLE SET search_path TO 'pg_catalog', 'remem', 'pg_temp';

CREATE FUNCTION remem._check_item(item remem.memory_item, item_no integer) RETURNS remem.memory_item LANGUAGE plpgsql STABLE SET search_path TO 'pg_catalog', 'remem', 'pg_temp';

CREATE FUNCTION remem._check_length(argument text, value text, max_bytes integer, item_no integer) RETURNS void LANGUAGE plpgsql STABLE SET search_path TO 'pg_catalog', 'remem', 'pg_temp';

CREATE FUNCTION remem._check_list(argument text, value jsonb, valid text[]) RETURNS void LANGUAGE plpgsql STABLE SET search_path TO 'pg_catalog', 'remem', 'pg_temp';

CREATE FUNCTION remem._check_member(argument text, value text, valid text[], item_no integer) RETURNS void LANGUAGE plpgsql STABLE SET search_path TO 'pg_catalog', 'remem', 'pg_temp';

CREATE FUNCTION remem._check_names(argument text, value jsonb) RETURNS void LANGUAGE plpgsql STABLE SET search_path TO 'pg_catalog', 'remem', 'pg_temp';

CREATE FUNCTION remem._check_number(argument text, value jsonb, least_value numeric, most numeric) RETURNS void LANGUAGE plpgsql STABLE SET search_path TO 'pg_catalog', 'remem', 'pg_temp';

CREATE FUNCTION remem._check_options(options jsonb) RETURNS jsonb LANGUAGE plpgsql STABLE SET search_path TO 'pg_catalog', 'remem', 'pg_temp';

CREATE FUNCTION remem._check_owners(argument text, owners jsonb) RETURNS void LANGUAGE plpgsql STABLE SET search_path TO 'pg_catalog', 'remem', 'pg_temp';

CREATE FUNCTION remem._check_plan_option(name text, value jsonb) RETURNS void LANGUAGE plpgsql STABLE SET search_path TO 'pg_catalog', 'remem', 'pg_temp';

CREATE FUNCTION remem._check_plan_options(options jsonb) RETURNS jsonb LANGUAGE plpgsql STABLE SET search_path TO 'pg_catalog', 'remem', 'pg_temp';

CREATE FUNCTION remem._check_query(query text, k integer) RETURNS void LANGUAGE plpgsql STABLE SET search_path TO 'pg_catalog', 'remem', 'pg_temp';

CREATE FUNCTION remem._check_reason(reason text) RETURNS text LANGUAGE plpgsql STABLE SET search_path TO 'pg_catalog', 'remem', 'pg_temp';

CREATE FUNCTION remem._check_record(record jsonb, item_no integer) RETURNS void LANGUAGE plpgsql STABLE SET search_path TO 'pg_catalog', 'remem', 'pg_temp';

CREATE FUNCTION remem._check_texts(argument text, vals text[]) RETURNS text[] LANGUAGE plpgsql STABLE SET search_path TO 'pg_catalog', 'remem', 'pg_temp';

CREATE FUNCTION remem._check_vector(embedding real[], space remem.embedding_space, item_no integer) RETURNS void LANGUAGE plpgsql STABLE SET search_path TO 'pg_catalog', 'remem', 'pg_temp';

CREATE FUNCTION remem._check_weights(weights jsonb) RETURNS void LANGUAGE plpgsql STABLE SET search_path TO 'pg_catalog', 'remem', 'pg_temp';

CREATE FUNCTION remem._check_workspace(workspace text) RETURNS void LANGUAGE plpgsql STABLE SET search_path TO 'pg_catalog', 'remem', 'pg_temp';

CREATE FUNCTION remem._claim(workspace text, space_no integer, kinds text[], sources text[], claim_id uuid, run_id uuid, lease_until timestamp with time zone, taken integer) RETURNS integer LANGUAGE sql SET search_path TO 'pg_catalog', 'remem', 'pg_temp';

CREATE FUNCTION remem._claim_due(workspace text, space_no integer, claim_id uuid, run_id uuid, lease_until timestamp with time zone, n integer, alone boolean) RETURNS integer LANGUAGE plpgsql SET search_path TO 'pg_catalog', 'remem', 'pg_temp';

CREATE FUNCTION remem._claim_memories(workspace text, space_no integer, claim_id uuid, run_id uuid, lease_until timestamp with time zone, n integer, taken integer) RETURNS integer LANGUAGE plpgsql SET search_path TO 'pg_catalog', 'remem', 'pg_temp';

CREATE FUNCTION remem._claim_of(workspace text, claim_id uuid, OUT space_no integer, OUT run_id uuid) RETURNS record LANGUAGE sql STABLE SET search_path TO 'pg_catalog', 'remem', 'pg_temp';

CREATE FUNCTION remem._claimed_texts(workspace text, space remem.embedding_space, claim_id uuid, run_id uuid) RETURNS SETOF remem.embedding_job LANGUAGE plpgsql SET search_path TO 'pg_catalog', 'remem', 'pg_temp' SET enable_seqscan TO 'off';

CREATE FUNCTION remem._clear_jobs(workspace text, space_no integer) RETURNS void LANGUAGE sql SET search_path TO 'pg_catalog', 'remem', 'pg_temp';

CREATE FUNCTION remem._compares_vectors(space_no integer, workspace text) RETURNS boolean LANGUAGE sql STABLE SET search_path TO 'pg_catalog', 'remem', 'pg_temp';

CREATE FUNCTION remem._conflict_rules() RETURNS text[] LANGUAGE sql IMMUTABLE PARALLEL SAFE;

CREATE FUNCTION remem._default_item(item remem.memory_item, embedding real[]) RETURNS remem.memory_item LANGUAGE sql IMMUTABLE PARALLEL SAFE;

CREATE FUNCTION remem._content_hash(item remem.memory_item) RETURNS bytea LANGUAGE sql STABLE;

CREATE FUNCTION remem._context_owners(context jsonb) RETURNS text[] LANGUAGE sql IMMUTABLE PARALLEL SAFE SET search_path TO 'pg_catalog', 'remem', 'pg_temp';

CREATE FUNCTION remem._correct(workspace text, body text, memory_id uuid, ref text, reason text, changes jsonb, embedding real[], space text) RETURNS remem.memory_ref LANGUAGE plpgsql SET search_path TO 'pg_catalog', 'remem', 'pg_temp' SET "TimeZone" TO 'UTC' SET "DateStyle" TO 'ISO, MDY' SET extra_float_digits TO '1';

CREATE FUNCTION remem._cosines(workspace text, space_no integer, query real[], memory_nos bigint[]) RETURNS double precision[] LANGUAGE plpgsql STABLE SET search_path TO 'pg_catalog', 'remem', 'pg_temp' SET plan_cache_mode TO 'force_generic_plan';

CREATE FUNCTION remem._cosines_at(query remem._query, memory_nos bigint[]) RETURNS double precision[] LANGUAGE plpgsql STABLE SET search_path TO 'pg_catalog', 'remem', 'pg_temp';

CREATE FUNCTION remem._count_tally(workspace text, space_no integer, OUT n bigint, OUT doc_len bigint) RETURNS record LANGUAGE sql STABLE SET search_path TO 'pg_catalog', 'remem', 'pg_temp';

CREATE FUNCTION remem._count_words(workspace text) RETURNS bigint LANGUAGE plpgsql SET search_path TO 'pg_catalog', 'remem', 'pg_temp';

CREATE FUNCTION remem._coverage(workspace text, space_no integer) RETURNS remem.embedding_coverage LANGUAGE plpgsql STABLE SET search_path TO 'pg_catalog', 'remem', 'pg_temp';

CREATE FUNCTION remem._covering_topics(context remem._plan_context, matches remem._topic_match[]) RETURNS remem._topic_match[] LANGUAGE plpgsql STABLE SET search_path TO 'pg_catalog', 'remem', 'pg_temp';

CREATE FUNCTION remem._create_space_index(space_no integer) RETURNS void LANGUAGE plpgsql SET search_path TO 'pg_catalog', 'remem', 'pg_temp';

CREATE FUNCTION remem._create_space_tables(space_no integer, dimensions integer) RETURNS void LANGUAGE plpgsql SET search_path TO 'pg_catalog', 'remem', 'pg_temp';

CREATE FUNCTION remem._default_options() RETURNS jsonb LANGUAGE sql IMMUTABLE PARALLEL SAFE SET search_path TO 'pg_catalog', 'remem', 'pg_temp';

CREATE FUNCTION remem._default_weights() RETURNS jsonb LANGUAGE sql IMMUTABLE PARALLEL SAFE SET search_path TO 'pg_catalog', 'remem', 'pg_temp';

CREATE FUNCTION remem._delete_topic(workspace text, topic_no bigint) RETURNS void LANGUAGE sql SET search_path TO 'pg_catalog', 'remem', 'pg_temp';

CREATE FUNCTION remem._derived_limit() RETURNS integer LANGUAGE sql IMMUTABLE PARALLEL SAFE;

CREATE FUNCTION remem._derived_part(title text, importance real, unresolved boolean, freshness text, memory_no bigint) RETURNS jsonb LANGUAGE sql IMMUTABLE PARALLEL SAFE SET search_path TO 'pg_catalog', 'remem', 'pg_temp';

CREATE FUNCTION remem._distinctive(query text, generic text[], words text) RETURNS text LANGUAGE plpgsql IMMUTABLE SET search_path TO 'pg_catalog', 'remem', 'pg_temp';

CREATE FUNCTION remem._doctor_access(scope text) RETURNS SETOF remem.check_row LANGUAGE plpgsql STABLE SET search_path TO 'pg_catalog', 'remem', 'pg_temp';

CREATE FUNCTION remem._doctor_indexes(scope text) RETURNS SETOF remem.check_row LANGUAGE plpgsql STABLE SET search_path TO 'pg_catalog', 'remem', 'pg_temp';

CREATE FUNCTION remem._doctor_jobs(scope text) RETURNS SETOF remem.check_row LANGUAGE plpgsql STABLE SET search_path TO 'pg_catalog', 'remem', 'pg_temp';

CREATE FUNCTION remem._doctor_memory(scope text) RETURNS SETOF remem.check_row LANGUAGE plpgsql STABLE SET search_path TO 'pg_catalog', 'remem', 'pg_temp';

CREATE FUNCTION remem._doctor_model(scope text) RETURNS SETOF remem.check_row LANGUAGE plpgsql STABLE SET search_path TO 'pg_catalog', 'remem', 'pg_temp';

CREATE FUNCTION remem._doctor_recalls(scope text) RETURNS SETOF remem.check_row LANGUAGE plpgsql STABLE SET search_path TO 'pg_catalog', 'remem', 'pg_temp';

CREATE FUNCTION remem._doctor_server(scope text) RETURNS SETOF remem.check_row LANGUAGE plpgsql STABLE SET search_path TO 'pg_catalog', 'remem', 'pg_temp';

CREATE FUNCTION remem._doctor_spaces(scope text) RETURNS SETOF remem.check_row LANGUAGE plpgsql STABLE SET search_path TO 'pg_catalog', 'remem', 'pg_temp';

CREATE FUNCTION remem._doctor_tables(scope text) RETURNS SETOF remem.check_row LANGUAGE plpgsql STABLE SET search_path TO 'pg_catalog', 'remem', 'pg_temp';

CREATE FUNCTION remem._doctor_text(scope text) RETURNS SETOF remem.check_row LANGUAGE plpgsql STABLE SET search_path TO 'pg_catalog', 'remem', 'pg_temp';

CREATE FUNCTION remem._doctor_upkeep(scope text) RETURNS SETOF remem.check_row LANGUAGE plpgsql STABLE SET search_path TO 'pg_catalog', 'remem', 'pg_temp';

CREATE FUNCTION remem._doctor_vector_indexes(scope text) RETURNS SETOF remem.check_row LANGUAGE plpgsql STABLE SET search_path TO 'pg_catalog', 'remem', 'pg_temp';

CREATE FUNCTION remem._document_text(title text, summary text, body text, speaker text, aliases text[], tags text[]) RETURNS text LANGUAGE sql STABLE PARALLEL SAFE;

CREATE FUNCTION remem._drop_empty_sessions(workspace text, session_nos integer[]) RETURNS void LANGUAGE plpgsql SET search_path TO 'pg_catalog', 'remem', 'pg_temp';

CREATE FUNCTION remem._drop_entities(workspace text, memory_nos bigint[]) RETURNS void LANGUAGE sql SET search_path TO 'pg_catalog', 'remem', 'pg_temp';

CREATE FUNCTION remem._drop_many_topics(workspace remem.workspace, memory_nos bigint[]) RETURNS void LANGUAGE plpgsql SET search_path TO 'pg_catalog', 'remem', 'pg_temp';

CREATE FUNCTION remem._drop_postings(workspace text, memory_nos bigint[], keep boolean) RETURNS void LANGUAGE plpgsql SET search_path TO 'pg_catalog', 'remem', 'pg_temp' SET enable_hashjoin TO 'off' SET enable_mergejoin TO 'off' SET enable_seqscan TO 'off';

CREATE FUNCTION remem._drop_space(space_no integer) RETURNS text LANGUAGE plpgsql SET search_path TO 'pg_catalog', 'remem', 'pg_temp' SET lock_timeout TO '1s';

CREATE FUNCTION remem._drop_topics(workspace text, memory_nos bigint[]) RETURNS void LANGUAGE plpgsql SET search_path TO 'pg_catalog', 'remem', 'pg_temp' SET enable_seqscan TO 'off';

CREATE FUNCTION remem._edge_decay(kind text, provenance text) RETURNS double precision LANGUAGE sql IMMUTABLE PARALLEL SAFE;

CREATE FUNCTION remem._embed(texts text[], role text) RETURNS real[] LANGUAGE plpgsql STABLE SET search_path TO 'pg_catalog', 'remem', 'pg_temp';

CREATE FUNCTION remem._embed_claimed(space remem.embedding_space, item_nos integer[], texts text[], OUT done integer[], OUT vectors real[], OUT failed integer[]) RETURNS record LANGUAGE plpgsql STABLE SET search_path TO 'pg_catalog', 'remem', 'pg_temp';

CREATE FUNCTION remem._embed_items(space remem.embedding_space, items remem._prepared_item[]) RETURNS remem._prepared_item[] LANGUAGE plpgsql STABLE SET search_path TO 'pg_catalog', 'remem', 'pg_temp';

CREATE FUNCTION remem._embed_query(space remem.embedding_space, query text, options jsonb, OUT vector real[], OUT more jsonb, OUT problem text) RETURNS record LANGUAGE plpgsql STABLE SET search_path TO 'pg_catalog', 'remem', 'pg_temp';

CREATE FUNCTION remem._empty_space(workspace text, space_no integer) RETURNS void LANGUAGE plpgsql SET search_path TO 'pg_catalog', 'remem', 'pg_temp';

CREATE FUNCTION remem._empty_texts(workspace text, space_no integer) RETURNS bigint LANGUAGE sql STABLE SET search_path TO 'pg_catalog', 'remem', 'pg_temp';

CREATE FUNCTION remem._ensure_workspace(workspace text, language text DEFAULT 'english'::text) RETURNS remem.workspace LANGUAGE plpgsql SET search_path TO 'pg_catalog', 'remem', 'pg_temp';

CREATE FUNCTION remem._entity_candidates(text, also text[], names text[]) RETURNS text[] LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE SET search_path TO 'pg_catalog', 'remem', 'pg_temp' SET plan_cache_mode TO 'force_generic_plan';

CREATE FUNCTION remem._entity_openers() RETURNS text LANGUAGE sql IMMUTABLE PARALLEL SAFE SET search_path TO 'pg_catalog', 'remem', 'pg_temp';

CREATE FUNCTION remem._entry_hash(owner text, key text) RETURNS bytea LANGUAGE sql IMMUTABLE PARALLEL SAFE SET search_path TO 'pg_catalog', 'remem', 'pg_temp';

CREATE FUNCTION remem._error_catalog() RETURNS TABLE(code text, message text) LANGUAGE sql IMMUTABLE PARALLEL SAFE SET search_path TO 'pg_catalog', 'remem', 'pg_temp';

CREATE FUNCTION remem._error_value(code text, message text, detail text, hint text) RETURNS jsonb LANGUAGE sql STABLE SET search_path TO 'pg_catalog', 'remem', 'pg_temp';

CREATE FUNCTION remem._excluded(query remem._query, memory_nos bigint[]) RETURNS bigint[] LANGUAGE plpgsql STABLE SET search_path TO 'pg_catalog', 'remem', 'pg_temp' SET enable_seqscan TO 'off';

CREATE FUNCTION remem._expand(workspace text, memory_nos bigint[], scores double precision[], most integer, row_filter jsonpath DEFAULT NULL::jsonpath, by_entity boolean DEFAULT false) RETURNS TABLE(memory_no bigint, from_no bigint, score double precision, kind text) LANGUAGE plpgsql STABLE SET search_path TO 'pg_catalog', 'remem', 'pg_temp' SET plan_cache_mode TO 'force_generic_plan';

CREATE FUNCTION remem._expand_hits(query remem._query, space remem.embedding_space, scored remem._scored[], graph text, depth integer, confident double precision, min_relevance double precision, k integer, OUT result remem._scored[], OUT note jsonb) RETURNS record LANGUAGE plpgsql STABLE SET search_path TO 'pg_catalog', 'remem', 'pg_temp';

CREATE FUNCTION remem._expected_indexes() RETURNS TABLE(name text, definition text) LANGUAGE sql STABLE PARALLEL SAFE SET search_path TO 'pg_catalog', 'remem', 'pg_temp';

CREATE FUNCTION remem._explained(context remem._plan_context, topic_no bigint) RETURNS boolean LANGUAGE plpgsql STABLE SET search_path TO 'pg_catalog', 'remem', 'pg_temp' SET plan_cache_mode TO 'force_generic_plan';

CREATE FUNCTION remem._export_keys() RETURNS jsonb LANGUAGE sql IMMUTABLE PARALLEL SAFE SET search_path TO 'pg_catalog', 'remem', 'pg_temp';

CREATE FUNCTION remem._export_queries(space_no integer) RETURNS TABLE(type text, query text) LANGUAGE plpgsql STABLE SET search_path TO 'pg_catalog', 'remem', 'pg_temp';

CREATE FUNCTION remem._extract_entities(source text, also text[], names text[]) RETURNS TABLE(name text, given boolean) LANGUAGE sql STABLE ROWS 8 PARALLEL SAFE;

CREATE FUNCTION remem._fail_claims(workspace text, claim_id uuid, item_nos integer[], error text, retry_after interval) RETURNS integer LANGUAGE plpgsql SET search_path TO 'pg_catalog', 'remem', 'pg_temp';

CREATE FUNCTION remem._filter(filter text) RETURNS jsonpath LANGUAGE plpgsql STABLE SET search_path TO 'pg_catalog', 'remem', 'pg_temp';

CREATE FUNCTION remem._find_memory(workspace text, memory_id uuid, ref text, dead boolean) RETURNS bigint LANGUAGE plpgsql STABLE SET search_path TO 'pg_catalog', 'remem', 'pg_temp' SET enable_incremental_sort TO 'off';

CREATE FUNCTION remem._find_space(space text) RETURNS remem.embedding_space LANGUAGE plpgsql STABLE SET search_path TO 'pg_catalog', 'remem', 'pg_temp';

CREATE FUNCTION remem._fingerprint(descriptor jsonb) RETURNS text LANGUAGE sql IMMUTABLE PARALLEL SAFE SET search_path TO 'pg_catalog', 'remem', 'pg_temp';

CREATE FUNCTION remem._fit(lengths integer[], fixed integer[], budget integer, reserve integer, OUT counted integer, OUT most integer) RETURNS record LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE SET search_path TO 'pg_catalog', 'remem', 'pg_temp';

CREATE FUNCTION remem._fold(text) RETURNS text LANGUAGE plpgsql IMMUTABLE STRICT PARALLEL SAFE SET search_path TO 'pg_catalog', 'remem', 'pg_temp';

CREATE FUNCTION remem._fold_log(workspace text, until timestamp with time zone, OUT n bigint, OUT done boolean) RETURNS record LANGUAGE plpgsql SET search_path TO 'pg_catalog', 'remem', 'pg_temp' SET enable_seqscan TO 'off';

CREATE FUNCTION remem._forget_rows(workspace text, memory_nos bigint[], reason text) RETURNS bigint[] LANGUAGE plpgsql SET search_path TO 'pg_catalog', 'remem', 'pg_temp';

CREATE FUNCTION remem._generic_word(word text, language text) RETURNS text LANGUAGE plpgsql STABLE SET search_path TO 'pg_catalog', 'remem', 'pg_temp';

CREATE FUNCTION remem._given_arm(given jsonb, item integer, n integer) RETURNS remem._arm_result LANGUAGE plpgsql STABLE SET search_path TO 'pg_catalog', 'remem', 'pg_temp';

CREATE FUNCTION remem._given_arms(arms jsonb, n integer) RETURNS remem._arm_result[] LANGUAGE plpgsql STABLE SET search_path TO 'pg_catalog', 'remem', 'pg_temp';

CREATE FUNCTION remem._given_numbers(place jsonb, value jsonb, lowest numeric, highest numeric, most integer) RETURNS numeric[] LANGUAGE plpgsql STABLE SET search_path TO 'pg_catalog', 'remem', 'pg_temp';

CREATE FUNCTION remem._has_attributes(workspace text) RETURNS boolean LANGUAGE plpgsql STABLE SET search_path TO 'pg_catalog', 'remem', 'pg_temp';

CREATE FUNCTION remem._hash_embed(text) RETURNS real[] LANGUAGE plpgsql IMMUTABLE STRICT PARALLEL SAFE SET search_path TO 'pg_catalog', 'remem', 'pg_temp';

CREATE FUNCTION remem._hash_tokens(text) RETURNS text[] LANGUAGE plpgsql IMMUTABLE STRICT PARALLEL SAFE SET search_path TO 'pg_catalog', 'remem', 'pg_temp';

CREATE TABLE remem.route (
    workspace text NOT NULL COLLATE pg_catalog."C",
    kind text NOT NULL COLLATE pg_catalog."C",
    arms text[] NOT NULL,
    pool text,
    fallback_pools text[] DEFAULT '{}'::text[] NOT NULL,
    graph_depth integer DEFAULT 1 NOT NULL,
    signals jsonb DEFAULT '{}'::jsonb NOT NULL,
    keywords text[] DEFAULT '{}'::text[] NOT NULL,
    CONSTRAINT route_graph_depth CHECK (((graph_depth >= 0) AND (graph_depth <= 1)))
);

COMMENT ON TABLE remem.route IS 'From the kind a query hints at to arms, pool, fallback pools, graph depth and weights.';

CREATE FUNCTION remem._hinted_route(workspace text, query text) RETURNS remem.route LANGUAGE plpgsql STABLE SET search_path TO 'pg_catalog', 'remem', 'pg_temp';

CREATE FUNCTION remem._hits(workspace text, scored remem._scored[], results remem._arm_result[], pool bigint[], degraded text[]) RETURNS remem.recall_hit[] LANGUAGE plpgsql STABLE SET search_path TO 'pg_catalog', 'remem', 'pg_temp' SET plan_cache_mode TO 'force_generic_plan';

CREATE FUNCTION remem._hnsw_build_bytes(dimensions integer, vectors bigint) RETURNS bigint LANGUAGE sql IMMUTABLE PARALLEL SAFE SET search_path TO 'pg_catalog', 'remem', 'pg_temp';

CREATE FUNCTION remem._hnsw_memory(indexes bigint, buffers bigint) RETURNS remem.check_row LANGUAGE plpgsql STABLE SET search_path TO 'pg_catalog', 'remem', 'pg_temp';

CREATE FUNCTION remem._hold_space(space text) RETURNS remem.embedding_space LANGUAGE plpgsql SET search_path TO 'pg_catalog', 'remem', 'pg_temp';

CREATE TABLE remem.access_grant (
    workspace text NOT NULL COLLATE pg_catalog."C",
    role_oid oid NOT NULL,
    role_name name NOT NULL,
    level text NOT NULL,
    max_source_class text,
    granted_at timestamp with time zone DEFAULT now() NOT NULL,
    granted_by name NOT NULL,
    CONSTRAINT access_grant_level CHECK ((level = ANY (ARRAY['read'::text, 'write'::text, 'worker'::text, 'admin'::text])))
);

COMMENT ON TABLE remem.access_grant IS 'Who may do what in which workspace; written by remem.grant_access and remem.revoke_access.';

CREATE FUNCTION remem._holds(access_grant remem.access_grant) RETURNS boolean LANGUAGE sql STABLE SET search_path TO 'pg_catalog', 'remem', 'pg_temp';

CREATE TABLE remem.embedding_claim (
    workspace text NOT NULL COLLATE pg_catalog."C",
    space_no integer NOT NULL,
    kind text NOT NULL COLLATE pg_catalog."C",
    source text NOT NULL COLLATE pg_catalog."C",
    memory_no bigint,
    state text NOT NULL,
    due_at timestamp with time zone NOT NULL,
    claim_id uuid,
    item_no integer,
    run_id uuid,
    content_hash bytea,
    failures integer DEFAULT 0 NOT NULL,
    abandoned integer DEFAULT 0 NOT NULL,
    last_error text,
    updated_at timestamp with time zone DEFAULT now() NOT NULL,
    CONSTRAINT embedding_claim_kind CHECK ((kind = ANY (ARRAY['memory'::text, 'topic'::text, 'provider'::text]))),
    CONSTRAINT embedding_claim_state CHECK ((state = ANY (ARRAY['claimed'::text, 'waiting'::text, 'set_aside'::text, 'empty'::text])))
);

COMMENT ON TABLE remem.embedding_claim IS 'What jobs embed at the moment, what waits for another try, and what was set aside.';

CREATE FUNCTION remem._holds_source(claim remem.embedding_claim) RETURNS boolean LANGUAGE plpgsql SET search_path TO 'pg_catalog', 'remem', 'pg_temp';

CREATE FUNCTION remem._idf(documents bigint, frequency bigint) RETURNS double precision LANGUAGE sql IMMUTABLE PARALLEL SAFE;

CREATE FUNCTION remem._import(workspace text, on_error text) RETURNS SETOF remem.import_result LANGUAGE plpgsql SET search_path TO 'pg_catalog', 'remem', 'pg_temp' SET "TimeZone" TO 'UTC' SET "DateStyle" TO 'ISO, MDY' SET extra_float_digits TO '1';

CREATE FUNCTION remem._import_memories(workspace remem.workspace, memories remem._import_memory[]) RETURNS SETOF remem.import_result LANGUAGE plpgsql SET search_path TO 'pg_catalog', 'remem', 'pg_temp';

CREATE FUNCTION remem._import_past(workspace remem.workspace, items remem._prepared_item[], memory_nos bigint[], session_nos integer[], turn_nos integer[], live integer[]) RETURNS void LANGUAGE plpgsql SET search_path TO 'pg_catalog', 'remem', 'pg_temp';

CREATE FUNCTION remem._import_record(workspace remem.workspace, record jsonb, embedding real[], item_no integer) RETURNS text LANGUAGE plpgsql SET search_path TO 'pg_catalog', 'remem', 'pg_temp';

CREATE TABLE remem.relation (
    workspace text NOT NULL COLLATE pg_catalog."C",
    src_no bigint NOT NULL,
    dst_no bigint NOT NULL,
    kind text NOT NULL COLLATE pg_catalog."C",
    weight real DEFAULT 1 NOT NULL,
    provenance text DEFAULT 'verified'::text NOT NULL,
    created_at timestamp with time zone DEFAULT now() NOT NULL,
    CONSTRAINT relation_kind CHECK ((kind = ANY (ARRAY['derived_from'::text, 'supersedes'::text, 'part_of'::text, 'member_of'::text, 'contains'::text, 'contained_by'::text, 'scoped'::text, 'related'::text, 'contradicts'::text, 'conflicts_with'::text, 'not_conflict'::text, 'compatible'::text]))),
    CONSTRAINT relation_provenance CHECK ((provenance = ANY (ARRAY['verified'::text, 'llm'::text, 'heuristic'::text, 'pending'::text, 'unverified'::text]))),
    CONSTRAINT relation_weight CHECK (((weight >= (0)::double precision) AND (weight <= (1)::double precision)))
);

COMMENT ON TABLE remem.relation IS 'Typed links between memories; recall follows one hop of the kinds that expand.';

CREATE FUNCTION remem._import_relation(workspace text, src uuid, dst uuid, relation remem.relation, item_no integer) RETURNS text LANGUAGE plpgsql SET search_path TO 'pg_catalog', 'remem', 'pg_temp';

CREATE TABLE remem.session (
    workspace text NOT NULL COLLATE pg_catalog."C",
    session_no integer NOT NULL,
    session_ref text NOT NULL COLLATE pg_catalog."C",
    turns integer DEFAULT 0 NOT NULL,
    last_turn integer DEFAULT 0 NOT NULL,
    doc_len bigint DEFAULT 0 NOT NULL,
    first_at timestamp with time zone,
    last_at timestamp with time zone
);

COMMENT ON TABLE remem.session IS 'A conversation: how many turns, how much text, when. Its row is the lock that orders turns.';

CREATE FUNCTION remem._import_session(workspace text, session remem.session) RETURNS text LANGUAGE plpgsql SET search_path TO 'pg_catalog', 'remem', 'pg_temp';

CREATE TABLE remem.tombstone (
    workspace text NOT NULL COLLATE pg_catalog."C",
    memory_id uuid NOT NULL,
    memory_no bigint NOT NULL,
    ref text COLLATE pg_catalog."C",
    replaced_by uuid,
    created_at timestamp with time zone NOT NULL,
    purged_at timestamp with time zone DEFAULT now() NOT NULL,
    purged_by name NOT NULL,
    blocks boolean DEFAULT true NOT NULL
);

COMMENT ON TABLE remem.tombstone IS 'What was purged: id and ref, no text.';

CREATE FUNCTION remem._import_tombstone(workspace text, tombstone remem.tombstone) RETURNS text LANGUAGE plpgsql SET search_path TO 'pg_catalog', 'remem', 'pg_temp';

CREATE FUNCTION remem._import_topic(workspace remem.workspace, record jsonb, embedding real[]) RETURNS text LANGUAGE plpgsql SET search_path TO 'pg_catalog', 'remem', 'pg_temp';

CREATE TABLE remem.lineage (
    workspace text NOT NULL COLLATE pg_catalog."C",
    old_no bigint NOT NULL,
    new_no bigint NOT NULL,
    how text NOT NULL COLLATE pg_catalog."C",
    reason text,
    ref text COLLATE pg_catalog."C",
    fingerprint bytea NOT NULL,
    replaced_at timestamp with time zone DEFAULT now() NOT NULL,
    replaced_by name,
    CONSTRAINT lineage_how CHECK ((how = ANY (ARRAY['new_version'::text, 'corrected'::text, 'superseded'::text])))
);

COMMENT ON TABLE remem.lineage IS 'Which memory replaced which, how and why; one row per superseded memory.';

CREATE FUNCTION remem._import_version(workspace text, old uuid, new uuid, version remem.lineage, item_no integer) RETURNS text LANGUAGE plpgsql SET search_path TO 'pg_catalog', 'remem', 'pg_temp';

CREATE FUNCTION remem._index_faults(OUT index text, OUT reason text, OUT command text) RETURNS SETOF record LANGUAGE plpgsql STABLE SET search_path TO 'pg_catalog', 'remem', 'pg_temp';

CREATE FUNCTION remem._index_topics(workspace text, topic_nos bigint[]) RETURNS void LANGUAGE plpgsql SET search_path TO 'pg_catalog', 'remem', 'pg_temp';

CREATE FUNCTION remem._insert_rows(workspace remem.workspace, items remem._prepared_item[], old_nos bigint[], session_nos integer[], turn_nos integer[], how text, reason text) RETURNS SETOF remem.memory_ref LANGUAGE plpgsql SET search_path TO 'pg_catalog', 'remem', 'pg_temp';

CREATE FUNCTION remem._insert_wave(workspace remem.workspace, items remem._prepared_item[], session_refs text[], session_nos integer[]) RETURNS SETOF remem.memory_ref LANGUAGE plpgsql SET search_path TO 'pg_catalog', 'remem', 'pg_temp';

CREATE FUNCTION remem._insert_wave_reporting(workspace remem.workspace, items remem._prepared_item[], session_refs text[], session_nos integer[]) RETURNS SETOF remem.memory_ref LANGUAGE plpgsql SET search_path TO 'pg_catalog', 'remem', 'pg_temp';

CREATE FUNCTION remem._is_granted(workspace text, demand text) RETURNS boolean LANGUAGE plpgsql STABLE SET search_path TO 'pg_catalog', 'remem', 'pg_temp';

CREATE FUNCTION remem._is_live_memory(workspace text, memory_no bigint) RETURNS boolean LANGUAGE plpgsql STABLE SET search_path TO 'pg_catalog', 'remem', 'pg_temp';

CREATE FUNCTION remem._is_number(value jsonb, least_value numeric, most numeric) RETURNS boolean LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE SET search_path TO 'pg_catalog', 'remem', 'pg_temp';

CREATE FUNCTION remem._is_plain_number(value jsonb) RETURNS boolean LANGUAGE sql IMMUTABLE PARALLEL SAFE SET search_path TO 'pg_catalog', 'remem', 'pg_temp';

CREATE FUNCTION remem._is_repeatable(document jsonb) RETURNS boolean LANGUAGE sql IMMUTABLE PARALLEL SAFE SET search_path TO 'pg_catalog', 'remem', 'pg_temp';

CREATE FUNCTION remem._is_short_list(list text[]) RETURNS boolean LANGUAGE sql STABLE PARALLEL SAFE;

CREATE FUNCTION remem._is_small_space(space_no integer) RETURNS boolean LANGUAGE plpgsql STABLE SET search_path TO 'pg_catalog', 'remem', 'pg_temp';

CREATE FUNCTION remem._item_kinds() RETURNS text[] LANGUAGE sql IMMUTABLE PARALLEL SAFE;

CREATE FUNCTION remem._item_scopes() RETURNS text[] LANGUAGE sql IMMUTABLE PARALLEL SAFE;

CREATE FUNCTION remem._text_limit() RETURNS integer LANGUAGE sql IMMUTABLE PARALLEL SAFE;

CREATE FUNCTION remem._is_sound(item remem.memory_item, source_classes text[]) RETURNS boolean LANGUAGE sql STABLE PARALLEL SAFE;

CREATE FUNCTION remem._is_used(space_no integer) RETURNS boolean LANGUAGE plpgsql STABLE SET search_path TO 'pg_catalog', 'remem', 'pg_temp';

CREATE FUNCTION remem._is_vector(embedding real[], dimensions integer) RETURNS boolean LANGUAGE sql IMMUTABLE PARALLEL SAFE;

CREATE FUNCTION remem._item_attrs(workspace text, item remem.memory_item) RETURNS jsonb LANGUAGE sql STABLE;

CREATE FUNCTION remem._item_of(memory remem.memory) RETURNS jsonb LANGUAGE sql STABLE SET search_path TO 'pg_catalog', 'remem', 'pg_temp';

CREATE FUNCTION remem._job_space(workspace remem.workspace, space text) RETURNS remem.embedding_space LANGUAGE plpgsql STABLE SET search_path TO 'pg_catalog', 'remem', 'pg_temp';

CREATE FUNCTION remem._judge_memory(context remem._plan_context, evidence remem._memory_evidence, OUT score double precision, OUT signal text) RETURNS record LANGUAGE plpgsql STABLE SET search_path TO 'pg_catalog', 'remem', 'pg_temp';

CREATE FUNCTION remem._known_at(memory remem.memory, at timestamp with time zone) RETURNS boolean LANGUAGE sql IMMUTABLE PARALLEL SAFE;

CREATE FUNCTION remem._language_dictionaries(language text) RETURNS regdictionary[] LANGUAGE plpgsql STABLE PARALLEL SAFE SET search_path TO 'pg_catalog', 'remem', 'pg_temp';

CREATE FUNCTION remem._last_at(workspace text, at timestamp with time zone) RETURNS bigint LANGUAGE plpgsql STABLE SET search_path TO 'pg_catalog', 'remem', 'pg_temp';

CREATE FUNCTION remem._latest_of(query remem._query, path jsonpath, most integer) RETURNS bigint[] LANGUAGE plpgsql STABLE SET search_path TO 'pg_catalog', 'remem', 'pg_temp' SET plan_cache_mode TO 'force_generic_plan' SET enable_seqscan TO 'off' SET enable_bitmapscan TO 'off' SET enable_sort TO 'off';

CREATE FUNCTION remem._levels(demand text) RETURNS text[] LANGUAGE sql IMMUTABLE PARALLEL SAFE SET search_path TO 'pg_catalog', 'remem', 'pg_temp';

CREATE FUNCTION remem._lexeme_limit() RETURNS integer LANGUAGE sql IMMUTABLE PARALLEL SAFE SET search_path TO 'pg_catalog', 'remem', 'pg_temp';

CREATE FUNCTION remem._spaced(folded text) RETURNS text LANGUAGE plpgsql IMMUTABLE STRICT PARALLEL SAFE SET search_path TO 'pg_catalog', 'remem', 'pg_temp';

CREATE FUNCTION remem._wholes(spaced text, chars text) RETURNS text[] LANGUAGE plpgsql IMMUTABLE STRICT PARALLEL SAFE SET search_path TO 'pg_catalog', 'remem', 'pg_temp' SET plan_cache_mode TO 'force_generic_plan';

CREATE FUNCTION remem._lexemes(source text, dictionaries regdictionary[]) RETURNS TABLE(lexeme text, tf integer, extra boolean) LANGUAGE sql STABLE ROWS 30 PARALLEL SAFE;

CREATE FUNCTION remem._list_of(value jsonb) RETURNS jsonb LANGUAGE sql IMMUTABLE PARALLEL SAFE;

CREATE FUNCTION remem._live_ref(workspace text, key text) RETURNS TABLE(memory_no bigint, memory_id uuid, ref text, content_hash bytea, session_no integer) LANGUAGE sql STABLE ROWS 1 PARALLEL SAFE;

CREATE FUNCTION remem._lock_all_names(workspace text) RETURNS void LANGUAGE plpgsql SET search_path TO 'pg_catalog', 'remem', 'pg_temp';

CREATE FUNCTION remem._lock_entry(workspace text, entry_hash bytea, wait boolean) RETURNS boolean LANGUAGE plpgsql SET search_path TO 'pg_catalog', 'remem', 'pg_temp';

CREATE FUNCTION remem._lock_keys(workspace text, items remem._prepared_item[]) RETURNS void LANGUAGE plpgsql SET search_path TO 'pg_catalog', 'remem', 'pg_temp';

CREATE FUNCTION remem._lock_memories(workspace text, memory_nos bigint[]) RETURNS void LANGUAGE plpgsql SET search_path TO 'pg_catalog', 'remem', 'pg_temp';

CREATE FUNCTION remem._lock_names(workspace text, refs text[], texts bytea[]) RETURNS void LANGUAGE plpgsql SET search_path TO 'pg_catalog', 'remem', 'pg_temp' SET plan_cache_mode TO 'force_generic_plan' SET enable_incremental_sort TO 'off';

CREATE FUNCTION remem._lock_rows(workspace text, memory_nos bigint[]) RETURNS bigint[] LANGUAGE sql SET search_path TO 'pg_catalog', 'remem', 'pg_temp';

CREATE FUNCTION remem._lock_sessions(workspace text, wanted text[], OUT refs text[], OUT session_nos integer[]) RETURNS record LANGUAGE plpgsql SET search_path TO 'pg_catalog', 'remem', 'pg_temp';

CREATE FUNCTION remem._lock_workspace(workspace text, exclusive boolean DEFAULT false) RETURNS void LANGUAGE plpgsql SET search_path TO 'pg_catalog', 'remem', 'pg_temp';

CREATE FUNCTION remem._log_recall(workspace text, tier text, k integer, returned integer, query text, degraded text[], arms jsonb, timings jsonb, memory_ids uuid[], session_ref text, log_text boolean) RETURNS uuid LANGUAGE plpgsql SET search_path TO 'pg_catalog', 'remem', 'pg_temp';

CREATE FUNCTION remem._lower(text) RETURNS text LANGUAGE plpgsql IMMUTABLE STRICT PARALLEL SAFE SET search_path TO 'pg_catalog', 'remem', 'pg_temp';

CREATE FUNCTION remem._maintain_cache(until timestamp with time zone, OUT n bigint, OUT done boolean) RETURNS record LANGUAGE plpgsql SET search_path TO 'pg_catalog', 'remem', 'pg_temp' SET enable_seqscan TO 'off';

CREATE FUNCTION remem._maintain_claims(until timestamp with time zone, OUT n bigint, OUT done boolean) RETURNS record LANGUAGE plpgsql SET search_path TO 'pg_catalog', 'remem', 'pg_temp';

CREATE FUNCTION remem._maintain_log(until timestamp with time zone, OUT folded bigint, OUT pruned bigint, OUT done boolean) RETURNS record LANGUAGE plpgsql SET search_path TO 'pg_catalog', 'remem', 'pg_temp' SET enable_seqscan TO 'off';

CREATE FUNCTION remem._maintain_runs(until timestamp with time zone, OUT n bigint, OUT done boolean) RETURNS record LANGUAGE plpgsql SET search_path TO 'pg_catalog', 'remem', 'pg_temp' SET enable_seqscan TO 'off';

CREATE FUNCTION remem._maintain_words(until timestamp with time zone, OUT n bigint, OUT done boolean) RETURNS record LANGUAGE plpgsql SET search_path TO 'pg_catalog', 'remem', 'pg_temp' SET enable_seqscan TO 'off';

CREATE FUNCTION remem._match_imports(workspace text, memories remem._import_memory[]) RETURNS TABLE(pos bigint, memory_id uuid, outcome text) LANGUAGE sql STABLE SET search_path TO 'pg_catalog', 'remem', 'pg_temp';

CREATE FUNCTION remem._match_items(workspace text, items remem._prepared_item[]) RETURNS TABLE(pos bigint, memory_no bigint, memory_id uuid, ref text, outcome text) LANGUAGE sql STABLE SET search_path TO 'pg_catalog', 'remem', 'pg_temp' SET enable_incremental_sort TO 'off';

CREATE FUNCTION remem._matching(workspace text, row_filter jsonpath) RETURNS bigint[] LANGUAGE plpgsql STABLE SET search_path TO 'pg_catalog', 'remem', 'pg_temp';

CREATE FUNCTION remem._max_source_class(workspace text) RETURNS text LANGUAGE sql STABLE SET search_path TO 'pg_catalog', 'remem', 'pg_temp';

CREATE FUNCTION remem._may_submit(workspace text, query text, arm text, options jsonb) RETURNS boolean LANGUAGE plpgsql STABLE SET search_path TO 'pg_catalog', 'remem', 'pg_temp';

CREATE FUNCTION remem._may_switch(coverage remem.embedding_coverage, nearly boolean) RETURNS boolean LANGUAGE sql IMMUTABLE PARALLEL SAFE SET search_path TO 'pg_catalog', 'remem', 'pg_temp';

CREATE FUNCTION remem._meet_again(workspace remem.workspace, memory_no bigint, prepared remem._prepared_item, outcome text) RETURNS void LANGUAGE plpgsql SET search_path TO 'pg_catalog', 'remem', 'pg_temp';

CREATE FUNCTION remem._memory_aliases(workspace text, memory_nos bigint[]) RETURNS TABLE(memory_no bigint, name text, other text) LANGUAGE sql STABLE ROWS 10 SET search_path TO 'pg_catalog', 'remem', 'pg_temp';

CREATE FUNCTION remem._memory_id(workspace text, memory_no bigint) RETURNS uuid LANGUAGE sql STABLE SET search_path TO 'pg_catalog', 'remem', 'pg_temp';

CREATE FUNCTION remem._memory_is_live(workspace text, memory_no bigint) RETURNS boolean LANGUAGE plpgsql STABLE SET search_path TO 'pg_catalog', 'remem', 'pg_temp';

CREATE FUNCTION remem._memory_names(workspace text, memory_nos bigint[]) RETURNS TABLE(memory_no bigint, name text, given boolean) LANGUAGE sql STABLE ROWS 100 SET search_path TO 'pg_catalog', 'remem', 'pg_temp';

CREATE FUNCTION remem._memory_record(memory remem.memory) RETURNS remem.memory_record LANGUAGE sql STABLE SET search_path TO 'pg_catalog', 'remem', 'pg_temp';

CREATE FUNCTION remem._memory_tables() RETURNS SETOF name LANGUAGE sql STABLE SET search_path TO 'pg_catalog', 'remem', 'pg_temp';

CREATE FUNCTION remem._memory_topics(workspace text, memory_nos bigint[]) RETURNS TABLE(memory_no bigint, title text, scope text, scope_ref text, importance real, unresolved boolean, by_key boolean, is_live boolean, forgotten boolean, freshness text) LANGUAGE sql STABLE ROWS 10 SET search_path TO 'pg_catalog', 'remem', 'pg_temp';

CREATE FUNCTION remem._merged_topic(parts jsonb) RETURNS remem.topic_record LANGUAGE sql STABLE SET search_path TO 'pg_catalog', 'remem', 'pg_temp';

CREATE FUNCTION remem._missing_entries(scope text) RETURNS bigint LANGUAGE plpgsql STABLE SET search_path TO 'pg_catalog', 'remem', 'pg_temp';

CREATE FUNCTION remem._model_prompt(model jsonb, role text) RETURNS text LANGUAGE sql IMMUTABLE PARALLEL SAFE;

CREATE FUNCTION remem._ms(started timestamp with time zone, ended timestamp with time zone DEFAULT clock_timestamp()) RETURNS double precision LANGUAGE plpgsql STABLE PARALLEL SAFE SET search_path TO 'pg_catalog', 'remem', 'pg_temp';

CREATE FUNCTION remem._named_filter(workspace text, names text[]) RETURNS jsonpath LANGUAGE sql IMMUTABLE PARALLEL SAFE SET search_path TO 'pg_catalog', 'remem', 'pg_temp';

CREATE FUNCTION remem._words(folded text) RETURNS text LANGUAGE plpgsql IMMUTABLE STRICT PARALLEL SAFE SET search_path TO 'pg_catalog', 'remem', 'pg_temp';

CREATE FUNCTION remem._names_of(title text, summary text, body text, speaker text, subject text, topic_key text, attribute text, tags text[], aliases text[], entities text[]) RETURNS TABLE(name text, given boolean) LANGUAGE sql STABLE ROWS 8 PARALLEL SAFE;

CREATE FUNCTION remem._nearest_by_index(workspace text, space_no integer, query public.halfvec, n integer, OUT memory_nos bigint[], OUT cosines double precision[]) RETURNS record LANGUAGE plpgsql STABLE SET search_path TO 'pg_catalog', 'remem', 'pg_temp' SET plan_cache_mode TO 'force_generic_plan' SET "hnsw.iterative_scan" TO 'strict_order' SET "hnsw.ef_search" TO '40' SET enable_sort TO 'off';

CREATE FUNCTION remem._nearest_of_all(workspace text, space_no integer, query public.halfvec, n integer, OUT memory_nos bigint[], OUT cosines double precision[]) RETURNS record LANGUAGE plpgsql STABLE SET search_path TO 'pg_catalog', 'remem', 'pg_temp' SET plan_cache_mode TO 'force_generic_plan' SET enable_seqscan TO 'off';

CREATE FUNCTION remem._nearest_of_topic(context remem._plan_context, topic_no bigint, evidence remem._memory_evidence[], rivals bigint[], OUT cosine double precision, OUT shared integer, OUT joined double precision) RETURNS record LANGUAGE plpgsql STABLE SET search_path TO 'pg_catalog', 'remem', 'pg_temp' SET plan_cache_mode TO 'force_generic_plan';

CREATE FUNCTION remem._nearest_passing(workspace text, space_no integer, query public.halfvec, n integer, exact boolean, allowed bigint[], row_filter jsonpath, check_validity boolean, OUT memory_nos bigint[], OUT cosines double precision[]) RETURNS record LANGUAGE plpgsql STABLE SET search_path TO 'pg_catalog', 'remem', 'pg_temp' SET "hnsw.iterative_scan" TO 'strict_order' SET "hnsw.ef_search" TO '40' SET enable_sort TO 'off';

CREATE FUNCTION remem._next_entries(workspace text, space_no integer, n integer, OUT kinds text[], OUT sources text[]) RETURNS record LANGUAGE plpgsql STABLE SET search_path TO 'pg_catalog', 'remem', 'pg_temp' SET enable_hashjoin TO 'off' SET enable_mergejoin TO 'off';

CREATE FUNCTION remem._next_log_day(workspace text) RETURNS date LANGUAGE sql STABLE SET search_path TO 'pg_catalog', 'remem', 'pg_temp' SET enable_seqscan TO 'off';

CREATE FUNCTION remem._next_memories(workspace text, space_no integer, after bigint, n integer) RETURNS bigint[] LANGUAGE plpgsql SET search_path TO 'pg_catalog', 'remem', 'pg_temp' SET enable_seqscan TO 'off' SET enable_bitmapscan TO 'off' SET enable_sort TO 'off';

CREATE FUNCTION remem._normalize_json(value jsonb) RETURNS jsonb LANGUAGE plpgsql IMMUTABLE SET search_path TO 'pg_catalog', 'remem', 'pg_temp';

CREATE FUNCTION remem._note_reindex(workspace remem.workspace, reindexed bigint, done boolean) RETURNS uuid LANGUAGE plpgsql SET search_path TO 'pg_catalog', 'remem', 'pg_temp';

CREATE FUNCTION remem._note_run(workspace text, run_id uuid, space_no integer, claimed integer, embedded integer, failed integer, error text, lease_until timestamp with time zone) RETURNS void LANGUAGE plpgsql SET search_path TO 'pg_catalog', 'remem', 'pg_temp';

CREATE FUNCTION remem._one_line(text text) RETURNS text LANGUAGE sql IMMUTABLE PARALLEL SAFE SET search_path TO 'pg_catalog', 'remem', 'pg_temp';

CREATE FUNCTION remem._open_plan(workspace text, prompt text, options jsonb) RETURNS remem._plan_context LANGUAGE plpgsql STABLE SET search_path TO 'pg_catalog', 'remem', 'pg_temp' SET plan_cache_mode TO 'force_generic_plan';

CREATE FUNCTION remem._outcome(workspace text, memory_no bigint, outcome text) RETURNS remem.memory_ref LANGUAGE sql STABLE SET search_path TO 'pg_catalog', 'remem', 'pg_temp';

CREATE FUNCTION remem._owner(scope text, scope_ref text) RETURNS text LANGUAGE sql IMMUTABLE PARALLEL SAFE SET search_path TO 'pg_catalog', 'remem', 'pg_temp';

CREATE FUNCTION remem._owner_setting(name text) RETURNS text LANGUAGE sql STABLE SET search_path TO 'pg_catalog', 'remem', 'pg_temp';

CREATE FUNCTION remem._parse_item(item jsonb, keys text[], item_no integer) RETURNS remem.memory_item LANGUAGE plpgsql STABLE SET search_path TO 'pg_catalog', 'remem', 'pg_temp';

CREATE FUNCTION remem._particulars(query text) RETURNS text LANGUAGE sql IMMUTABLE PARALLEL SAFE SET search_path TO 'pg_catalog', 'remem', 'pg_temp';

CREATE FUNCTION remem._passing_share(workspace text, row_filter jsonpath) RETURNS double precision LANGUAGE plpgsql STABLE SET search_path TO 'pg_catalog', 'remem', 'pg_temp' SET plan_cache_mode TO 'force_generic_plan';

CREATE FUNCTION remem._phrase_tokens(words text) RETURNS text[] LANGUAGE plpgsql IMMUTABLE STRICT PARALLEL SAFE SET search_path TO 'pg_catalog', 'remem', 'pg_temp';

CREATE FUNCTION remem._phrase_words(folded text) RETURNS text LANGUAGE plpgsql IMMUTABLE STRICT PARALLEL SAFE SET search_path TO 'pg_catalog', 'remem', 'pg_temp';

CREATE FUNCTION remem._plain_spaces(text) RETURNS text LANGUAGE sql IMMUTABLE PARALLEL SAFE;

CREATE FUNCTION remem._plan(workspace text, prompt text, prompt_embedding real[], options jsonb) RETURNS jsonb LANGUAGE plpgsql STABLE SET search_path TO 'pg_catalog', 'remem', 'pg_temp' SET plan_cache_mode TO 'force_generic_plan';

CREATE FUNCTION remem._plan_defaults() RETURNS jsonb LANGUAGE sql IMMUTABLE PARALLEL SAFE SET search_path TO 'pg_catalog', 'remem', 'pg_temp';

CREATE FUNCTION remem._plan_meaning(context remem._plan_context, vector real[], space_no integer, OUT matches remem._topic_match[], OUT provider_nos integer[], OUT similarities double precision[], OUT compared bigint) RETURNS record LANGUAGE plpgsql STABLE SET search_path TO 'pg_catalog', 'remem', 'pg_temp' SET plan_cache_mode TO 'force_generic_plan';

CREATE FUNCTION remem._plan_memories(context remem._plan_context, matches remem._topic_match[], evidence remem._memory_evidence[], OUT topics remem._topic_match[], OUT sure boolean[], OUT memories jsonb, OUT reason text, OUT confidence double precision) RETURNS record LANGUAGE plpgsql STABLE SET search_path TO 'pg_catalog', 'remem', 'pg_temp' SET plan_cache_mode TO 'force_generic_plan';

CREATE FUNCTION remem._plan_options() RETURNS jsonb LANGUAGE sql IMMUTABLE PARALLEL SAFE SET search_path TO 'pg_catalog', 'remem', 'pg_temp';

CREATE FUNCTION remem._plan_recall(workspace remem.workspace, space remem.embedding_space, query text, query_embedding real[], k integer, options jsonb, OUT prepared remem._query, OUT route remem.route, OUT wanted text[], OUT arms text[], OUT weights jsonb, OUT vector_share double precision, OUT pool bigint[], OUT pool_note text, OUT embedding_ms double precision, OUT degraded text[]) RETURNS record LANGUAGE plpgsql STABLE SET search_path TO 'pg_catalog', 'remem', 'pg_temp';

CREATE FUNCTION remem._plan_topics(topics remem._topic_match[], sure boolean[]) RETURNS jsonb LANGUAGE sql IMMUTABLE SET search_path TO 'pg_catalog', 'remem', 'pg_temp';

CREATE FUNCTION remem._plan_words(context remem._plan_context) RETURNS remem._topic_match[] LANGUAGE plpgsql STABLE SET search_path TO 'pg_catalog', 'remem', 'pg_temp' SET plan_cache_mode TO 'force_generic_plan';

CREATE FUNCTION remem._planned_arms(arms text[], given remem._arm_result[]) RETURNS remem._arm_result[] LANGUAGE sql STABLE SET search_path TO 'pg_catalog', 'remem', 'pg_temp';

CREATE FUNCTION remem._planner_word(argument text, value text, language text) RETURNS text LANGUAGE plpgsql STABLE SET search_path TO 'pg_catalog', 'remem', 'pg_temp';

CREATE FUNCTION remem._pool(query remem._query, route remem.route) RETURNS bigint[] LANGUAGE plpgsql STABLE SET search_path TO 'pg_catalog', 'remem', 'pg_temp' SET plan_cache_mode TO 'force_generic_plan' SET enable_seqscan TO 'off';

CREATE FUNCTION remem._pool_satisfies(query remem._query, space remem.embedding_space, pool bigint[], min_relevance double precision, k integer) RETURNS boolean LANGUAGE plpgsql STABLE SET search_path TO 'pg_catalog', 'remem', 'pg_temp';

CREATE FUNCTION remem._posting_budget() RETURNS integer LANGUAGE sql IMMUTABLE PARALLEL SAFE;

CREATE FUNCTION remem._prepare_item(workspace remem.workspace, space remem.embedding_space, dictionaries regdictionary[], keys text[], item jsonb, embedding real[], item_no integer, max_source_class text) RETURNS remem._prepared_item LANGUAGE plpgsql STABLE SET search_path TO 'pg_catalog', 'remem', 'pg_temp';

CREATE FUNCTION remem._prepare_query(workspace remem.workspace, space remem.embedding_space, query text, query_embedding real[], options jsonb, arms text[], kind_hint text, OUT prepared remem._query, OUT embedding_ms double precision, OUT degraded text[]) RETURNS record LANGUAGE plpgsql STABLE SET search_path TO 'pg_catalog', 'remem', 'pg_temp' SET plan_cache_mode TO 'force_generic_plan';

CREATE FUNCTION remem._probe_memories(context remem._plan_context, vector real[]) RETURNS remem._memory_evidence[] LANGUAGE plpgsql STABLE SET search_path TO 'pg_catalog', 'remem', 'pg_temp' SET plan_cache_mode TO 'force_generic_plan';

CREATE FUNCTION remem._prompt_vector(context remem._plan_context, prompt_embedding real[], OUT vector real[], OUT problem text) RETURNS record LANGUAGE plpgsql STABLE SET search_path TO 'pg_catalog', 'remem', 'pg_temp';

CREATE TABLE remem.provider (
    workspace text NOT NULL COLLATE pg_catalog."C",
    provider_id text NOT NULL COLLATE pg_catalog."C",
    name text NOT NULL,
    aliases text[] DEFAULT '{}'::text[] NOT NULL,
    summary text,
    categories text[] DEFAULT '{}'::text[] NOT NULL,
    enabled boolean DEFAULT true NOT NULL,
    result_limit integer,
    created_at timestamp with time zone DEFAULT now() NOT NULL,
    updated_at timestamp with time zone DEFAULT now() NOT NULL,
    CONSTRAINT provider_result_limit CHECK (((result_limit >= 1) AND (result_limit <= 100)))
);

COMMENT ON TABLE remem.provider IS 'Descriptors of the providers that a plan may send requests to.';

CREATE FUNCTION remem._provider_text(provider remem.provider) RETURNS text LANGUAGE sql IMMUTABLE PARALLEL SAFE SET search_path TO 'pg_catalog', 'remem', 'pg_temp';

CREATE FUNCTION remem._providers(workspace text) RETURNS SETOF remem.provider LANGUAGE sql STABLE ROWS 5 SET search_path TO 'pg_catalog', 'remem', 'pg_temp';

CREATE FUNCTION remem._purge_rows(workspace text, memory_nos bigint[]) RETURNS void LANGUAGE plpgsql SET search_path TO 'pg_catalog', 'remem', 'pg_temp' SET enable_hashjoin TO 'off' SET enable_mergejoin TO 'off' SET enable_seqscan TO 'off';

CREATE TABLE remem.topic (
    workspace text NOT NULL COLLATE pg_catalog."C",
    topic_no bigint NOT NULL,
    topic_id uuid DEFAULT gen_random_uuid() NOT NULL,
    entry_hash bytea NOT NULL,
    owner text NOT NULL COLLATE pg_catalog."C",
    scope text NOT NULL,
    scope_ref text COLLATE pg_catalog."C",
    key text NOT NULL COLLATE pg_catalog."C",
    title text NOT NULL,
    aliases text[] DEFAULT '{}'::text[] NOT NULL,
    alias_keys text[] DEFAULT '{}'::text[] NOT NULL,
    tags text[] DEFAULT '{}'::text[] NOT NULL,
    summary text,
    importance real NOT NULL,
    unresolved boolean NOT NULL,
    providers text[] DEFAULT '{}'::text[] NOT NULL,
    parent text,
    freshness text NOT NULL,
    weight real NOT NULL,
    parts jsonb NOT NULL,
    memory_no bigint,
    derived boolean NOT NULL,
    created_at timestamp with time zone DEFAULT now() NOT NULL,
    updated_at timestamp with time zone DEFAULT now() NOT NULL,
    CONSTRAINT topic_freshness CHECK ((freshness = ANY (ARRAY['current'::text, 'stale'::text, 'unknown'::text]))),
    CONSTRAINT topic_importance CHECK (((importance >= (0)::double precision) AND (importance <= (1)::double precision))),
    CONSTRAINT topic_scope CHECK ((scope = ANY (ARRAY['global'::text, 'project'::text, 'session'::text, 'user'::text]))),
    CONSTRAINT topic_scope_ref CHECK (((scope = 'global'::text) = (scope_ref IS NULL)))
);

COMMENT ON TABLE remem.topic IS 'The catalog: what a workspace knows about, given by callers or derived from memories.';

CREATE FUNCTION remem._put_part(workspace remem.workspace, scope text, scope_ref text, key text, source text, part jsonb) RETURNS remem.topic LANGUAGE plpgsql SET search_path TO 'pg_catalog', 'remem', 'pg_temp' SET plan_cache_mode TO 'force_generic_plan';

CREATE FUNCTION remem._qualified_by_meaning(context remem._plan_context, matches remem._topic_match[], minimum double precision, space_no integer) RETURNS remem._topic_match[] LANGUAGE plpgsql STABLE SET search_path TO 'pg_catalog', 'remem', 'pg_temp';

CREATE FUNCTION remem._query_entities(workspace text, folded text) RETURNS text[] LANGUAGE plpgsql STABLE SET search_path TO 'pg_catalog', 'remem', 'pg_temp' SET plan_cache_mode TO 'force_generic_plan';

CREATE FUNCTION remem._query_terms(workspace text, query text, dictionaries regdictionary[], documents bigint, counted bigint, cap integer, OUT lexemes text[], OUT frequencies bigint[], OUT idfs double precision[], OUT idf_mass double precision) RETURNS record LANGUAGE plpgsql STABLE SET search_path TO 'pg_catalog', 'remem', 'pg_temp' SET plan_cache_mode TO 'force_generic_plan' SET enable_seqscan TO 'off';

CREATE FUNCTION remem._query_vector(space remem.embedding_space, query text, query_embedding real[], options jsonb, OUT vector real[], OUT more jsonb, OUT degraded text[]) RETURNS record LANGUAGE plpgsql STABLE SET search_path TO 'pg_catalog', 'remem', 'pg_temp';

CREATE FUNCTION remem._raise(code text, detail jsonb DEFAULT '{}'::jsonb, hint text DEFAULT NULL::text) RETURNS void LANGUAGE plpgsql STABLE PARALLEL SAFE SET search_path TO 'pg_catalog', 'remem', 'pg_temp';

CREATE FUNCTION remem._read_import(workspace remem.workspace, space remem.embedding_space, dictionaries regdictionary[], keys text[], record jsonb, embedding real[], item_no integer, max_source_class text) RETURNS remem._import_memory LANGUAGE plpgsql STABLE SET search_path TO 'pg_catalog', 'remem', 'pg_temp';

CREATE FUNCTION remem._read_item(space remem.embedding_space, keys text[], item jsonb, embedding real[], item_no integer, max_source_class text) RETURNS remem.memory_item LANGUAGE plpgsql STABLE SET search_path TO 'pg_catalog', 'remem', 'pg_temp';

CREATE FUNCTION remem._read_items(space remem.embedding_space, keys text[], items jsonb[], vectors remem.memory_item[], item_nos integer[], max_source_class text) RETURNS remem._prepared_item[] LANGUAGE plpgsql STABLE SET search_path TO 'pg_catalog', 'remem', 'pg_temp' SET plan_cache_mode TO 'force_generic_plan';

CREATE FUNCTION remem._rebuild_past(workspace remem.workspace, memory_nos bigint[]) RETURNS void LANGUAGE plpgsql SET search_path TO 'pg_catalog', 'remem', 'pg_temp' SET enable_hashjoin TO 'off' SET enable_mergejoin TO 'off' SET enable_seqscan TO 'off';

CREATE FUNCTION remem._rebuild_postings(workspace remem.workspace, memory_nos bigint[]) RETURNS void LANGUAGE plpgsql SET search_path TO 'pg_catalog', 'remem', 'pg_temp';

CREATE FUNCTION remem._recall(workspace text, query text, query_embedding real[], k integer, options jsonb, given remem._arm_result[] DEFAULT NULL::remem._arm_result[], OUT hits remem.recall_hit[], OUT degraded text[], OUT trace jsonb) RETURNS record LANGUAGE plpgsql STABLE SET search_path TO 'pg_catalog', 'remem', 'pg_temp';

CREATE FUNCTION remem._recall_log_days() RETURNS integer LANGUAGE sql STABLE SET search_path TO 'pg_catalog', 'remem', 'pg_temp';

CREATE FUNCTION remem._recover_runs(workspace text) RETURNS void LANGUAGE sql SET search_path TO 'pg_catalog', 'remem', 'pg_temp';

CREATE FUNCTION remem._rederive_topics(workspace remem.workspace, old remem.memory) RETURNS void LANGUAGE plpgsql SET search_path TO 'pg_catalog', 'remem', 'pg_temp';

CREATE FUNCTION remem._refuse_filter(problem text) RETURNS void LANGUAGE plpgsql STABLE SET search_path TO 'pg_catalog', 'remem', 'pg_temp';

CREATE FUNCTION remem._refuse_unknown(memory_id uuid, ref text) RETURNS void LANGUAGE plpgsql STABLE SET search_path TO 'pg_catalog', 'remem', 'pg_temp';

CREATE FUNCTION remem._reindex_rows(workspace remem.workspace, memory_nos bigint[]) RETURNS void LANGUAGE plpgsql SET search_path TO 'pg_catalog', 'remem', 'pg_temp';

CREATE FUNCTION remem._reindex_word(workspace text, word text) RETURNS void LANGUAGE plpgsql SET search_path TO 'pg_catalog', 'remem', 'pg_temp';

CREATE FUNCTION remem._relation_end(workspace text, argument text, memory_id uuid, live boolean) RETURNS remem.memory LANGUAGE plpgsql STABLE SET search_path TO 'pg_catalog', 'remem', 'pg_temp';

CREATE FUNCTION remem._relation_kinds() RETURNS text[] LANGUAGE sql IMMUTABLE PARALLEL SAFE SET search_path TO 'pg_catalog', 'remem', 'pg_temp';

CREATE FUNCTION remem._remember(workspace text, items jsonb, on_error text) RETURNS SETOF remem.memory_ref LANGUAGE plpgsql SET search_path TO 'pg_catalog', 'remem', 'pg_temp' SET "TimeZone" TO 'UTC' SET "DateStyle" TO 'ISO, MDY' SET extra_float_digits TO '1';

CREATE FUNCTION remem._remember_batch(workspace remem.workspace, space remem.embedding_space, dictionaries regdictionary[], keys text[], items jsonb[], vectors remem.memory_item[], item_nos integer[], max_source_class text, on_error text) RETURNS SETOF remem.memory_ref LANGUAGE plpgsql SET search_path TO 'pg_catalog', 'remem', 'pg_temp';

CREATE FUNCTION remem._render_compact(hits remem.recall_hit[], budget integer) RETURNS text LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE SET search_path TO 'pg_catalog', 'remem', 'pg_temp';

CREATE FUNCTION remem._render_json(hits remem.recall_hit[], budget integer) RETURNS text LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE SET search_path TO 'pg_catalog', 'remem', 'pg_temp';

CREATE FUNCTION remem._render_verbose(hits remem.recall_hit[], budget integer) RETURNS text LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE SET search_path TO 'pg_catalog', 'remem', 'pg_temp';

CREATE FUNCTION remem._request(context remem._plan_context, provider_id text, reason text, own_limit integer) RETURNS jsonb LANGUAGE plpgsql IMMUTABLE SET search_path TO 'pg_catalog', 'remem', 'pg_temp';

CREATE FUNCTION remem._require_space_index(space remem.embedding_space) RETURNS void LANGUAGE plpgsql SET search_path TO 'pg_catalog', 'remem', 'pg_temp';

CREATE FUNCTION remem._rerank_gate(workspace text, scored remem._scored[]) RETURNS jsonb LANGUAGE plpgsql STABLE SET search_path TO 'pg_catalog', 'remem', 'pg_temp';

CREATE FUNCTION remem._resolve_filter(workspace text, row_filter jsonpath, most integer DEFAULT 5000) RETURNS bigint[] LANGUAGE plpgsql STABLE SET search_path TO 'pg_catalog', 'remem', 'pg_temp';

CREATE FUNCTION remem._resolve_filter_at(workspace text, row_filter jsonpath, at timestamp with time zone) RETURNS bigint[] LANGUAGE plpgsql STABLE SET search_path TO 'pg_catalog', 'remem', 'pg_temp';

CREATE FUNCTION remem._retire(workspace text, memory_nos bigint[]) RETURNS void LANGUAGE plpgsql SET search_path TO 'pg_catalog', 'remem', 'pg_temp';

CREATE FUNCTION remem._revive(workspace remem.workspace, memory_nos bigint[]) RETURNS void LANGUAGE plpgsql SET search_path TO 'pg_catalog', 'remem', 'pg_temp' SET enable_hashjoin TO 'off' SET enable_mergejoin TO 'off' SET enable_seqscan TO 'off';

CREATE FUNCTION remem._revoke_all(kind text, name text, owner oid, acl aclitem[]) RETURNS void LANGUAGE plpgsql SET search_path TO 'pg_catalog', 'remem', 'pg_temp';

CREATE FUNCTION remem._revoke_relation(relation regclass) RETURNS void LANGUAGE plpgsql SET search_path TO 'pg_catalog', 'remem', 'pg_temp';

CREATE FUNCTION remem._rounded(signal double precision) RETURNS numeric LANGUAGE sql IMMUTABLE PARALLEL SAFE;

CREATE FUNCTION remem._route(workspace text, kind text) RETURNS remem.route LANGUAGE sql STABLE SET search_path TO 'pg_catalog', 'remem', 'pg_temp';

CREATE FUNCTION remem._row_filter(workspace text, options jsonb) RETURNS jsonpath LANGUAGE plpgsql STABLE SET search_path TO 'pg_catalog', 'remem', 'pg_temp';

CREATE FUNCTION remem._run_arm(arm text, query remem._query, n integer, budget integer, OUT memory_nos bigint[], OUT scores double precision[], OUT matched double precision[]) RETURNS record LANGUAGE plpgsql STABLE SET search_path TO 'pg_catalog', 'remem', 'pg_temp';

CREATE FUNCTION remem._run_arms(query remem._query, arms text[], n integer, budget integer, deadline timestamp with time zone) RETURNS remem._arm_result[] LANGUAGE plpgsql STABLE SET search_path TO 'pg_catalog', 'remem', 'pg_temp';

CREATE FUNCTION remem._run_shards(arm text, query remem._query, n integer, budget integer, OUT memory_nos bigint[], OUT scores double precision[], OUT matched double precision[]) RETURNS record LANGUAGE plpgsql STABLE SET search_path TO 'pg_catalog', 'remem', 'pg_temp';

CREATE FUNCTION remem._same_scope(scope text, scope_ref text, other text, other_ref text) RETURNS boolean LANGUAGE sql IMMUTABLE PARALLEL SAFE;

CREATE FUNCTION remem._same_text(text text, now_is text) RETURNS boolean LANGUAGE sql IMMUTABLE PARALLEL SAFE;

CREATE FUNCTION remem._scope_path(workspace text, scopes jsonb) RETURNS text LANGUAGE plpgsql STABLE SET search_path TO 'pg_catalog', 'remem', 'pg_temp';

CREATE FUNCTION remem._score(query remem._query, space remem.embedding_space, memory_nos bigint[], cosines double precision[], scores double precision[], matched double precision[], vector_ranks integer[], lexical_ranks integer[], aux_arms text[], aux_nos bigint[], aux_shares double precision[], vector_weight double precision, weights jsonb, fusion text, with_context boolean, k integer, min_relevance double precision, kind text) RETURNS remem._scored[] LANGUAGE plpgsql STABLE SET search_path TO 'pg_catalog', 'remem', 'pg_temp' SET plan_cache_mode TO 'force_generic_plan' SET enable_nestloop TO 'off';

CREATE FUNCTION remem._score_candidates(query remem._query, space remem.embedding_space, memory_nos bigint[], cosines double precision[], scores double precision[], matched double precision[], results remem._arm_result[], vector_share double precision, weights jsonb, options jsonb, k integer) RETURNS remem._scored[] LANGUAGE plpgsql STABLE SET search_path TO 'pg_catalog', 'remem', 'pg_temp' SET plan_cache_mode TO 'force_generic_plan';

CREATE FUNCTION remem._second_opinion(context remem._plan_context) RETURNS remem._topic_match[] LANGUAGE plpgsql STABLE SET search_path TO 'pg_catalog', 'remem', 'pg_temp';

CREATE FUNCTION remem._semantic_minimum(space remem.embedding_space) RETURNS double precision LANGUAGE sql IMMUTABLE PARALLEL SAFE SET search_path TO 'pg_catalog', 'remem', 'pg_temp';

CREATE FUNCTION remem._server_embed(texts text[]) RETURNS real[] LANGUAGE plpgsql STABLE SET search_path TO 'pg_catalog', 'remem', 'pg_temp';

CREATE FUNCTION remem._server_model() RETURNS jsonb LANGUAGE plpgsql STABLE SET search_path TO 'pg_catalog', 'remem', 'pg_temp';

CREATE FUNCTION remem._session_scores(query remem._query, units bigint[], OUT sessions bigint[], OUT scores double precision[]) RETURNS record LANGUAGE plpgsql STABLE SET search_path TO 'pg_catalog', 'remem', 'pg_temp' SET plan_cache_mode TO 'force_generic_plan' SET enable_seqscan TO 'off' SET enable_nestloop TO 'off' SET enable_bitmapscan TO 'off';

CREATE FUNCTION remem._set_entry_vector(claim remem.embedding_claim, vector real[]) RETURNS void LANGUAGE plpgsql SET search_path TO 'pg_catalog', 'remem', 'pg_temp';

CREATE FUNCTION remem._set_fields(workspace text, memory_id uuid, ref text, pinned boolean DEFAULT NULL::boolean, unresolved boolean DEFAULT NULL::boolean, importance real DEFAULT NULL::real, freshness text DEFAULT NULL::text, reinforce real DEFAULT NULL::real) RETURNS remem.memory_ref LANGUAGE plpgsql SET search_path TO 'pg_catalog', 'remem', 'pg_temp';

CREATE FUNCTION remem._set_provider_vector(provider remem.provider, space_no integer, vector real[]) RETURNS void LANGUAGE sql SET search_path TO 'pg_catalog', 'remem', 'pg_temp';

CREATE FUNCTION remem._set_states(gained integer, lost integer) RETURNS void LANGUAGE plpgsql SET search_path TO 'pg_catalog', 'remem', 'pg_temp';

CREATE FUNCTION remem._set_topic_vector(topic remem.topic, space_no integer, vector real[]) RETURNS void LANGUAGE sql SET search_path TO 'pg_catalog', 'remem', 'pg_temp';

CREATE FUNCTION remem._shards(workspace text, options jsonb, OUT kinds text[], OUT filters jsonpath[]) RETURNS record LANGUAGE plpgsql STABLE SET search_path TO 'pg_catalog', 'remem', 'pg_temp';

CREATE FUNCTION remem._shared_words(context remem._plan_context, topic_nos bigint[]) RETURNS integer[] LANGUAGE plpgsql STABLE SET search_path TO 'pg_catalog', 'remem', 'pg_temp' SET plan_cache_mode TO 'force_generic_plan';

CREATE FUNCTION remem._shell_word(word text) RETURNS text LANGUAGE sql IMMUTABLE PARALLEL SAFE SET search_path TO 'pg_catalog', 'remem', 'pg_temp';

CREATE FUNCTION remem._shorten(text text, most integer) RETURNS text LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE SET search_path TO 'pg_catalog', 'remem', 'pg_temp';

CREATE FUNCTION remem._shorten_escaped(escaped text, most integer) RETURNS text LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE SET search_path TO 'pg_catalog', 'remem', 'pg_temp';

CREATE FUNCTION remem._similar_without_any(context remem._plan_context, topic_no bigint, vector real[], minimum double precision, without_one double precision) RETURNS boolean LANGUAGE plpgsql STABLE SET search_path TO 'pg_catalog', 'remem', 'pg_temp';

CREATE FUNCTION remem._source_text(workspace text, kind text, source text) RETURNS text LANGUAGE plpgsql STABLE SET search_path TO 'pg_catalog', 'remem', 'pg_temp';

CREATE FUNCTION remem._space(space_no integer) RETURNS remem.embedding_space LANGUAGE sql STABLE SET search_path TO 'pg_catalog', 'remem', 'pg_temp';

CREATE FUNCTION remem._space_descriptor(space_no integer) RETURNS jsonb LANGUAGE sql STABLE SET search_path TO 'pg_catalog', 'remem', 'pg_temp';

CREATE FUNCTION remem._space_index(space_no integer) RETURNS text LANGUAGE sql STABLE SET search_path TO 'pg_catalog', 'remem', 'pg_temp';

CREATE FUNCTION remem._space_info(space remem.embedding_space) RETURNS remem.space_info LANGUAGE sql STABLE SET search_path TO 'pg_catalog', 'remem', 'pg_temp';

CREATE FUNCTION remem._space_state(workspace remem.workspace, space_no integer) RETURNS text LANGUAGE sql IMMUTABLE PARALLEL SAFE SET search_path TO 'pg_catalog', 'remem', 'pg_temp';

CREATE FUNCTION remem._space_threshold(context remem._plan_context, name text, share double precision) RETURNS double precision LANGUAGE plpgsql IMMUTABLE SET search_path TO 'pg_catalog', 'remem', 'pg_temp';

CREATE FUNCTION remem._stage_times(timings jsonb) RETURNS jsonb LANGUAGE sql IMMUTABLE PARALLEL SAFE SET search_path TO 'pg_catalog', 'remem', 'pg_temp';

CREATE FUNCTION remem._staged_is_ours() RETURNS boolean LANGUAGE sql STABLE SET search_path TO 'pg_catalog', 'remem', 'pg_temp';

CREATE FUNCTION remem._start_reindex(workspace text, language text) RETURNS void LANGUAGE plpgsql SET search_path TO 'pg_catalog', 'remem', 'pg_temp';

CREATE FUNCTION remem._state(memory remem.memory) RETURNS text LANGUAGE sql IMMUTABLE PARALLEL SAFE SET search_path TO 'pg_catalog', 'remem', 'pg_temp';

CREATE FUNCTION remem._statement(query text) RETURNS text LANGUAGE sql IMMUTABLE PARALLEL SAFE SET search_path TO 'pg_catalog', 'remem', 'pg_temp';

CREATE FUNCTION remem._storage_due(OUT task text, OUT relation text, OUT reason text, OUT command text) RETURNS SETOF record LANGUAGE plpgsql STABLE SET search_path TO 'pg_catalog', 'remem', 'pg_temp';

CREATE FUNCTION remem._store(workspace remem.workspace, items remem._prepared_item[], on_error text) RETURNS SETOF remem.memory_ref LANGUAGE plpgsql SET search_path TO 'pg_catalog', 'remem', 'pg_temp' SET enable_incremental_sort TO 'off';

CREATE FUNCTION remem._store_entries(workspace text, space remem.embedding_space, claims remem.embedding_claim[], item_nos integer[], embeddings real[], OUT places integer[], OUT outcomes text[]) RETURNS record LANGUAGE plpgsql SET search_path TO 'pg_catalog', 'remem', 'pg_temp';

CREATE FUNCTION remem._store_memories(workspace text, space remem.embedding_space, claims remem.embedding_claim[], item_nos integer[], embeddings real[], OUT places integer[], OUT outcomes text[]) RETURNS record LANGUAGE plpgsql SET search_path TO 'pg_catalog', 'remem', 'pg_temp' SET enable_seqscan TO 'off';

CREATE FUNCTION remem._submit_arm(arm text, query remem._query, n integer, budget integer, deadline timestamp with time zone) RETURNS remem._arm_result LANGUAGE plpgsql STABLE SET search_path TO 'pg_catalog', 'remem', 'pg_temp';

CREATE FUNCTION remem._submittable(arms text[], query remem._query) RETURNS text[] LANGUAGE plpgsql STABLE SET search_path TO 'pg_catalog', 'remem', 'pg_temp';

CREATE FUNCTION remem._support(context remem._plan_context, topic_no bigint, similarity double precision, evidence remem._memory_evidence[], rivals bigint[]) RETURNS double precision LANGUAGE plpgsql STABLE SET search_path TO 'pg_catalog', 'remem', 'pg_temp';

CREATE FUNCTION remem._supported_topics(context remem._plan_context, matches remem._topic_match[], evidence remem._memory_evidence[]) RETURNS remem._topic_match[] LANGUAGE plpgsql STABLE SET search_path TO 'pg_catalog', 'remem', 'pg_temp';

CREATE FUNCTION remem._sure_topics(context remem._plan_context, topics remem._topic_match[], vector real[], minimum double precision, evidence remem._memory_evidence[]) RETURNS boolean[] LANGUAGE plpgsql STABLE SET search_path TO 'pg_catalog', 'remem', 'pg_temp' SET plan_cache_mode TO 'force_generic_plan';

CREATE FUNCTION remem._switch_space(workspace text, space remem.embedding_space, coverage remem.embedding_coverage) RETURNS void LANGUAGE plpgsql SET search_path TO 'pg_catalog', 'remem', 'pg_temp';

CREATE FUNCTION remem._take_batch(workspace text, after uuid, "limit" integer) RETURNS bigint[] LANGUAGE plpgsql SET search_path TO 'pg_catalog', 'remem', 'pg_temp';

CREATE FUNCTION remem._take_out_refused(dimensions integer, INOUT embeddings real[], OUT places integer[]) RETURNS record LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE SET search_path TO 'pg_catalog', 'remem', 'pg_temp';

CREATE FUNCTION remem._take_stale(workspace remem.workspace, n integer, OUT wanted bigint[], OUT taken bigint[]) RETURNS record LANGUAGE plpgsql SET search_path TO 'pg_catalog', 'remem', 'pg_temp' SET enable_bitmapscan TO 'off' SET enable_sort TO 'off';

CREATE FUNCTION remem._text_array(value jsonb) RETURNS text[] LANGUAGE sql IMMUTABLE PARALLEL SAFE SET search_path TO 'pg_catalog', 'remem', 'pg_temp';

CREATE FUNCTION remem._text_fingerprint(speaker text, body text) RETURNS bytea LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE SET search_path TO 'pg_catalog', 'remem', 'pg_temp';

CREATE FUNCTION remem._text_index(workspace remem.workspace) RETURNS text LANGUAGE plpgsql STABLE PARALLEL SAFE SET search_path TO 'pg_catalog', 'remem', 'pg_temp';

CREATE FUNCTION remem._time_hint(folded text, at timestamp with time zone, OUT time_from timestamp with time zone, OUT time_to timestamp with time zone) RETURNS record LANGUAGE plpgsql STABLE SET search_path TO 'pg_catalog', 'remem', 'pg_temp' SET "TimeZone" TO 'UTC';

CREATE FUNCTION remem._topic_gaps(workspace text, space_no integer, owner text, vector real[], memory_ids uuid[]) RETURNS double precision[] LANGUAGE plpgsql STABLE SET search_path TO 'pg_catalog', 'remem', 'pg_temp';

CREATE FUNCTION remem._topic_heir(workspace text, scope text, scope_ref text, title text, OUT importance real, OUT unresolved boolean, OUT freshness text, OUT memory_no bigint) RETURNS record LANGUAGE plpgsql STABLE SET search_path TO 'pg_catalog', 'remem', 'pg_temp' SET enable_seqscan TO 'off';

CREATE FUNCTION remem._topic_heirs(workspace text, topic_nos bigint[]) RETURNS TABLE(topic_no bigint, importance real, unresolved boolean, freshness text, memory_no bigint) LANGUAGE plpgsql STABLE SET search_path TO 'pg_catalog', 'remem', 'pg_temp' SET enable_nestloop TO 'off';

CREATE FUNCTION remem._topic_is_live(topic remem.topic) RETURNS boolean LANGUAGE sql STABLE SET search_path TO 'pg_catalog', 'remem', 'pg_temp';

CREATE FUNCTION remem._topic_memories(workspace text, topic_ids uuid[], k integer, options jsonb) RETURNS jsonb LANGUAGE plpgsql STABLE SET search_path TO 'pg_catalog', 'remem', 'pg_temp' SET plan_cache_mode TO 'force_generic_plan';

CREATE FUNCTION remem._topic_requests(context remem._plan_context, topics remem._topic_match[], OUT requests jsonb, OUT missing text[]) RETURNS record LANGUAGE plpgsql STABLE SET search_path TO 'pg_catalog', 'remem', 'pg_temp' SET plan_cache_mode TO 'force_generic_plan';

CREATE FUNCTION remem._topic_stem(token text) RETURNS text LANGUAGE plpgsql IMMUTABLE STRICT PARALLEL SAFE SET search_path TO 'pg_catalog', 'remem', 'pg_temp';

CREATE FUNCTION remem._topic_text(title text, aliases text[], summary text, tags text[]) RETURNS text LANGUAGE sql IMMUTABLE PARALLEL SAFE SET search_path TO 'pg_catalog', 'remem', 'pg_temp';

CREATE FUNCTION remem._total_ms(timings jsonb) RETURNS double precision LANGUAGE sql IMMUTABLE PARALLEL SAFE SET search_path TO 'pg_catalog', 'remem', 'pg_temp';

CREATE FUNCTION remem._touch(workspace text) RETURNS void LANGUAGE plpgsql SET search_path TO 'pg_catalog', 'remem', 'pg_temp';

CREATE FUNCTION remem._touch_relation(workspace text, memory_no bigint) RETURNS void LANGUAGE sql SET search_path TO 'pg_catalog', 'remem', 'pg_temp';

CREATE FUNCTION remem._trace(query remem._query, space remem.embedding_space, route remem.route, options jsonb, results remem._arm_result[], wanted text[], excluded integer, capped integer, candidates integer, scored remem._scored[], vector_share double precision, weights jsonb, graph jsonb, pool_note text, pool_rows integer, timings jsonb, degraded text[]) RETURNS jsonb LANGUAGE plpgsql STABLE SET search_path TO 'pg_catalog', 'remem', 'pg_temp';

CREATE FUNCTION remem._trust(trust real, half_life double precision, age double precision) RETURNS double precision LANGUAGE sql IMMUTABLE PARALLEL SAFE;

CREATE FUNCTION remem._two_word_rows(query remem._query, read integer, last integer, rare integer, budget bigint, needed double precision) RETURNS bigint[] LANGUAGE plpgsql STABLE SET search_path TO 'pg_catalog', 'remem', 'pg_temp' SET plan_cache_mode TO 'force_generic_plan' SET enable_seqscan TO 'off';

CREATE FUNCTION remem._unchanged_since(workspace text, snapshot pg_snapshot) RETURNS boolean LANGUAGE plpgsql STABLE SET search_path TO 'pg_catalog', 'remem', 'pg_temp';

CREATE FUNCTION remem._unit(vector real[]) RETURNS public.halfvec LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE;

CREATE FUNCTION remem._utf16(text) RETURNS integer[] LANGUAGE plpgsql IMMUTABLE STRICT PARALLEL SAFE SET search_path TO 'pg_catalog', 'remem', 'pg_temp';

CREATE FUNCTION remem._vector_indexes(OUT space_no integer, OUT space text, OUT dimensions integer, OUT state text, OUT used boolean, OUT vectors bigint, OUT largest bigint, OUT largest_workspace text, OUT scans bigint, OUT index_bytes bigint) RETURNS SETOF record LANGUAGE sql STABLE SET search_path TO 'pg_catalog', 'remem', 'pg_temp';

CREATE FUNCTION remem._vector_space(workspace remem.workspace, space text) RETURNS remem.embedding_space LANGUAGE plpgsql STABLE SET search_path TO 'pg_catalog', 'remem', 'pg_temp';

CREATE FUNCTION remem._wanted_arms(options jsonb, route remem.route) RETURNS text[] LANGUAGE sql STABLE SET search_path TO 'pg_catalog', 'remem', 'pg_temp';

CREATE FUNCTION remem._warn_degraded(degraded text[]) RETURNS void LANGUAGE plpgsql STABLE SET search_path TO 'pg_catalog', 'remem', 'pg_temp';

CREATE FUNCTION remem._with_former(workspace text, memory_nos bigint[]) RETURNS bigint[] LANGUAGE sql STABLE SET search_path TO 'pg_catalog', 'remem', 'pg_temp';

CREATE FUNCTION remem._with_memories(context remem._plan_context, requests jsonb, reason text) RETURNS jsonb LANGUAGE plpgsql STABLE SET search_path TO 'pg_catalog', 'remem', 'pg_temp';

CREATE FUNCTION remem._word(lexeme text) RETURNS bigint LANGUAGE sql IMMUTABLE PARALLEL SAFE;

CREATE FUNCTION remem._word_evidence(context remem._plan_context, topic_nos bigint[], shared integer[]) RETURNS double precision[] LANGUAGE plpgsql STABLE SET search_path TO 'pg_catalog', 'remem', 'pg_temp' SET plan_cache_mode TO 'force_generic_plan';

CREATE FUNCTION remem._word_scores(query remem._query, memory_nos bigint[], OUT scores double precision[], OUT matched double precision[]) RETURNS record LANGUAGE plpgsql STABLE SET search_path TO 'pg_catalog', 'remem', 'pg_temp' SET plan_cache_mode TO 'force_generic_plan' SET enable_seqscan TO 'off' SET enable_nestloop TO 'off';

CREATE FUNCTION remem._word_scores_at(query remem._query, memory_nos bigint[], OUT scores double precision[], OUT matched double precision[]) RETURNS record LANGUAGE plpgsql STABLE SET search_path TO 'pg_catalog', 'remem', 'pg_temp' SET plan_cache_mode TO 'force_generic_plan' SET enable_seqscan TO 'off' SET enable_nestloop TO 'off';

CREATE FUNCTION remem._words_are_counted(documents bigint, counted bigint) RETURNS boolean LANGUAGE sql IMMUTABLE PARALLEL SAFE;

CREATE FUNCTION remem._workspace_key(workspace text) RETURNS bigint LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE SET search_path TO 'pg_catalog', 'remem', 'pg_temp';

CREATE FUNCTION remem._workspace_tables() RETURNS TABLE(name name, owned text) LANGUAGE sql STABLE SET search_path TO 'pg_catalog', 'remem', 'pg_temp';

CREATE FUNCTION remem._worth(importance real, confidence real, pinned boolean, scope text, freshness text, age double precision) RETURNS double precision LANGUAGE sql IMMUTABLE PARALLEL SAFE;

CREATE FUNCTION remem._write_space_functions() RETURNS void LANGUAGE plpgsql SET search_path TO 'pg_catalog', 'remem', 'pg_temp';

CREATE FUNCTION remem._xml_line(text text) RETURNS text LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE SET search_path TO 'pg_catalog', 'remem', 'pg_temp';

CREATE FUNCTION remem.activate_space(space text, workspace text DEFAULT NULL::text, allow_missing integer DEFAULT 0) RETURNS remem.space_info LANGUAGE plpgsql SECURITY DEFINER SET search_path TO 'pg_catalog', 'remem', 'pg_temp' SET standard_conforming_strings TO 'on' SET gin_fuzzy_search_limit TO '0';

CREATE FUNCTION remem.build_space_index(workspace text) RETURNS text LANGUAGE plpgsql SECURITY DEFINER SET search_path TO 'pg_catalog', 'remem', 'pg_temp' SET standard_conforming_strings TO 'on' SET gin_fuzzy_search_limit TO '0';

CREATE FUNCTION remem.cancel_reembed(workspace text) RETURNS boolean LANGUAGE plpgsql SECURITY DEFINER SET search_path TO 'pg_catalog', 'remem', 'pg_temp' SET standard_conforming_strings TO 'on' SET gin_fuzzy_search_limit TO '0';

CREATE FUNCTION remem.catalog_without_embedding(workspace text, "limit" integer DEFAULT 100) RETURNS SETOF remem.catalog_text LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path TO 'pg_catalog', 'remem', 'pg_temp' SET standard_conforming_strings TO 'on' SET gin_fuzzy_search_limit TO '0';

CREATE FUNCTION remem.claim_embeddings(workspace text, space text DEFAULT NULL::text, "limit" integer DEFAULT 25, lease interval DEFAULT '00:15:00'::interval, run_id uuid DEFAULT NULL::uuid) RETURNS SETOF remem.embedding_job LANGUAGE plpgsql SECURITY DEFINER SET search_path TO 'pg_catalog', 'remem', 'pg_temp' SET standard_conforming_strings TO 'on' SET gin_fuzzy_search_limit TO '0';

CREATE FUNCTION remem.complete_embeddings(workspace text, claim_id uuid, item_nos integer[], embeddings real[]) RETURNS SETOF remem.embedding_outcome LANGUAGE plpgsql SECURITY DEFINER SET search_path TO 'pg_catalog', 'remem', 'pg_temp' SET standard_conforming_strings TO 'on' SET gin_fuzzy_search_limit TO '0';

CREATE FUNCTION remem.configure(name text, value text) RETURNS void LANGUAGE plpgsql SECURITY DEFINER SET search_path TO 'pg_catalog', 'remem', 'pg_temp' SET standard_conforming_strings TO 'on' SET gin_fuzzy_search_limit TO '0';

CREATE FUNCTION remem.conflicts(workspace text, "limit" integer DEFAULT 50) RETURNS SETOF remem.conflict_candidate LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path TO 'pg_catalog', 'remem', 'pg_temp' SET enable_nestloop TO 'off' SET jit TO 'off' SET standard_conforming_strings TO 'on' SET gin_fuzzy_search_limit TO '0';

CREATE FUNCTION remem.correct(workspace text, body text, memory_id uuid DEFAULT NULL::uuid, ref text DEFAULT NULL::text, reason text DEFAULT NULL::text, changes jsonb DEFAULT '{}'::jsonb, embedding real[] DEFAULT NULL::real[], space text DEFAULT NULL::text) RETURNS remem.memory_ref LANGUAGE plpgsql SECURITY DEFINER SET search_path TO 'pg_catalog', 'remem', 'pg_temp' SET extra_float_digits TO '1' SET standard_conforming_strings TO 'on' SET gin_fuzzy_search_limit TO '0';

CREATE FUNCTION remem.count(workspace text, filter text DEFAULT NULL::text) RETURNS bigint LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path TO 'pg_catalog', 'remem', 'pg_temp' SET standard_conforming_strings TO 'on' SET gin_fuzzy_search_limit TO '0';

CREATE FUNCTION remem.count_words(workspace text) RETURNS bigint LANGUAGE plpgsql SECURITY DEFINER SET search_path TO 'pg_catalog', 'remem', 'pg_temp' SET standard_conforming_strings TO 'on' SET gin_fuzzy_search_limit TO '0';

CREATE FUNCTION remem.create_workspace(workspace text, language text DEFAULT 'english'::text) RETURNS boolean LANGUAGE plpgsql SECURITY DEFINER SET search_path TO 'pg_catalog', 'remem', 'pg_temp' SET standard_conforming_strings TO 'on' SET gin_fuzzy_search_limit TO '0';

CREATE FUNCTION remem.current_space(workspace text DEFAULT NULL::text) RETURNS remem.space_info LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path TO 'pg_catalog', 'remem', 'pg_temp' SET standard_conforming_strings TO 'on' SET gin_fuzzy_search_limit TO '0';

CREATE FUNCTION remem.derive_topics(workspace text, after uuid DEFAULT NULL::uuid, "limit" integer DEFAULT 1000) RETURNS remem.batch_done LANGUAGE plpgsql SECURITY DEFINER SET search_path TO 'pg_catalog', 'remem', 'pg_temp' SET standard_conforming_strings TO 'on' SET gin_fuzzy_search_limit TO '0';

CREATE FUNCTION remem.doctor(workspace text DEFAULT NULL::text) RETURNS SETOF remem.check_row LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path TO 'pg_catalog', 'remem', 'pg_temp' SET jit TO 'off' SET standard_conforming_strings TO 'on' SET gin_fuzzy_search_limit TO '0';

CREATE FUNCTION remem.drop_continuity_phrase(workspace text, language text, phrase text) RETURNS boolean LANGUAGE plpgsql SECURITY DEFINER SET search_path TO 'pg_catalog', 'remem', 'pg_temp' SET standard_conforming_strings TO 'on' SET gin_fuzzy_search_limit TO '0';

CREATE FUNCTION remem.drop_generic_word(workspace text, language text, word text) RETURNS boolean LANGUAGE plpgsql SECURITY DEFINER SET search_path TO 'pg_catalog', 'remem', 'pg_temp' SET standard_conforming_strings TO 'on' SET gin_fuzzy_search_limit TO '0';

CREATE FUNCTION remem.drop_provider(workspace text, provider_id text) RETURNS boolean LANGUAGE plpgsql SECURITY DEFINER SET search_path TO 'pg_catalog', 'remem', 'pg_temp' SET standard_conforming_strings TO 'on' SET gin_fuzzy_search_limit TO '0';

CREATE FUNCTION remem.drop_space(space text, workspace text DEFAULT NULL::text) RETURNS text LANGUAGE plpgsql SECURITY DEFINER SET search_path TO 'pg_catalog', 'remem', 'pg_temp' SET standard_conforming_strings TO 'on' SET gin_fuzzy_search_limit TO '0';

CREATE FUNCTION remem.drop_topic(workspace text, topic_id uuid, source text DEFAULT NULL::text) RETURNS boolean LANGUAGE plpgsql SECURITY DEFINER SET search_path TO 'pg_catalog', 'remem', 'pg_temp' SET standard_conforming_strings TO 'on' SET gin_fuzzy_search_limit TO '0';

CREATE FUNCTION remem.drop_workspace(workspace text, "limit" integer DEFAULT 10000) RETURNS remem.drop_report LANGUAGE plpgsql SECURITY DEFINER SET search_path TO 'pg_catalog', 'remem', 'pg_temp' SET standard_conforming_strings TO 'on' SET gin_fuzzy_search_limit TO '0';

CREATE FUNCTION remem.embed(text text, role text DEFAULT 'query'::text) RETURNS real[] LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path TO 'pg_catalog', 'remem', 'pg_temp' SET standard_conforming_strings TO 'on' SET gin_fuzzy_search_limit TO '0';

CREATE FUNCTION remem.embed_many(texts text[], role text DEFAULT 'document'::text) RETURNS real[] LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path TO 'pg_catalog', 'remem', 'pg_temp' SET standard_conforming_strings TO 'on' SET gin_fuzzy_search_limit TO '0';

CREATE FUNCTION remem.embedding_backlog(workspace text, space text DEFAULT NULL::text) RETURNS SETOF remem.embedding_coverage LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path TO 'pg_catalog', 'remem', 'pg_temp' SET standard_conforming_strings TO 'on' SET gin_fuzzy_search_limit TO '0';

CREATE FUNCTION remem.embedding_problems(workspace text, space text DEFAULT NULL::text, "limit" integer DEFAULT 100) RETURNS SETOF remem.embedding_problem LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path TO 'pg_catalog', 'remem', 'pg_temp' SET standard_conforming_strings TO 'on' SET gin_fuzzy_search_limit TO '0';

CREATE FUNCTION remem.embedding_runs(workspace text, "limit" integer DEFAULT 20) RETURNS SETOF remem.job_run_record LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path TO 'pg_catalog', 'remem', 'pg_temp' SET standard_conforming_strings TO 'on' SET gin_fuzzy_search_limit TO '0';

CREATE FUNCTION remem.embedding_work(space text DEFAULT NULL::text, "limit" integer DEFAULT 1000) RETURNS SETOF text LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path TO 'pg_catalog', 'remem', 'pg_temp' SET standard_conforming_strings TO 'on' SET gin_fuzzy_search_limit TO '0';

CREATE FUNCTION remem.export(workspace text, vectors boolean DEFAULT false, forgotten boolean DEFAULT NULL::boolean) RETURNS SETOF jsonb LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path TO 'pg_catalog', 'remem', 'pg_temp' SET "TimeZone" TO 'UTC' SET "DateStyle" TO 'ISO, MDY' SET extra_float_digits TO '1' SET standard_conforming_strings TO 'on' SET gin_fuzzy_search_limit TO '0';

CREATE FUNCTION remem.fail_embeddings(workspace text, claim_id uuid, error text, item_nos integer[] DEFAULT NULL::integer[], retry_after interval DEFAULT NULL::interval) RETURNS integer LANGUAGE plpgsql SECURITY DEFINER SET search_path TO 'pg_catalog', 'remem', 'pg_temp' SET standard_conforming_strings TO 'on' SET gin_fuzzy_search_limit TO '0';

CREATE FUNCTION remem.finish_reembed(workspace text, nearly boolean DEFAULT false) RETURNS remem.embedding_coverage LANGUAGE plpgsql SECURITY DEFINER SET search_path TO 'pg_catalog', 'remem', 'pg_temp' SET standard_conforming_strings TO 'on' SET gin_fuzzy_search_limit TO '0';

CREATE FUNCTION remem.forget(workspace text, memory_id uuid DEFAULT NULL::uuid, ref text DEFAULT NULL::text, reason text DEFAULT NULL::text) RETURNS remem.memory_ref LANGUAGE plpgsql SECURITY DEFINER SET search_path TO 'pg_catalog', 'remem', 'pg_temp' SET standard_conforming_strings TO 'on' SET gin_fuzzy_search_limit TO '0';

CREATE FUNCTION remem.forget_where(workspace text, filter text, preview boolean DEFAULT true, reason text DEFAULT NULL::text, expected bigint DEFAULT NULL::bigint) RETURNS remem.forget_report LANGUAGE plpgsql SECURITY DEFINER SET search_path TO 'pg_catalog', 'remem', 'pg_temp' SET standard_conforming_strings TO 'on' SET gin_fuzzy_search_limit TO '0';

CREATE FUNCTION remem.get(workspace text, memory_id uuid DEFAULT NULL::uuid, ref text DEFAULT NULL::text) RETURNS SETOF remem.memory_record LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path TO 'pg_catalog', 'remem', 'pg_temp' SET standard_conforming_strings TO 'on' SET gin_fuzzy_search_limit TO '0';

CREATE FUNCTION remem.grant_access(role text, workspace text DEFAULT NULL::text, level text DEFAULT 'read'::text, max_source_class text DEFAULT NULL::text) RETURNS void LANGUAGE plpgsql SECURITY DEFINER SET search_path TO 'pg_catalog', 'remem', 'pg_temp' SET standard_conforming_strings TO 'on' SET gin_fuzzy_search_limit TO '0';

CREATE FUNCTION remem.hash_embed(text text) RETURNS real[] LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path TO 'pg_catalog', 'remem', 'pg_temp' SET standard_conforming_strings TO 'on' SET gin_fuzzy_search_limit TO '0';

CREATE FUNCTION remem.history(workspace text, memory_id uuid DEFAULT NULL::uuid, ref text DEFAULT NULL::text) RETURNS SETOF remem.memory_version LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path TO 'pg_catalog', 'remem', 'pg_temp' SET standard_conforming_strings TO 'on' SET gin_fuzzy_search_limit TO '0';

CREATE FUNCTION remem.import_staged(workspace text, on_error text DEFAULT 'abort'::text) RETURNS SETOF remem.import_result LANGUAGE plpgsql SECURITY DEFINER SET search_path TO 'pg_catalog', 'remem', 'pg_temp' SET standard_conforming_strings TO 'on' SET gin_fuzzy_search_limit TO '0';

CREATE FUNCTION remem.links_between(workspace text, memory_ids uuid[]) RETURNS jsonb LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path TO 'pg_catalog', 'remem', 'pg_temp' SET standard_conforming_strings TO 'on' SET gin_fuzzy_search_limit TO '0';

CREATE FUNCTION remem.list(workspace text, filter text DEFAULT NULL::text, after uuid DEFAULT NULL::uuid, "limit" integer DEFAULT 50, state text DEFAULT 'current'::text) RETURNS SETOF remem.memory_record LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path TO 'pg_catalog', 'remem', 'pg_temp' SET standard_conforming_strings TO 'on' SET gin_fuzzy_search_limit TO '0';

CREATE FUNCTION remem.list_continuity_phrases(workspace text) RETURNS SETOF remem.planner_word LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path TO 'pg_catalog', 'remem', 'pg_temp' SET standard_conforming_strings TO 'on' SET gin_fuzzy_search_limit TO '0';

CREATE FUNCTION remem.list_generic_words(workspace text) RETURNS SETOF remem.planner_word LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path TO 'pg_catalog', 'remem', 'pg_temp' SET standard_conforming_strings TO 'on' SET gin_fuzzy_search_limit TO '0';

CREATE FUNCTION remem.list_grants(role text DEFAULT NULL::text, workspace text DEFAULT NULL::text) RETURNS SETOF remem.access_grant_record LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path TO 'pg_catalog', 'remem', 'pg_temp' SET standard_conforming_strings TO 'on' SET gin_fuzzy_search_limit TO '0';

CREATE FUNCTION remem.list_providers(workspace text) RETURNS SETOF remem.provider_record LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path TO 'pg_catalog', 'remem', 'pg_temp' SET standard_conforming_strings TO 'on' SET gin_fuzzy_search_limit TO '0';

CREATE FUNCTION remem.list_spaces(workspace text DEFAULT NULL::text) RETURNS SETOF remem.space_status LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path TO 'pg_catalog', 'remem', 'pg_temp' SET standard_conforming_strings TO 'on' SET gin_fuzzy_search_limit TO '0';

CREATE FUNCTION remem.list_topics(workspace text, after uuid DEFAULT NULL::uuid, "limit" integer DEFAULT 100) RETURNS SETOF remem.topic_record LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path TO 'pg_catalog', 'remem', 'pg_temp' SET standard_conforming_strings TO 'on' SET gin_fuzzy_search_limit TO '0';

CREATE FUNCTION remem.list_workspaces(after text DEFAULT NULL::text, "limit" integer DEFAULT 1000) RETURNS SETOF remem.workspace_info LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path TO 'pg_catalog', 'remem', 'pg_temp' SET standard_conforming_strings TO 'on' SET gin_fuzzy_search_limit TO '0';

CREATE FUNCTION remem.log_recall(workspace text, tier text, k integer, returned integer, query text DEFAULT NULL::text, degraded text[] DEFAULT '{}'::text[], arms jsonb DEFAULT '{}'::jsonb, timings jsonb DEFAULT '{}'::jsonb, memory_ids uuid[] DEFAULT '{}'::uuid[], session_ref text DEFAULT NULL::text, log_text boolean DEFAULT false) RETURNS uuid LANGUAGE plpgsql SECURITY DEFINER SET search_path TO 'pg_catalog', 'remem', 'pg_temp' SET standard_conforming_strings TO 'on' SET gin_fuzzy_search_limit TO '0';

CREATE FUNCTION remem.maintain(budget interval DEFAULT '00:00:30'::interval) RETURNS SETOF remem.maintain_row LANGUAGE plpgsql SECURITY DEFINER SET search_path TO 'pg_catalog', 'remem', 'pg_temp' SET jit TO 'off' SET standard_conforming_strings TO 'on' SET gin_fuzzy_search_limit TO '0';

CREATE FUNCTION remem.pin(workspace text, memory_id uuid DEFAULT NULL::uuid, ref text DEFAULT NULL::text) RETURNS remem.memory_ref LANGUAGE plpgsql SECURITY DEFINER SET search_path TO 'pg_catalog', 'remem', 'pg_temp' SET standard_conforming_strings TO 'on' SET gin_fuzzy_search_limit TO '0';

CREATE FUNCTION remem.plan(workspace text, prompt text, prompt_embedding real[] DEFAULT NULL::real[], options jsonb DEFAULT '{}'::jsonb) RETURNS jsonb LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path TO 'pg_catalog', 'remem', 'pg_temp' SET jit TO 'off' SET standard_conforming_strings TO 'on' SET gin_fuzzy_search_limit TO '0';

CREATE FUNCTION remem.purge(workspace text, memory_id uuid DEFAULT NULL::uuid, ref text DEFAULT NULL::text) RETURNS remem.memory_ref LANGUAGE plpgsql SECURITY DEFINER SET search_path TO 'pg_catalog', 'remem', 'pg_temp' SET standard_conforming_strings TO 'on' SET gin_fuzzy_search_limit TO '0';

CREATE FUNCTION remem.purge_forgotten(workspace text, before timestamp with time zone DEFAULT NULL::timestamp with time zone, "limit" integer DEFAULT 1000) RETURNS bigint LANGUAGE plpgsql SECURITY DEFINER SET search_path TO 'pg_catalog', 'remem', 'pg_temp' SET standard_conforming_strings TO 'on' SET gin_fuzzy_search_limit TO '0';

CREATE FUNCTION remem.put_continuity_phrase(workspace text, language text, phrase text) RETURNS void LANGUAGE plpgsql SECURITY DEFINER SET search_path TO 'pg_catalog', 'remem', 'pg_temp' SET standard_conforming_strings TO 'on' SET gin_fuzzy_search_limit TO '0';

CREATE FUNCTION remem.put_generic_word(workspace text, language text, word text) RETURNS void LANGUAGE plpgsql SECURITY DEFINER SET search_path TO 'pg_catalog', 'remem', 'pg_temp' SET standard_conforming_strings TO 'on' SET gin_fuzzy_search_limit TO '0';

CREATE FUNCTION remem.put_plan_setting(workspace text, name text, value jsonb, space text DEFAULT NULL::text) RETURNS void LANGUAGE plpgsql SECURITY DEFINER SET search_path TO 'pg_catalog', 'remem', 'pg_temp' SET standard_conforming_strings TO 'on' SET gin_fuzzy_search_limit TO '0';

CREATE FUNCTION remem.put_provider(workspace text, provider_id text, name text DEFAULT NULL::text, summary text DEFAULT NULL::text, aliases text[] DEFAULT '{}'::text[], categories text[] DEFAULT '{}'::text[], enabled boolean DEFAULT true, result_limit integer DEFAULT NULL::integer, embedding real[] DEFAULT NULL::real[], space text DEFAULT NULL::text) RETURNS void LANGUAGE plpgsql SECURITY DEFINER SET search_path TO 'pg_catalog', 'remem', 'pg_temp' SET standard_conforming_strings TO 'on' SET gin_fuzzy_search_limit TO '0';

CREATE FUNCTION remem.put_provider_embedding(workspace text, provider_id text, embedding real[], text text DEFAULT NULL::text, space text DEFAULT NULL::text) RETURNS boolean LANGUAGE plpgsql SECURITY DEFINER SET search_path TO 'pg_catalog', 'remem', 'pg_temp' SET standard_conforming_strings TO 'on' SET gin_fuzzy_search_limit TO '0';

CREATE FUNCTION remem.put_route(kind text, arms text[], workspace text DEFAULT NULL::text, pool text DEFAULT NULL::text, fallback_pools text[] DEFAULT '{}'::text[], graph_depth integer DEFAULT 1, signals jsonb DEFAULT '{}'::jsonb, keywords text[] DEFAULT '{}'::text[]) RETURNS void LANGUAGE plpgsql SECURITY DEFINER SET search_path TO 'pg_catalog', 'remem', 'pg_temp' SET standard_conforming_strings TO 'on' SET gin_fuzzy_search_limit TO '0';

CREATE FUNCTION remem.put_source_class(name text, trust real, half_life interval DEFAULT NULL::interval, pinned boolean DEFAULT false, description text DEFAULT ''::text) RETURNS void LANGUAGE plpgsql SECURITY DEFINER SET search_path TO 'pg_catalog', 'remem', 'pg_temp' SET standard_conforming_strings TO 'on' SET gin_fuzzy_search_limit TO '0';

CREATE FUNCTION remem.put_topic(workspace text, title text, aliases text[] DEFAULT '{}'::text[], tags text[] DEFAULT '{}'::text[], summary text DEFAULT NULL::text, importance real DEFAULT 0.5, unresolved boolean DEFAULT false, providers text[] DEFAULT '{}'::text[], scope text DEFAULT 'global'::text, scope_ref text DEFAULT NULL::text, parent text DEFAULT NULL::text, freshness text DEFAULT 'current'::text, source text DEFAULT ''::text, embedding real[] DEFAULT NULL::real[], space text DEFAULT NULL::text) RETURNS uuid LANGUAGE plpgsql SECURITY DEFINER SET search_path TO 'pg_catalog', 'remem', 'pg_temp' SET standard_conforming_strings TO 'on' SET gin_fuzzy_search_limit TO '0';

CREATE FUNCTION remem.put_topic_embedding(workspace text, topic_id uuid, embedding real[], text text DEFAULT NULL::text, space text DEFAULT NULL::text) RETURNS boolean LANGUAGE plpgsql SECURITY DEFINER SET search_path TO 'pg_catalog', 'remem', 'pg_temp' SET standard_conforming_strings TO 'on' SET gin_fuzzy_search_limit TO '0';

CREATE FUNCTION remem.rebuild_entities(workspace text, after uuid DEFAULT NULL::uuid, "limit" integer DEFAULT 1000) RETURNS remem.batch_done LANGUAGE plpgsql SECURITY DEFINER SET search_path TO 'pg_catalog', 'remem', 'pg_temp' SET standard_conforming_strings TO 'on' SET gin_fuzzy_search_limit TO '0';

CREATE FUNCTION remem.rebuild_postings(workspace text, after uuid DEFAULT NULL::uuid, "limit" integer DEFAULT 1000) RETURNS remem.batch_done LANGUAGE plpgsql SECURITY DEFINER SET search_path TO 'pg_catalog', 'remem', 'pg_temp' SET standard_conforming_strings TO 'on' SET gin_fuzzy_search_limit TO '0';

CREATE FUNCTION remem.recall(workspace text, query text, query_embedding real[] DEFAULT NULL::real[], k integer DEFAULT 8, options jsonb DEFAULT '{}'::jsonb) RETURNS SETOF remem.recall_hit LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path TO 'pg_catalog', 'remem', 'pg_temp' SET jit TO 'off' SET plan_cache_mode TO 'force_generic_plan' SET standard_conforming_strings TO 'on' SET gin_fuzzy_search_limit TO '0';

CREATE FUNCTION remem.recall_arm(workspace text, query text, arm text, query_embedding real[] DEFAULT NULL::real[], k integer DEFAULT 8, options jsonb DEFAULT '{}'::jsonb) RETURNS jsonb LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path TO 'pg_catalog', 'remem', 'pg_temp' SET jit TO 'off' SET plan_cache_mode TO 'force_generic_plan' SET extra_float_digits TO '1' SET standard_conforming_strings TO 'on' SET gin_fuzzy_search_limit TO '0';

CREATE FUNCTION remem.recall_cached(workspace text, query text, query_embedding real[] DEFAULT NULL::real[], k integer DEFAULT 8, options jsonb DEFAULT '{}'::jsonb) RETURNS jsonb LANGUAGE plpgsql SECURITY DEFINER SET search_path TO 'pg_catalog', 'remem', 'pg_temp' SET jit TO 'off' SET standard_conforming_strings TO 'on' SET gin_fuzzy_search_limit TO '0';

CREATE FUNCTION remem.recall_explain(workspace text, query text, query_embedding real[] DEFAULT NULL::real[], k integer DEFAULT 8, options jsonb DEFAULT '{}'::jsonb) RETURNS jsonb LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path TO 'pg_catalog', 'remem', 'pg_temp' SET jit TO 'off' SET plan_cache_mode TO 'force_generic_plan' SET standard_conforming_strings TO 'on' SET gin_fuzzy_search_limit TO '0';

CREATE FUNCTION remem.recall_from(workspace text, query text, arms jsonb, query_embedding real[] DEFAULT NULL::real[], k integer DEFAULT 8, options jsonb DEFAULT '{}'::jsonb) RETURNS SETOF remem.recall_hit LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path TO 'pg_catalog', 'remem', 'pg_temp' SET jit TO 'off' SET plan_cache_mode TO 'force_generic_plan' SET standard_conforming_strings TO 'on' SET gin_fuzzy_search_limit TO '0';

CREATE FUNCTION remem.recall_from_explain(workspace text, query text, arms jsonb, query_embedding real[] DEFAULT NULL::real[], k integer DEFAULT 8, options jsonb DEFAULT '{}'::jsonb) RETURNS jsonb LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path TO 'pg_catalog', 'remem', 'pg_temp' SET jit TO 'off' SET plan_cache_mode TO 'force_generic_plan' SET standard_conforming_strings TO 'on' SET gin_fuzzy_search_limit TO '0';

CREATE FUNCTION remem.recall_many(workspace text, queries jsonb, k integer DEFAULT 8, options jsonb DEFAULT '{}'::jsonb) RETURNS SETOF remem.recall_many_hit LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path TO 'pg_catalog', 'remem', 'pg_temp' SET jit TO 'off' SET plan_cache_mode TO 'force_generic_plan' SET standard_conforming_strings TO 'on' SET gin_fuzzy_search_limit TO '0';

CREATE FUNCTION remem.reembed(workspace text, "limit" integer DEFAULT 64) RETURNS integer LANGUAGE plpgsql SECURITY DEFINER SET search_path TO 'pg_catalog', 'remem', 'pg_temp' SET standard_conforming_strings TO 'on' SET gin_fuzzy_search_limit TO '0';

CREATE FUNCTION remem.register_space(descriptor jsonb) RETURNS remem.space_info LANGUAGE plpgsql SECURITY DEFINER SET search_path TO 'pg_catalog', 'remem', 'pg_temp' SET standard_conforming_strings TO 'on' SET gin_fuzzy_search_limit TO '0';

CREATE FUNCTION remem.reindex_text(workspace text, budget interval DEFAULT '00:00:01'::interval) RETURNS remem.reindex_report LANGUAGE plpgsql SECURITY DEFINER SET search_path TO 'pg_catalog', 'remem', 'pg_temp' SET standard_conforming_strings TO 'on' SET gin_fuzzy_search_limit TO '0';

CREATE FUNCTION remem.reinforce(workspace text, memory_id uuid DEFAULT NULL::uuid, ref text DEFAULT NULL::text, strength real DEFAULT 0.5) RETURNS remem.memory_ref LANGUAGE plpgsql SECURITY DEFINER SET search_path TO 'pg_catalog', 'remem', 'pg_temp' SET standard_conforming_strings TO 'on' SET gin_fuzzy_search_limit TO '0';

CREATE FUNCTION remem.relate(workspace text, src uuid, dst uuid, kind text DEFAULT 'related'::text, weight real DEFAULT 1, provenance text DEFAULT 'verified'::text) RETURNS boolean LANGUAGE plpgsql SECURITY DEFINER SET search_path TO 'pg_catalog', 'remem', 'pg_temp' SET standard_conforming_strings TO 'on' SET gin_fuzzy_search_limit TO '0';

CREATE FUNCTION remem.release_claims(workspace text, claim_id uuid DEFAULT NULL::uuid, run_id uuid DEFAULT NULL::uuid) RETURNS integer LANGUAGE plpgsql SECURITY DEFINER SET search_path TO 'pg_catalog', 'remem', 'pg_temp' SET standard_conforming_strings TO 'on' SET gin_fuzzy_search_limit TO '0';

CREATE FUNCTION remem.remember(workspace text, body text, ref text DEFAULT NULL::text, kind text DEFAULT 'semantic'::text, title text DEFAULT NULL::text, summary text DEFAULT NULL::text, tags text[] DEFAULT NULL::text[], aliases text[] DEFAULT NULL::text[], scope text DEFAULT 'global'::text, scope_ref text DEFAULT NULL::text, topic_key text DEFAULT NULL::text, subject text DEFAULT NULL::text, attribute text DEFAULT NULL::text, source_class text DEFAULT NULL::text, source_ref text DEFAULT NULL::text, importance real DEFAULT NULL::real, confidence real DEFAULT NULL::real, pinned boolean DEFAULT false, unresolved boolean DEFAULT false, session_ref text DEFAULT NULL::text, turn_no integer DEFAULT NULL::integer, speaker text DEFAULT NULL::text, occurred_at timestamp with time zone DEFAULT NULL::timestamp with time zone, valid_from timestamp with time zone DEFAULT NULL::timestamp with time zone, valid_to timestamp with time zone DEFAULT NULL::timestamp with time zone, entities text[] DEFAULT NULL::text[], metadata jsonb DEFAULT NULL::jsonb, embedding real[] DEFAULT NULL::real[], on_conflict text DEFAULT 'new_version'::text, space text DEFAULT NULL::text) RETURNS remem.memory_ref LANGUAGE plpgsql SECURITY DEFINER SET search_path TO 'pg_catalog', 'remem', 'pg_temp' SET extra_float_digits TO '1' SET standard_conforming_strings TO 'on' SET gin_fuzzy_search_limit TO '0';

CREATE FUNCTION remem.remember_many(workspace text, items jsonb, on_error text DEFAULT 'abort'::text) RETURNS SETOF remem.memory_ref LANGUAGE plpgsql SECURITY DEFINER SET search_path TO 'pg_catalog', 'remem', 'pg_temp' SET standard_conforming_strings TO 'on' SET gin_fuzzy_search_limit TO '0';

CREATE FUNCTION remem.remember_staged(workspace text, on_error text DEFAULT 'abort'::text) RETURNS SETOF remem.memory_ref LANGUAGE plpgsql SECURITY DEFINER SET search_path TO 'pg_catalog', 'remem', 'pg_temp' SET standard_conforming_strings TO 'on' SET gin_fuzzy_search_limit TO '0';

CREATE FUNCTION remem.render(workspace text, hits remem.recall_hit[], format text DEFAULT 'compact'::text, budget_bytes integer DEFAULT 4000) RETURNS text LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path TO 'pg_catalog', 'remem', 'pg_temp' SET standard_conforming_strings TO 'on' SET gin_fuzzy_search_limit TO '0';

CREATE FUNCTION remem.resolve(workspace text, memory_id uuid DEFAULT NULL::uuid, ref text DEFAULT NULL::text) RETURNS remem.memory_ref LANGUAGE plpgsql SECURITY DEFINER SET search_path TO 'pg_catalog', 'remem', 'pg_temp' SET standard_conforming_strings TO 'on' SET gin_fuzzy_search_limit TO '0';

CREATE FUNCTION remem.retry_embeddings(workspace text, space text DEFAULT NULL::text) RETURNS integer LANGUAGE plpgsql SECURITY DEFINER SET search_path TO 'pg_catalog', 'remem', 'pg_temp' SET standard_conforming_strings TO 'on' SET gin_fuzzy_search_limit TO '0';

CREATE FUNCTION remem.revoke_access(role text, workspace text DEFAULT NULL::text) RETURNS boolean LANGUAGE plpgsql SECURITY DEFINER SET search_path TO 'pg_catalog', 'remem', 'pg_temp' SET standard_conforming_strings TO 'on' SET gin_fuzzy_search_limit TO '0';

CREATE FUNCTION remem.route_of(workspace text, query text, options jsonb DEFAULT '{}'::jsonb) RETURNS jsonb LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path TO 'pg_catalog', 'remem', 'pg_temp' SET standard_conforming_strings TO 'on' SET gin_fuzzy_search_limit TO '0';

CREATE FUNCTION remem.set_freshness(workspace text, freshness text, memory_id uuid DEFAULT NULL::uuid, ref text DEFAULT NULL::text) RETURNS remem.memory_ref LANGUAGE plpgsql SECURITY DEFINER SET search_path TO 'pg_catalog', 'remem', 'pg_temp' SET standard_conforming_strings TO 'on' SET gin_fuzzy_search_limit TO '0';

CREATE FUNCTION remem.set_importance(workspace text, importance real, memory_id uuid DEFAULT NULL::uuid, ref text DEFAULT NULL::text) RETURNS remem.memory_ref LANGUAGE plpgsql SECURITY DEFINER SET search_path TO 'pg_catalog', 'remem', 'pg_temp' SET standard_conforming_strings TO 'on' SET gin_fuzzy_search_limit TO '0';

CREATE FUNCTION remem.set_language(workspace text, language text) RETURNS boolean LANGUAGE plpgsql SECURITY DEFINER SET search_path TO 'pg_catalog', 'remem', 'pg_temp' SET standard_conforming_strings TO 'on' SET gin_fuzzy_search_limit TO '0';

CREATE FUNCTION remem.space_index(workspace text) RETURNS jsonb LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path TO 'pg_catalog', 'remem', 'pg_temp' SET standard_conforming_strings TO 'on' SET gin_fuzzy_search_limit TO '0';

CREATE FUNCTION remem.stage(workspace text) RETURNS text LANGUAGE plpgsql SECURITY DEFINER SET search_path TO 'pg_catalog', 'remem', 'pg_temp' SET standard_conforming_strings TO 'on' SET gin_fuzzy_search_limit TO '0';

CREATE FUNCTION remem.start_reembed(workspace text, space text) RETURNS remem.embedding_coverage LANGUAGE plpgsql SECURITY DEFINER SET search_path TO 'pg_catalog', 'remem', 'pg_temp' SET standard_conforming_strings TO 'on' SET gin_fuzzy_search_limit TO '0';

CREATE FUNCTION remem.supersede(workspace text, old uuid, new uuid, reason text DEFAULT NULL::text) RETURNS remem.memory_ref LANGUAGE plpgsql SECURITY DEFINER SET search_path TO 'pg_catalog', 'remem', 'pg_temp' SET standard_conforming_strings TO 'on' SET gin_fuzzy_search_limit TO '0';

CREATE FUNCTION remem.topic_memories(workspace text, topic_ids uuid[], k integer DEFAULT 8, options jsonb DEFAULT '{}'::jsonb) RETURNS jsonb LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path TO 'pg_catalog', 'remem', 'pg_temp' SET jit TO 'off' SET standard_conforming_strings TO 'on' SET gin_fuzzy_search_limit TO '0';

CREATE FUNCTION remem.unforget(workspace text, memory_id uuid DEFAULT NULL::uuid, ref text DEFAULT NULL::text) RETURNS remem.memory_ref LANGUAGE plpgsql SECURITY DEFINER SET search_path TO 'pg_catalog', 'remem', 'pg_temp' SET standard_conforming_strings TO 'on' SET gin_fuzzy_search_limit TO '0';

CREATE FUNCTION remem.unpin(workspace text, memory_id uuid DEFAULT NULL::uuid, ref text DEFAULT NULL::text) RETURNS remem.memory_ref LANGUAGE plpgsql SECURITY DEFINER SET search_path TO 'pg_catalog', 'remem', 'pg_temp' SET standard_conforming_strings TO 'on' SET gin_fuzzy_search_limit TO '0';

CREATE FUNCTION remem.unrelate(workspace text, src uuid, dst uuid, kind text DEFAULT NULL::text) RETURNS boolean LANGUAGE plpgsql SECURITY DEFINER SET search_path TO 'pg_catalog', 'remem', 'pg_temp' SET standard_conforming_strings TO 'on' SET gin_fuzzy_search_limit TO '0';

CREATE FUNCTION remem.version() RETURNS jsonb LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path TO 'pg_catalog', 'remem', 'pg_temp' SET standard_conforming_strings TO 'on' SET gin_fuzzy_search_limit TO '0';

CREATE TABLE remem.continuity_phrase (
    workspace text NOT NULL COLLATE pg_catalog."C",
    language text NOT NULL COLLATE pg_catalog."C",
    phrase text NOT NULL COLLATE pg_catalog."C"
);

COMMENT ON TABLE remem.continuity_phrase IS 'Phrases by which a prompt refers to earlier work, by language.';

CREATE TABLE remem.embedding_1 (
    workspace text NOT NULL COLLATE pg_catalog."C",
    memory_no bigint NOT NULL,
    embedding public.halfvec(384) NOT NULL
);
ALTER TABLE ONLY remem.embedding_1 ALTER COLUMN embedding SET STORAGE MAIN;

COMMENT ON TABLE remem.embedding_1 IS 'Vectors of the built-in hash space, live rows only; never updated in place.';

CREATE TABLE remem.embedding_1_past (
    workspace text CONSTRAINT embedding_1_workspace_not_null NOT NULL COLLATE pg_catalog."C",
    memory_no bigint CONSTRAINT embedding_1_memory_no_not_null NOT NULL,
    embedding public.halfvec(384) CONSTRAINT embedding_1_embedding_not_null NOT NULL
);
ALTER TABLE ONLY remem.embedding_1_past ALTER COLUMN embedding SET STORAGE MAIN;

COMMENT ON TABLE remem.embedding_1_past IS 'Vectors of superseded and forgotten rows; read only by as_of.';

CREATE TABLE remem.embedding_cursor (
    workspace text NOT NULL COLLATE pg_catalog."C",
    space_no integer NOT NULL,
    up_to bigint NOT NULL
);

COMMENT ON TABLE remem.embedding_cursor IS 'How far the claims of a space have come; a hint, corrected by counting.';

CREATE TABLE remem.tally (
    workspace text NOT NULL COLLATE pg_catalog."C",
    space_no integer NOT NULL,
    rows_delta bigint NOT NULL,
    doc_len_delta bigint DEFAULT 0 NOT NULL,
    changed_xid xid8 DEFAULT pg_current_xact_id()
);

COMMENT ON TABLE remem.tally IS 'Append-only counts of live memories, their length and their vectors; writers fold it.';

CREATE VIEW remem.embedding_progress WITH (security_invoker='true') AS
 SELECT w.workspace,
    s.space_no,
    s.name AS space,
    (s.space_no = w.space_no) AS current,
    m.memories,
    v.vectors,
    GREATEST((((m.memories - v.vectors) - COALESCE(c.empty, (0)::bigint)) - COALESCE(c.set_aside, (0)::bigint)), (0)::bigint) AS pending,
    COALESCE(c.claimed, (0)::bigint) AS claimed,
    COALESCE(c.waiting, (0)::bigint) AS waiting,
    COALESCE(c.set_aside, (0)::bigint) AS set_aside,
    COALESCE(c.empty, (0)::bigint) AS empty,
        CASE
            WHEN (m.memories > 0) THEN LEAST((((v.vectors + COALESCE(c.empty, (0)::bigint)))::double precision / (m.memories)::double precision), (1)::double precision)
            ELSE NULL::double precision
        END AS coverage
   FROM ((((remem.workspace w
     JOIN remem.embedding_space s ON (((s.space_no = w.space_no) OR (s.space_no = w.next_space_no))))
     CROSS JOIN LATERAL ( SELECT (COALESCE(sum(t.rows_delta), (0)::numeric))::bigint AS memories
           FROM remem.tally t
          WHERE ((t.workspace = w.workspace) AND (t.space_no = 0))) m)
     CROSS JOIN LATERAL ( SELECT (COALESCE(sum(t.rows_delta), (0)::numeric))::bigint AS vectors
           FROM remem.tally t
          WHERE ((t.workspace = w.workspace) AND (t.space_no = s.space_no))) v)
     LEFT JOIN ( SELECT c_1.workspace,
            c_1.space_no,
            count(*) FILTER (WHERE ((c_1.state = 'claimed'::text) AND (c_1.due_at > now()))) AS claimed,
            count(*) FILTER (WHERE ((c_1.state = 'waiting'::text) OR ((c_1.state = 'claimed'::text) AND (c_1.due_at <= now())))) AS waiting,
            count(*) FILTER (WHERE (c_1.state = 'set_aside'::text)) AS set_aside,
            count(*) FILTER (WHERE (c_1.state = 'empty'::text)) AS empty
           FROM remem.embedding_claim c_1
          WHERE (c_1.kind = 'memory'::text)
          GROUP BY c_1.workspace, c_1.space_no) c ON (((c.workspace = w.workspace) AND (c.space_no = s.space_no))));

COMMENT ON VIEW remem.embedding_progress IS 'How far the vectors of each workspace are, in its current space and in the one it moves to: memories, vectors, pending (no vector yet, of which claimed are being embedded and waiting are tried again), set_aside after too many failures, empty (texts without a direction, which need none), coverage from 0 to 1. Of memories; embedding_backlog counts topics and providers too.';

CREATE SEQUENCE remem.embedding_space_no_seq
    AS integer
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1;

ALTER SEQUENCE remem.embedding_space_no_seq OWNED BY remem.embedding_space.space_no;

CREATE TABLE remem.entity_alias (
    workspace text NOT NULL COLLATE pg_catalog."C",
    name text NOT NULL COLLATE pg_catalog."C",
    other text NOT NULL COLLATE pg_catalog."C",
    memory_no bigint NOT NULL
);

COMMENT ON TABLE remem.entity_alias IS 'Names that live memories declare to mean the same, in both directions.';

CREATE TABLE remem.forgotten (
    workspace text NOT NULL COLLATE pg_catalog."C",
    memory_no bigint NOT NULL,
    ref text COLLATE pg_catalog."C",
    fingerprint bytea NOT NULL,
    session_no integer,
    turn_no integer,
    forgotten_at timestamp with time zone NOT NULL,
    forgotten_by name NOT NULL,
    reason text
);

COMMENT ON TABLE remem.forgotten IS 'Forgotten memories: who forgot them, when and why; one row per memory with forgotten_at.';

CREATE TABLE remem.frequent_word (
    workspace_key bigint NOT NULL,
    word bigint NOT NULL,
    memories bigint NOT NULL
);

COMMENT ON TABLE remem.frequent_word IS 'Words that many live memories of a workspace hold, and how many; a statistic, renewed by count_words.';

CREATE TABLE remem.generic_word (
    workspace text NOT NULL COLLATE pg_catalog."C",
    language text NOT NULL COLLATE pg_catalog."C",
    word text NOT NULL COLLATE pg_catalog."C"
);

COMMENT ON TABLE remem.generic_word IS 'Words that say nothing about a topic: routing words and function words, by language.';

CREATE VIEW remem.index_health WITH (security_invoker='true') AS
 SELECT t.relname AS "table",
    c.relname AS index,
    a.amname AS method,
    s.name AS space,
        CASE
            WHEN (i.indisvalid AND i.indisready) THEN 'valid'::text
            WHEN (p.pid IS NOT NULL) THEN 'building'::text
            ELSE 'invalid'::text
        END AS state,
    COALESCE(u.idx_scan, (0)::bigint) AS scans,
    (GREATEST(c.reltuples, (0)::real))::bigint AS entries,
    pg_relation_size((c.oid)::regclass) AS bytes,
    pg_table_size((t.oid)::regclass) AS table_bytes,
        CASE
            WHEN (p.tuples_total > 0) THEN round(((100.0 * (p.tuples_done)::numeric) / (p.tuples_total)::numeric), 1)
            ELSE NULL::numeric
        END AS building_percent
   FROM (((((((pg_index i
     JOIN pg_class c ON ((c.oid = i.indexrelid)))
     JOIN pg_class t ON ((t.oid = i.indrelid)))
     JOIN pg_namespace n ON (((n.oid = t.relnamespace) AND (n.nspname = 'remem'::name))))
     JOIN pg_am a ON ((a.oid = c.relam)))
     LEFT JOIN remem.embedding_space s ON ((t.relname = ('embedding_'::text || s.space_no))))
     LEFT JOIN pg_stat_all_indexes u ON ((u.indexrelid = i.indexrelid)))
     LEFT JOIN pg_stat_progress_create_index p ON ((p.index_relid = i.indexrelid)));

COMMENT ON VIEW remem.index_health IS 'Every index of the schema: valid, invalid (a build that failed) or building (with how far it is), how often this server has used it since its statistics were reset, entries, sizes in bytes; space for the tables of vectors.';

CREATE TABLE remem.job_run (
    workspace text NOT NULL COLLATE pg_catalog."C",
    run_id uuid NOT NULL,
    kind text NOT NULL COLLATE pg_catalog."C",
    state text NOT NULL COLLATE pg_catalog."C",
    space_no integer,
    claimed bigint DEFAULT 0 NOT NULL,
    embedded bigint DEFAULT 0 NOT NULL,
    failed bigint DEFAULT 0 NOT NULL,
    last_error text,
    metadata jsonb DEFAULT '{}'::jsonb NOT NULL,
    started_at timestamp with time zone DEFAULT now() NOT NULL,
    updated_at timestamp with time zone DEFAULT now() NOT NULL,
    lease_until timestamp with time zone,
    completed_at timestamp with time zone,
    CONSTRAINT job_run_kind CHECK ((kind = ANY (ARRAY['embedding-reembed'::text, 'space-activation'::text, 'text-reindex'::text]))),
    CONSTRAINT job_run_state CHECK ((state = ANY (ARRAY['started'::text, 'completed'::text, 'failed'::text])))
);

COMMENT ON TABLE remem.job_run IS 'Runs of jobs (embedding, switches of space, text analysis): counts, last error, no texts.';

CREATE TABLE remem.maintenance_run (
    started_at timestamp with time zone DEFAULT now() NOT NULL,
    run_id uuid DEFAULT gen_random_uuid() NOT NULL,
    caller name NOT NULL,
    finished boolean NOT NULL,
    rows jsonb NOT NULL,
    seconds real NOT NULL
);

COMMENT ON TABLE remem.maintenance_run IS 'The latest calls of remem.maintain; append-only, the oldest are pruned.';

CREATE TABLE remem.memory_entity (
    workspace text NOT NULL COLLATE pg_catalog."C",
    name text NOT NULL COLLATE pg_catalog."C",
    memory_no bigint NOT NULL,
    given boolean NOT NULL
);

COMMENT ON TABLE remem.memory_entity IS 'Which live memories name whom and what: people, identifiers, paths, tags.';

ALTER TABLE remem.memory ALTER COLUMN memory_no ADD GENERATED BY DEFAULT AS IDENTITY (
    SEQUENCE NAME remem.memory_memory_no_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);

CREATE TABLE remem.plan_setting (
    workspace text NOT NULL COLLATE pg_catalog."C",
    space_no integer NOT NULL,
    name text NOT NULL COLLATE pg_catalog."C",
    value jsonb NOT NULL
);

COMMENT ON TABLE remem.plan_setting IS 'Thresholds and limits of the planner that differ from the defaults, by workspace and space.';

CREATE TABLE remem.posting (
    workspace_key bigint NOT NULL,
    word bigint NOT NULL,
    memory_no bigint NOT NULL,
    session_no integer,
    doc_len smallint NOT NULL,
    tf smallint NOT NULL
);

COMMENT ON TABLE remem.posting IS 'Inverted index of live memories: one row per memory and distinct lexeme.';

CREATE TABLE remem.posting_past (
    workspace_key bigint CONSTRAINT posting_workspace_key_not_null NOT NULL,
    word bigint CONSTRAINT posting_word_not_null NOT NULL,
    memory_no bigint CONSTRAINT posting_memory_no_not_null NOT NULL,
    session_no integer,
    doc_len smallint CONSTRAINT posting_doc_len_not_null NOT NULL,
    tf smallint CONSTRAINT posting_tf_not_null NOT NULL
);

COMMENT ON TABLE remem.posting_past IS 'Postings of superseded and forgotten memories; read only by as_of.';

CREATE TABLE remem.provider_embedding (
    workspace text NOT NULL COLLATE pg_catalog."C",
    space_no integer NOT NULL,
    provider_id text NOT NULL COLLATE pg_catalog."C",
    embedding public.halfvec NOT NULL
);
ALTER TABLE ONLY remem.provider_embedding ALTER COLUMN embedding SET STORAGE MAIN;

COMMENT ON TABLE remem.provider_embedding IS 'Vectors of provider descriptors, one for each space.';

CREATE UNLOGGED TABLE remem.query_cache (
    workspace text NOT NULL COLLATE pg_catalog."C",
    key bytea NOT NULL,
    scope_key bytea NOT NULL,
    query_embedding public.vector,
    answer jsonb NOT NULL,
    snapshot pg_snapshot NOT NULL,
    made_at timestamp with time zone DEFAULT now() NOT NULL,
    expires_at timestamp with time zone NOT NULL
);

COMMENT ON TABLE remem.query_cache IS 'Answers of recall_cached; never served after the workspace changed.';

CREATE TABLE remem.recall_day (
    workspace text NOT NULL COLLATE pg_catalog."C",
    day date NOT NULL,
    tier text NOT NULL COLLATE pg_catalog."C",
    recalls bigint NOT NULL,
    empty bigint NOT NULL,
    degraded bigint NOT NULL,
    failed bigint NOT NULL,
    p50_ms real,
    p95_ms real,
    max_ms real
);

COMMENT ON TABLE remem.recall_day IS 'recall_log by day and tier: counts and latency; written by remem.maintain.';

CREATE TABLE remem.recall_log (
    workspace text NOT NULL COLLATE pg_catalog."C",
    at timestamp with time zone DEFAULT now() NOT NULL,
    recall_id uuid DEFAULT gen_random_uuid() NOT NULL,
    tier text NOT NULL,
    caller name NOT NULL,
    session_ref text,
    k integer NOT NULL,
    returned integer NOT NULL,
    query_hash bytea NOT NULL,
    query_text text,
    degraded text[] DEFAULT '{}'::text[] NOT NULL,
    arms jsonb DEFAULT '{}'::jsonb NOT NULL,
    timings jsonb DEFAULT '{}'::jsonb NOT NULL,
    memory_ids uuid[] DEFAULT '{}'::uuid[] NOT NULL
);

COMMENT ON TABLE remem.recall_log IS 'One row per recall: tier, counts, arm states, milliseconds per stage; no text unless asked for.';

CREATE VIEW remem.recall_latency WITH (security_invoker='true') AS
 SELECT w.workspace,
    l.tier,
    count(*) AS recalls,
    count(*) FILTER (WHERE (l.returned = 0)) AS empty,
    count(*) FILTER (WHERE (l.degraded <> '{}'::text[])) AS degraded,
    round((percentile_cont((0.5)::double precision) WITHIN GROUP (ORDER BY l.ms))::numeric, 2) AS p50_ms,
    round((percentile_cont((0.95)::double precision) WITHIN GROUP (ORDER BY l.ms))::numeric, 2) AS p95_ms,
    round((max(l.ms))::numeric, 2) AS max_ms,
    max(l.at) AS last_at
   FROM (remem.workspace w
     CROSS JOIN LATERAL ( SELECT r.tier,
            r.returned,
            r.degraded,
            r.at,
            (round(LEAST(GREATEST(((r.timings ->> 'total'::text))::numeric, (0)::numeric), '1000000000'::numeric), 3))::double precision AS ms
           FROM remem.recall_log r
          WHERE ((r.workspace = w.workspace) AND (r.at > (now() - '1 day'::interval)))) l)
  GROUP BY w.workspace, l.tier;

COMMENT ON VIEW remem.recall_latency IS 'The logged recalls of the last 24 hours by workspace and tier (hot, warm, cold): how many, without a hit, degraded, and their time in milliseconds. Former days: remem.recall_day.';

CREATE TABLE remem.schema_migration (
    version integer NOT NULL,
    name text NOT NULL,
    sha256 text NOT NULL,
    applied_at timestamp with time zone DEFAULT now() NOT NULL,
    applied_by name DEFAULT CURRENT_USER NOT NULL
);

COMMENT ON TABLE remem.schema_migration IS 'Which run-once migrations this database has, with the checksum of each.';

ALTER TABLE remem.session ALTER COLUMN session_no ADD GENERATED BY DEFAULT AS IDENTITY (
    SEQUENCE NAME remem.session_session_no_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);

CREATE TABLE remem.setting (
    name text NOT NULL COLLATE pg_catalog."C",
    value text NOT NULL,
    updated_at timestamp with time zone DEFAULT now() NOT NULL
);

COMMENT ON TABLE remem.setting IS 'Database-wide settings; written by remem.configure and the installer.';

CREATE TABLE remem.source_class (
    name text NOT NULL COLLATE pg_catalog."C",
    trust real NOT NULL,
    half_life interval,
    pinned boolean DEFAULT false NOT NULL,
    description text DEFAULT ''::text NOT NULL,
    CONSTRAINT source_class_trust CHECK (((trust >= (0)::double precision) AND (trust <= (1)::double precision)))
);

COMMENT ON TABLE remem.source_class IS 'How far a source is trusted and how fast that trust decays; half_life null means never.';

CREATE VIEW remem.status WITH (security_invoker='true') AS
 SELECT ( SELECT s.value
           FROM remem.setting s
          WHERE (s.name = 'version'::text)) AS version,
    current_setting('server_version'::text) AS postgres,
    ( SELECT e.extversion
           FROM pg_extension e
          WHERE (e.extname = 'vector'::name)) AS pgvector,
    pg_is_in_recovery() AS standby,
    ( SELECT s.value
           FROM remem.setting s
          WHERE (s.name = 'tenant_mode'::text)) AS tenant_mode,
    ( SELECT s.name
           FROM (remem.setting d
             JOIN remem.embedding_space s ON ((s.space_no = (d.value)::integer)))
          WHERE (d.name = 'default_space'::text)) AS default_space,
    ( SELECT count(*) AS count
           FROM remem.workspace) AS workspaces,
    ( SELECT (COALESCE(sum(t.rows_delta), (0)::numeric))::bigint AS "coalesce"
           FROM remem.tally t
          WHERE (t.space_no = 0)) AS memories,
    ( SELECT (COALESCE(sum(p.pending), (0)::numeric))::bigint AS "coalesce"
           FROM remem.embedding_progress p
          WHERE ((p.space_no <> 1) OR (NOT p.current))) AS pending,
    ( SELECT count(*) AS count
           FROM remem.embedding_claim c
          WHERE (c.state = 'set_aside'::text)) AS set_aside,
    ( SELECT count(*) AS count
           FROM remem.workspace w
          WHERE (EXISTS ( SELECT
                   FROM remem.job_run r
                  WHERE ((r.workspace = w.workspace) AND (r.state = 'started'::text) AND ((r.lease_until IS NULL) OR (r.lease_until > now())))))) AS jobs_running,
    ( SELECT max(m.started_at) AS max
           FROM remem.maintenance_run m) AS maintained_at,
    ( SELECT (COALESCE(sum(pg_total_relation_size((c.oid)::regclass)), (0)::numeric))::bigint AS "coalesce"
           FROM pg_class c
          WHERE ((c.relnamespace = ('remem'::regnamespace)::oid) AND (c.relkind = 'r'::"char"))) AS bytes,
    ( SELECT (COALESCE(sum(pg_relation_size((c.oid)::regclass)), (0)::numeric))::bigint AS "coalesce"
           FROM pg_class c
          WHERE ((c.relnamespace = ('remem'::regnamespace)::oid) AND (c.relkind = 'i'::"char") AND (c.relname ~ '^embedding_[0-9]+_hnsw_idx$'::text))) AS vector_index_bytes;

COMMENT ON VIEW remem.status IS 'The database in one row: versions, mode, how many workspaces and memories, how many memories wait for their vector or were set aside, workspaces with a job at work, the last remem.maintain, sizes in bytes.';

CREATE TABLE remem.topic_embedding (
    workspace text NOT NULL COLLATE pg_catalog."C",
    space_no integer NOT NULL,
    topic_no bigint NOT NULL,
    owner text NOT NULL COLLATE pg_catalog."C",
    embedding public.halfvec NOT NULL,
    title_embedding public.halfvec
);
ALTER TABLE ONLY remem.topic_embedding ALTER COLUMN embedding SET STORAGE MAIN;

COMMENT ON TABLE remem.topic_embedding IS 'Vectors of topics, one for each space that they were embedded in.';

CREATE TABLE remem.topic_token (
    workspace text NOT NULL COLLATE pg_catalog."C",
    token text NOT NULL COLLATE pg_catalog."C",
    topic_no bigint NOT NULL,
    place smallint NOT NULL,
    size smallint NOT NULL,
    owner text NOT NULL COLLATE pg_catalog."C"
);

COMMENT ON TABLE remem.topic_token IS 'Which topics have a word, and where: title, alias, tags or summary.';

ALTER TABLE remem.topic ALTER COLUMN topic_no ADD GENERATED BY DEFAULT AS IDENTITY (
    SEQUENCE NAME remem.topic_topic_no_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);

ALTER TABLE ONLY remem.access_grant
    ADD CONSTRAINT access_grant_pkey PRIMARY KEY (workspace, role_oid);

ALTER TABLE ONLY remem.continuity_phrase
    ADD CONSTRAINT continuity_phrase_pkey PRIMARY KEY (workspace, phrase, language);

ALTER TABLE ONLY remem.embedding_1_past
    ADD CONSTRAINT embedding_1_past_pkey PRIMARY KEY (workspace, memory_no);

ALTER TABLE ONLY remem.embedding_1
    ADD CONSTRAINT embedding_1_pkey PRIMARY KEY (workspace, memory_no);

ALTER TABLE ONLY remem.embedding_claim
    ADD CONSTRAINT embedding_claim_pkey PRIMARY KEY (workspace, space_no, kind, source);

ALTER TABLE ONLY remem.embedding_cursor
    ADD CONSTRAINT embedding_cursor_pkey PRIMARY KEY (workspace, space_no);

ALTER TABLE ONLY remem.embedding_space
    ADD CONSTRAINT embedding_space_fingerprint_key UNIQUE (fingerprint);

ALTER TABLE ONLY remem.embedding_space
    ADD CONSTRAINT embedding_space_name_key UNIQUE (name);

ALTER TABLE ONLY remem.embedding_space
    ADD CONSTRAINT embedding_space_pkey PRIMARY KEY (space_no);

ALTER TABLE ONLY remem.entity_alias
    ADD CONSTRAINT entity_alias_pkey PRIMARY KEY (workspace, name, other, memory_no);

ALTER TABLE ONLY remem.forgotten
    ADD CONSTRAINT forgotten_pkey PRIMARY KEY (workspace, memory_no);

ALTER TABLE ONLY remem.frequent_word
    ADD CONSTRAINT frequent_word_pkey PRIMARY KEY (workspace_key, word);

ALTER TABLE ONLY remem.generic_word
    ADD CONSTRAINT generic_word_pkey PRIMARY KEY (workspace, word, language);

ALTER TABLE ONLY remem.job_run
    ADD CONSTRAINT job_run_pkey PRIMARY KEY (workspace, run_id);

ALTER TABLE ONLY remem.lineage
    ADD CONSTRAINT lineage_pkey PRIMARY KEY (workspace, old_no);

ALTER TABLE ONLY remem.maintenance_run
    ADD CONSTRAINT maintenance_run_pkey PRIMARY KEY (started_at, run_id);

ALTER TABLE ONLY remem.memory_entity
    ADD CONSTRAINT memory_entity_pkey PRIMARY KEY (workspace, name, memory_no) INCLUDE (given);

ALTER TABLE ONLY remem.memory
    ADD CONSTRAINT memory_pkey PRIMARY KEY (workspace, memory_no);

ALTER TABLE ONLY remem.plan_setting
    ADD CONSTRAINT plan_setting_pkey PRIMARY KEY (workspace, space_no, name);

ALTER TABLE ONLY remem.posting_past
    ADD CONSTRAINT posting_past_pkey PRIMARY KEY (workspace_key, word, memory_no);

ALTER TABLE ONLY remem.posting
    ADD CONSTRAINT posting_pkey PRIMARY KEY (workspace_key, word, memory_no) INCLUDE (session_no, doc_len, tf);

ALTER TABLE ONLY remem.provider_embedding
    ADD CONSTRAINT provider_embedding_pkey PRIMARY KEY (workspace, space_no, provider_id);

ALTER TABLE ONLY remem.provider
    ADD CONSTRAINT provider_pkey PRIMARY KEY (workspace, provider_id);

ALTER TABLE ONLY remem.recall_day
    ADD CONSTRAINT recall_day_pkey PRIMARY KEY (workspace, day, tier);

ALTER TABLE ONLY remem.recall_log
    ADD CONSTRAINT recall_log_pkey PRIMARY KEY (workspace, at, recall_id);

ALTER TABLE ONLY remem.relation
    ADD CONSTRAINT relation_pkey PRIMARY KEY (workspace, src_no, kind, dst_no);

ALTER TABLE ONLY remem.route
    ADD CONSTRAINT route_pkey PRIMARY KEY (workspace, kind);

ALTER TABLE ONLY remem.schema_migration
    ADD CONSTRAINT schema_migration_pkey PRIMARY KEY (version);

ALTER TABLE ONLY remem.session
    ADD CONSTRAINT session_pkey PRIMARY KEY (workspace, session_no);

ALTER TABLE ONLY remem.session
    ADD CONSTRAINT session_ref_unique UNIQUE (workspace, session_ref);

ALTER TABLE ONLY remem.setting
    ADD CONSTRAINT setting_pkey PRIMARY KEY (name);

ALTER TABLE ONLY remem.source_class
    ADD CONSTRAINT source_class_pkey PRIMARY KEY (name);

ALTER TABLE ONLY remem.tombstone
    ADD CONSTRAINT tombstone_pkey PRIMARY KEY (workspace, memory_id);

ALTER TABLE ONLY remem.topic_embedding
    ADD CONSTRAINT topic_embedding_pkey PRIMARY KEY (workspace, space_no, topic_no);

ALTER TABLE ONLY remem.topic
    ADD CONSTRAINT topic_pkey PRIMARY KEY (workspace, topic_no);

ALTER TABLE ONLY remem.topic_token
    ADD CONSTRAINT topic_token_pkey PRIMARY KEY (workspace, token, topic_no, place) INCLUDE (size, owner);

ALTER TABLE ONLY remem.workspace
    ADD CONSTRAINT workspace_key_unique UNIQUE (workspace_key);

ALTER TABLE ONLY remem.workspace
    ADD CONSTRAINT workspace_pkey PRIMARY KEY (workspace);

CREATE INDEX embedding_1_hnsw_idx ON remem.embedding_1 USING hnsw (embedding public.halfvec_cosine_ops);

CREATE INDEX embedding_claim_claim_id_idx ON remem.embedding_claim USING btree (workspace, claim_id, item_no) WHERE (claim_id IS NOT NULL);

CREATE INDEX embedding_claim_due_at_idx ON remem.embedding_claim USING btree (workspace, space_no, due_at);

CREATE INDEX entity_alias_memory_idx ON remem.entity_alias USING btree (workspace, memory_no);

CREATE INDEX forgotten_fingerprint_idx ON remem.forgotten USING btree (workspace, fingerprint);

CREATE INDEX forgotten_ref_idx ON remem.forgotten USING btree (workspace, ref) WHERE (ref IS NOT NULL);

CREATE INDEX job_run_state_idx ON remem.job_run USING btree (workspace, state, started_at DESC);

CREATE INDEX lineage_fingerprint_idx ON remem.lineage USING btree (workspace, fingerprint) WHERE ((ref IS NULL) AND (how <> 'new_version'::text));

CREATE INDEX lineage_new_no_idx ON remem.lineage USING btree (workspace, new_no);

CREATE INDEX lineage_ref_idx ON remem.lineage USING btree (workspace, ref) WHERE ((ref IS NOT NULL) AND (how <> 'new_version'::text));

CREATE INDEX memory_attrs_idx ON remem.memory USING gin (attrs jsonb_path_ops);

CREATE INDEX memory_changed_xid_idx ON remem.memory USING btree (workspace, changed_xid);

CREATE INDEX memory_entity_memory_idx ON remem.memory_entity USING btree (workspace, memory_no);

CREATE INDEX memory_fingerprint_idx ON remem.memory USING btree (workspace, fingerprint) WHERE ((superseded_at IS NULL) AND (forgotten_at IS NULL));

CREATE UNIQUE INDEX memory_memory_id_idx ON remem.memory USING btree (workspace, memory_id);

CREATE UNIQUE INDEX memory_ref_idx ON remem.memory USING btree (workspace, ref) WHERE ((ref IS NOT NULL) AND (superseded_at IS NULL) AND (forgotten_at IS NULL));

CREATE INDEX memory_session_idx ON remem.memory USING btree (workspace, session_no, turn_no) WHERE ((session_no IS NOT NULL) AND (superseded_at IS NULL) AND (forgotten_at IS NULL));

CREATE INDEX memory_validity_idx ON remem.memory USING btree (workspace, valid_to, valid_from) WHERE (((valid_from IS NOT NULL) OR (valid_to IS NOT NULL)) AND (superseded_at IS NULL) AND (forgotten_at IS NULL));

CREATE INDEX query_cache_key_idx ON remem.query_cache USING btree (workspace, key, made_at DESC);

CREATE INDEX query_cache_made_at_idx ON remem.query_cache USING btree (workspace, made_at DESC);

CREATE INDEX query_cache_scope_idx ON remem.query_cache USING btree (workspace, scope_key, made_at DESC) WHERE (query_embedding IS NOT NULL);

CREATE INDEX relation_dst_all_idx ON remem.relation USING btree (workspace, dst_no);

CREATE INDEX relation_dst_idx ON remem.relation USING btree (workspace, dst_no, weight DESC) WHERE (kind = ANY (ARRAY['derived_from'::text, 'supersedes'::text, 'part_of'::text, 'member_of'::text, 'contains'::text, 'contained_by'::text, 'scoped'::text, 'related'::text]));

CREATE INDEX relation_src_idx ON remem.relation USING btree (workspace, src_no, weight DESC) WHERE (kind = ANY (ARRAY['derived_from'::text, 'supersedes'::text, 'part_of'::text, 'member_of'::text, 'contains'::text, 'contained_by'::text, 'scoped'::text, 'related'::text]));

CREATE INDEX tally_workspace_idx ON remem.tally USING btree (workspace, space_no);

CREATE INDEX tombstone_ref_idx ON remem.tombstone USING btree (workspace, ref) WHERE (ref IS NOT NULL);

CREATE INDEX tombstone_replaced_by_idx ON remem.tombstone USING btree (workspace, replaced_by) WHERE (replaced_by IS NOT NULL);

CREATE UNIQUE INDEX topic_entry_hash_idx ON remem.topic USING btree (workspace, entry_hash);

CREATE INDEX topic_memory_no_idx ON remem.topic USING btree (workspace, memory_no) WHERE (memory_no IS NOT NULL);

CREATE INDEX topic_token_topic_no_idx ON remem.topic_token USING btree (workspace, topic_no);

CREATE UNIQUE INDEX topic_topic_id_idx ON remem.topic USING btree (workspace, topic_id);

CREATE INDEX topic_weight_idx ON remem.topic USING btree (workspace, weight DESC, topic_no) INCLUDE (owner);

ALTER TABLE remem.access_grant ENABLE ROW LEVEL SECURITY;

ALTER TABLE remem.continuity_phrase ENABLE ROW LEVEL SECURITY;

ALTER TABLE remem.embedding_1 ENABLE ROW LEVEL SECURITY;

ALTER TABLE remem.embedding_1_past ENABLE ROW LEVEL SECURITY;

ALTER TABLE remem.embedding_claim ENABLE ROW LEVEL SECURITY;

ALTER TABLE remem.embedding_cursor ENABLE ROW LEVEL SECURITY;

ALTER TABLE remem.embedding_space ENABLE ROW LEVEL SECURITY;

ALTER TABLE remem.entity_alias ENABLE ROW LEVEL SECURITY;

ALTER TABLE remem.forgotten ENABLE ROW LEVEL SECURITY;

ALTER TABLE remem.frequent_word ENABLE ROW LEVEL SECURITY;

ALTER TABLE remem.generic_word ENABLE ROW LEVEL SECURITY;

ALTER TABLE remem.job_run ENABLE ROW LEVEL SECURITY;

ALTER TABLE remem.lineage ENABLE ROW LEVEL SECURITY;

ALTER TABLE remem.maintenance_run ENABLE ROW LEVEL SECURITY;

ALTER TABLE remem.memory ENABLE ROW LEVEL SECURITY;

ALTER TABLE remem.memory_entity ENABLE ROW LEVEL SECURITY;

ALTER TABLE remem.plan_setting ENABLE ROW LEVEL SECURITY;

ALTER TABLE remem.posting ENABLE ROW LEVEL SECURITY;

ALTER TABLE remem.posting_past ENABLE ROW LEVEL SECURITY;

ALTER TABLE remem.provider ENABLE ROW LEVEL SECURITY;

ALTER TABLE remem.provider_embedding ENABLE ROW LEVEL SECURITY;

ALTER TABLE remem.query_cache ENABLE ROW LEVEL SECURITY;

ALTER TABLE remem.recall_day ENABLE ROW LEVEL SECURITY;

ALTER TABLE remem.recall_log ENABLE ROW LEVEL SECURITY;

ALTER TABLE remem.relation ENABLE ROW LEVEL SECURITY;

ALTER TABLE remem.route ENABLE ROW LEVEL SECURITY;

ALTER TABLE remem.schema_migration ENABLE ROW LEVEL SECURITY;

ALTER TABLE remem.session ENABLE ROW LEVEL SECURITY;

ALTER TABLE remem.setting ENABLE ROW LEVEL SECURITY;

ALTER TABLE remem.source_class ENABLE ROW LEVEL SECURITY;

ALTER TABLE remem.tally ENABLE ROW LEVEL SECURITY;

ALTER TABLE remem.tombstone ENABLE ROW LEVEL SECURITY;

ALTER TABLE remem.topic ENABLE ROW LEVEL SECURITY;

ALTER TABLE remem.topic_embedding ENABLE ROW LEVEL SECURITY;

ALTER TABLE remem.topic_token ENABLE ROW LEVEL SECURITY;

ALTER TABLE remem.workspace ENABLE ROW LEVEL SECURITY;

GRANT USAGE ON SCHEMA remem TO PUBLIC;
