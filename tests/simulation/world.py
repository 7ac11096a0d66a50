"""The state that the clients of a simulation share: network, history, values."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from random import Random
from typing import Any

from tests.histories.history import History, Place
from tests.memory_transport import Address
from tests.simulation.network import Network
from tests.simulation.wire import BUSY, Lost, Whom, Wire
from wirekafka.errors import Error
from wirekafka.protocol.create_topics import CreateTopicsRequest
from wirekafka.protocol.find_coordinator import FindCoordinatorRequest
from wirekafka.protocol.metadata import MetadataRequest

TOPICS = {"plain": 2, "ledger": 3}
PLACES: list[Place] = [(name, index) for name, count in TOPICS.items() for index in range(count)]
_CONFIGS = {"segment.ms": "1500", "segment.index.bytes": "120"}


class World:
    """Shared state of the clients; `surprises` are responses that no client should get."""

    def __init__(self, network: Network, random: Random, bootstrap: Sequence[Address]):
        self.network = network
        self.bootstrap = bootstrap
        self.random = random
        self.history = History()
        self.topic_ids: dict[str, bytes] = {}
        self.confirmed: dict[tuple[str, Place], int] = {}
        """The highest offset whose commit was confirmed, of groups that never move back."""
        self.is_deposed: Callable[[Address, str], bool] = lambda address, group: False
        """Whether the broker with this address no longer coordinates a group."""
        self.surprises: list[str] = []
        self.retried = BUSY
        """The errors of a fetch after which readers retry."""
        self.is_ending = False
        """Set when consumers that would go on for ever should stop."""
        self._value = 0

    def wire(self, name: str, *, may_linger: bool) -> Wire:
        wire = Wire(self.network, name, self.bootstrap, may_linger=may_linger)
        wire.retried = self.retried
        return wire

    def new_value(self) -> int:
        """A value that was never used before."""
        self._value += 1
        return self._value

    def a_place(self) -> Place:
        return self.random.choice(PLACES)

    async def prepare(self, replicas: int = 1, configs: Mapping[str, str] | None = None) -> None:
        """Create the topics and the internal topics."""
        wire = self.wire("setup", may_linger=False)
        kind = CreateTopicsRequest.CreatableTopic
        request = CreateTopicsRequest(
            topics=[
                kind(
                    name=name,
                    num_partitions=count,
                    replication_factor=replicas,
                    configs=[
                        kind.CreatableTopicConfig(name=key, value=value)
                        for key, value in {**_CONFIGS, **(configs or {})}.items()
                    ],
                )
                for name, count in TOPICS.items()
            ]
        )
        done = (Error.NONE, Error.TOPIC_ALREADY_EXISTS)
        try:
            created = (await wire.ask(request, 7, timeout_s=10)).topics
        except Lost:
            # It is unknown whether they were created.
            answer = await ask_until(
                wire, request, 7, lambda answer: all(t.error_code in done for t in answer.topics)
            )
            created = answer.topics
        assert all(topic.error_code in done for topic in created), created
        if any(topic.error_code for topic in created):
            # This client asked twice, or its broker did, since the controller changed meanwhile.
            named = MetadataRequest(topics=[MetadataRequest.Topic(name=name) for name in TOPICS])
            found = await ask_until(
                wire, named, 12, lambda answer: not any(t.error_code for t in answer.topics)
            )
            created = found.topics
        self.topic_ids |= {topic.name: topic.topic_id for topic in created}
        for key_type in (0, 1):
            await ask_until(
                wire,
                FindCoordinatorRequest(key_type=key_type, coordinator_keys=["x"]),
                4,
                lambda answer: answer.coordinators[0].error_code == 0,
            )
        wire.close()


async def ask_until(wire: Wire, request: Any, version: int, is_good: Any, whom: Whom = None) -> Any:
    """Send a request until its response has no error; returns that response."""
    while True:
        try:
            answer = await wire.ask(request, version, whom)
            if is_good(answer):
                return answer
        except Lost:
            pass
        await wire.pause()


async def ask_until_not_busy(
    wire: Wire, request: Any, version: int, code_of: Any, whom: Whom = None
) -> Any:
    """Send a request until its response has no retriable error; returns that response."""
    return await ask_until(
        wire, request, version, lambda answer: Error(code_of(answer)) not in BUSY, whom
    )


async def sleep(world: World, longest_s: float) -> None:
    """Let a client pause."""
    await asyncio.sleep(world.random.uniform(0, longest_s))
