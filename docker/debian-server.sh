#!/bin/sh
# The server of the image on plain Debian 12 or 13: PostgreSQL with pgvector and plpython3u, and a
# Python that plpython3u can import this checkout from. Needs root and apt, no systemd. Every task
# may be repeated, and is quick where its work was done before.
set -eu
umask 022 # the server is another account, and reads what is made here

say() { printf '%s\n' "debian-server: $*" >&2; }
fail() { say "$*"; exit 1; }

usage() {
  cat >&2 <<'USAGE'
usage: docker/debian-server.sh TASK

  install              PostgreSQL, pgvector (built from source where Debian's is too old), plpython3u
  start DIR [ARG...]   make a cluster in DIR if there is none, start it, print the DSN of its
                       superuser; ARGs go to the server, as in: start DIR -c fsync=off
  stop DIR             stop the cluster in DIR
  python VENV          a virtual environment of Debian's own Python with this checkout and a model;
                       prints its bin directory. The server imports from it: VENV must be a place
                       that others may read
USAGE
  exit 2
}

checkout=$(cd "$(dirname "$0")/.." && pwd)
oldest_pgvector=0.7.0

# What is known of this system: $version (of PostgreSQL) and $bin (its programs).
system() {
  [ "$(id -u)" -eq 0 ] || fail "only root can do this"
  command -v apt-get >/dev/null 2>&1 || fail "there is no apt-get: this is for Debian"
  release=$(. /etc/os-release && printf '%s %s' "$ID" "${VERSION_ID:-}")
  case $release in
    "debian 12") version=15 ;;
    "debian 13") version=17 ;;
    *) fail "this is $release; only Debian 12 and 13 are known here" ;;
  esac
  bin=/usr/lib/postgresql/$version/bin
}

apt() {
  DEBIAN_FRONTEND=noninteractive apt-get --quiet --quiet --yes -o DPkg::Lock::Timeout=300 "$@" \
    </dev/null >>"$log" 2>&1
}

packages() {
  # Lists may be missing (a fresh image) or name files that are gone by now: asked for once more.
  apt install --no-install-recommends "$@" && return
  apt update && apt install --no-install-recommends "$@"
}

has() { dpkg-query --show --showformat='${db:Status-Status}\n' "$@" 2>/dev/null | grep -cx installed; }

install() {
  system
  log=$(mktemp)
  trap 'code=$?; [ "$code" -eq 0 ] || tail -n 40 "$log" >&2; rm -f "$log"' EXIT
  wanted="postgresql-$version postgresql-plpython3-$version python3-venv"
  if [ "$version" -ge 17 ]; then wanted="$wanted postgresql-$version-pgvector"; fi
  # shellcheck disable=SC2086 # a list
  if [ "$(has $wanted)" -ne "$(echo $wanted | wc -w)" ]; then
    say "installing $wanted"
    config=/etc/postgresql-common/createcluster.conf
    [ -e "$config" ] || packages postgresql-common || fail "apt cannot install postgresql-common"
    # Nobody asked for the cluster that the package would make and start.
    kept=$(mktemp)
    cp -p "$config" "$kept"
    printf 'create_main_cluster = false\n' >>"$config"
    got=yes
    packages $wanted || got=no
    cp -p "$kept" "$config"
    rm -f "$kept"
    [ "$got" = yes ] || fail "apt cannot install $wanted"
  fi
  pgvector
}

pgvector_version() {
  sed -n "s/^default_version *= *'\(.*\)'/\1/p" \
    "/usr/share/postgresql/$version/extension/vector.control" 2>/dev/null || true
}

pgvector() {
  found=$(pgvector_version)
  if [ -n "$found" ] && dpkg --compare-versions "$found" ge "$oldest_pgvector"; then return; fi
  say "building pgvector from Debian's newer source package"
  packages build-essential dpkg-dev "postgresql-server-dev-$version" \
    || fail "apt cannot install what pgvector is built with"
  # The mirror that this machine uses already, asked for the next release's sources: lists and
  # caches of their own, so that the machine's apt never sees that release.
  mirror=$(apt-get indextargets --format '$(ORIGIN)|$(CODENAME)|$(REPO_URI)' "Created-By: Packages" \
    | sed -n 's/^Debian|bookworm|//p' | head -n 1)
  [ -n "$mirror" ] || fail "apt knows no mirror of Debian 12"
  work=$(mktemp -d)
  chmod 755 "$work"
  mkdir -p "$work/lists/partial" "$work/cache/archives/partial" "$work/src"
  chown -R _apt "$work/lists" "$work/cache" "$work/src" 2>/dev/null || true
  keyring=/usr/share/keyrings/debian-archive-keyring.gpg
  printf 'deb-src [signed-by=%s] %s trixie main\n' "$keyring" "$mirror" >"$work/sources.list"
  isolated="-o Dir::Etc::sourcelist=$work/sources.list -o Dir::Etc::sourceparts=/dev/null
    -o Dir::State::lists=$work/lists -o Dir::Cache=$work/cache -o Dir::Etc::preferencesparts=/dev/null"
  # shellcheck disable=SC2086 # options, none with a space
  (cd "$work/src" && apt $isolated update && apt $isolated --only-source source pgvector) \
    || fail "apt cannot fetch the source of pgvector"
  rm -f "$work/sources.list"
  # No -march=native: what was built here may run elsewhere. No bitcode: nothing here is just in time.
  (cd "$work"/src/pgvector-*/ \
    && make OPTFLAGS="" with_llvm=no PG_CONFIG="$bin/pg_config" -j"$(nproc)" \
    && make OPTFLAGS="" with_llvm=no PG_CONFIG="$bin/pg_config" install) >>"$log" 2>&1 \
    || fail "pgvector does not build"
  rm -rf "$work"
  say "pgvector $(pgvector_version)"
}

