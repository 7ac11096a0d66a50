"""Fault cases that run on wirekafka and on Apache Kafka, and return the client's reaction."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any

from compat_tests.fault_clients import CLIENTS, Client, Plan
from wirekafka import Broker
from wirekafka.testing import Rule

Play = Callable[[Client, Plan], Any]
"""Runs a case on the plan's broker; the results of two brokers are compared."""

RETRIED = (
    "NOT_LEADER_OR_FOLLOWER",
    "UNKNOWN_TOPIC_OR_PARTITION",
    "REQUEST_TIMED_OUT",
    "NOT_ENOUGH_REPLICAS",
    "KAFKA_STORAGE_ERROR",
    "CORRUPT_MESSAGE",
)
REFUSED = (
    "MESSAGE_TOO_LARGE",
    "TOPIC_AUTHORIZATION_FAILED",
    "INVALID_TIMESTAMP",
    "RECORD_LIST_TOO_LARGE",
    "INVALID_RECORD",
    "UNKNOWN_SERVER_ERROR",
)
OF_SEQUENCES = (
    "OUT_OF_ORDER_SEQUENCE_NUMBER",
    "DUPLICATE_SEQUENCE_NUMBER",
    "INVALID_PRODUCER_EPOCH",
)
JOINING = (
    ("FindCoordinator", "COORDINATOR_NOT_AVAILABLE"),
    ("JoinGroup", "COORDINATOR_LOAD_IN_PROGRESS"),
    ("JoinGroup", "NOT_COORDINATOR"),
    ("JoinGroup", "UNKNOWN_MEMBER_ID"),
    ("SyncGroup", "REBALANCE_IN_PROGRESS"),
    ("OffsetFetch", "COORDINATOR_LOAD_IN_PROGRESS"),
    ("OffsetFetch", "UNSTABLE_OFFSET_COMMIT"),
    ("ListOffsets", "NOT_LEADER_OR_FOLLOWER"),
    ("Fetch", "NOT_LEADER_OR_FOLLOWER"),
    ("Fetch", "OFFSET_OUT_OF_RANGE"),
    ("Metadata", "LEADER_NOT_AVAILABLE"),
)
BARRED = (
    ("FindCoordinator", "GROUP_AUTHORIZATION_FAILED"),
    ("JoinGroup", "GROUP_MAX_SIZE_REACHED"),
    ("Fetch", "TOPIC_AUTHORIZATION_FAILED"),
)
"""The fault persists: librdkafka may or may not report an error that a retry hides."""
HEARTBEATS = ("REBALANCE_IN_PROGRESS", "NOT_COORDINATOR")
COMMITS = (
    "ILLEGAL_GENERATION",
    "UNKNOWN_MEMBER_ID",
    "REBALANCE_IN_PROGRESS",
    "NOT_COORDINATOR",
    "COORDINATOR_LOAD_IN_PROGRESS",
    "GROUP_AUTHORIZATION_FAILED",
    "OFFSET_METADATA_TOO_LARGE",
)
TRANSACTIONS = (
    ("InitProducerId", "COORDINATOR_LOAD_IN_PROGRESS"),
    ("InitProducerId", "CONCURRENT_TRANSACTIONS"),
    ("InitProducerId", "TRANSACTIONAL_ID_AUTHORIZATION_FAILED"),
    ("AddPartitionsToTxn", "CONCURRENT_TRANSACTIONS"),
    ("AddPartitionsToTxn", "NOT_COORDINATOR"),
    ("AddPartitionsToTxn", "INVALID_PRODUCER_ID_MAPPING"),
    ("Produce", "NOT_LEADER_OR_FOLLOWER"),
    ("Produce", "INVALID_PRODUCER_EPOCH"),
    ("AddOffsetsToTxn", "COORDINATOR_NOT_AVAILABLE"),
    ("TxnOffsetCommit", "COORDINATOR_LOAD_IN_PROGRESS"),
    ("TxnOffsetCommit", "ILLEGAL_GENERATION"),
    ("EndTxn", "COORDINATOR_LOAD_IN_PROGRESS"),
    ("EndTxn", "NOT_COORDINATOR"),
    ("EndTxn", "PRODUCER_FENCED"),
    ("EndTxn", "INVALID_TXN_STATE"),
)
ADMINISTERED = ("TOPIC_ALREADY_EXISTS", "POLICY_VIOLATION", "NOT_CONTROLLER")

_RECORDED = (
    "Produce",
    "InitProducerId",
    "AddPartitionsToTxn",
    "AddOffsetsToTxn",
    "TxnOffsetCommit",
    "EndTxn",
    "JoinGroup",
    "SyncGroup",
    "OffsetCommit",
    "CreateTopics",
)


