"""Options of idempotent and transactional producers."""

from __future__ import annotations

from wirekafka.config.check import at_least
from wirekafka.config.option import CLUSTER_WIDE, HIGH, LOW, boolean, integer, short


class TransactionOptions:
    """Broker options of producers and transactions, by attribute."""

    add_partitions_to_txn_retry_backoff_max_ms = integer(
        100,
        at_least(0),
        importance=HIGH,
        doc="How long all attempts to add partitions to a transaction may take together.",
    )
    add_partitions_to_txn_retry_backoff_ms = integer(
        20,
        at_least(1),
        importance=HIGH,
        doc="How long to wait before another attempt to add partitions to a transaction.",
    )
    producer_id_expiration_check_interval_ms = integer(
        600_000,
        at_least(1),
        importance=LOW,
        internal=True,
        doc="How often expired producer ids are removed.",
    )
    producer_id_expiration_ms = integer(
        86_400_000,
        at_least(1),
        importance=LOW,
        update=CLUSTER_WIDE,
        doc="A producer id that wrote nothing for this long is removed from a partition's state.",
    )
    transaction_abort_timed_out_transaction_cleanup_interval_ms = integer(
        10_000,
        at_least(1),
        importance=LOW,
        doc="How often transactions are checked for ones that timed out.",
    )
    transaction_max_timeout_ms = integer(
        900_000,
        at_least(1),
        importance=HIGH,
        doc="The longest timeout a transactional producer may request.",
    )
    transaction_partition_verification_enable = boolean(
        True,
        importance=LOW,
        update=CLUSTER_WIDE,
        doc="Checks with the coordinator that a transactional write belongs to an open "
        "transaction.",
    )
    transaction_remove_expired_transaction_cleanup_interval_ms = integer(
        3_600_000,
        at_least(1),
        importance=LOW,
        doc="How often expired transactional ids are removed.",
    )
    transaction_state_log_load_buffer_size = integer(
        5_242_880,
        at_least(1),
        importance=HIGH,
        doc="Bytes read at a time while a transaction coordinator loads.",
    )
    transaction_state_log_min_isr = integer(
        2, at_least(1), importance=HIGH, doc="`min.insync.replicas` of `__transaction_state`."
    )
    transaction_state_log_num_partitions = integer(
        50,
        at_least(1),
        importance=HIGH,
        doc="Partitions of `__transaction_state`; fixed once it exists.",
    )
    transaction_state_log_replication_factor = short(
        3, at_least(1), importance=HIGH, doc="Copies of each partition of `__transaction_state`."
    )
    transaction_state_log_segment_bytes = integer(
        104_857_600, at_least(1), importance=HIGH, doc="Segment size of `__transaction_state`."
    )
    transaction_two_phase_commit_enable = boolean(
        False,
        importance=LOW,
        doc="Whether producers may prepare transactions for an external coordinator (KIP-939).",
    )
    transactional_id_expiration_ms = integer(
        604_800_000,
        at_least(1),
        importance=HIGH,
        doc="A transactional id that is unused for this long is removed.",
    )
