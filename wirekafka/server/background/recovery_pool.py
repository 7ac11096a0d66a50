"""Recovers logs in parallel in worker processes."""

from __future__ import annotations

import json
import logging
import queue
import subprocess
import sys
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from subprocess import PIPE

from wirekafka.log.directories.recovery_job import RecoveryJob
from wirekafka.log.directories.recovery_progress import RecoveryProgress
from wirekafka.server.background.cleaner_process import worker_environment

logger = logging.getLogger(__name__)


def recover(jobs: Sequence[RecoveryJob], progress: RecoveryProgress, processes: int) -> set[str]:
    """Run the jobs in order; returns the directories of the logs that were recovered.

    Errors are logged only: the broker recovers the other logs itself when it opens them.
    """
    waiting: queue.SimpleQueue[RecoveryJob] = queue.SimpleQueue()
    for job in jobs:
        waiting.put(job)
    processes = min(processes, len(jobs))
    done: set[str] = set()
    if processes < 2 or not sys.executable:
        return done
    with ThreadPoolExecutor(processes) as pool:
        for recovered in pool.map(partial(_work, waiting, progress), range(processes)):
            done |= recovered
    return done


def _work(
    waiting: queue.SimpleQueue[RecoveryJob], progress: RecoveryProgress, number: int
) -> set[str]:
    """Run jobs in one process until none is left."""
    scanning = progress.scanning(number)
    done: set[str] = set()
    try:
        with (
            suppress(queue.Empty),
            subprocess.Popen(
                [sys.executable, "-m", "wirekafka.server.background.recovery_worker"],
                stdin=PIPE,
                stdout=PIPE,
                env=worker_environment(),
                start_new_session=True,  # A Ctrl-C must reach the broker only.
            ) as process,
        ):
            while True:
                job = waiting.get_nowait()
                if _run(process, job, scanning):
                    done.add(job.directory)
                    progress.opened()
    except (OSError, ValueError) as error:
        logger.warning("The other logs are recovered in the broker's process: %s", error)
    scanning(0)
    return done


def _run(
    process: subprocess.Popen[bytes], job: RecoveryJob, scanning: Callable[[int], None]
) -> bool:
    assert process.stdin is not None and process.stdout is not None
    process.stdin.write(job.encode().encode() + b"\n")
    process.stdin.flush()
    while line := process.stdout.readline():
        message = json.loads(line)
        if "segments" in message:
            scanning(message["segments"])
        elif "log" in message:
            logger.info("%s", message["log"])
        else:
            if "error" in message:
                logger.warning(
                    "%s is recovered in the broker's process: %s", job.directory, message["error"]
                )
            return "done" in message
    raise OSError("a recovery process has exited")