def asked(plan: Plan) -> list[str]:
    """The client's requests that show its reaction, in order, with the errors returned.

    Without lookups and polls, whose number depends on the machine, and without the requests of
    a closing client, which may not have arrived.
    """
    said = []
    for each in plan.broker.requests.of(client_id=plan.name):
        if each.api in _RECORDED:
            errors = " ".join(dict.fromkeys(error.name for error in each.errors))
            if (each.api, errors) == ("EndTxn", "CONCURRENT_TRANSACTIONS"):
                continue  # No case injects it: the markers are still being written.
            said.append(f"{each.api} {errors}".strip())
            # kafka-python sometimes joins again because its metadata arrived late.
            if said[-4:] == ["JoinGroup", "SyncGroup"] * 2:
                del said[-2:]
    return said


def logged(plan: Plan) -> list[tuple[Any, str | None]]:
    """The topic's records, and the outcome of each record's transaction."""
    return [(record.value, record.transaction) for record in plan.broker.records(plan.topic)]


def decided(plan: Plan) -> list[tuple[Any, str | None]]:
    """As `logged`, once no transaction is open: Kafka responds before it writes markers."""
    return plan.broker.wait_for(
        lambda: [] if any(state == "open" for _, state in logged(plan)) else logged(plan), 30
    )


@contextmanager
def at_once(do: Callable[[], Any]) -> Iterator[None]:
    """A fault that happens once, when the context opens."""
    do()
    yield


def _sent(
    client: Client, plan: Plan, fault: AbstractContextManager[Rule], idempotent: bool = False
) -> Any:
    with fault as rule:
        outcome = client.send(plan, [b"1", b"2"], idempotent)
        hits = rule.hits
    return outcome, hits, asked(plan), logged(plan)


def _failed_produce(
    error: str, *, times: int, idempotent: bool = False, applied: bool = False
) -> Play:
    def play(client: Client, plan: Plan) -> Any:
        plan.broker.create_topic(plan.topic)
        return _sent(
            client,
            plan,
            plan.broker.fail("Produce", error, topic=plan.topic, applied=applied, times=times),
            idempotent,
        )

    return play


def _dropped_produce(*, applied: bool, idempotent: bool) -> Play:
    def play(client: Client, plan: Plan) -> Any:
        plan.broker.create_topic(plan.topic)
        return _sent(
            client,
            plan,
            plan.broker.drop("Produce", topic=plan.topic, times=1, applied=applied),
            idempotent,
        )

    return play


def _slowed_produce(seconds: float, fault: Callable[[Plan], Rule]) -> Play:
    def play(client: Client, plan: Plan) -> Any:
        plan.broker.create_topic(plan.topic)
        began = time.monotonic()
        return _sent(client, plan, fault(plan)), time.monotonic() - began >= seconds

    return play


def _held_produce(client: Client, plan: Plan) -> Any:
    plan.broker.create_topic(plan.topic)
    rule = plan.broker.hold("Produce", topic=plan.topic, applied=True, times=1)

    def let_go() -> Any:
        with rule:
            plan.broker.wait_for(lambda: rule.waiting == 1, 30)
            return logged(plan)

    with ThreadPoolExecutor(1) as beside:
        letting_go = beside.submit(let_go)
        outcome = client.send(plan, [b"1"], False)
        return outcome, letting_go.result(), asked(plan), logged(plan)


def _refused_connections(client: Client, plan: Plan) -> Any:
    plan.broker.create_topic(plan.topic)
    with ThreadPoolExecutor(1) as beside:
        with plan.broker.hold("Produce", topic=plan.topic, times=1) as rule:
            sending = beside.submit(client.send, plan, [b"1"], False)
            plan.broker.wait_for(lambda: rule.waiting == 1, 30)
            with plan.broker.refuse_connections():
                pass
        return sending.result(), logged(plan)[-1:]


def _joined(api: str, error: str, times: int | None = 1) -> Play:
    def play(client: Client, plan: Plan) -> Any:
        prepare(plan, ["1", "2"])
        about: dict[str, Any] = {} if times is None else {"times": times}
        if api in ("Fetch", "ListOffsets", "Metadata"):
            about["topic"] = plan.topic
        values = client.join(
            plan,
            1 if times is None else 2,
            lambda: plan.broker.fail(api, error, client_id=plan.name, required=True, **about),
        )
        # The number of requests before a client gives up varies.
        said = asked(plan) if times is not None else list(dict.fromkeys(asked(plan)))
        return values, said

    return play


