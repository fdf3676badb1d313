#!/bin/sh
# First start: make the cluster, the role remem (an ordinary one) and its database with pgvector,
# and install the schema. Later starts: upgrade the schema, then serve. Only the finished server
# listens on the network.
set -eu

if [ "${1:-postgres}" != postgres ]; then
  exec "$@"
fi
shift || true

local_server() {
  pg_ctl --silent --wait --pgdata="$PGDATA" \
    --options="-c listen_addresses='' -c unix_socket_directories=/tmp" "$1" >/dev/null
}

if [ ! -s "$PGDATA/PG_VERSION" ]; then
  if [ -z "${REMEM_PASSWORD:-}" ]; then
    echo "REMEM_PASSWORD is not set: it becomes the password of the role remem" >&2
    exit 1
  fi
  initdb --pgdata="$PGDATA" --username=postgres --encoding=UTF8 --locale=C.UTF-8 \
    --auth-local=trust --auth-host=scram-sha-256 >/dev/null
  # The socket is reached from inside the container only; the network asks for the password.
  echo "host all all all scram-sha-256" >> "$PGDATA/pg_hba.conf"
  local_server start
  psql --host=/tmp --username=postgres --dbname=postgres --quiet --no-psqlrc \
    --set=ON_ERROR_STOP=1 --set=password="$REMEM_PASSWORD" <<'SQL'
create role remem login password :'password';
create database remem owner remem;
\connect remem
create extension vector;
SQL
else
  local_server start
fi

REMEM_DSN="host=/tmp user=remem dbname=remem" remem migrate
pg_ctl --silent --wait --pgdata="$PGDATA" --mode=fast stop >/dev/null

exec postgres -D "$PGDATA" -c listen_addresses='*' "$@"
