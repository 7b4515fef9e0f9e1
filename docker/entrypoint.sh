#!/bin/sh
# entrypoint.sh COMMAND ARGUMENT...: runs the command with the compiled kernels of the image.
set -eu

# Compile for one target instead of the exact CPU: the kernels of the image then run on every machine
# of that kind, and workers on different machines compute the same bits. An older machine compiles
# its own kernels.
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

# numba needs a writable cache, but the image is read-only. So the cache in /tmp has links to the
# kernels of the image; newly compiled kernels replace links or add files.
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
