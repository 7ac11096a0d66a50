"""Reads committed offsets without a client library."""

from __future__ import annotations

from compat_tests.wire import Wire
from tests.eventually import eventually
from wirekafka.protocol.offset_fetch import OffsetFetchRequest

_VERSION = 5


def committed_offsets(bootstrap: str, group: str) -> dict[tuple[str, int], tuple[int, str]]:
    """The offsets that a group has committed at a cluster of one, with their metadata.

    By topic and partition; waits for the coordinator, and fails if there is none within 30 s.
    librdkafka's admin client is not used, because it ends the process if the coordinator is not
    ready (https://github.com/confluentinc/librdkafka/issues/5040).
    """
    wire = Wire.to(bootstrap)
    request = OffsetFetchRequest(group_id=group, topics=None)

    def fetched() -> dict[tuple[str, int], tuple[int, str]] | None:
        found = wire.ask(request, _VERSION)
        if isinstance(found, str) or found.error_code:
            raise ConnectionError(found)
        return {
            (topic.name, each.partition_index): (each.committed_offset, each.metadata)
            for topic in found.topics
            for each in topic.partitions
        }

    try:
        return eventually(lambda: [fetched()])[0]
    finally:
        wire.close()
