"""The files of recorded answers: one for each chapter, as compressed lines of JSON."""

import gzip
import json
from collections.abc import Sequence
from pathlib import Path

from tests.recordings.exchanges import Recorded

FOLDER = Path(__file__).parent / "answers"


def write(title: str, exchanges: Sequence[Recorded]) -> int:
    lines = [json.dumps(each, ensure_ascii=False, separators=(",", ":")) + "\n" for each in exchanges]
    content = gzip.compress("".join(lines).encode(), mtime=0)
    FOLDER.mkdir(exist_ok=True)
    (FOLDER / f"{title}.jsonl.gz").write_bytes(content)
    return len(content)


def read(title: str) -> list[Recorded]:
    lines = gzip.decompress((FOLDER / f"{title}.jsonl.gz").read_bytes()).decode()
    return [json.loads(line) for line in lines.split("\n") if line]
