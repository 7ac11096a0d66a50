"""The group options of share groups that the leaders of partitions apply (KIP-932)."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, NamedTuple

from wirekafka.replication.share.limits import ShareLimits

if TYPE_CHECKING:
    from wirekafka.config.broker_config import BrokerConfig

EARLIEST, LATEST = "earliest", "latest"
DEAD_LETTER_TOPIC = "errors.deadletterqueue.topic.name"
_DEAD_LETTERS_SINCE = 2
"""The first level of share.version with dead-letter topics (KIP-1191)."""
_BY_DURATION = "by_duration:"
_DURATION = re.compile(
    r"P(?:(\d+)D)?(?:T(?:(\d+)H)?(?:(\d+)M)?(?:(\d+(?:\.\d{1,9})?)S)?)?", re.IGNORECASE
)
_MS_PER_UNIT = (86_400_000, 3_600_000, 60_000, 1_000)


class ShareReadingOptions(NamedTuple):
    """The options of one group, with Kafka's defaults."""

    limits: ShareLimits = ShareLimits()
    offset_reset: str = LATEST
    """Where a group without state starts: earliest, latest, or by_duration:<ISO 8601>."""
    reads_committed: bool = False

    @classmethod
    def of(
        cls, config: BrokerConfig, overrides: Mapping[str, str], share_version: int
    ) -> ShareReadingOptions:
        """Return the options of a group with these overrides on a broker with this config.

        `share_version` is the cluster's level of that feature.
        """
        get = overrides.get
        return cls(
            ShareLimits(
                int(
                    get(
                        "share.partition.max.record.locks",
                        config.group_share_partition_max_record_locks,
                    )
                ),
                int(get("share.delivery.count.limit", config.group_share_delivery_count_limit)),
                int(
                    get("share.record.lock.duration.ms", config.group_share_record_lock_duration_ms)
                ),
                get("share.renew.acknowledge.enable", "true").lower() == "true",
                bool(get(DEAD_LETTER_TOPIC)) and share_version >= _DEAD_LETTERS_SINCE,
            ),
            get("share.auto.offset.reset", LATEST).strip(),
            get("share.isolation.level", "read_uncommitted").lower() == "read_committed",
        )

    def start_timestamp(self, now_ms: int) -> int:
        """The timestamp, in ms, from which a group starts that has a duration configured."""
        found = _DURATION.fullmatch(self.offset_reset.removeprefix(_BY_DURATION))
        assert found is not None, "checked when the option was set"
        duration_ms = sum(
            float(number) * unit
            for number, unit in zip(found.groups(), _MS_PER_UNIT, strict=True)
            if number is not None
        )
        return max(now_ms - int(duration_ms), 0)
