"""Rates at which a broker copies replicas; they can only be set while it runs.

Kafka describes them only where they are set, and without documentation.
"""

from __future__ import annotations

from wirekafka.config.check import at_least
from wirekafka.config.option import CLUSTER_WIDE, long


class ThrottleOptions:
    """The dynamic options, in bytes per second."""

    leader_replication_throttled_rate = long(None, at_least(0), update=CLUSTER_WIDE)
    follower_replication_throttled_rate = long(None, at_least(0), update=CLUSTER_WIDE)
    replica_alter_log_dirs_io_max_bytes_per_second = long(None, at_least(0), update=CLUSTER_WIDE)
