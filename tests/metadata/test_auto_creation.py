"""Topics created on first use, while the controller does not respond."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from tests.manual_clock import ManualClock
from wirekafka.config.broker_config import BrokerConfig
from wirekafka.errors import Error, KafkaError
from wirekafka.metadata.broker.auto_creation import AutoCreation
from wirekafka.metadata.controller.topics import NewTopic
from wirekafka.runtime.promise import Promise


class Channel:
    """A channel whose controller responds when the test says so."""

    def __init__(self) -> None:
        self.topics: list[NewTopic] = []
        self.asked: list[list[str]] = []
        self.responses: list[Promise] = []

    async def create_topics(
        self, topics: Sequence[NewTopic], wanted_by: Any = None
    ) -> dict[str, KafkaError | None]:
        self.topics += topics
        self.asked.append([topic.name for topic in topics])
        self.responses.append(Promise())
        errors: dict[str, KafkaError | None] = await self.responses[-1]
        return errors


class Stage:
    def __init__(self) -> None:
        self.channel, self.clock = Channel(), ManualClock()
        self.options: dict[str, str] = {}
        self.creation = AutoCreation(
            self.channel,  # type: ignore[arg-type]
            lambda: BrokerConfig.of(self.options),
            self.clock,
        )

    async def begun(self, asked: Awaitable[Any]) -> asyncio.Future[Any]:
        """The outcome of a call that has run up to its first wait."""
        task = asyncio.ensure_future(asked)
        await asyncio.sleep(0)
        return task


def on_stage(scenario: Callable[[Stage], Awaitable[None]]) -> None:
    async def run() -> None:
        async with asyncio.timeout(30):
            await scenario(Stage())

    asyncio.run(run())


def test_partitions_and_replicas_are_the_brokers_if_it_has_such_settings() -> None:
    async def scenario(stage: Stage) -> None:
        for name, stage.options in (
            ("a", {}),
            ("b", {"num.partitions": "4"}),
            ("c", {"default.replication.factor": "2"}),
            ("d", {"num.partitions": "1", "default.replication.factor": "1"}),
        ):
            await stage.begun(stage.creation.create([name]))
        assert [
            (topic.name, topic.num_partitions, topic.replication_factor)
            for topic in stage.channel.topics
        ] == [("a", -1, -1), ("b", 4, -1), ("c", -1, 2), ("d", 1, 1)]

    on_stage(scenario)


def test_creation_is_awaited_for_two_seconds_and_goes_on() -> None:
    async def scenario(stage: Stage) -> None:
        asked = await stage.begun(stage.creation.create(["a", "b"]))
        stage.clock.advance(1999)
        await asyncio.sleep(0)
        assert not asked.done()
        stage.clock.advance(1)
        errors = await asked
        assert {error.error for error in errors.values() if error} == {Error.REQUEST_TIMED_OUT}
        # Nobody waits for it again, and the controller is not asked again.
        assert (await stage.creation.create(["a"]))["a"] is not None
        assert stage.channel.asked == [["a", "b"]]
        stage.channel.responses[0].set({"a": None, "b": None})
        await asyncio.sleep(0)
        asked = await stage.begun(stage.creation.create(["a"]))
        assert stage.channel.asked == [["a", "b"], ["a"]]
        exists = KafkaError(Error.TOPIC_ALREADY_EXISTS)
        stage.channel.responses[1].set({"a": exists})
        assert await asked == {"a": exists}

    on_stage(scenario)


def test_topics_of_several_creations_are_awaited_for_two_seconds_in_all() -> None:
    async def scenario(stage: Stage) -> None:
        await stage.begun(stage.creation.create(["a"]))
        stage.clock.advance(1000)
        asked = await stage.begun(stage.creation.create(["a", "b"]))
        stage.clock.advance(1000)
        await asyncio.sleep(0)
        stage.clock.advance(1000)
        errors = await asked
        assert [errors[name].error for name in "ab"] == [Error.REQUEST_TIMED_OUT] * 2

    on_stage(scenario)


def test_requests_for_one_topic_share_its_creation() -> None:
    async def scenario(stage: Stage) -> None:
        first = await stage.begun(stage.creation.ensure("a"))
        second = await stage.begun(stage.creation.create(["a", "b"]))
        assert stage.channel.asked == [["a"], ["b"]]
        stage.channel.responses[0].set({"a": None})
        stage.channel.responses[1].set({"b": KafkaError(Error.INVALID_REPLICATION_FACTOR)})
        assert await first is None
        errors = await second
        assert errors["a"] is None and errors["b"].error is Error.INVALID_REPLICATION_FACTOR

    on_stage(scenario)


def test_failure_to_reach_a_controller_is_the_error_of_every_topic() -> None:
    async def scenario(stage: Stage) -> None:
        asked = await stage.begun(stage.creation.create(["a", "b"]))
        stage.channel.responses[0].set(KafkaError(Error.NETWORK_EXCEPTION))
        errors = await asked
        assert [errors[name].error for name in "ab"] == [Error.NETWORK_EXCEPTION] * 2

    on_stage(scenario)


def test_failure_of_an_internal_topic_is_kept_though_it_comes_late() -> None:
    async def scenario(stage: Stage) -> None:
        topics = [NewTopic(name="log")]
        asked = await stage.begun(stage.creation.create_internal(topics, 0, 10_000, None))
        stage.clock.advance(2000)
        await asked
        assert stage.creation.recent_failures(["log"], 2000) == {}
        await stage.creation.create_internal(topics, 2000, 10_000, None)
        stage.channel.responses[0].set({"log": KafkaError(Error.INVALID_PARTITIONS, "too many")})
        await asyncio.sleep(0)
        assert stage.creation.recent_failures(["log"], 2100) == {"log": "too many"}
        assert stage.channel.asked == [["log"]]

    on_stage(scenario)
