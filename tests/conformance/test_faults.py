"""Many faults in a broker of this process, each found by the case that is about it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from types import CoroutineType
from typing import Any, NamedTuple

import pytest

import wirekafka
from wirekafka.config.address import Address
from wirekafka.conformance.case import Case
from wirekafka.conformance.cases import all_cases
from wirekafka.conformance.cleaning import clean
from wirekafka.conformance.recordings import RELEASES
from wirekafka.conformance.run import Player, judge, judged_versions, playable
from wirekafka.conformance.target import ClusterUnderTest
from wirekafka.errors import Error
from wirekafka.testing.hooks.hook import FaultsAndTraffic

RELEASE = RELEASES[-1]
Change = Callable[[Any, Any], None]
"""Changes a request before it is served (the response is None), or the response to it."""


class Fault(NamedTuple):
    """What a broker does wrong in one API, and the case that must find it."""

    what: str
    api: str
    case: str
    change: Change


def parts(response: Any) -> Iterator[Any]:
    """The parts of a response, and their parts, that have fields."""
    for field in response.fields:
        value = getattr(response, field.name)
        for each in value if isinstance(value, list) else [value]:
            if hasattr(each, "fields"):
                yield each
                yield from parts(each)


def error(wrong: Error, right: Error) -> Change:
    """Another error code in place of the right one."""

    def change(_: Any, response: Any) -> None:
        for each in [response, *parts(response)] if response else []:
            for field in each.fields:
                if field.name.endswith("error_code") and getattr(each, field.name) == right:
                    setattr(each, field.name, int(wrong))

    return change


def missing(field: str, value: Any = None) -> Change:
    """A field that is never filled in, or that always has one value."""
    return moved(field, lambda _: value)


def moved(field: str, by: Callable[[Any], Any]) -> Change:
    """A field whose value is another one."""

    def change(_: Any, response: Any) -> None:
        for each in [response, *parts(response)] if response else []:
            if hasattr(each, field):
                setattr(each, field, by(getattr(each, field)))

    return change


def asked(field: str, by: Callable[[Any], Any]) -> Change:
    """A field of the request that the broker reads wrongly."""

    def change(request: Any, response: Any) -> None:
        for each in [request, *parts(request)] if response is None else []:
            if hasattr(each, field):
                setattr(each, field, by(getattr(each, field)))

    return change


def one_more(value: int) -> int:
    return value + 1


def but_first(value: Any) -> Any:
    return value[1:] if value else value


NONE = Error.NONE
FAULTS = (
    Fault(
        "another error",
        "Produce",
        "to-a-missing-topic",
        error(Error.LEADER_NOT_AVAILABLE, Error.UNKNOWN_TOPIC_OR_PARTITION),
    ),
    Fault(
        "an offset off by one",
        "Produce",
        "the-sequences-of-a-producer",
        moved("base_offset", one_more),
    ),
    Fault(
        "no bad records named",
        "Produce",
        "keyless-to-a-compacted-topic",
        missing("record_errors", []),
    ),
    Fault(
        "no required replicas", "Produce", "with-acks-2", error(NONE, Error.INVALID_REQUIRED_ACKS)
    ),
    Fault(
        "a session forgotten",
        "Fetch",
        "a-session-without-changes",
        asked("session_id", lambda id: id and id + 1),
    ),
    Fault(
        "a high watermark off by one", "Fetch", "from-the-start", moved("high_watermark", one_more)
    ),
    Fault(
        "aborted transactions left out",
        "Fetch",
        "committed-records-of-an-aborted-transaction",
        missing("aborted_transactions", []),
    ),
    Fault(
        "isolation ignored",
        "Fetch",
        "a-reader-of-committed-records-is-woken-by-the-commit",
        asked("isolation_level", lambda _: 0),
    ),
    Fault(
        "epochs ignored",
        "Fetch",
        "in-a-later-epoch-than-the-leader-s",
        asked("current_leader_epoch", lambda _: -1),
    ),
    Fault(
        "a time off by one",
        "ListOffsets",
        "a-time-that-three-records-and-the-next-batch-have",
        asked("timestamp", lambda time: time + 1 if time > 0 else time),
    ),
    Fault("no leader epoch", "ListOffsets", "the-end-of-a-log", missing("leader_epoch", -1)),
    Fault(
        "an epoch's end off by one",
        "OffsetForLeaderEpoch",
        "epoch-0",
        moved("end_offset", one_more),
    ),
    Fault(
        "a deletion that is only claimed",
        "DeleteRecords",
        "to-the-middle-of-a-batch",
        asked("offset", lambda _: 0),
    ),
    Fault(
        "any name of a client",
        "ApiVersions",
        "client-software-with-no-name",
        error(NONE, Error.INVALID_REQUEST),
    ),
    Fault("topics without ids", "Metadata", "a-topic", missing("topic_id", bytes(16))),
    Fault(
        "operations left out",
        "Metadata",
        "operations-on-a-topic",
        missing("topic_authorized_operations", -(2**31)),
    ),
    Fault(
        "any type of key",
        "FindCoordinator",
        "a-key-of-type-3",
        error(Error.COORDINATOR_NOT_AVAILABLE, Error.INVALID_REQUEST),
    ),
    Fault(
        "no id before joining",
        "JoinGroup",
        "ids-of-new-members",
        error(NONE, Error.MEMBER_ID_REQUIRED),
    ),
    Fault(
        "a generation off by one", "JoinGroup", "the-first-member", moved("generation_id", one_more)
    ),
    Fault("a lost assignment", "SyncGroup", "the-leader", missing("assignment", b"")),
    Fault(
        "anybody is a member",
        "Heartbeat",
        "an-unknown-member",
        error(NONE, Error.UNKNOWN_MEMBER_ID),
    ),
    Fault(
        "an unknown member that leaves",
        "LeaveGroup",
        "an-unknown-member",
        error(NONE, Error.UNKNOWN_MEMBER_ID),
    ),
    Fault(
        "metadata without limit",
        "OffsetCommit",
        "of-long-metadata",
        error(NONE, Error.OFFSET_METADATA_TOO_LARGE),
    ),
    Fault(
        "offset 0 where there is none",
        "OffsetFetch",
        "an-unknown-group",
        moved("committed_offset", lambda offset: max(offset, 0)),
    ),
    Fault("metadata of offsets lost", "OffsetFetch", "an-offset", missing("metadata", "")),
    Fault(
        "an epoch that does not rise",
        "InitProducerId",
        "a-known-name-recovers-with-its-id-and-epoch",
        missing("producer_epoch", 0),
    ),
    Fault(
        "fencing under another name",
        "EndTxn",
        "a-commit-of-nothing-by-an-older-epoch",
        error(Error.INVALID_TXN_STATE, Error.PRODUCER_FENCED),
    ),
    Fault(
        "a partition that is not there",
        "AddPartitionsToTxn",
        "a-partition-and-a-missing-partition",
        error(NONE, Error.UNKNOWN_TOPIC_OR_PARTITION),
    ),
    Fault(
        "configurations left out",
        "CreateTopics",
        "configured-segment-bytes",
        missing("configs", []),
    ),
    Fault("fewer partitions", "CreatePartitions", "fewer", error(NONE, Error.INVALID_PARTITIONS)),
    Fault(
        "only some synonyms",
        "DescribeConfigs",
        "segment-bytes-of-a-topic",
        moved("synonyms", but_first),
    ),
    Fault(
        "a subtraction that appends",
        "IncrementalAlterConfigs",
        "an-element-subtracted-from-a-list",
        asked("config_operation", lambda op: 2 if op == 3 else op),
    ),
    Fault(
        "strict filters that are not",
        "DescribeClientQuotas",
        "a-user-strictly",
        asked("strict", lambda _: False),
    ),
    Fault(
        "a member without an assignment",
        "ConsumerGroupHeartbeat",
        "the-uniform-assignor",
        missing("assignment"),
    ),
    Fault(
        "a member epoch off by one",
        "ConsumerGroupHeartbeat",
        "the-uniform-assignor",
        moved("member_epoch", one_more),
    ),
    Fault("no type of protocol", "DescribeGroups", "a-stable-group", missing("protocol_type", "")),
)


@pytest.fixture(scope="module")
def player() -> Iterator[Player]:
    """Plays cases on a broker whose groups do not wait for members to come."""
    config = {
        "group.initial.rebalance.delay.ms": "0",
        "group.consumer.heartbeat.interval.ms": "5000",
    }
    with wirekafka.Broker(config=config) as broker:
        target = ClusterUnderTest([Address.parse(broker.bootstrap_servers)])
        target.look()
        player = Player(target)
        player.prepare()
        yield player
        assert clean(target.bootstrap, None, target.prefix) == []


@pytest.mark.parametrize("fault", FAULTS, ids=[f"{each.api}: {each.what}" for each in FAULTS])
def test_a_fault_is_found_by_the_case_that_is_about_it(
    player: Player, fault: Fault, monkeypatch: pytest.MonkeyPatch
) -> None:
    (case,) = [
        each
        for each in all_cases()
        if each.api == fault.api and each.name.endswith(f"/{fault.case}")
    ]
    assert outcome(player, case) == "same"
    monkeypatch.setattr(FaultsAndTraffic, "handle", changed(fault))
    assert outcome(player, case) == "different"


def outcome(player: Player, case: Case) -> str:
    """How a case is judged now."""
    (played,) = playable([case], player.target)
    (result,) = player.all([played], lambda each: judged_versions(each, player.target, RELEASE))
    judge(result, RELEASE)
    return result.outcome


def changed(fault: Fault) -> Callable[..., Any]:
    """The hook around handlers, with a fault in one API."""
    honest = FaultsAndTraffic.handle

    def handle(hook: FaultsAndTraffic, route: Any, request: Any, call: Any) -> Any:
        if route.api.name != fault.api:
            return honest(hook, route, request, call)
        fault.change(request, None)
        response: Any = honest(hook, route, request, call)
        if response.__class__ is CoroutineType:
            return later(request, response)
        fault.change(request, response)
        return response

    async def later(request: Any, handling: Any) -> Any:
        response = await handling
        fault.change(request, response)
        return response

    return handle


def test_there_are_at_least_thirty_faults() -> None:
    assert len({(each.api, each.what) for each in FAULTS}) >= 30
