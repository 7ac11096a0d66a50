"""Kills the processes of a Spark query one by one until it has copied a topic, then checks that.

`python -m compat_tests.sink_campaign --engine kafka --records 100000 --kills 50` prints progress.
"""

from __future__ import annotations

import argparse
import os
import random
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

import psutil
import pyspark

from compat_tests.cluster import KAFKA, WIREKAFKA, Cluster, Shape
from compat_tests.copied_topic import Copy, checked_copy, make_topics, written
from compat_tests.sink_kills import BROKER, COMMIT, DRIVER, VICTIMS, QueryProcesses
from compat_tests.sink_query import BATCH, READY, QuerySettings
from compat_tests.spark_session import environment

SOURCE, TARGET = "numbers", "copies"
MASTER = "local-cluster[1,2,1024]"
_SPARKS_OWN = "kafka"
"""The format of Spark's own sink, which has no process that commits."""
_IN_COMMITS = 0.5
"""The share of kills that wait for a commit to begin; all kills of the committing process do."""
_LOOK_S = 0.005
_LONGEST_STEP_S = 900
"""A query that neither ends a batch nor itself for this long hangs."""


@dataclass(frozen=True, kw_only=True)
class Plan:
    """What a campaign does."""

    engine: str = WIREKAFKA
    """The engine of the broker."""
    sink: str = "wirekafka"
    """The format of the query's sink."""
    records: int = 1_000_000
    kills: int = 200
    victims: Sequence[str] = VICTIMS
    """Which processes are killed, in turn."""
    seed: int = 1


@dataclass
class Outcome:
    """What a campaign has done and found."""

    killed: Counter[str] = field(default_factory=Counter)
    """Kills by victim and moment."""
    starts: int = 0
    batches: int = 0
    seconds: float = 0.0
    copy: Copy = field(default_factory=Copy)


def carried_out(plan: Plan, directory: Path) -> Outcome:
    """Carry out a campaign; prints its progress."""
    shape = Shape(brokers=[plan.engine])
    with Cluster.running(shape, directory / "broker") as cluster:
        make_topics(cluster.bootstrap, SOURCE, TARGET, plan.records)
        outcome = Campaign(plan, cluster, directory).run()
        outcome.copy = checked_copy(cluster.bootstrap, TARGET, plan.records, directory)
    print(f"{plan}: {outcome}", flush=True)
    return outcome