def prepare(plan: Plan, values: Sequence[str] = ("1",)) -> None:
    """Create the topic, and produce records to it."""
    plan.broker.create_topic(plan.topic)
    plan.broker.produce(plan.topic, values)


def _beaten(error: str) -> Play:
    wanted = "FindCoordinator" if error == "NOT_COORDINATOR" else "SyncGroup"

    def play(client: Client, plan: Plan) -> Any:
        broker = plan.broker
        prepare(plan)

        def has_reacted() -> bool:
            asked = broker.requests.of(client_id=plan.name)
            failed = [each.number for each in asked if each.api == "Heartbeat" and each.faults]
            return bool(failed) and any(
                each.api == wanted and each.number > failed[0] and each.is_done for each in asked
            )

        values = client.go_on(
            plan, lambda: broker.fail("Heartbeat", error, group=plan.name, times=1), has_reacted
        )
        # If its metadata arrives late, kafka-python joins again before or after this.
        said = asked(plan) if wanted == "SyncGroup" else _without_joining(asked(plan))
        return values, said, broker.committed(plan.name)

    return play


def _committed(error: str) -> Play:
    def play(client: Client, plan: Plan) -> Any:
        broker = plan.broker
        prepare(plan)
        outcome = client.commit(
            plan,
            lambda: broker.fail("OffsetCommit", error, group=plan.name, times=1, required=True),
        )
        # kafka-python may join twice.
        return outcome, _without_joining(asked(plan)), broker.committed(plan.name)

    return play


def _transacted(api: str, fault: Callable[[Plan], Rule]) -> Play:
    def play(client: Client, plan: Plan) -> Any:
        broker = plan.broker
        prepare(plan)
        with fault(plan) as rule:
            outcome = client.transact(plan, nullcontext, nullcontext)
            hits = rule.hits
        if outcome[-1] is not None:
            # A client that gave up may abort the transaction at any later time.
            kept = [(value, state in (None, "committed")) for value, state in logged(plan)]
            return outcome, hits, _up_to(api, _without_joining(asked(plan))), kept
        state = decided(plan)
        broker.wait_for(lambda: broker.committed(plan.name), 20)
        state.append((broker.committed(plan.name), None))
        return outcome, hits, _without_joining(asked(plan)), state

    return play


def _without_joining(said: list[str]) -> list[str]:
    return [each for each in said if not each.startswith(("JoinGroup", "SyncGroup"))]


def _up_to(api: str, said: list[str]) -> list[str]:
    """The requests up to a client's failure: later ones may not have been recorded yet."""
    ends = [at for at, each in enumerate(said, 1) if each.startswith(api)]
    return said[: max(ends, default=0)]


def _failed_step(api: str, error: str) -> Play:
    times: dict[str, Any] = (
        {"times": 1} if error not in ("INVALID_PRODUCER_EPOCH", "ILLEGAL_GENERATION") else {}
    )
    return _transacted(
        api, lambda plan: plan.broker.fail(api, error, client_id=plan.name, required=True, **times)
    )


def fenced(fence: Callable[[Plan], Any]) -> Play:
    """A case in which `fence` fences a producer during its transaction."""

    def play(client: Client, plan: Plan) -> Any:
        prepare(plan)
        outcome = client.transact(plan, nullcontext, lambda: at_once(lambda: fence(plan)))
        assert outcome[-1] is not None, "it does not know that it is fenced"
        return outcome, decided(plan)

    return play


def _expired(client: Client, plan: Plan) -> Any:
    broker = plan.broker
    prepare(plan)
    values = client.go_on(
        plan,
        lambda: at_once(lambda: broker.expire_member(plan.name)),
        lambda: _has_joined_again(plan),
    )
    return values, broker.committed(plan.name)


def _silent(client: Client, plan: Plan) -> Any:
    """Heartbeats are held until the group has rebalanced without the member."""
    broker = plan.broker
    plan.session_ms = 1500
    prepare(plan)
    rules: list[Rule] = []

    def fault() -> Rule:
        rules.append(broker.hold("Heartbeat", group=plan.name))
        return rules[0]

    def has_come_back() -> bool:
        if rules[0].waiting and not any(
            group.members for group in broker.groups() if group.id == plan.name
        ):
            rules[0].release()
        return _has_joined_again(plan)

    return client.go_on(plan, fault, has_come_back), broker.committed(plan.name)


def _has_joined_again(plan: Plan) -> bool:
    synced = plan.broker.requests.of("SyncGroup", client_id=plan.name)
    return len([each for each in synced if each.is_done and not any(each.errors)]) > 1


