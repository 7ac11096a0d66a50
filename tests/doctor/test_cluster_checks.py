"""The checks of a cluster as pure functions: which findings follow from which facts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import Field, fields, replace
from typing import Any

import pytest

from tests.doctor.test_check_names import PAGE as PAGE_PATH
from wirekafka.client.admin.transactions import TransactionRow
from wirekafka.config.address import Address
from wirekafka.config.own import DISK_BUDGET, DISK_POLICY, KEEP_UNREAD
from wirekafka.doctor.cluster.examination import confirmed, findings_of
from wirekafka.doctor.cluster.facts import (
    BrokerFacts,
    CertificateFacts,
    ClusterFacts,
    DirectoryFacts,
    FailureCause,
    GroupFacts,
    PartitionFacts,
    ProducerFacts,
    QuorumFacts,
    TopicFacts,
    Unanswered,
    VoterFacts,
)
from wirekafka.doctor.finding import Finding, Severity, duration, has_problems, in_order, listed

PAGE = PAGE_PATH.read_text()
NOW_MS = 1_700_000_000_000
DAY_MS = 86_400_000
CONFIGS = {
    "cleanup.policy": "delete",
    "min.insync.replicas": "2",
    "retention.ms": str(7 * DAY_MS),
    "retention.bytes": "-1",
    "unclean.leader.election.enable": "false",
}
FEATURES = {"metadata.version": (7, 33)}
IDS = (1, 2, 3)
BUDGETED = DirectoryFacts("/d", "", 1000, 500, used_bytes=95)


def broker(id: int, **changes: Any) -> BrokerFacts:
    facts = BrokerFacts(
        id=id,
        address=Address(f"kafka-{id}.example.com", 9092),
        cluster_id="a",
        topic_ids={"t": bytes(16)},
        leader_epochs={("t", 0): 4},
        directories=[DirectoryFacts("/data", "", 1000, 500)],
        supported=FEATURES,
        knows_transactions=True,
    )
    return replace(facts, **changes)


def partition(topic: str = "t", **changes: Any) -> PartitionFacts:
    facts = PartitionFacts(
        topic=topic,
        index=0,
        leader=1,
        replicas=list(IDS),
        isr=list(IDS),
        start_offset=100,
        end_offset=200,
        stable_offset=200,
        newest_ms=NOW_MS - 1000,
        due_offset=100,
        size_bytes=10_000,
    )
    return replace(facts, **changes)


def topic(name: str = "t", configs: Mapping[str, str] = CONFIGS, **changes: Any) -> TopicFacts:
    internal = name.startswith("__")
    found = TopicFacts(
        name=name,
        partitions=[partition(name, **changes)],
        configs={**CONFIGS, **configs},
        is_internal=internal,
    )
    return found


def cluster(
    *topics: TopicFacts, brokers: Sequence[BrokerFacts] = (), **changes: Any
) -> ClusterFacts:
    """A healthy cluster, but for what is given."""
    found = {each.name: each for each in topics or (topic(),)}
    ids = {name: each.id for name, each in found.items()}
    changed = {each.id: each for each in brokers}
    facts = ClusterFacts(
        now_ms=NOW_MS,
        bootstrap=[Address("kafka.example.com", 9092)],
        cluster_id="a",
        brokers={id: changed.get(id, broker(id, topic_ids=ids)) for id in IDS},
        topics=found,
        quorum=quorum(),
        finalized={"metadata.version": 33},
    )
    return replace(facts, **changes)


def quorum(**changes: Any) -> QuorumFacts:
    facts = QuorumFacts(
        leader=101,
        end_offset=50,
        voters=[VoterFacts(id, 50, NOW_MS, NOW_MS) for id in (101, 102, 103)],
        asked_ms=NOW_MS - 5,
        answered_ms=NOW_MS + 5,
    )
    return replace(facts, **changes)


def voters(*others: VoterFacts) -> QuorumFacts:
    return quorum(voters=[VoterFacts(101, 50, NOW_MS, NOW_MS), *others])


def certificate(*, begins_days: float = -1, ends_days: float = 365, name: str = "") -> BrokerFacts:
    """Broker 1 with a certificate."""
    found = CertificateFacts(
        int(NOW_MS + begins_days * DAY_MS),
        int(NOW_MS + ends_days * DAY_MS),
        [name or "*.example.com"],
    )
    return broker(1, certificate=found)


def group(state: str = "Stable", offset: int = 200) -> GroupFacts:
    return GroupFacts(name="g", state=state, offsets={("t", 0): offset})


def checks(facts: ClusterFacts) -> list[str]:
    return sorted({each.check for each in findings_of(facts)})


def open_transaction(**changes: Any) -> TransactionRow:
    facts = TransactionRow(
        transactional_id="tx",
        state="Ongoing",
        producer_id=7,
        coordinator=1,
        start_ms=NOW_MS - 1000,
        timeout_ms=60_000,
        partitions=[("t", 0)],
    )
    return replace(facts, **changes)


OPEN = topic(stable_offset=150, open_producers=[ProducerFacts(7, 150, NOW_MS - 1000)])


def test_a_healthy_cluster_has_no_findings() -> None:
    facts = cluster(topic(), topic("__consumer_offsets", {"cleanup.policy": "compact"}))
    assert findings_of(facts) == []
    busy = cluster(OPEN, groups=[group()], transactions=[open_transaction()])
    assert findings_of(busy) == []
    certified = cluster(brokers=[certificate()])
    assert findings_of(certified) == []


@pytest.mark.parametrize(
    ("facts", "found"),
    [
        (
            cluster(brokers=[broker(1, failure="cannot connect to x:1: Connection refused")]),
            "broker-unreachable",
        ),
        (
            cluster(brokers=[broker(1, failure="cannot connect", cause=FailureCause.NAME)]),
            "advertised-name-unknown",
        ),
        (
            cluster(brokers=[broker(1, failure="it may expect another client certificate")]),
            "broker-unreachable",
        ),
        (cluster(brokers=[broker(1, address=Address("127.0.0.1", 1))]), "advertised-localhost"),
        (cluster(brokers=[broker(1, address=Address("localhost", 1))]), "advertised-localhost"),
        (cluster(brokers=[broker(1, is_fenced=True)]), "broker-fenced"),
        (cluster(brokers=[broker(1, stranger="expected 2")]), "other-broker-answers"),
        (cluster(brokers=[broker(1, cluster_id="b")]), "other-cluster-answers"),
        (cluster(brokers=[broker(2, leader_epochs={("t", 0): 3})]), "metadata-differs"),
        (cluster(brokers=[broker(2, topic_ids={"t": b"x" * 16})]), "metadata-differs"),
        (cluster(brokers=[broker(2, topic_ids={})]), "metadata-differs"),
        (cluster(brokers=[certificate(ends_days=-1)]), "certificate-expired"),
        (cluster(brokers=[certificate(ends_days=29)]), "certificate-expires"),
        (cluster(brokers=[certificate(begins_days=1)]), "certificate-not-yet-valid"),
        (cluster(brokers=[certificate(name="kafka-2.example.com")]), "certificate-name"),
        (cluster(brokers=[certificate(name="*.com")]), "certificate-name"),
        (
            cluster(brokers=[broker(1, failure="unknown CA", cause=FailureCause.CERTIFICATE)]),
            "certificate-refused",
        ),
        (cluster(topic(leader=-1)), "no-leader"),
        (cluster(topic(replicas=[1, 2, 9])), "replica-without-broker"),
        (cluster(topic(leader=2)), "not-preferred-leader"),
        (cluster(topic(configs={"min.insync.replicas": "4"})), "min-isr-above-replicas"),
        (cluster(topic(configs={"unclean.leader.election.enable": "true"})), "unclean-elections"),
        (cluster(topic(configs={"retention.ms": "0"})), "short-retention"),
        (cluster(topic(configs={"retention.bytes": "0"})), "short-retention"),
        (cluster(topic(newest_ms=NOW_MS + DAY_MS)), "future-timestamps"),
        (cluster(topic("__consumer_offsets")), "internal-topic-not-compacted"),
        (
            cluster(topic("__transaction_state", {"cleanup.policy": "compact,delete"})),
            "internal-topic-not-compacted",
        ),
        (
            cluster(brokers=[broker(1, directories=[DirectoryFacts("/d", "KAFKA_STORAGE_ERROR")])]),
            "log-directory-offline",
        ),
        (
            cluster(brokers=[broker(1, directories=[DirectoryFacts("/d", "", 1000, 100)])]),
            "disk-nearly-full",
        ),
        (
            cluster(brokers=[broker(1, directories=[BUDGETED], configs={DISK_BUDGET: "100"})]),
            "disk-budget-used",
        ),
        (cluster(quorum=quorum(leader=-1)), "quorum-without-leader"),
        (cluster(quorum=voters(VoterFacts(102, 50, NOW_MS, NOW_MS))), "even-voters"),
        (cluster(groups=[group("PreparingRebalance")]), "group-rebalancing"),
        (cluster(groups=[group("CompletingRebalance")]), "group-rebalancing"),
        (cluster(groups=[group(offset=99)]), "offset-below-start"),
        (cluster(groups=[group(offset=201)]), "offset-above-end"),
        (cluster(groups=[group("Empty", 150)]), "group-without-members"),
        (cluster(topic(due_offset=160), groups=[group(offset=150)]), "unread-records-expire"),
        (
            cluster(topic(configs={"retention.bytes": "10000"}), groups=[group(offset=100)]),
            "unread-records-expire",
        ),
        (cluster(OPEN), "hanging-transaction"),
        (cluster(OPEN, transactions=[open_transaction(partitions=[])]), "hanging-transaction"),
        (
            cluster(OPEN, transactions=[open_transaction(start_ms=NOW_MS - 130_000)]),
            "long-transaction",
        ),
        (
            cluster(
                OPEN,
                transactions=[open_transaction(start_ms=NOW_MS - DAY_MS, timeout_ms=9 * DAY_MS)],
            ),
            "long-transaction",
        ),
        (
            cluster(OPEN, transactions=[open_transaction(state="PrepareCommit")]),
            "transaction-does-not-end",
        ),
        (cluster(finalized={"metadata.version": 25}), "upgrade-not-finalised"),
        (cluster(brokers=[broker(1, supported={"metadata.version": (7, 34)})]), "mixed-versions"),
        (cluster(silent=[Unanswered("x:1", "Connection refused")]), "bootstrap-unreachable"),
        (cluster(unanswered=[Unanswered("the quorum", "refused")]), "not-checked"),
        (
            cluster(brokers=[broker(1, unanswered=[Unanswered("its groups", "refused")])]),
            "not-checked",
        ),
    ],
    ids=lambda each: each if isinstance(each, str) else "",
)
def test_each_fault_is_found_alone_and_with_advice(facts: ClusterFacts, found: str) -> None:
    assert checks(facts) == [found]
    for each in findings_of(facts):
        assert each.advice and each.problem and each.subject


@pytest.mark.parametrize(
    ("in_sync", "wanted", "found"),
    [
        ([1, 2], "1", ["under-replicated"]),
        ([1, 2], "2", ["at-min-isr", "under-replicated"]),
        ([1], "2", ["under-min-isr", "under-replicated"]),
        ([1, 2, 3], "3", []),
    ],
)
def test_replicas_in_sync_are_compared_with_the_minimum(
    in_sync: list[int], wanted: str, found: list[str]
) -> None:
    configs = {"min.insync.replicas": wanted}
    assert checks(cluster(topic(configs=configs, isr=in_sync))) == found


@pytest.mark.parametrize(
    ("voter", "is_found"),
    [
        (VoterFacts(102, 50, NOW_MS - 1000, NOW_MS - 1000), False),
        (VoterFacts(102, 10, NOW_MS - 1000, NOW_MS - 2000), False),
        (VoterFacts(102, 10, NOW_MS - 1000, NOW_MS - 60_000), True),
        (VoterFacts(102, 50, NOW_MS - 60_000, NOW_MS - 60_000), True),
        (VoterFacts(102, 10, -1, -1), True),
    ],
)
def test_a_voter_that_lags_or_is_silent_is_found(voter: VoterFacts, is_found: bool) -> None:
    facts = cluster(quorum=voters(voter, VoterFacts(103, 50, NOW_MS, NOW_MS)))
    assert checks(facts) == (["voter-behind"] if is_found else [])


@pytest.mark.parametrize(
    ("clock_ms", "text"),
    [
        (NOW_MS, ""),
        (NOW_MS + 4000, ""),
        (NOW_MS + 61_005, "1.02 min ahead of"),
        (NOW_MS - 61_005, "1.02 min behind"),
        (-1, ""),
    ],
)
def test_a_clock_that_differs_is_found(clock_ms: int, text: str) -> None:
    others = [VoterFacts(id, 50, clock_ms, clock_ms) for id in (101, 102, 103)]
    found = findings_of(cluster(quorum=quorum(voters=others)))
    assert [each.check for each in found] == (["clocks-differ"] if text else [])
    assert all(text in each.problem for each in found)


def test_an_internal_topic_with_one_replica_counts_only_in_a_larger_cluster() -> None:
    configs = {"cleanup.policy": "compact", "min.insync.replicas": "1"}
    alone = topic("__consumer_offsets", configs, replicas=[1], isr=[1])
    assert checks(cluster(alone)) == ["internal-topic-single-copy"]
    few = {id: broker(id, topic_ids={"__consumer_offsets": bytes(16)}) for id in (1, 2)}
    assert checks(replace(cluster(alone), brokers=few)) == []


def test_a_transaction_is_not_hanging_while_a_coordinator_has_not_answered() -> None:
    silent = broker(2, knows_transactions=False)
    assert checks(cluster(OPEN, brokers=[silent])) == []
    assert checks(cluster(OPEN, brokers=[replace(silent, is_fenced=True)])) == [
        "broker-fenced",
        "hanging-transaction",
    ]


@pytest.mark.parametrize("state", ["Ongoing", "PrepareEpochFence"])
def test_a_transaction_that_its_coordinator_has_open_is_not_hanging(state: str) -> None:
    assert checks(cluster(OPEN, transactions=[open_transaction(state=state)])) == []


def test_compacted_topics_lose_no_unread_records() -> None:
    compacted = topic(configs={"cleanup.policy": "compact"}, due_offset=160)
    assert checks(cluster(compacted, groups=[group(offset=150)])) == []


def test_what_may_pass_counts_only_if_it_was_there_before() -> None:
    stuck, lost = findings_of(cluster(groups=[group("PreparingRebalance"), group(offset=99)]))
    assert (stuck.passing, lost.passing) == (True, False)
    assert confirmed([], [stuck, lost]) == [lost]
    assert confirmed([stuck], [stuck, lost]) == [stuck, lost]
    assert confirmed([stuck], [lost]) == [lost]


def finding(severity: Severity, subject: str = "s") -> Finding:
    return Finding(check="c", severity=severity, subject=subject, problem="p", advice="a")


def test_the_worst_findings_come_first_and_notes_are_no_problems() -> None:
    note, warning, error = (finding(each) for each in (*reversed(Severity),))
    assert in_order([note, error, warning]) == [error, warning, note]
    assert not has_problems([note])
    assert has_problems([note, warning])


def test_the_page_shows_what_is_printed() -> None:
    of_orders = {"min.insync.replicas": "2"}
    of_payments = {"min.insync.replicas": "1", "retention.ms": str(100 * 3_600_000)}
    facts = cluster(
        topic("orders", of_orders, replicas=[1], isr=[1]),
        topic(
            "payments", of_payments, start_offset=0, end_offset=20, stable_offset=20, due_offset=20
        ),
        groups=[GroupFacts(name="billing", state="Empty", offsets={("payments", 0): 4})],
    )
    found = in_order(findings_of(facts))
    assert len(found) == 3
    for each in found:
        assert f"  {each.subject}: {each.problem} [{each.check}]\n    {each.advice}\n" in PAGE


@pytest.mark.parametrize("field", fields(Finding), ids=lambda each: each.name)
def test_the_page_names_the_fields_of_a_finding(field: Field[object]) -> None:
    assert f"`{field.name}`" in PAGE


def test_long_lists_are_cut() -> None:
    assert listed(range(5)) == "0, 1, 2, 3, 4"
    assert listed(range(100)) == "0, 1, 2, 3, 4 and 95 more"


@pytest.mark.parametrize(
    ("span_ms", "text"),
    [(5, "5 ms"), (1500, "1.5 s"), (90_000, "1.5 min"), (3 * DAY_MS, "3 d"), (-7_200_000, "-2 h")],
)
def test_a_time_span_has_the_unit_that_fits(span_ms: int, text: str) -> None:
    assert duration(span_ms) == text


def test_a_command_in_an_advice_quotes_the_names_of_others() -> None:
    hostile = "t; rm -rf ~"
    configs = {**CONFIGS, "retention.ms": "1", "unclean.leader.election.enable": "true"}
    facts = ClusterFacts(now_ms=NOW_MS, topics={hostile: topic(hostile, configs)})
    advices = [each.advice for each in findings_of(facts) if "topics alter" in each.advice]
    assert len(advices) > 1
    assert all(f"alter '{hostile}' " in each for each in advices), advices


@pytest.mark.parametrize("text", ["9" * 5_000, "1e999", "-", "", "--1"])
def test_an_option_that_is_no_number_is_not_known(text: str) -> None:
    assert topic(configs={"retention.ms": text}).number("retention.ms") is None
    others = broker(1, configs={"transaction.max.timeout.ms": text})
    long = open_transaction(start_ms=NOW_MS - 20 * 60_000, timeout_ms=0)
    [found] = findings_of(cluster(OPEN, brokers=[others], transactions=[long]))
    assert "more than its timeout of 15 min" in found.problem


def test_a_used_budget_is_a_warning_once_groups_have_not_read_half_of_it() -> None:
    options = {DISK_BUDGET: "20000", DISK_POLICY: KEEP_UNREAD}
    directory = BUDGETED._replace(used_bytes=19_000)
    one = broker(1, directories=[directory], configs=options)
    severities = {}
    for offset in (100, 160, 200):
        facts = cluster(groups=[group(offset=offset)], brokers=[one])
        [found] = [each for each in findings_of(facts) if each.check == "disk-budget-used"]
        assert "appends are refused" in found.problem
        severities[offset] = found.severity
    assert severities == {100: Severity.WARNING, 160: Severity.NOTE, 200: Severity.NOTE}
    less = broker(1, directories=[BUDGETED._replace(used_bytes=17_000)], configs=options)
    assert not [e for e in findings_of(cluster(brokers=[less])) if e.check == "disk-budget-used"]
