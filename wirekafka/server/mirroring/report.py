"""What a mirror reports about itself, for `wirekafka mirror status` and the console."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from wirekafka.replication.mirroring.mirror_fetcher import CopiedPartition, CopyState
from wirekafka.server.mirroring.mirroring import Mirroring

_PROMOTED, _REFUSED = "promoted", "refused"


def summary(mirroring: Mirroring) -> dict[str, Any]:
    """The mirror as a whole: its source, how far it is behind, and why it may not go on."""
    if mirroring.error is not None:
        state = CopyState.WAITING.value
    elif mirroring.plan.is_over:
        state = _PROMOTED
    else:
        state = "complete" if mirroring.is_complete else CopyState.COPYING.value
    return {
        "source": mirroring.settings.source,
        "state": state,
        "lag": mirroring.lag,
        "bytes": sum(each.copied_bytes for each in mirroring.copied.values()),
        "error": mirroring.error,
    }


def rows(mirroring: Mirroring) -> list[dict[str, Any]]:
    """The partitions that are copied, and the topics that are not, in order."""
    return list(each_row(mirroring))


def each_row(mirroring: Mirroring) -> Iterator[dict[str, Any]]:
    """The rows one by one: each is true when it is taken."""
    for _, each in sorted(mirroring.copied.items()):
        yield _copied(each, mirroring)
    others = dict.fromkeys(mirroring.plan.promoted, _PROMOTED)
    others |= dict.fromkeys(mirroring.plan.refused, _REFUSED)
    for topic, state in sorted(others.items()):
        reason = mirroring.plan.refused.get(topic)
        yield _row(topic, None, state, reason=reason)


def _copied(copied: CopiedPartition, mirroring: Mirroring) -> dict[str, Any]:
    log, reason, state = copied.partition.log, copied.reason, copied.state
    failure = mirroring.fetch_error(copied.key) or mirroring.error
    if state is CopyState.COPYING and failure is not None:
        state, reason = CopyState.WAITING, failure
    return _row(
        *copied.key,
        state.value,
        start=log.start_offset,
        end=log.end_offset,
        source_start=copied.source_start,
        source_end=copied.source_end,
        lag=copied.lag,
        skipped=copied.skipped,
        reason=reason,
    )


def _row(topic: str, partition: int | None, state: str, **known: Any) -> dict[str, Any]:
    names = ("start", "end", "source_start", "source_end", "lag", "skipped", "reason")
    values = {name: known.get(name) for name in names}
    return {"topic": topic, "partition": partition, "state": state, **values}
