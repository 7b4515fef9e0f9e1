"""`python -m learners` compiles the service's kernels; with `--beside-service`, it takes little time from a service."""

import sys

from learners.compilation import compile_kernels

if __name__ == "__main__":
    compile_kernels(beside_service=sys.argv[1:] == ["--beside-service"])
