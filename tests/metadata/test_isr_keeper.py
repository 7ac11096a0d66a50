"""The ISR keeper proposes one change at a time, and applies only the controller's decisions."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from tests.apis.brokers import create_on, register
from tests.in_process import InProcessBroker, batch
from tests.manual_clock import ManualClock
from tests.replication.replicas import LAG_MS, Replicas
from wirekafka.errors import Error, KafkaError
from wirekafka.metadata.broker.isr_keeper import IsrKeeper
from wirekafka.replication.partition.remote_replica import DecidedIsr
from wirekafka.runtime.promise import Promise

REPLICA = bytes(16), 0


class Controller:
    """Keeps proposals until the test decides on them."""

    def __init__(self) -> None:
        self.requests: list[dict[Any, Any]] = []
        self._decision = Promise()

    @property
    def proposed(self) -> list[tuple[int, ...]]:
        """The ISRs of the only partition, in the order of the requests."""
        return [changes[REPLICA].isr for changes in self.requests]

    async def alter_partition(self, changes: Any) -> Any:
        self.requests.append(dict(changes))
        self._decision = Promise()
        return await self._decision

    async def decide(self, decision: DecidedIsr | KafkaError) -> None:
        """Respond to the request in flight with this result for the only partition."""
        self._decision.set({REPLICA: decision})
        await turn()

    async def fail(self, error: Exception) -> None:
        """Respond to the request in flight with an error for all of it."""
        self._decision.set(error)
        await turn()


async def turn() -> None:
    for _ in range(4):
        await asyncio.sleep(0)


class Scene:
    """Partition topic-0 led by broker 1, with all of brokers 1 to 3 in sync at the start."""

    def __init__(self) -> None:
        self.replicas = Replicas()
        self.partition = self.replicas.leader
        self.controller = Controller()
        self.keeper = IsrKeeper(
            self.controller, {("topic", 0): self.partition}, self.replicas.clock
        )
        self.partition.propose_later = self.keeper.note
        self.keeper.start(LAG_MS)

    async def shrink(self) -> None:
        """Broker 3 falls behind while broker 2 keeps up, until a change is proposed."""
        self.replicas.append(b"v")
        for _ in range(4):
            self.replicas.fetch(2)
            self.replicas.replicate(2)
            self.replicas.clock.advance(LAG_MS // 2)
        await turn()

    def catch_up(self, broker: int, isr: tuple[int, ...]) -> None:
        """A broker outside of this ISR fetches up to the end of the log."""
        self.replicas.set_isr(*isr)
        self.replicas.replicate(broker)
        self.replicas.clock.advance(0)

    async def back_off(self) -> None:
        """Wait until a request that failed is repeated."""
        self.replicas.clock.advance(50)
        await turn()

    def decided(self, *isr: int, partition_epoch: int = 1) -> DecidedIsr:
        return DecidedIsr(1, 0, isr, 0, partition_epoch)


def play(scenario: Callable[[Scene], Coroutine[Any, Any, None]]) -> None:
    async def run() -> None:
        await scenario(Scene())

    asyncio.run(run())


def test_a_lagging_follower_is_removed_once_the_controller_has_decided() -> None:
    async def scenario(scene: Scene) -> None:
        await scene.shrink()
        assert scene.controller.proposed == [(1, 2)]
        assert scene.partition.isr == (1, 2, 3), "nothing is decided yet"
        assert scene.partition.high_watermark == 0
        await scene.controller.decide(scene.decided(1, 2))
        assert (scene.partition.isr, scene.partition.partition_epoch) == ((1, 2), 1)
        assert scene.partition.high_watermark == 1

    play(scenario)


def test_a_follower_that_catches_up_is_proposed_at_its_fetch() -> None:
    async def scenario(scene: Scene) -> None:
        scene.catch_up(3, isr=(1, 2))
        assert scene.controller.proposed == [(1, 2, 3)]
        scene.replicas.replicate(3)
        scene.replicas.clock.advance(1_000)
        assert len(scene.controller.requests) == 1, "one proposal at a time"
        await scene.controller.decide(scene.decided(1, 2, 3, partition_epoch=2))
        assert scene.partition.isr == (1, 2, 3)
        assert len(scene.controller.requests) == 1

    play(scenario)


def test_followers_that_catch_up_during_a_request_are_proposed_next() -> None:
    async def scenario(scene: Scene) -> None:
        scene.catch_up(2, isr=(1,))
        scene.replicas.replicate(3)
        await scene.controller.decide(scene.decided(1, 2, partition_epoch=2))
        assert scene.controller.proposed == [(1, 2), (1, 2, 3)]
        assert scene.controller.requests[1][REPLICA].partition_epoch == 2

    play(scenario)


@pytest.mark.parametrize(
    "failure",
    [
        KafkaError(Error.NETWORK_EXCEPTION),
        KafkaError(Error.STALE_BROKER_EPOCH),
        RuntimeError("of any other kind"),
    ],
)
def test_a_failed_request_is_repeated_and_its_proposal_stays_pending(failure: Exception) -> None:
    async def scenario(scene: Scene) -> None:
        scene.catch_up(2, isr=(1,))
        await scene.controller.fail(failure)
        scene.replicas.append(b"v")
        assert scene.partition.high_watermark == 0, "broker 2 may be in the ISR"
        await scene.back_off()
        assert scene.controller.proposed == [(1, 2), (1, 2)]
        await scene.controller.decide(scene.decided(1, 2, partition_epoch=2))
        assert scene.partition.isr == (1, 2)

    play(scenario)


def test_a_partition_is_proposed_again_after_a_retriable_error() -> None:
    async def scenario(scene: Scene) -> None:
        await scene.shrink()
        await scene.controller.decide(KafkaError(Error.NOT_CONTROLLER))
        await scene.back_off()
        assert scene.controller.proposed == [(1, 2), (1, 2)]

    play(scenario)


def test_a_decision_for_the_current_isr_ends_the_proposal() -> None:
    async def scenario(scene: Scene) -> None:
        await scene.shrink()
        await scene.controller.decide(scene.decided(1, 2, 3, partition_epoch=0))
        assert scene.controller.proposed == [(1, 2), (1, 2)], "it is proposed anew"

    play(scenario)


def test_a_partition_without_a_decision_does_not_delay_others(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def scenario(scene: Scene) -> None:
        await scene.shrink()
        other = Replicas()
        other.leader.topic_id = b"o" * 16
        other.leader.propose_later = scene.keeper.note
        other.set_isr(1, 2)
        other.replicate(3)
        for _ in range(3):
            await scene.controller.decide(KafkaError(Error.NOT_CONTROLLER))
            await scene.back_off()
        assert scene.controller.requests[-1].keys() == {REPLICA, (b"o" * 16, 0)}
        repeated = [each for each in caplog.messages if "topic-0 proposed again" in each]
        assert len(repeated) == 1, "a failure that persists is logged once"

    play(scenario)


def test_a_refused_replica_is_proposed_again_at_its_next_fetch() -> None:
    async def scenario(scene: Scene) -> None:
        scene.catch_up(3, isr=(1, 2))
        await scene.controller.decide(KafkaError(Error.INELIGIBLE_REPLICA))
        scene.replicas.clock.advance(1_000)
        assert len(scene.controller.requests) == 1
        assert scene.partition.leading().maximal_isr == {1, 2}
        scene.replicas.replicate(3)
        scene.replicas.clock.advance(0)
        assert scene.controller.proposed == [(1, 2, 3), (1, 2, 3)]

    play(scenario)


def test_an_outdated_proposal_stays_pending_until_newer_metadata_arrives() -> None:
    async def scenario(scene: Scene) -> None:
        scene.catch_up(3, isr=(1, 2))
        await scene.controller.decide(KafkaError(Error.INVALID_UPDATE_VERSION))
        scene.replicas.clock.advance(1_000)
        assert len(scene.controller.requests) == 1
        assert scene.partition.leading().maximal_isr == {1, 2, 3}
        scene.replicas.set_isr(1, 2)
        assert scene.partition.leading().maximal_isr == {1, 2}

    play(scenario)


def test_a_decision_from_before_newer_metadata_is_ignored() -> None:
    async def scenario(scene: Scene) -> None:
        await scene.shrink()
        scene.replicas.set_isr(1, 3)
        await scene.controller.decide(scene.decided(1, 2, partition_epoch=1))
        assert scene.partition.isr == (1, 3)

    play(scenario)


def test_a_decision_that_arrives_after_the_metadata_it_led_to_is_counted() -> None:
    async def scenario(scene: Scene) -> None:
        await scene.shrink()
        scene.replicas.set_isr(1, 2)
        await scene.controller.decide(scene.decided(1, 2, partition_epoch=1))
        assert (scene.keeper.shrinks, scene.keeper.expands) == (1, 0)
        scene.replicas.replicate(3)
        scene.catch_up(3, isr=(1, 2))
        await turn()
        assert scene.controller.proposed == [(1, 2), (1, 2, 3)]
        scene.replicas.set_isr(1, 2, 3)
        await scene.controller.decide(scene.decided(1, 2, 3, partition_epoch=2))
        assert (scene.keeper.shrinks, scene.keeper.expands) == (1, 1)

    play(scenario)


def test_nothing_is_repeated_once_another_broker_leads() -> None:
    async def scenario(scene: Scene) -> None:
        await scene.shrink()
        scene.replicas.elect(2, 2, 3)
        await scene.controller.fail(KafkaError(Error.NETWORK_EXCEPTION))
        scene.replicas.clock.advance(LAG_MS)
        await turn()
        assert len(scene.controller.requests) == 1
        assert scene.partition.leader is None

    play(scenario)


def test_a_stopped_keeper_proposes_nothing() -> None:
    async def scenario(scene: Scene) -> None:
        scene.keeper.stop()
        await scene.shrink()
        assert scene.controller.requests == []

    play(scenario)


def test_a_brokers_own_controller_shrinks_and_grows_the_isr(
    tmp_path: Any, manual_clock: ManualClock
) -> None:
    kafka = InProcessBroker(tmp_path, manual_clock, replica_lag_time_max_ms="2000")
    epoch = register(kafka, 2)
    create_on(kafka, "t", [1, 2])
    partition = kafka.partition("t")
    leader = partition.leading()
    assert partition.isr == (1, 2)
    partition.append(batch(b"v"))
    manual_clock.advance(3_000)
    assert partition.isr == (1,) and partition.high_watermark == 1
    leader.follower_fetched(2, 1, 0, epoch, manual_clock.now_ms())
    manual_clock.advance(0)
    assert partition.isr == (1, 2)
    image = kafka.broker.image.partition("t", 0)
    assert image is not None and image.partition_epoch == partition.partition_epoch == 2
    kafka.node.abort()
