"""A process that recovers logs for a broker that starts: a job a line comes in, an answer goes out.

An interpreter goes through one log at a time, so that several are needed for several processors.
"""

from __future__ import annotations

import json
import logging
import os
import queue
import sys
import threading

from wirekafka.log.files import RealDisk
from wirekafka.log.recovery_job import RecoveryJob


class _Told(logging.Handler):
    """Passes what is logged on to the broker."""

    def emit(self, record: logging.LogRecord) -> None:
        _tell({"log": record.getMessage()})


def main() -> None:
    """Work until there is no more input."""
    logging.basicConfig(level=logging.INFO, handlers=[_Told()])
    jobs: queue.Queue[bytes] = queue.Queue()
    threading.Thread(target=_read, args=(jobs,), daemon=True).start()
    disk = RealDisk()
    while True:
        line = jobs.get()
        try:
            job = RecoveryJob.decode(line)
            job.run(disk)
        except Exception as error:  # The broker meets it again when it opens the log itself.
            _tell({"error": f"{type(error).__name__}: {error}"})
        else:
            _tell({"done": job.directory})


def _read(jobs: queue.Queue[bytes]) -> None:
    for line in sys.stdin.buffer:
        jobs.put(line)
    # At once, even amid a job: if the broker is gone, the next one writes to the same files.
    os._exit(0)


def _tell(message: dict[str, str]) -> None:
    sys.stdout.write(json.dumps(message) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main()
