"""Serves requests whose arrivals are scheduled beforehand, on one CPU, and writes the latency of each.

Open loop: an arrival does not wait for the requests before it. Latency counts from the intended arrival, so
time in the queue counts. A request is a fixed number of hashes, the same in every arm.

``python -I -S requests.py SCHEDULE RESULT BEGAN``: SCHEDULE has a line ``seconds hashes`` for each request;
BEGAN is when it begins, on the monotonic clock. RESULT gets a line of seconds for each request.
"""

from __future__ import annotations

import hashlib
import sys
from pathlib import Path
from time import monotonic, sleep, thread_time

_BLOCK = bytes(2000)


def work(hashes: int) -> None:
    """Do the work of a request."""
    for _ in range(hashes):
        hashlib.sha256(_BLOCK)


def hashes_per_second() -> float:
    """Return the number of hashes that take a second of CPU time."""
    began = thread_time()
    work(100_000)
    return 100_000 / (thread_time() - began)


def main(arguments: list[str]) -> None:
    """Serve as the command line says."""
    schedule, result, began = arguments
    requests = [line.split() for line in Path(schedule).read_text().splitlines()]
    latencies = []
    for at, hashes in requests:
        due = float(began) + float(at)
        rest = due - monotonic()
        if rest > 0:
            sleep(rest)
        work(int(hashes))
        latencies.append(monotonic() - due)
    Path(result).write_text("".join(f"{each:.6f}\n" for each in latencies))


if __name__ == "__main__":
    main(sys.argv[1:])