# The command in front of what the account postgres runs.
as="setpriv --reuid postgres --regid postgres --init-groups env -C / LC_ALL=C.UTF-8"
as_postgres() { $as "$@"; }

start() {
  system
  [ -x "$bin/postgres" ] || fail "PostgreSQL $version is not installed: $0 install"
  mkdir -p "$1"
  directory=$(cd "$1" && pwd)
  shift
  as_postgres test -x "$directory" || fail "the account postgres may not enter $directory"
  data=$directory/data
  if [ ! -s "$data/PG_VERSION" ]; then
    rm -rf "$data"
    mkdir "$data"
    chown postgres:postgres "$data"
    as_postgres "$bin/initdb" --pgdata="$data" --username=postgres --encoding=UTF8 \
      --locale=C.UTF-8 --auth=trust --no-sync >"$directory/initdb.log" 2>&1 \
      || { cat "$directory/initdb.log" >&2; fail "initdb failed"; }
  fi
  # Nobody but root and postgres gets through the socket, so that nobody else is trusted.
  mkdir -p "$directory/socket"
  chown postgres:postgres "$directory/socket"
  chmod 700 "$directory/socket"
  if ! as_postgres "$bin/pg_ctl" --pgdata="$data" status >/dev/null 2>&1; then
    : >"$directory/server.log"
    chown postgres "$directory/server.log"
    # exec: nothing of this script lives on beside the server and keeps its output open.
    (exec $as "$bin/postgres" -D "$data" -c listen_addresses= \
      -c unix_socket_directories="$directory/socket" "$@") \
      >"$directory/server.log" 2>&1 </dev/null &
    server=$!
    until as_postgres "$bin/pg_isready" --quiet --host="$directory/socket"; do
      kill -0 "$server" 2>/dev/null || { cat "$directory/server.log" >&2; fail "the server ended"; }
      sleep 0.1
    done
  fi
  printf 'host=%s user=postgres dbname=postgres\n' "$directory/socket"
}

stop() {
  system
  as_postgres "$bin/pg_ctl" --pgdata="$1/data" --mode=fast --wait --silent stop >/dev/null
}

# Debian's own Python, for that is the one inside plpython3u.
python() {
  [ -x /usr/bin/python3 ] || fail "Debian's python3 is not installed: $0 install"
  mkdir -p "$(dirname "$1")"
  venv=$(cd "$(dirname "$1")" && pwd)/$(basename "$1")
  exec 9>"$venv.lock"
  flock 9
  stamp=$(cd "$checkout" && cksum pyproject.toml)
  if [ "$(cat "$venv/.packages" 2>/dev/null)" != "$stamp" ]; then
    say "making $venv"
    /usr/bin/python3 -m venv --clear "$venv"
    "$venv/bin/pip" install --quiet --quiet --disable-pip-version-check \
      "hatchling>=1.27" "$checkout[minilm]" >&2
    printf '%s\n' "$stamp" >"$venv/.packages"
  fi
  stamp=$(cd "$checkout" && find remem_pg sql migrations -type f ! -name '*.pyc' -exec cksum {} + | sort | cksum)
  if [ "$(cat "$venv/.checkout" 2>/dev/null)" != "$stamp" ]; then
    "$venv/bin/pip" install --quiet --quiet --disable-pip-version-check --no-deps --force-reinstall \
      --no-build-isolation "$checkout" >&2
    printf '%s\n' "$stamp" >"$venv/.checkout"
  fi
  printf '%s\n' "$venv/bin"
}

task=${1:-}
case $task in
  install) [ $# -eq 1 ] || usage ;;
  start) [ $# -ge 2 ] || usage ;;
  stop | python) [ $# -eq 2 ] || usage ;;
  *) usage ;;
esac
shift
"$task" "$@"
