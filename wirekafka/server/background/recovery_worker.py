"""A worker process that recovers logs for a broker that starts.

Reads one job per line of standard input and writes its outcome as a line of JSON. An interpreter
uses one processor, so that the broker runs several workers.
"""

from __future__ import annotations

import json
import logging
import os
import queue
import sys
import threading

from wirekafka.log.directories.recovery_job import RecoveryJob
from wirekafka.log.files import RealDisk


class _ForwardingHandler(logging.Handler):
    """Forwards log messages to the broker."""

    def emit(self, record: logging.LogRecord) -> None:
        _send({"log": record.getMessage()})


def main() -> None:
    """Run jobs until standard input ends."""
    logging.basicConfig(level=logging.INFO, handlers=[_ForwardingHandler()])
    jobs: queue.Queue[bytes] = queue.Queue()
    threading.Thread(target=_read, args=(jobs,), daemon=True).start()
    disk = RealDisk()
    while True:
        line = jobs.get()
        try:
            job = RecoveryJob.decode(line)
            job.opening.scanning = _report
            job.run(disk)
        except Exception as error:  # The broker recovers this log itself.
            _send({"error": f"{type(error).__name__}: {error}"})
        else:
            _send({"done": job.directory})


def _read(jobs: queue.Queue[bytes]) -> None:
    for line in sys.stdin.buffer:
        jobs.put(line)
    # At once, even during a job: the broker has died, and the next one writes the same files.
    os._exit(0)


def _report(left: int) -> None:
    _send({"segments": left})


def _send(message: dict[str, str | int]) -> None:
    sys.stdout.write(json.dumps(message) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main()
