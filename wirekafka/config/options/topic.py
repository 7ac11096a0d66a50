"""Options of topics; most default to a broker option."""

from __future__ import annotations

from typing import Any, TypeVar, Unpack, overload

from wirekafka.config.check import at_least, replica_list
from wirekafka.config.option import Check, Option, Row, boolean, integer, listing
from wirekafka.config.options.cluster import ClusterOptions as Cluster
from wirekafka.config.options.log import LogOptions as Log
from wirekafka.config.options.mirror import MirrorOptions
from wirekafka.config.options.replication import ReplicationOptions as Replication
from wirekafka.config.options.schema_validation import SchemaValidationOptions
from wirekafka.config.options.tables import TableOptions
from wirekafka.config.options.unread import UnreadOptions

T = TypeVar("T")

_MILLISECONDS = {"hours": 3_600_000, "minutes": 60_000}


def scale(option: Option[Any]) -> int:
    """The factor from a broker option's unit to the unit of the topic option that follows it."""
    return _MILLISECONDS.get(option.name.rsplit(".", 1)[-1], 1)


@overload
def follows(first: Option[T], *, check: Check | None = None, **row: Unpack[Row]) -> Option[T]: ...
@overload
def follows(
    first: Option[int | None],
    *others: Option[int] | Option[int | None],
    check: Check | None = None,
    **row: Unpack[Row],
) -> Option[int]: ...
def follows(
    first: Option[Any], *others: Option[Any], check: Check | None = None, **row: Unpack[Row]
) -> Option[Any]:
    """Declare an option with the type, check and default of a broker option.

    Several broker options set one value in several units, the finest first: the first set option is
    the default.
    """
    chain = (first, *others)
    default = next(
        o.default * scale(o) if others else o.default for o in chain if o.default is not None
    )
    row.setdefault("doc", first.doc)
    option: Option[Any] = Option(first.type, default, check or first.check, row)
    option.chain = chain
    return option


class TopicOptions(SchemaValidationOptions, TableOptions, MirrorOptions, UnreadOptions):
    """Topic options, by attribute."""

    __slots__ = ()

    cleanup_policy = follows(Log.log_cleanup_policy)
    compression_gzip_level = follows(Log.compression_gzip_level)
    compression_lz4_level = follows(Log.compression_lz4_level)
    compression_type = follows(Log.compression_type)
    compression_zstd_level = follows(Log.compression_zstd_level)
    delete_retention_ms = follows(Log.log_cleaner_delete_retention_ms)
    errors_deadletterqueue_group_enable = boolean(
        False, doc="Whether share groups may use the topic as their dead-letter topic."
    )
    file_delete_delay_ms = follows(Log.log_segment_delete_delay_ms)
    flush_messages = follows(Log.log_flush_interval_messages)
    flush_ms = follows(
        Log.log_flush_interval_ms, Log.log_flush_scheduler_interval_ms, check=at_least(0)
    )
    follower_replication_throttled_replicas = listing(
        (),
        replica_list,
        doc="Followers whose replication is throttled, as partition:broker pairs, or * for all.",
    )
    index_interval_bytes = follows(Log.log_index_interval_bytes)
    internal_segment_bytes = integer(
        None, internal=True, doc="Rolls segments below segment.bytes' lower bound; for tests."
    )
    leader_replication_throttled_replicas = listing(
        (),
        replica_list,
        doc="Leaders whose replication is throttled, as partition:broker pairs, or * for all.",
    )
    local_retention_bytes = follows(Log.log_local_retention_bytes)
    local_retention_ms = follows(Log.log_local_retention_ms)
    max_compaction_lag_ms = follows(Log.log_cleaner_max_compaction_lag_ms)
    max_decompressed_message_bytes = follows(Log.max_decompressed_message_bytes)
    max_message_bytes = follows(Log.message_max_bytes)
    message_timestamp_after_max_ms = follows(Log.log_message_timestamp_after_max_ms)
    message_timestamp_before_max_ms = follows(Log.log_message_timestamp_before_max_ms)
    message_timestamp_type = follows(Log.log_message_timestamp_type)
    min_cleanable_dirty_ratio = follows(Log.log_cleaner_min_cleanable_ratio)
    min_compaction_lag_ms = follows(Log.log_cleaner_min_compaction_lag_ms)
    min_insync_replicas = follows(Replication.min_insync_replicas)
    preallocate = follows(Log.log_preallocate)
    remote_copy_lag_bytes = follows(Log.log_remote_copy_lag_bytes)
    remote_copy_lag_ms = follows(Log.log_remote_copy_lag_ms)
    remote_log_copy_disable = boolean(
        False, doc="Stops copying to tiered storage, but keeps the data there."
    )
    remote_log_delete_on_disable = boolean(
        False,
        doc="Must be true to disable tiered storage for the topic, which deletes the tiered data.",
    )
    remote_storage_enable = boolean(False, doc="Keeps old segments in tiered storage.")
    retention_bytes = follows(Log.log_retention_bytes)
    retention_ms = follows(
        Log.log_retention_ms,
        Log.log_retention_minutes,
        Log.log_retention_hours,
        check=at_least(-1),
        doc="How long records are kept; -1 is unlimited.",
    )
    segment_bytes = follows(Log.log_segment_bytes)
    segment_index_bytes = follows(Log.log_index_size_max_bytes)
    segment_jitter_ms = follows(
        Log.log_roll_jitter_ms, Log.log_roll_jitter_hours, check=at_least(0)
    )
    segment_ms = follows(
        Log.log_roll_ms,
        Log.log_roll_hours,
        check=at_least(1),
        doc="The longest time a segment is appended to.",
    )
    unclean_leader_election_enable = follows(Cluster.unclean_leader_election_enable)