def _created(error: str) -> Play:
    def play(client: Client, plan: Plan) -> Any:
        with plan.broker.fail("CreateTopics", error, client_id=plan.name, times=1) as rule:
            outcome = client.create(plan)
            hits = rule.hits
        if outcome is None:
            plan.broker.wait_for(lambda: plan.topic in plan.broker.topics(), 10)
        return outcome, hits, asked(plan), plan.topic in plan.broker.topics()

    return play


PLAYS: dict[str, Play] = {
    **{f"produce {error} twice": _failed_produce(error, times=2) for error in RETRIED},
    **{f"produce {error}": _failed_produce(error, times=1) for error in REFUSED},
    **{
        f"idempotent produce {error}": _failed_produce(error, times=1, idempotent=True)
        for error in OF_SEQUENCES
    },
    "produce REQUEST_TIMED_OUT after the write": _failed_produce(
        "REQUEST_TIMED_OUT", times=1, applied=True
    ),
    "idempotent produce REQUEST_TIMED_OUT after the write": _failed_produce(
        "REQUEST_TIMED_OUT", times=1, applied=True, idempotent=True
    ),
    "connection lost before the write": _dropped_produce(applied=False, idempotent=False),
    "connection lost after the write": _dropped_produce(applied=True, idempotent=False),
    "connection lost after an idempotent write": _dropped_produce(applied=True, idempotent=True),
    "throttled": _slowed_produce(
        0.4, lambda plan: plan.broker.throttle("Produce", 0.4, topic=plan.topic, times=1)
    ),
    "delayed": _slowed_produce(
        0.3, lambda plan: plan.broker.delay("Produce", 0.3, topic=plan.topic, times=1)
    ),
    "answer held until released": _held_produce,
    "connections refused": _refused_connections,
    **{f"{api} {error}": _joined(api, error) for api, error in JOINING},
    **{f"{api} {error}": _joined(api, error, times=None) for api, error in BARRED},
    **{f"heartbeat {error}": _beaten(error) for error in HEARTBEATS},
    **{f"commit {error}": _committed(error) for error in COMMITS},
    **{f"transaction {api} {error}": _failed_step(api, error) for api, error in TRANSACTIONS},
    "answer to a commit of a transaction lost": _transacted(
        "EndTxn",
        lambda plan: plan.broker.drop("EndTxn", client_id=plan.name, applied=True, times=1),
    ),
    "fenced": fenced(lambda plan: plan.broker.fence_producer(plan.name)),
    "member expired": _expired,
    "member silent": _silent,
    **{f"create topic {error}": _created(error) for error in ADMINISTERED},
}

UNSTEADY = {
    # aiokafka joins as a new member, and waits until the session of its old member id ends.
    ("commit ILLEGAL_GENERATION", "aiokafka"),
    ("commit UNKNOWN_MEMBER_ID", "aiokafka"),
    # librdkafka closes its connection when FindCoordinator returns the same coordinator, and
    # repeats this until the timing happens to differ: at once or after a minute, sooner behind a
    # proxy.
    ("commit NOT_COORDINATOR", "confluent-kafka"),
    ("heartbeat NOT_COORDINATOR", "confluent-kafka"),
}
"""Cases that are not compared, because they take too long or their duration varies."""


def outlive_a_crash(broker: Broker) -> dict[str, Any]:
    """All clients write at the same time, before and after a crash of the broker and its restart;
    returns the outcomes, the topic's records and what each client reads."""
    restarting: list[Future[None]] = []

    def crash() -> None:
        broker.crash()
        restarting.append(beside.submit(broker.restart))

    together = threading.Barrier(len(CLIENTS), crash)

    def play(client: Client, plan: Plan) -> Any:
        def values() -> Iterator[bytes]:
            yield b"before"
            together.wait(60)
            yield b"meanwhile"

        outcome = client.send(plan, values(), True)
        restarting[0].result()
        return outcome, logged(plan), client.join(plan, 2, nullcontext)

    plans = {name: Plan(broker, f"crash-{name}", f"crash-{name}") for name in CLIENTS}
    for plan in plans.values():
        broker.create_topic(plan.topic)
    with ThreadPoolExecutor(len(CLIENTS) + 1) as beside:
        playing = {name: beside.submit(play, CLIENTS[name], plan) for name, plan in plans.items()}
        return {name: each.result() for name, each in playing.items()}


CASES = [(play, client) for play in PLAYS for client in CLIENTS if (play, client) not in UNSTEADY]


def reaction(broker: Broker, play: str, client: str) -> Any:
    """The client's reaction to one case, with topics and groups of that case only."""
    name = f"{play} {client}".replace(" ", "-")
    return PLAYS[play](CLIENTS[client], Plan(broker, name, name))
