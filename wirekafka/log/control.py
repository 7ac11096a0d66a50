"""Values of control records: transaction markers, and what the metadata quorum writes (KIP-595)."""

from __future__ import annotations

from wirekafka.codec.message import Int16, Int32, Int64, Message, Part, String, UInt16, Uuid, field


class EndTxnMarker(Message, versions="0", flexible="none"):
    coordinator_epoch: Int32


class LeaderChangeMessage(Message, versions="0-1", flexible="0+"):
    version: Int16
    leader_id: Int32
    voters: list[Voter]
    granting_voters: list[Voter]

    class Voter(Part):
        voter_id: Int32
        voter_directory_id: Uuid = field("1+")


class SnapshotHeaderRecord(Message, versions="0", flexible="0+"):
    version: Int16
    last_contained_log_timestamp: Int64


class SnapshotFooterRecord(Message, versions="0", flexible="0+"):
    version: Int16


class KRaftVersionRecord(Message, versions="0", flexible="0+"):
    version: Int16
    kraft_version: Int16


class VotersRecord(Message, versions="0", flexible="0+"):
    version: Int16
    voters: list[Voter]

    class Voter(Part):
        voter_id: Int32
        voter_directory_id: Uuid
        endpoints: list[Endpoint]
        kraft_version_feature: KRaftVersionFeature

        class Endpoint(Part):
            name: String
            host: String
            port: UInt16

        class KRaftVersionFeature(Part):
            min_supported_version: Int16
            max_supported_version: Int16
