"""Faults that Apache Kafka itself can be made to show, each with the rule that simulates it."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Any

from confluent_kafka import Producer

from compat_tests.fault_clients import CLIENTS, Client, Plan
from compat_tests.fault_table import Play, at_once, fenced, logged, prepare
from wirekafka.errors import Error
from wirekafka.protocol.offset_commit import OffsetCommitRequest
from wirekafka.testing import Rule


def _sent(
    fault: Callable[[Plan], AbstractContextManager[Any]],
    options: dict[str, Any],
    config: dict[str, object],
) -> Play:
    def play(client: Client, plan: Plan) -> Any:
        plan.options = options
        plan.broker.create_topic(plan.topic, config=config)
        with fault(plan):
            outcome = client.send(plan, [b"not small"], False)
        return outcome, logged(plan)

    return play


def _refused(error: str, options: dict[str, Any], config: dict[str, object]) -> tuple[Play, Play]:
    def rule(plan: Plan) -> Rule:
        return plan.broker.fail("Produce", error, topic=plan.topic, required=True)

    return _sent(rule, options, {}), _sent(lambda _: nullcontext(), options, config)


def _joined(fault: Callable[[Plan], AbstractContextManager[Any]]) -> Play:
    def play(client: Client, plan: Plan) -> Any:
        prepare(plan, ["1", "2"])
        return client.join(plan, 2, lambda: fault(plan))

    return play


def _commit_beyond_the_end(plan: Plan) -> None:
    topic = OffsetCommitRequest.Topic
    request = OffsetCommitRequest(
        group_id=plan.name,
        generation_id_or_member_epoch=-1,
        member_id="",
        topics=[
            topic(
                name=plan.topic,
                partitions=[
                    topic.Partition(
                        partition_index=0,
                        committed_offset=5,
                        committed_leader_epoch=-1,
                        committed_metadata="",
                    )
                ],
            )
        ],
    )
    answer: Any = plan.broker._engine.ask(request, 8)
    assert answer.topics[0].partitions[0].error_code == Error.NONE


def _committed(fault: Callable[[Plan], AbstractContextManager[Any]]) -> Play:
    def play(client: Client, plan: Plan) -> Any:
        prepare(plan)
        outcome = client.commit(plan, lambda: fault(plan))
        return outcome, plan.broker.committed(plan.name)

    return play


def _start_another(plan: Plan) -> None:
    Producer(
        {
            "bootstrap.servers": plan.broker.bootstrap_servers,
            "log_level": 0,
            "transactional.id": plan.name,
        }
    ).init_transactions(30)


PAIRS: dict[str, tuple[Play, Play]] = {
    "a record too large": _refused("MESSAGE_TOO_LARGE", {}, {"max.message.bytes": 20}),
    "a record without a key": _refused("INVALID_RECORD", {}, {"cleanup.policy": "compact"}),
    "a record too old": _refused(
        "INVALID_TIMESTAMP",
        {"timestamp_ms": 1_500_000_000_000},
        {"message.timestamp.before.max.ms": 1000},
    ),
    "an offset out of range": (
        _joined(
            lambda plan: plan.broker.fail(
                "Fetch", "OFFSET_OUT_OF_RANGE", topic=plan.topic, times=1, required=True
            )
        ),
        _joined(lambda plan: at_once(lambda: _commit_beyond_the_end(plan))),
    ),
    "a commit by one who was expelled": (
        _committed(
            lambda plan: plan.broker.fail(
                "OffsetCommit", "UNKNOWN_MEMBER_ID", group=plan.name, times=1, required=True
            )
        ),
        _committed(lambda plan: at_once(lambda: plan.broker.expire_member(plan.name))),
    ),
    "a producer fenced": (
        fenced(lambda plan: plan.broker.fence_producer(plan.name)),
        fenced(_start_another),
    ),
}
"""The case with a simulated fault, and the case in which Kafka itself produces it."""

CASES = [
    (name, client)
    for name in PAIRS
    for client in CLIENTS
    # aiokafka joins as a new member, and waits until the session of its old member id ends.
    if (name, client) != ("a commit by one who was expelled", "aiokafka")
]
