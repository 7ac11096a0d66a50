"""A process that compacts logs for a broker: a job a line comes in, a line a new segment goes out.

Beside the broker rather than in it: decoding records would hold the interpreter's lock, and
clients would wait. Writes `.cleaned` files only; the broker swaps them in.
"""

from __future__ import annotations

import json
import os
import sys
import time

from wirekafka.errors import KafkaError
from wirekafka.log.cleaner import Cleaner, CleaningJob
from wirekafka.log.files import RealDisk
from wirekafka.log.scan import BadBatch

_NICENESS = 19
"""The least there is: on a busy machine clients come first, and the cleaner gets the rest."""
_LONGEST_SLEEP_S = 1.0


class Pace:
    """Keeps to so many bytes a second, and ends the process when its broker is gone."""

    def __init__(self, bytes_per_second: float):
        self._bytes_per_second = bytes_per_second
        self._parent = os.getppid()
        self._started_s = time.monotonic()
        self._done_bytes = 0

    def __call__(self, size_bytes: int) -> None:
        """Note so many bytes read or written, and wait if that is too many by now."""
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
    """Work until there is no more input."""
    os.nice(_NICENESS)
    disk = RealDisk()
    for line in sys.stdin.buffer:
        job = CleaningJob.decode(line)
        cleaner = Cleaner(disk, job, Pace(job.bytes_per_second))
        try:
            for cleaned in cleaner.groups():
                _tell({"replaced": cleaned.replaced, "sizes": cleaned.sizes})
            _tell({"end": cleaner.cleaned_end_offset})
        except (BadBatch, KafkaError, OSError) as error:
            _tell({"error": f"{type(error).__name__}: {error}"})


def _tell(message: dict[str, object]) -> None:
    sys.stdout.write(json.dumps(message) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main()
