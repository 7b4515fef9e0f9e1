#!/bin/sh
# entrypoint.sh COMMAND ARGUMENT...: runs the command with the compiled kernels of the image.
set -eu

# One target for all machines of a kind, instead of the very CPU: the kernels compiled at build time
# fit wherever the image runs, and workers on different machines compute the same bits. A machine
# that is too old for it compiles for itself.
if [ "$(uname -m)" != x86_64 ]; then
    target=generic
elif grep -qw avx2 /proc/cpuinfo && grep -qw bmi2 /proc/cpuinfo && grep -qw fma /proc/cpuinfo; then
    target=x86-64-v3
else
    target=
fi
if [ -n "$target" ] && [ -z "${NUMBA_CPU_NAME+set}" ]; then
    export NUMBA_CPU_NAME="$target" NUMBA_CPU_FEATURES=
fi

# numba wants a cache that it can write to, and the image is read-only: links to the kernels of the
# image. What is compiled besides replaces links and adds files, in /tmp.
if [ -z "${NUMBA_CACHE_DIR:-}" ]; then
    NUMBA_CACHE_DIR="${TMPDIR:-/tmp}/wager-kernels"
    if [ ! -d "$NUMBA_CACHE_DIR" ]; then
        links="$(mktemp -d "$NUMBA_CACHE_DIR.XXXXXX")" || { echo "wager: ${TMPDIR:-/tmp} must be writable: mount a tmpfs there" >&2; exit 1; }
        cp -rs "${WAGER_KERNELS:-/app/kernels}/." "$links"
        mv -T "$links" "$NUMBA_CACHE_DIR"
    fi
    export NUMBA_CACHE_DIR
fi

exec "$@"