class Campaign:
    """A query that is killed and started again until it has ended by itself."""

    def __init__(self, plan: Plan, cluster: Cluster, directory: Path) -> None:
        self._plan, self._cluster, self._directory = plan, cluster, directory
        self._seed = random.Random(plan.seed)
        self._outcome = Outcome()
        self._settings = QuerySettings(
            bootstrap=cluster.bootstrap,
            source=SOURCE,
            target=TARGET,
            checkpoint=f"file:{directory}/checkpoint",
            sink=plan.sink,
            records_per_batch=max(plan.records // (plan.kills + plan.kills // 4 + 2), 1),
        )

    def run(self) -> Outcome:
        """Run the query to its end."""
        began_s = time.monotonic()
        while True:
            with running_query(self._settings, self._directory) as query:
                self._outcome.starts += 1
                self._kill_until_it_ends(query)
            self._outcome.batches += query.batches
            if query.status == 0:
                self._outcome.seconds = time.monotonic() - began_s
                return self._outcome

    @property
    def _kills(self) -> int:
        return self._outcome.killed.total()

    def _kill_until_it_ends(self, query: RunningQuery) -> None:
        while query.is_running:
            if self._kills >= self._plan.kills:
                while query.await_batch(_LONGEST_STEP_S):
                    pass
                return
            if not query.await_batch(_LONGEST_STEP_S):
                return
            victim = self._plan.victims[self._kills % len(self._plan.victims)]
            in_commit = victim == COMMIT or self._seed.random() < _IN_COMMITS
            # Found ahead of the moment, as a commit is shorter than the search.
            targets = [] if victim in (BROKER, COMMIT) else query.processes.of(victim)
            commit = None
            if self._plan.sink == _SPARKS_OWN:
                self._await_written(query)
            else:
                commit = query.processes.await_moment(self._seed, in_commit=in_commit)
            if victim == COMMIT and commit is not None:
                targets = [commit]
            if not self._killed(victim, targets, query):
                continue
            moment = "in a batch" if commit is None else "in a commit"
            self._outcome.killed[f"{victim} {moment}"] += 1
            print(
                f"kill {self._kills}: {victim} {moment}, batch {query.last_batch}, start "
                f"{self._outcome.starts}",
                flush=True,
            )

    def _await_written(self, query: RunningQuery) -> None:
        """Wait until records of a batch are in the target that has more to write, most likely."""
        before = written(self._cluster.bootstrap, TARGET)
        while query.is_running and written(self._cluster.bootstrap, TARGET) == before:
            time.sleep(_LOOK_S)

    def _killed(self, victim: str, targets: Sequence[psutil.Process], query: RunningQuery) -> bool:
        """Kill the broker, which is started again, or the first target that still runs."""
        if victim == BROKER:
            self._cluster.kill(1)
            self._cluster.start(1)
            return True
        for each in targets:
            with suppress(psutil.NoSuchProcess):
                each.kill()
                if victim == DRIVER:
                    # Its executors end by themselves, and later.
                    query.kill()
                return True
        return False


class RunningQuery:
    """A process of `sink_query`, whose output is read as it comes."""

    def __init__(self, process: subprocess.Popen[str], broker_port: int) -> None:
        self._process = process
        self.processes = QueryProcesses(process.pid, broker_port)
        self.batches = 0
        self.last_batch = "-"
        self._news = threading.Condition()
        self._is_read = 0
        threading.Thread(target=self._read, daemon=True).start()

    @property
    def is_running(self) -> bool:
        """Whether the process has not ended."""
        return self._process.poll() is None

    @property
    def status(self) -> int | None:
        """The exit status of the process."""
        return self._process.poll()

    def await_batch(self, timeout_s: float) -> bool:
        """Wait for the end of one more batch; returns whether there was one."""
        deadline = time.monotonic() + timeout_s
        with self._news:
            while self.batches == self._is_read and self.is_running:
                self._news.wait(0.2)
                assert time.monotonic() < deadline, "the query hangs"
            is_new = self.batches > self._is_read
            self._is_read = self.batches
        return is_new

    def kill(self) -> None:
        """Kill the process, but not the processes that it has started."""
        self._process.kill()
        self._process.wait()

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            if line.startswith(BATCH):
                with self._news:
                    self.batches += 1
                    self.last_batch = line.split()[1]
                    self._news.notify_all()
            elif not line.startswith(READY):
                print(line, end="", flush=True)


@contextmanager
def running_query(settings: QuerySettings, directory: Path) -> Iterator[RunningQuery]:
    """Start the query; what is left of its processes in the end is killed."""
    log = directory / "query.log"
    with log.open("a") as errors:
        process = subprocess.Popen(
            [sys.executable, "-m", "compat_tests.sink_query", settings.text()],
            env=os.environ | environment(MASTER) | {"SPARK_HOME": str(_spark_home(directory))},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
        )
    query = RunningQuery(process, int(settings.bootstrap.rpartition(":")[2]))
    known: set[psutil.Process] = set()
    is_over = threading.Event()

    def follow() -> None:
        while not is_over.wait(0.5):
            known.update(query.processes.all())

    follower = threading.Thread(target=follow, daemon=True)
    follower.start()
    try:
        yield query
    finally:
        is_over.set()
        follower.join()
        for each in [*query.processes.all(), *known]:
            with suppress(psutil.NoSuchProcess):
                each.kill()
        process.kill()
        process.wait()


def _spark_home(directory: Path) -> Path:
    """A copy of Spark's directory by links: executors keep their files in the original else."""
    home = directory / "spark"
    if not home.exists():
        home.mkdir()
        for each in Path(pyspark.__file__).parent.iterdir():
            if each.name != "work":
                (home / each.name).symlink_to(each)
    return home


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--engine", choices=(KAFKA, WIREKAFKA), default=WIREKAFKA)
    parser.add_argument("--sink", choices=("kafka", "wirekafka"), default="wirekafka")
    parser.add_argument("--records", type=int, default=1_000_000)
    parser.add_argument("--kills", type=int, default=200)
    parser.add_argument("--victims", nargs="+", choices=VICTIMS, default=VICTIMS)
    parser.add_argument("--seed", type=int, default=1)
    plan = Plan(**vars(parser.parse_args()))
    with tempfile.TemporaryDirectory(prefix="sink-campaign-") as directory:
        outcome = carried_out(plan, Path(directory))
    sys.exit(0 if outcome.copy.is_exact else 1)


if __name__ == "__main__":
    main()
