#!/bin/sh
# First start: make the cluster, the role remem (an ordinary one) and its database with pgvector,
# install the schema, and put the model inside the database. Later starts: bring both up to date, then
# serve. Only the finished server listens on the network. What a start that was interrupted left undone,
# the next one does.
set -eu

# The model inside the database. What an administrator has chosen since the first time is kept, and a
# model that cannot be had keeps nobody from the memories.
model() {
  superuser="host=/tmp user=postgres dbname=remem"
  there=$(psql --no-psqlrc --tuples-only --no-align "$superuser" \
    --command "select to_regnamespace('remem_plpython') is not null")
  if [ "${REMEM_SERVER_MODEL:-minilm}" = none ]; then
    [ "$there" = f ] || remem uninstall-plpython --dsn "$superuser"
    return
  fi
  first=
  [ "$there" = t ] || first="--default-space --embed-on-write"
  # shellcheck disable=SC2086 # a list
  remem install-plpython $first --embedding "${REMEM_SERVER_MODEL:-minilm}" --dsn "$superuser" \
    || echo "the server starts without a model: recall in plain SQL searches by words" >&2
}

if [ "${1:-postgres}" != postgres ]; then
  exec "$@"
fi
[ $# -eq 0 ] || shift

if [ ! -s "$PGDATA/PG_VERSION" ]; then
  if [ -z "${REMEM_PASSWORD:-}${POSTGRES_PASSWORD:-}" ]; then
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
  --set=ON_ERROR_STOP=1 --set=password="${REMEM_PASSWORD:-}" \
  --set=superuser_password="${POSTGRES_PASSWORD:-}" <<'SQL'
select 'create role remem login' where not exists (select from pg_roles where rolname = 'remem') \gexec
select format('alter role remem password %L', :'password') where :'password' <> '' \gexec
-- Without one the superuser is reached from inside the container only.
select format('alter role postgres password %L', :'superuser_password')
where :'superuser_password' <> '' \gexec
select 'create database remem owner remem' where not exists (select from pg_database where datname = 'remem') \gexec
\connect remem
set client_min_messages = warning;
create extension if not exists vector;
SQL
REMEM_DSN="host=/tmp user=remem dbname=remem" remem migrate
model

pg_ctl --silent --wait --pgdata="$PGDATA" --mode=fast stop >/dev/null

exec postgres -D "$PGDATA" -c listen_addresses='*' "$@"
