"""Options for producers that are idempotent or transactional."""

from __future__ import annotations

from wirekafka.config.check import at_least
from wirekafka.config.option import CLUSTER_WIDE, HIGH, LOW, boolean, integer, short


class TransactionOptions:
    """Rows, by name."""

    add_partitions_to_txn_retry_backoff_max_ms = integer(100, at_least(0), importance=HIGH, doc="")
    add_partitions_to_txn_retry_backoff_ms = integer(20, at_least(1), importance=HIGH, doc="")
    producer_id_expiration_check_interval_ms = integer(
        600_000, at_least(1), importance=LOW, internal=True,
        doc="",
    )
    producer_id_expiration_ms = integer(
        86_400_000, at_least(1), importance=LOW, update=CLUSTER_WIDE,
        doc="",
    )
    transaction_abort_timed_out_transaction_cleanup_interval_ms = integer(
        10_000, at_least(1), importance=LOW,
        doc="",
    )
    transaction_max_timeout_ms = integer(900_000, at_least(1), importance=HIGH, doc="")
    transaction_partition_verification_enable = boolean(
        True, importance=LOW, update=CLUSTER_WIDE,
        doc="",
    )
    transaction_remove_expired_transaction_cleanup_interval_ms = integer(
        3_600_000, at_least(1), importance=LOW,
        doc="",
    )
    transaction_state_log_load_buffer_size = integer(
        5_242_880, at_least(1), importance=HIGH,
        doc="",
    )
    transaction_state_log_min_isr = integer(2, at_least(1), importance=HIGH, doc="")
    transaction_state_log_num_partitions = integer(50, at_least(1), importance=HIGH, doc="")
    transaction_state_log_replication_factor = short(3, at_least(1), importance=HIGH, doc="")
    transaction_state_log_segment_bytes = integer(104_857_600, at_least(1), importance=HIGH, doc="")
    transaction_two_phase_commit_enable = boolean(False, importance=LOW, doc="")
    transactional_id_expiration_ms = integer(604_800_000, at_least(1), importance=HIGH, doc="")
