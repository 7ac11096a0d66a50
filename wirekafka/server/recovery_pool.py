"""Recovery of many logs at a time, each in one of a few processes."""

from __future__ import annotations

import json
import logging
import queue
import subprocess
import sys
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from subprocess import PIPE

from wirekafka.log.recovery_job import RecoveryJob
from wirekafka.server.workshop import worker_environment

logger = logging.getLogger(__name__)


def recover(jobs: Sequence[RecoveryJob], processes: int) -> set[str]:
    """Run the jobs in order; the directories of those that went well.

    Whatever goes wrong is left to the broker itself, which meets it again when it opens the log.
    """
    waiting: queue.SimpleQueue[RecoveryJob] = queue.SimpleQueue()
    for job in jobs:
        waiting.put(job)
    processes = min(processes, len(jobs))
    done: set[str] = set()
    if processes < 2 or not sys.executable:
        return done
    with ThreadPoolExecutor(processes) as pool:
        for found in pool.map(_work, [waiting] * processes):
            done |= found
    return done


def _work(waiting: queue.SimpleQueue[RecoveryJob]) -> set[str]:
    done: set[str] = set()
    try:
        with suppress(queue.Empty), subprocess.Popen(
            [sys.executable, "-m", "wirekafka.server.recovery_worker"], stdin=PIPE, stdout=PIPE,
            env=worker_environment(),
            start_new_session=True,  # A Ctrl-C is for the broker.
        ) as process:
            while True:
                job = waiting.get_nowait()
                if _run(process, job):
                    done.add(job.directory)
    except (OSError, ValueError) as error:
        logger.warning("The rest is recovered in the broker's own process: %s", error)
    return done


def _run(process: subprocess.Popen[bytes], job: RecoveryJob) -> bool:
    assert process.stdin is not None and process.stdout is not None
    process.stdin.write(job.encode().encode() + b"\n")
    process.stdin.flush()
    while line := process.stdout.readline():
        told = json.loads(line)
        if "log" in told:
            logger.info("%s", told["log"])
        else:
            if "error" in told:
                logger.warning("%s is left to the broker itself: %s", job.directory, told["error"])
            return "done" in told
    raise OSError("a process that recovers has ended")
