#!/bin/sh
# First start: make the cluster, the role remem (an ordinary one) and its database with pgvector,
# and install the schema. Later starts: upgrade the schema, then serve. Only the finished server
# listens on the network. What a start that was interrupted left undone, the next one does.
set -eu

if [ "${1:-postgres}" != postgres ]; then
  exec "$@"
fi
[ $# -eq 0 ] || shift

if [ ! -s "$PGDATA/PG_VERSION" ]; then
  if [ -z "${REMEM_PASSWORD:-}" ]; then
    echo "REMEM_PASSWORD is not set: it becomes the password of the role remem" >&2
    exit 1
  fi
  # The socket is reached from inside the container only; the network asks for the password.
  initdb --pgdata="$PGDATA" --username=postgres --encoding=UTF8 --locale=C.UTF-8 \
    --auth-local=trust --auth-host=scram-sha-256 >/dev/null
fi
grep -q '^host all all all ' "$PGDATA/pg_hba.conf" \
  || echo "host all all all scram-sha-256" >> "$PGDATA/pg_hba.conf"

pg_ctl --silent --wait --pgdata="$PGDATA" --log="$PGDATA/setup.log" \
  --options="-c listen_addresses='' -c unix_socket_directories=/tmp" start >/dev/null

psql --host=/tmp --username=postgres --dbname=postgres --quiet --no-psqlrc \
  --set=ON_ERROR_STOP=1 --set=password="${REMEM_PASSWORD:-}" <<'SQL'
select 'create role remem login' where not exists (select from pg_roles where rolname = 'remem') \gexec
select format('alter role remem password %L', :'password') where :'password' <> '' \gexec
select 'create database remem owner remem' where not exists (select from pg_database where datname = 'remem') \gexec
\connect remem
set client_min_messages = warning;
create extension if not exists vector;
SQL
REMEM_DSN="host=/tmp user=remem dbname=remem" remem migrate

pg_ctl --silent --wait --pgdata="$PGDATA" --mode=fast stop >/dev/null

exec postgres -D "$PGDATA" -c listen_addresses='*' "$@"
