#!/bin/sh
# Builds the image and runs tests/docker on it, with a Docker daemon of its own: nothing of the
# machine's Docker, network or firewall is touched. The base image is made from Debian's packages, for
# no image registry needs to be reachable. Root, Debian, a few minutes; WORK keeps what was built.
set -eu
umask 022
checkout=$(cd "$(dirname "$0")/.." && pwd)
work=${WORK:-/var/cache/remem-image}
say() { printf '%s\n' "try-image: $*" >&2; }

[ "$(id -u)" -eq 0 ] || { say "only root can do this"; exit 1; }
for package in docker.io debootstrap iproute2 iptables util-linux; do
  dpkg-query --show --showformat='${db:Status-Status}' "$package" 2>/dev/null | grep -qx installed && continue
  DEBIAN_FRONTEND=noninteractive apt-get --quiet --quiet --yes -o DPkg::Lock::Timeout=300 \
    install --no-install-recommends "$package" >/dev/null
done
mkdir -p "$work"
export DOCKER_HOST="unix://$work/docker.sock" DOCKER_BUILDKIT=0 DOCKER_CONFIG="$work/config"

# The daemon, started by the command in front of its options; $daemon is the process to end.
daemon=
serve() {
  "$@" --data-root "$work/data" --exec-root "$work/run" --pidfile "$work/docker.pid" \
    --host "$DOCKER_HOST" --iptables=false --ip6tables=false --ip-forward=false \
    >"$work/dockerd.log" 2>&1 </dev/null &
  daemon=$!
  tries=0
  until docker info >/dev/null 2>&1; do
    kill -0 "$daemon" 2>/dev/null || { tail -n 20 "$work/dockerd.log" >&2; say "dockerd ended"; exit 1; }
    tries=$((tries + 1))
    [ "$tries" -lt 300 ] || { tail -n 20 "$work/dockerd.log" >&2; say "dockerd does not answer"; exit 1; }
    sleep 0.2
  done
}
end() {
  [ -n "$daemon" ] || return 0
  kill "$daemon" 2>/dev/null || true
  wait "$daemon" 2>/dev/null || true
  daemon=
  umount "$work"/run/netns/* 2>/dev/null || true # the daemon leaves its network's handle mounted
}
trap end EXIT

# To build, the daemon needs the machine's network, and no bridge of its own.
serve dockerd --bridge=none
if ! docker image inspect debian:trixie-slim >/dev/null 2>&1; then
  say "making the base image"
  mirror=$(apt-get indextargets --format '$(ORIGIN)|$(CODENAME)|$(REPO_URI)' "Created-By: Packages" \
    | sed -n 's/^Debian|\(bookworm\|trixie\)|//p' | head -n 1)
  rm -rf "$work/root"
  debootstrap --variant=minbase trixie "$work/root" "$mirror" >"$work/debootstrap.log" 2>&1 \
    || { tail -n 20 "$work/debootstrap.log" >&2; exit 1; }
  # What this machine trusts beyond Debian's list: the way to a package index may need it.
  mkdir -p "$work/root/usr/local/share/ca-certificates"
  cp -r /usr/local/share/ca-certificates/. "$work/root/usr/local/share/ca-certificates/"
  tar -C "$work/root" -c . | docker import - debian:trixie-slim >/dev/null
  rm -rf "$work/root"
fi
say "building the image"
docker build --network host --file "$checkout/docker/Dockerfile" --tag remem-pg "$checkout" \
  >"$work/build.log" 2>&1 || { tail -n 40 "$work/build.log" >&2; exit 1; }
end

# To run, a network of its own, in which the tests run too.
serve unshare --net sh -c 'ip link set lo up && exec dockerd "$@"' dockerd
cd "$checkout"
REMEM_TEST_SERVER=docker REMEM_TEST_IMAGE=remem-pg TESTCONTAINERS_RYUK_DISABLED=true \
  TC_HOST=127.0.0.1 TESTCONTAINERS_CONNECTION_MODE=docker_host \
  nsenter --target "$daemon" --net ${TRY:-./run test} tests/docker "$@"
