"""The responses to hostile requests that differ from Apache Kafka's on purpose, with the reasons.

`compat_tests/test_refusals.py` fails for any other difference, and for one that is gone.
"""

from __future__ import annotations

import re
from typing import NamedTuple


class Difference(NamedTuple):
    """Requests whose response is another: patterns of their case and of what is hostile."""

    case: str
    hostile: str
    reason: str
    listener: str = ".*"

    def covers(self, listener: str, case: str, hostile: str) -> bool:
        """Whether it is about this request."""
        return bool(
            re.fullmatch(self.listener, listener)
            and re.fullmatch(self.case, case)
            and re.fullmatch(self.hostile, hostile)
        )


_ANY = ".*"
_FAILS = "Kafka fails, with UNKNOWN_SERVER_ERROR or without a response"

DIFFERENCES = (
    # Kafka fails.
    Difference("fetch|filled Fetch", r"session_id = -?\d\d+", f"{_FAILS}: no such session"),
    Difference("fetch", r"topics.topic_id = b'(\\x00)*'", f"{_FAILS}: an unknown topic"),
    Difference(
        "fetch",
        r"(topics.partitions.partition_)?max_bytes = -\d+",
        f"{_FAILS}: a batch at the least",
    ),
    Difference(
        "filled AddPartitionsToTxn|add partitions", "transactions empty", f"{_FAILS}: nothing to do"
    ),
    Difference(
        "filled AlterConfigs|alter configs",
        "resources with an element twice",
        f"{_FAILS}: the resource is changed or refused once",
    ),
    Difference("filled CreateDelegationToken", "owner_principal_type null", f"{_FAILS}: refused"),
    Difference(
        "filled DescribeDelegationToken", _ANY, f"{_FAILS} at controllers: listed there too"
    ),
    Difference(
        "filled DescribeUserScramCredentials|describe users",
        _ANY,
        f"{_FAILS} at controllers and for null: listed there too, null means all",
    ),
    Difference("describe topic partitions", r"topics.name = ''", f"{_FAILS}: an unknown topic"),
    Difference("describe share offsets", r"groups.group_id = ''", f"{_FAILS}: no such group"),
    Difference(
        "alter share offsets",
        r"topics.partitions.partition_index = -\d+",
        f"{_FAILS}: an unknown partition",
    ),
    Difference(
        "change users", r"upsertions.salted_password = b''", f"{_FAILS}: an unacceptable credential"
    ),
    # The controller does not wait.
    Difference(
        _ANY, r"timeout_ms = -1", "commands are decided at once; Kafka's time out in its queue"
    ),
    # Several faults.
    Difference(
        "(filled )?(CreateTopics|CreatePartitions|create topics|create partitions)",
        r"topics.(num_partitions|count) = 2147483647",
        "Kafka compares the number with what one request may create before all else for "
        "partitions, and after all else for topics",
    ),
    Difference(
        "filled StreamsGroupHeartbeat",
        r"topology.epoch = -\d+|(topology.subtopologies|task_(end_)?offsets) with an element twice",
        "regular expressions for source topics are looked at later",
    ),
    Difference(
        "filled ListOffsets|list offsets",
        "topics with an element twice",
        "Kafka calls partitions invalid that are named twice; here only within one topic",
    ),
    # At controllers.
    Difference(
        "filled Fetch",
        r"topics.topic_id = b'(\\x00)*\\x01'",
        "the log's start is not reported for an epoch that is not the leader's",
    ),
    Difference(
        "filled AlterPartition", "topics empty", "the broker's epoch is checked all the same"
    ),
)
