"""Records the chapters, each on an empty store: `python -m tests.recordings`, or only those that are named."""

import asyncio
import sys
import tempfile
import time
from pathlib import Path

from service.store.embedded.server import EmbeddedServer
from tests.recordings.book import CHAPTERS
from tests.recordings.files import write
from tests.recordings.playing import played


def main() -> None:
    print(f"{'chapter':28} exchanges  seconds    bytes")
    for title in sys.argv[1:] or CHAPTERS:
        began = time.process_time()
        with tempfile.TemporaryDirectory() as folder, EmbeddedServer(Path(folder)) as server:
            exchanges, error = asyncio.run(played(CHAPTERS[title], server.url))
        if error is not None:
            last = exchanges[-1] if exchanges else None
            raise RuntimeError(f"chapter {title}, after {last}") from error
        size = write(title, exchanges)
        print(f"{title:28} {len(exchanges):9}  {time.process_time() - began:7.2f} {size:8}")


if __name__ == "__main__":
    main()
