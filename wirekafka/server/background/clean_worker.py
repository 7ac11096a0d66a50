"""The worker process of the log cleaner.

Reads one job per line of standard input and writes one line of JSON per new segment. It is a
process and not a thread because decoding records holds the interpreter's lock, which would delay
clients. It writes `.cleaned` files only; the broker swaps them in.
"""

from __future__ import annotations

import json
import os
import sys
import time

from wirekafka.errors import KafkaError
from wirekafka.log.compaction.cleaner import Cleaner, CleaningJob
from wirekafka.log.files import RealDisk
from wirekafka.log.scan import BadBatch

_NICENESS = 19
"""The lowest priority: on a busy machine the broker gets the processor first."""
_LONGEST_SLEEP_S = 1.0


class Pace:
    """Limits the I/O rate to a number of bytes per second; exits when the broker has died."""

    def __init__(self, bytes_per_second: float):
        self._bytes_per_second = bytes_per_second
        self._parent = os.getppid()
        self._started_s = time.monotonic()
        self._done_bytes = 0

    def __call__(self, size_bytes: int) -> None:
        """Count bytes that were read or written, and sleep while that exceeds the rate."""
        self._done_bytes += size_bytes
        due_s = self._started_s + self._done_bytes / self._bytes_per_second
        while (ahead_s := due_s - time.monotonic()) > 0:
            time.sleep(min(ahead_s, _LONGEST_SLEEP_S))
            self._check_parent()
        self._check_parent()

    def _check_parent(self) -> None:
        # The next broker's worker writes files of the same names.
        if os.getppid() != self._parent:
            os._exit(1)


def main() -> None:
    """Run jobs until standard input ends."""
    os.nice(_NICENESS)
    disk = RealDisk()
    for line in sys.stdin.buffer:
        job = CleaningJob.decode(line)
        cleaner = Cleaner(disk, job, Pace(job.bytes_per_second))
        try:
            for cleaned in cleaner.groups():
                _send({"replaced": cleaned.replaced, "sizes": cleaned.sizes})
            _send({"end": cleaner.cleaned_end_offset})
        except (BadBatch, KafkaError, OSError) as error:
            _send({"error": f"{type(error).__name__}: {error}"})


def _send(message: dict[str, object]) -> None:
    sys.stdout.write(json.dumps(message) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main()
