"""Checks of transactions: such as hang, are too long, or cannot be ended."""

from __future__ import annotations

from collections.abc import Iterator
from shlex import quote

from wirekafka.client.admin.transactions import TransactionRow
from wirekafka.doctor.cluster.facts import ClusterFacts, PartitionFacts, ProducerFacts, whole_number
from wirekafka.doctor.finding import Finding, Severity, duration

_OPEN = "Ongoing"
_ENDING = ("PrepareCommit", "PrepareAbort")
_GRACE_MS = 60_000
"""Coordinators look for transactions that exceed their timeout only every few seconds."""
_LONG_MS = 15 * 60_000
_DEFAULT_MOST_MS = 900_000


def check_transactions(facts: ClusterFacts) -> Iterator[Finding]:
    """Find transactions that keep readers of committed records from new records."""
    most_ms = _most_ms(facts)
    for transaction in facts.transactions:
        yield from _ending(transaction)
        yield from _long(transaction, most_ms, facts.now_ms)
    running = [each for each in facts.brokers.values() if not each.is_fenced]
    if not all(each.knows_transactions for each in running):
        return  # A coordinator that has not answered may have the transaction.
    held = {
        (each.producer_id, partition)
        for each in facts.transactions
        if each.is_active
        for partition in each.partitions
    }
    for partition in facts.partitions():
        for producer in partition.open_producers:
            if (producer.producer_id, (partition.topic, partition.index)) not in held:
                yield _hanging(partition, producer, facts.now_ms)


def _hanging(partition: PartitionFacts, producer: ProducerFacts, now_ms: int) -> Finding:
    since = f", last written {duration(now_ms - producer.last_ms)} ago" if producer.last_ms else ""
    held_back = max(partition.end_offset - producer.start_offset, 0)
    return Finding(
        check="hanging-transaction",
        severity=Severity.ERROR,
        subject=f"{partition.name}, producer id {producer.producer_id},"
        f" from offset {producer.start_offset}",
        problem=f"its transaction is open, and no coordinator knows it{since}: readers of committed"
        f" records wait before {held_back} records, and compaction stops there",
        advice=f"`wirekafka transactions abort --topic {quote(partition.topic)}"
        f" --partition {partition.index} --start-offset {producer.start_offset}`",
        passing=True,
    )


def _ending(transaction: TransactionRow) -> Iterator[Finding]:
    if transaction.state in _ENDING:
        yield Finding(
            check="transaction-does-not-end",
            severity=Severity.ERROR,
            subject=f"transactional id {transaction.transactional_id}",
            problem=f"it stays in {transaction.state}: its markers are not written to all of its"
            " partitions",
            advice="See which of its partitions have no leader or a leader that does not answer"
            f" (`wirekafka transactions describe {quote(transaction.transactional_id)}`).",
            passing=True,
        )


def _long(transaction: TransactionRow, most_ms: int, now_ms: int) -> Iterator[Finding]:
    if transaction.state != _OPEN or transaction.start_ms <= 0:
        return
    age_ms = now_ms - transaction.start_ms
    limit_ms = transaction.timeout_ms if transaction.timeout_ms > 0 else most_ms
    if age_ms > limit_ms + _GRACE_MS:
        severity, why = Severity.ERROR, f"more than its timeout of {duration(limit_ms)}"
    elif age_ms > _LONG_MS:
        severity, why = Severity.WARNING, "and readers of committed records wait for its end"
    else:
        return
    yield Finding(
        check="long-transaction",
        severity=severity,
        subject=f"transactional id {transaction.transactional_id}",
        problem=f"its transaction has been open for {duration(age_ms)}, {why}",
        advice="End it in its application, or run `kafka-transactions.sh"
        f" forceTerminateTransaction --transactional-id {quote(transaction.transactional_id)}`;"
        " give producers a shorter transaction.timeout.ms.",
    )


def _most_ms(facts: ClusterFacts) -> int:
    texts = [each.configs.get("transaction.max.timeout.ms", "") for each in facts.brokers.values()]
    found = [number for text in texts if (number := whole_number(text)) is not None]
    return max(found, default=_DEFAULT_MOST_MS)
