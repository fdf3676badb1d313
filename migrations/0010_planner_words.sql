-- 0.4: what the stages of a plan share is found once: the generic words of a prompt, its language, its vectors.

-- distinctive: the prompt without its generic words, which stand in generic. vector and vector_problem: as _prompt_vector
-- says; spelling: the vector in the built-in space.
alter type remem._plan_context add attribute generic text[];
alter type remem._plan_context add attribute distinctive text;
alter type remem._plan_context add attribute is_foreign boolean;
alter type remem._plan_context add attribute vector real[];
alter type remem._plan_context add attribute vector_problem text;

drop function if exists remem._distinctive(remem._plan_context);
drop function if exists remem._foreign_prompt(remem._plan_context);
drop function if exists remem._shared_words(remem._plan_context, bigint);
drop function if exists remem._word_evidence(remem._plan_context, bigint, int, real[]);
drop function if exists remem._qualified_by_meaning(remem._plan_context, remem._topic_match[], float8, text, int);
drop function if exists remem._sure_topics(remem._plan_context, remem._topic_match[], real[], float8, text, boolean, remem._memory_evidence[]);
drop function if exists remem._similar_without_any(text, bigint, text[], float8, float8);
drop function if exists remem._second_opinion(remem._plan_context, text);
drop function if exists remem._probe_memories(remem._plan_context, real[], text);
drop function if exists remem._judge_memory(remem._plan_context, remem._memory_evidence, boolean);
drop function if exists remem._plan_memories(remem._plan_context, remem._topic_match[], remem._memory_evidence[], boolean);
drop function if exists remem._ask_memories(remem._plan_context, remem._topic_match[], remem._topic_match[], text, real[], float8, text);

-- A vector of the title alone, where the topic has more text: beside a memory it says more than that of the whole.
alter table remem.topic_embedding add column title_embedding @extschema:vector@.halfvec;
alter table remem.topic_embedding alter column title_embedding set storage external;
comment on type remem.catalog_text is
  'A topic or provider without a vector in the current space, or a topic without that of its title, with the text to embed.';
drop function if exists remem._nearest_of_topic(remem._plan_context, bigint, remem._memory_evidence[]);
drop function if exists remem._support(remem._plan_context, bigint, float8, remem._memory_evidence[]);
