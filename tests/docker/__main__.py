"""`python -m tests.docker [SUITE...]`: checks the image, and what the documentation of docker-compose.yml promises.

`docker/test.sh` builds the images and starts a substitute for a container engine. Each check prints one line.
"""

import sys
import traceback
from pathlib import Path

import httpx2

from tests.docker import cluster, image, monitoring, stack
from tests.docker.engine import compose

SUITES = {"image": image.CHECKS, "stack": stack.CHECKS, "cluster": cluster.CHECKS, "monitoring": monitoring.CHECKS}


def main(names: list[str]) -> int:
    passed = failed = 0
    for suite in names or SUITES:
        for name, check in SUITES[suite].items():
            try:
                print("passed", f"{suite}: {name}:", check(), flush=True)
                passed += 1
            except (AssertionError, RuntimeError, TimeoutError, LookupError, httpx2.HTTPError) as error:
                print("FAILED", f"{suite}: {name}:", described(error), flush=True)
                failed += 1
        compose("--profile", "*", "down", "--volumes", "--timeout", "20")
    print(f"{passed} passed, {failed} failed", flush=True)
    return failed


def described(error: Exception) -> str:
    place = traceback.extract_tb(error.__traceback__)[-1]
    return f"{Path(place.filename).name}:{place.lineno}: {place.line}: {error!r}"[:1500]


if __name__ == "__main__":
    sys.exit(min(main(sys.argv[1:]), 1))
