"""`python -m learners` compiles the service's kernels; with `--beside-service`, it takes little time from a service."""

import sys

from learners import kernel_cache
from learners.compilation import compile_kernels

if __name__ == "__main__":
    compile_kernels(beside_service=sys.argv[1:] == ["--beside-service"])
    if not kernel_cache.is_compiled(kernel_cache.ALL):
        why = "every process compiles them for itself. NUMBA_CACHE_DIR names another folder"
        sys.exit(f"wager: compiled learners cannot be stored in {kernel_cache.ROOT}, so {why}.")
