"""Which containers of a node clients name entries of, and who names those of all others.

`tests/memory/test_stores.py` fails for a container that is in none of these tables. A new one whose
entries clients name needs a bound in bytes (`Remembered` has one) and a row in
docs/reference/security.md.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

STORES: Mapping[str, tuple[str, ...]] = {
    "Instances of client telemetry": (
        "telemetry/instances.py:ClientTelemetry._instances",
        "telemetry/instances.py:ClientTelemetry._of_connections",
    ),
    "Metrics that clients push": (
        "metrics/client_metrics.py:_Pushed.series",
        "metrics/client_metrics.py:ClientMetrics._clients",
        "metrics/client_metrics.py:ClientMetrics._names",
        "server/monitoring/client_metrics.py:TelemetryCollector._families",
    ),
    "Decisions of the authorizer": ("security/acl_index.py:AclIndex.decisions",),
    "Accounts of client quotas": (
        "quotas/client_quotas.py:ClientQuotas._accounts",
        "quotas/client_quotas.py:ClientQuotas._old_accounts",
        "quotas/client_quotas.py:ClientQuotas._rates",
        "quotas/client_quotas.py:ClientQuotas._kept",
    ),
    "Rates of new connections": (
        "quotas/address_quotas.py:AddressQuotas._rates",
        "quotas/address_quotas.py:AddressQuotas._old_rates",
    ),
    "Traffic by client software": ("metrics/requests.py:Clients._rows",),
    "Warnings that repeat": (
        "server/connections/repeated_warnings.py:RepeatedWarnings._seen",
        "server/equal_lines.py:EqualLines._seen",
    ),
    "Coordinators of keys": ("coordinator/shards.py:Shards._partitions",),
    "Connections": (
        "server/connections/admission.py:ConnectionLimits.by_host",
        "server/bounded_http.py:BoundedServer._open",
        "server/bounded_http.py:BoundedServer._waiting",
        "server/connections/half_closed_connections.py:HalfClosed._kept",
        "server/connections/listener.py:Listener._connections",
        "server/tls/listener_tls.py:ListenerTls._links",
    ),
    "Readers": (
        "replication/fetching/readers.py:Reader.seen",
        "replication/fetching/readers.py:Reader._known",
        "replication/fetching/readers.py:Readers._readers",
    ),
    "Fetch sessions": ("replication/fetching/fetch_sessions.py:FetchSessions._of_connections",),
    "Share sessions": (
        "replication/share/sessions.py:ShareSessions._sessions",
        "replication/share/sessions.py:ShareSessions._by_connection",
    ),
    "Repeated Produce requests": ("server/connections/produce_cache.py:ProduceCache._known",),
    "Lag of groups and readers": (
        "server/monitoring/lag.py:LagTracker._ends",
        "server/monitoring/lag.py:LagTracker._elsewhere",
        "server/monitoring/lag.py:LagTracker._stamps",
        "server/monitoring/lag.py:LagTracker._next_stamps",
        "server/monitoring/lag.py:LagTracker.histories",
        "server/monitoring/share_lag.py:ShareOffsets.known",
    ),
    "Creations of topics": (
        "metadata/broker/auto_creation.py:AutoCreation._creations",
        "metadata/broker/auto_creation.py:AutoCreation._failures",
    ),
    "Keys of coordinators' records": (
        "coordinator/groups/offset_record.py:_offset_keys",
        "coordinator/groups/record_types.py:record_type.packed_keys",
    ),
    "Hashes of member ids": (
        "coordinator/java_order.py:_spread_hash_codes",
        "coordinator/java_order.py:_mixed_hash_codes",
    ),
    "Expressions of subscriptions": ("regex.py:regex_of",),
    "Credentials of delegation tokens": (
        "security/tokens.py:TokenHmacs._ids",
        "security/tokens.py:TokenHmacs._known",
        "security/tokens.py:TokenCredentials._derived",
    ),
    "Schemas that records name": ("replication/partition/schema_checks.py:SchemaChecks._known",),
    "Sessions of the console": ("console/access.py:SessionAccounts._sessions",),
    "Users of the schema registry": (
        "registry/instance/broker_access.py:BrokerAccess._failures",
        "registry/instance/broker_access.py:BrokerAccess._logins",
        "registry/instance/broker_access.py:BrokerAccess._under_way",
    ),
    "Parsed schemas": ("registry/parsing.py:SchemaParser._parsed",),
}
"""The containers of what clients make a node remember, by row of docs/reference/security.md."""

STORED: Mapping[str, str] = {
    "broker.py": "Broker.partitions Broker._directory_of",
    "config/checks/client_match.py": "ClientMatch._expressions",
    "coordinator/groups/assigned_group.py": (
        "AssignedGroup.members AssignedGroup.static_member_ids"
    ),
    "coordinator/groups/classic/group.py": (
        "ClassicGroup.members ClassicGroup.static_member_ids ClassicGroup.pending_joins "
        "ClassicGroup.pending_syncs ClassicGroup._supported"
    ),
    "coordinator/groups/consumer/classic.py": "ClassicMembers._awaited",
    "coordinator/groups/consumer/group.py": (
        "ConsumerGroup.targets ConsumerGroup.target_owners ConsumerGroup.target_ends "
        "ConsumerGroup._owner_epochs"
    ),
    "coordinator/groups/consumer/steps.py": "MemberSteps._refreshed MemberSteps.lookups",
    "coordinator/groups/consumer/subscriptions.py": (
        "Subscriptions.topics Subscriptions.regexes Subscriptions.resolved "
        "AssignorVotes._votes ClassicProtocols._supporters"
    ),
    "coordinator/coordinated_image.py": "CoordinatedImage._hashes",
    "coordinator/groups/options.py": "_Options._known",
    "coordinator/groups/shard.py": "GroupShard.groups GroupShard._kinds",
    "coordinator/groups/offsets.py": "Offsets._committed Offsets._pending Offsets._open",
    "coordinator/groups/share/heartbeat.py": (
        "ShareHeartbeats._refreshed ShareHeartbeats._settled ShareHeartbeats._stored_ms"
    ),
    "coordinator/groups/share/leader.py": "ShareLeader._shares",
    "coordinator/groups/share/subscriptions.py": "ShareSubscriptions.topics",
    "coordinator/groups/share/group.py": "ShareGroup.targets",
    "coordinator/share_state/pruning.py": "RedundantOffsets._last_snapshots",
    "coordinator/share_state/shard.py": "ShareShard._stored",
    "coordinator/groups/streams/group.py": "StreamsGroup.targets",
    "coordinator/groups/streams/member.py": "StreamsMember.tags",
    "coordinator/groups/streams/partitions.py": "PartitionCounts.decided",
    "coordinator/groups/streams/records.py": "GroupVersion.configs",
    "coordinator/groups/streams/soft.py": (
        "SoftState.progress SoftStates._states SoftStates._configured SoftStates.delayed"
    ),
    "coordinator/topic_changes.py": "TopicChanges._queue",
    "coordinator/transactions/shard.py": "TransactionShard._transactions",
    "log/epochs.py": "LeaderEpochs._entries",
    "log/directories/future_logs.py": "FutureLogs._logs FutureLogs.topic_ids",
    "log/directories/new_log.py": "LogCreation._leftovers",
    "log/directories/log_directory.py": (
        "LogDirectory.logs LogDirectory.topic_ids LogDirectory.offline "
        "LogDirectory.high_watermarks LogDirectory.cleaner_offsets LogDirectory._deleted"
    ),
    "metadata/image/image.py": (
        "PartitionImage.directories MetadataImage.features MetadataImage.topics "
        "MetadataImage.topics_by_id MetadataImage.configs"
    ),
    "metadata/broker/publish.py": "Publisher._lagging",
    "metadata/image/security.py": (
        "SecurityImage.acls SecurityImage.scram SecurityImage.quotas SecurityImage.tokens"
    ),
    "metadata/controller/topics.py": "NewTopic.configs",
    "metrics/traffic.py": "Traffic._topics",
    "quotas/address_quotas.py": "AddressQuotas._hosts AddressQuotas._limits",
    "quotas/client_quotas.py": "ClientQuotas._quotas",
    "runtime/timers.py": "Timers._due Timers._heap Timers._queued",
    "security/acl_index.py": "AclIndex._by_id AclIndex._by_pattern",
    "server/monitoring/topics.py": "PartitionCollector._known",
    "server/tiering/remote_metadata.py": (
        "RemoteMetadata._wanted _Followed._expected _Followed.states"
    ),
    "server/tiering/tiering.py": (
        "Tiering._failures Tiering._orphans Tiering._tasks Tiering.counters Tiering.tiers"
    ),
    "telemetry/subscriptions.py": (
        "TelemetrySubscriptions._texts TelemetrySubscriptions._configured"
    ),
    "tiered/index_files.py": "IndexFiles._entries",
    "tiered/byte_cache.py": "ByteCache._entries ByteCache._loading",
    "tiered/segment_states.py": "SegmentStates._epochs SegmentStates._segments _Epoch.ranges",
    "console/insight.py": "Inside._rates_now Inside._last_counts",
    "console/sampler.py": "GroupSamples._ends GroupSamples._histories",
    "console/topic_samples.py": "TopicSamples._topics",
    "registry/state.py": (
        "RegistryState._configs RegistryState._modes RegistryState._referrers "
        "RegistryState._subjects _Context.by_id _Context.by_stored_guid _Context.ids"
    ),
    "registry/writer.py": "MemoryWriter.entries",
    "replication/mirroring/mirror_fetcher.py": (
        "MirrorFetcher._changed MirrorFetcher._copied MirrorFetcher._out_of_range"
    ),
    "replication/mirroring/topic_plan.py": (
        "TopicPlan.create TopicPlan.epochs TopicPlan.follow TopicPlan.grow TopicPlan.promoted "
        "TopicPlan.refused"
    ),
    "server/mirroring/group_offsets.py": "GroupOffsets._copied GroupOffsets.errors",
    "server/mirroring/mirroring.py": "Mirroring._placed Mirroring.copied",
    "server/mirroring/topic_settings.py": "TopicSettings._refused",
    "server/tabling/feed.py": (
        "TableFeed._topics TableFeed.deleted TableFeed.led TableFeed._marks TableFeed._doubtful"
    ),
    "server/tabling/tabling.py": "Tabling.reports Tabling._ends Tabling._released",
    "server/space/directory_space.py": ("DirectorySpace._freed DirectorySpace._refusing"),
    "server/space/disk_space.py": "DiskSpace._led",
    "server/space/group_positions.py": "GroupPositions._readings GroupPositions._shares",
}
"""Of topics, groups, offsets, transactions, ACLs and other state that the cluster stores: it takes
rights to add to them, they are on the disk, and deletion and expiry free them."""

OWN: Mapping[str, str] = {
    "apis/produce.py": "_NO_GUARDS _NONE_REFUSED",
    "apis/shared/registry.py": "_apis",
    "codec/frame.py": "_request_head",
    "config/sources.py": (
        "Sources.static Sources.cluster Sources.broker Sources.aliases Sources.environment"
    ),
    "metadata/controller/directories.py": "DirectoryReports._unreported",
    "metadata/image/framing.py": "MetadataCodec._levels MetadataCodec._framers",
    "metadata/broker/isr_keeper.py": "IsrKeeper._failures",
    "metadata/broker/membership.py": "Membership._failed_directories",
    "metrics/deflated_parts.py": "DeflatedParts._known",
    "metrics/exposition.py": "Table._rows Table._next",
    "metrics/measures.py": "CleanerRun.skipped Measures.recovering",
    "metrics/requests.py": "Requests.apis",
    "quotas/connection_rates.py": "ConnectionRates._rates",
    "replication/fetching/fetcher.py": (
        "Fetcher._followed Fetcher._changed Fetcher._held_back Fetcher._moved "
        "Fetcher._out_of_range Fetcher._unreviewed"
    ),
    "replication/fetching/fetcher_session.py": "FetcherSession.requested",
    "runtime/observation.py": "Observation._queue",
    "replication/raft/leading.py": "Leading._observers",
    "replication/raft/sending.py": "Sending._outbox Sending._under_way",
    "replication/raft/raft.py": "Raft._reported Raft._watchers",
    "replication/raft/voter_set.py": "QuorumHistory._voters",
    "replication/partition/relocation.py": "Relocations._preferred Relocations.moving",
    "security/acl.py": "_range_or_none",
    "security/principal_rules.py": "PrincipalRules._rules",
    "server/connections/admission.py": (
        "ConnectionLimits.by_listener ConnectionLimits.members ConnectionLimits.waiting"
    ),
    "server/binding.py": "Binding._endpoints",
    "server/peers/broker_links.py": "BrokerLinks._peers",
    "schemas/json/dialects.py": "_meta_validator",
    "schemas/json/validation.py": "validator_class",
    "config/own.py": "RegistryAccess.ssl",
    "config/table_place.py": "TablePlace.catalog_properties",
    "server/connections/error_counts.py": "_known",
    "server/background/housekeeping.py": (
        "Housekeeping._timers Housekeeping._high_watermarks Housekeeping._unretained "
        "Housekeeping._failing"
    ),
    "server/connections/jwks.py": "KeyCache._providers",
    "server/connections/message_json.py": "_camel",
    "server/connections/produce_cache.py": "_NO_ENTRIES",
    "server/controllers/quorum_driver.py": "QuorumDriver._peers",
    "server/background/syncing.py": "Syncing._failing",
    "server/monitoring/controller_state.py": "ControllerCollector._eligible",
    "server/local_socket.py": "LocalSocket._servers",
    "server/mirroring/source_cluster.py": (
        "SourceCluster._bootstrap SourceCluster._nodes SourceCluster._peers"
    ),
    "server/peers/replica_fetcher.py": "ReplicaFetchers._fetchers ReplicaFetchers._places",
}
"""Named by the code, the configuration, this node or other nodes."""

PASSING: Mapping[str, str] = {
    "apis/share_fetch.py": "_Answer._topics _Answer._partitions",
    "apis/shared/share_acknowledgements.py": (
        "Acknowledging._results Acknowledging._empty Acknowledging._promises"
    ),
    "apis/shared/share_reads.py": "ShareReads._shares ShareReads._loading ShareReads.results",
    "codec/compile.py": "FunctionSource.names FunctionSource._lines",
    "codec/decode.py": "_Writer._run",
    "codec/encode.py": "_Writer._run",
    "console/records/record_pages.py": "_Merging.failed",
    "console/pages/subjects.py": "UseLine.ids",
    "console/refused_form.py": "RefusedForm.fields",
    "console/records/search.py": "SearchProgress.failed Search._failed",
    "console/subject_reads.py": "SeenIds.ids",
    "console/value_decoder.py": "ValueDecoder._unusable",
    "console/records/tail.py": "Tail._ends TailStep.failed",
    "coordinator/transactions/broker_queues.py": "_Queue.waiting BrokerQueues._queues",
    "coordinator/transactions/completion.py": "Completion._remaining",
    "coordinator/groups/assignment.py": "Target._added Target._buckets",
    "coordinator/groups/consumer/reconcile.py": "_Difference.granted",
    "coordinator/groups/consumer/uniform.py": "_Mixed._members _Mixed._subscribers",
    "coordinator/groups/group.py": "Turn._drafts",
    "coordinator/groups/coordinator.py": "GroupCoordinator.held_assignments",
    "coordinator/groups/long_work.py": "LongWork._works _Work.waiting",
    "coordinator/groups/streams/heartbeat.py": "_Turn.status",
    "coordinator/groups/streams/sticky.py": (
        "_Process.counts _Process.active _Process.standby _Assignment._processes "
        "_Assignment._had_active _Assignment._candidates"
    ),
    "coordinator/groups/streams/tasks.py": (
        "TaskOwners._active TaskOwners._standby TaskOwners._warmup"
    ),
    "log/append.py": "RecordsRefused.record_errors",
    "log/checkpoints.py": "partition_metadata_text partition_metadata_from",
    "log/compaction/cleaned_segment.py": "CleanedSegment._pending",
    "log/compaction/cleaner_batches.py": "Retention._remembered",
    "log/flush.py": "Flush._small_files",
    "log/directories/offset_checkpoints.py": "OffsetCheckpoints._written",
    "log/compaction/offset_map.py": "OffsetMap._pending",
    "registry/parsing.py": "_Dependencies.found _Dependencies.open_names",
    "runtime/lingering.py": "LingeringLog._batches",
    "runtime/machine.py": "Outcome.records Outcome.replies Outcome.timers",
    "schemas/avro/compatibility.py": "_Comparison._results",
    "schemas/avro/schema.py": "_Parser.named",
    "schemas/avro/types.py": (
        "AvroPrimitive.properties AvroArray.properties AvroMap.properties AvroRecord.properties "
        "AvroEnum.properties AvroFixed.properties"
    ),
    "schemas/avro/values.py": "_Decoders._made _Encoders._made",
    "schemas/json/compatibility.py": "JsonComparison._patterns",
    "schemas/json/shape_reader.py": "_Reader.deferred _Reader.open_referrals _Reader.patterns",
    "schemas/json/shapes.py": (
        "ObjectShape.dependent ObjectShape.patterns ObjectShape.properties ObjectShape.required_by"
    ),
    "schemas/protobuf/compatibility.py": "_Fields.oneofs _Part.changes _Part.uses",
    "schemas/protobuf/descriptor.py": "DescriptorDraft.options",
    "schemas/protobuf/files.py": "_Reader._files _Reader._open",
    "schemas/protobuf/source.py": "_PlainSource.pieces _PlainSource._angles",
    "schemas/protobuf/names.py": "TypeNames._kinds",
    "server/connections/exchange_facts.py": "ExchangeFacts.topics ExchangeFacts.errors",
    "server/net.py": "SocketPort._opening",
    "snapshot/instant.py": "NotedDirectory.logs",
    "server/tiering/copies.py": "Copies._copying Copies._uncertain Copies._uploads",
    "tiered/audit.py": "TierAudit.holes TierAudit.orphans TierAudit.unfinished",
    "replication/partition/schema_checks.py": "SchemaChecks._waiting",
    "server/connections/replies.py": "Replies.buffers",
}
"""They live as long as a request, an assignment or another computation."""


def classified() -> Iterator[str]:
    """The places of all containers in these tables."""
    for places in STORES.values():
        yield from places
    for table in (STORED, OWN, PASSING):
        for module, names in table.items():
            yield from (f"{module}:{name}" for name in names.split())
