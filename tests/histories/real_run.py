"""A real broker with real clients, killed and paused every few seconds, and the violations."""

from __future__ import annotations

import sys
import threading
import time
import traceback
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from random import Random
from typing import Any

from confluent_kafka import Consumer, KafkaError, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from compat_tests.mortal_broker import MortalBroker
from tests.histories import real_clients as clients
from tests.histories.checker import check
from tests.histories.history import Drained, Place
from tests.histories.python_clients import consume_with_python, transact_with_python
from tests.histories.real_clients import PLACES, TOPICS, Stage, Transactions


@dataclass(frozen=True, kw_only=True)
class Plan:
    """The length of a campaign: until both are reached. With `kills`, there are no pauses."""

    seed: int
    operations: int = 0
    kills: int | None = None
    settings: Sequence[str] = ()
    """The broker's settings, in the form of `--set`."""
    transaction_timeout_ms: int = 30_000
    """How long the end of a run may have to wait for open transactions."""


class Run:
    """One campaign; `violations` when it is over."""

    def __init__(self, directory: Path, plan: Plan):
        self._broker = MortalBroker(directory / "data", *plan.settings)
        self._plan = plan
        self._random = Random(f"faults {plan.seed}")
        self.kills = 0
        self.pauses = 0
        self.acknowledged = 0
        """Writes that were acknowledged to a producer."""
        self.violations: list[str] = []

    def run(self, progress: Callable[[int], None] = lambda _: None) -> Stage:
        """Run the campaign; `progress` is called with the count that `reached` compares."""
        self._broker.start()
        try:
            stage = Stage(
                self._broker.bootstrap, self._plan.seed, self._plan.transaction_timeout_ms
            )
            _make_topics(stage.bootstrap)
            threads = [
                threading.Thread(target=_watched, args=(stage, each), name=name, daemon=True)
                for name, each in _clients(stage).items()
            ]
            for thread in threads:
                thread.start()
            self._break_until_enough(stage, progress)
            stage.is_over.set()
            for thread in threads:
                thread.join(clients.PATIENCE_S)
                if thread.is_alive():
                    stage.surprises.append(f"{thread.name} does not come through: {_where(thread)}")
            _drain(stage)
        finally:
            self._broker.stop()
        self.acknowledged = sum(send.offset is not None for _, send in stage.history.sends())
        self.violations = [str(each) for each in check(stage.history)] + stage.surprises
        return stage

    def _break_until_enough(self, stage: Stage, progress: Callable[[int], None]) -> None:
        plan, random = self._plan, self._random
        while True:
            operations = stage.history.count()
            progress(operations if plan.kills is None else self.kills)
            if operations >= plan.operations and self.kills >= (plan.kills or 0):
                return
            time.sleep(random.uniform(1, 4) if plan.kills is None else random.uniform(0.2, 3))
            if plan.kills is not None or random.random() < 0.6:
                self._kill_and_start()
            else:
                self._broker.pause()
                self.pauses += 1
                time.sleep(random.uniform(0.2, 2))
                self._broker.go_on()

    def _kill_and_start(self) -> None:
        """Kill and start the broker, sometimes again while it is starting."""
        self._broker.kill()
        self.kills += 1
        time.sleep(self._random.uniform(0, 0.5))
        if self._random.random() < 0.2:
            self._broker.launch()
            time.sleep(self._random.uniform(0, 0.6))
            self._broker.kill()
            self.kills += 1
        self._broker.start()


def _clients(stage: Stage) -> dict[str, Callable[[], None]]:
    made: dict[str, Callable[[], None]] = {
        "plain": partial(clients.produce_plainly, stage, "plain"),
        "tx-python": partial(transact_with_python, stage, "tx-python"),
        "committed": partial(clients.consume_assigned, stage, "committed", committed=True),
        "uncommitted": partial(clients.consume_assigned, stage, "uncommitted", committed=False),
        "python": partial(consume_with_python, stage, "python"),
    }
    for number in range(3):
        made[f"tx-{number}"] = Transactions(stage, f"tx-{number}").run
    for number in range(2):
        made[f"member-{number}"] = partial(clients.consume_subscribed, stage, f"member-{number}")
    return made


def _where(thread: threading.Thread) -> str:
    """The active calls of a thread, the innermost last."""
    frame = sys._current_frames().get(thread.ident or -1)
    calls = traceback.extract_stack(frame) if frame is not None else ()
    return " > ".join(f"{Path(call.filename).name}:{call.lineno} {call.name}" for call in calls)


def _watched(stage: Stage, client: Callable[[], None]) -> None:
    try:
        client()
    except Exception as error:
        stage.surprises.append(f"{threading.current_thread().name} broke: {error!r}")
        raise


def _make_topics(bootstrap: str) -> None:
    admin = AdminClient({"bootstrap.servers": bootstrap})
    topics = [NewTopic(name, partitions, 1) for name, partitions in TOPICS.items()]
    for made in admin.create_topics(topics).values():
        made.result(30)


def _drain(stage: Stage) -> None:
    """Read all records twice, and the groups' positions."""
    # With read_committed the ends would be last stable offsets, below open transactions.
    consumer = Consumer(stage.config(group_id="drain", isolation_level="read_uncommitted"))
    ends = {
        place: consumer.get_watermark_offsets(TopicPartition(*place), 30)[1] for place in PLACES
    }
    consumer.close()
    # The transactions of crashed clients have to time out before everything is stable.
    committed, uncommitted = (
        _read_all(stage, isolation, ends) for isolation in ("read_committed", "read_uncommitted")
    )
    for place in PLACES:
        stage.history.drained[place] = Drained(committed[place], uncommitted[place], ends[place])
    keys = {
        (commit.group, commit.place)
        for operation in stage.history.operations
        for commit in operation.offset_commits()
    }
    for group in {group for group, _ in keys}:
        consumer = Consumer(stage.config(group_id=group))
        for committed in consumer.committed([TopicPartition(*place) for place in PLACES], 30):
            stage.history.group_offsets[group, (committed.topic, committed.partition)] = max(
                committed.offset, -1
            )
        consumer.close()


def _read_all(stage: Stage, isolation: str, until: dict[Place, int]) -> dict[Place, list[Any]]:
    """Offsets and values of every place up to its end."""
    consumer = Consumer(
        stage.config(
            group_id="drain",
            auto_offset_reset="error",
            isolation_level=isolation,
            enable_partition_eof=True,
        )
    )
    consumer.assign([TopicPartition(*place, 0) for place in PLACES])
    found: dict[Place, list[Any]] = {place: [] for place in PLACES}
    ends = dict.fromkeys(PLACES, 0)
    patience_s = time.monotonic() + 90
    while time.monotonic() < patience_s and any(ends[each] < until[each] for each in PLACES):
        for message in consumer.consume(5_000, 1):
            place = message.topic(), message.partition()
            error = message.error()
            if error is None:
                found[place].append((message.offset(), int(message.value())))
            elif error.code() == KafkaError._PARTITION_EOF:
                ends[place] = message.offset()
            else:
                stage.surprises.append(f"the last reader got the error {error}")
    consumer.close()
    for place in PLACES:
        if ends[place] < until[place]:
            stage.surprises.append(f"{isolation} reads {place} to {ends[place]} of {until[place]}")
    return found
