"""ApiVersions: what is advertised, and how clients name themselves."""

from __future__ import annotations

from typing import Any

from wirekafka.codec.frame import encode_frame
from wirekafka.conformance.case import Book, ConformanceLevel, Need
from wirekafka.conformance.cases.framing.frames import head
from wirekafka.conformance.hostile import frame
from wirekafka.conformance.stage import Stage, Unsupported
from wirekafka.errors import error_name
from wirekafka.protocol.api_versions import ApiVersionsRequest, ApiVersionsResponse
from wirekafka.protocol.metadata import MetadataRequest

BOOK = Book(
    ApiVersionsRequest, "framing and versions", ConformanceLevel.CORE, "ApiVersionsRequest.json"
)
_COMPLETE = ConformanceLevel.COMPLETE
_KEYS = """
    Produce:0 Fetch:1 ListOffsets:2 Metadata:3 OffsetCommit:8 OffsetFetch:9 FindCoordinator:10
    JoinGroup:11 Heartbeat:12 LeaveGroup:13 SyncGroup:14 DescribeGroups:15 ListGroups:16
    SaslHandshake:17 ApiVersions:18 CreateTopics:19 DeleteTopics:20 DeleteRecords:21
    InitProducerId:22 OffsetForLeaderEpoch:23 AddPartitionsToTxn:24 AddOffsetsToTxn:25 EndTxn:26
    WriteTxnMarkers:27 TxnOffsetCommit:28 DescribeAcls:29 CreateAcls:30 DeleteAcls:31
    DescribeConfigs:32 AlterConfigs:33 AlterReplicaLogDirs:34 DescribeLogDirs:35
    SaslAuthenticate:36 CreatePartitions:37 CreateDelegationToken:38 RenewDelegationToken:39
    ExpireDelegationToken:40 DescribeDelegationToken:41 DeleteGroups:42 ElectLeaders:43
    IncrementalAlterConfigs:44 AlterPartitionReassignments:45 ListPartitionReassignments:46
    OffsetDelete:47 DescribeClientQuotas:48 AlterClientQuotas:49 DescribeUserScramCredentials:50
    AlterUserScramCredentials:51 DescribeQuorum:55 UpdateFeatures:57 DescribeCluster:60
    DescribeProducers:61 UnregisterBroker:64 DescribeTransactions:65 ListTransactions:66
    ConsumerGroupHeartbeat:68 ConsumerGroupDescribe:69 GetTelemetrySubscriptions:71
    PushTelemetry:72 ListConfigResources:74 DescribeTopicPartitions:75 ShareGroupHeartbeat:76
    ShareGroupDescribe:77 ShareFetch:78 ShareAcknowledge:79 AddRaftVoter:80 RemoveRaftVoter:81
    InitializeShareGroupState:83 ReadShareGroupState:84 WriteShareGroupState:85
    DeleteShareGroupState:86 ReadShareGroupStateSummary:87 StreamsGroupHeartbeat:88
    StreamsGroupDescribe:89 DescribeShareGroupOffsets:90 AlterShareGroupOffsets:91
    DeleteShareGroupOffsets:92 StreamsGroupTopologyDescriptionUpdate:93 UnregisterController:94
"""
"""The APIs that brokers of Kafka 4.4 serve to clients, with their keys."""
_HEAD_BYTES = 4
"""The correlation id before an answer to ApiVersions, whose header never has tags."""


def request(
    name: str = "kit", version: str = "1", cluster_id: str | None = None, node_id: int = -1
) -> ApiVersionsRequest:
    """A request as a client sends it, apart from these values."""
    return ApiVersionsRequest(
        client_software_name=name,
        client_software_version=version,
        cluster_id=cluster_id,
        node_id=node_id,
    )


def _summary(answer: Any) -> Any:
    """The error, and whether something is listed: not which APIs a broker has."""
    if isinstance(answer, str):
        return answer
    return f"{error_name(answer.error_code)} with {'APIs' if answer.api_keys else 'no APIs'}"


@BOOK.play("the answer", source="KIP-35")
def _answer(stage: Stage) -> None:
    """The APIs of the table are listed once each, ApiVersions itself and Metadata among them."""
    answer = stage.do(request())
    listed = [each.api_key for each in answer.api_keys]
    stage.note("error", error_name(answer.error_code))
    stage.note("keys that are listed twice", sorted({e for e in listed if listed.count(e) > 1}))
    stage.note("has ApiVersions", ApiVersionsRequest.key in listed)
    stage.note("has Metadata", MetadataRequest.key in listed)
    stage.note("is backward", [e.api_key for e in answer.api_keys if e.min_version > e.max_version])


@BOOK.play("twice on a connection")
def _twice(stage: Stage) -> None:
    """A client may ask again, also by another name."""
    stage.note("first", _summary(stage.do(request())))
    stage.note("second", _summary(stage.do(request("other", "2"))))


@BOOK.play("the same in every version", versions="0", source="KIP-35")
def _same(stage: Stage) -> None:
    """What is listed does not depend on the version that asks."""
    tables = []
    for version in stage.target.range_of(ApiVersionsRequest):
        answer = stage.do(request(), version)
        tables.append({(e.api_key, e.min_version, e.max_version) for e in answer.api_keys})
    stage.note("are the same", all(each == tables[0] for each in tables))


def _unknown_version(stage: Stage, version: int) -> None:
    """The answer of version 0 has UNSUPPORTED_VERSION and the versions that are known."""
    body = b"\1\1\0" if version > 0 else b""
    received = stage.exchange(encode_frame([head(ApiVersionsRequest.key, version) + body]))
    if isinstance(received, str):
        return
    answer = ApiVersionsResponse.decode(received, 0, _HEAD_BYTES)
    known = stage.target.versions[ApiVersionsRequest.key]
    own = [e for e in answer.api_keys if e.api_key == ApiVersionsRequest.key]
    stage.note("correlation id", int.from_bytes(received[:_HEAD_BYTES], "big"))
    stage.note("error", error_name(answer.error_code))
    stage.note("its own range", [(e.min_version, e.max_version) == known for e in own])


for _version in (99, 32_767, -1):

    @BOOK.play(f"version {_version}".replace("-", "minus "), versions="0", source="KIP-511")
    def _unknown(stage: Stage, version: int = _version) -> None:
        """A version that no broker has."""
        _unknown_version(stage, version)


@BOOK.play("one version too new", versions="0", source="KIP-511")
def _next(stage: Stage) -> None:
    """The version after the newest that is advertised."""
    _unknown_version(stage, stage.target.versions[ApiVersionsRequest.key][1] + 1)


_SOFTWARE: dict[str, tuple[str, str]] = {
    "no name": ("", "1"),
    "a name with a space": ("spaced name", "1"),
    "no version": ("ok", ""),
    "a dot and a dash at the end": ("ok.-", "1"),
    "a dash first": ("-ok", "1"),
    "a dot first": (".ok", "1"),
    "a dash before the version": ("ok", "-1"),
    "an underscore": ("not_ok", "1"),
    "one letter": ("k", "1"),
    "dots and dashes within": ("a.b-c", "1.0-rc.1"),
    "a long name": ("long" * 75, "1"),
    "a name of other letters": ("ünïcode", "1"),
    "a version with a slash": ("ok", "1/2"),
    "a name with a line's end": ("ok\n", "1"),
}

for _what, (_name, _number) in _SOFTWARE.items():

    @BOOK.play(f"client software with {_what}", versions="3+", source="KIP-511")
    def _software(stage: Stage, name: str = _name, number: str = _number) -> None:
        """The name and the version of a client's software are validated."""
        stage.note("answer", _summary(stage.do(request(name, number))))


@BOOK.play("client software without a name", versions="3-4", source="KIP-511")
def _null(stage: Stage) -> None:
    """The name is null, which the schema does not allow."""
    nameless: Any = request()
    nameless.client_software_name = None
    stage.exchange(encode_frame([frame(nameless, stage.version)]))


_CLUSTERS = ("its own", "another", "", None)
_NODES = {"its own node": None, "another node": 9999, "no node": -1, "node minus 2": -2}

for _cluster in _CLUSTERS:
    for _node, _node_id in _NODES.items():
        _title = {"": "an empty", None: "no"}.get(_cluster, _cluster)

        @BOOK.play(f"of {_title} cluster and {_node}", versions="4-5", source="KIP-1242")
        def _expecting(
            stage: Stage, cluster: str | None = _cluster, node_id: int | None = _node_id
        ) -> None:
            """A client that was led to another cluster or broker notices; version 4 cannot."""
            named = stage.target.cluster_id if cluster == "its own" else cluster
            wanted = stage.target.home if node_id is None else node_id
            stage.note("answer", _summary(stage.do(request("kit", "1", named, wanted))))


@BOOK.play("a bad name and another cluster", versions="5", source="KIP-1242")
def _both(stage: Stage) -> None:
    """Of two faults one is reported."""
    stage.note("answer", _summary(stage.do(request("", "1", "another", 9999))))


_FEATURES = (
    *("metadata.version", "kraft.version", "group.version", "transaction.version"),
    *("share.version", "streams.version", "eligible.leader.replicas.version"),
)

for _name in _FEATURES:

    @BOOK.play(f"the feature {_name}", versions="3+", source="KIP-584", level=_COMPLETE)
    def _feature(stage: Stage, name: str = _name) -> None:
        """Its supported levels; before version 4 a feature that begins with 0 is left out."""
        answer = stage.do(request())
        later = stage.do(request(), max(stage.version, 4))
        if name not in {each.name for each in later.supported_features}:
            raise Unsupported(f"no feature {name}")
        levels = [
            f"{each.min_version}-{each.max_version}"
            for each in answer.supported_features
            if each.name == name
        ]
        stage.note("supported levels", levels)


@BOOK.play("finalized features", versions="3+", source="KIP-584", level=_COMPLETE)
def _finalized(stage: Stage) -> None:
    """What is finalized is supported, has one level, and has an epoch."""
    answer = stage.do(request())
    supported = {each.name: each for each in stage.do(request(), 4).supported_features}
    wrong = [
        each.name
        for each in answer.finalized_features
        if each.name not in supported
        or each.max_version_level > supported[each.name].max_version
        or each.min_version_level != each.max_version_level
    ]
    stage.note("finalized features that are not supported", wrong)
    stage.note("has an epoch", answer.finalized_features_epoch >= 0)
    stage.note("is ready for a migration", answer.zk_migration_ready)


for _each in _KEYS.split():
    _api, _, _key = _each.partition(":")

    _needs = {Need.TELEMETRY} if "Telemetry" in _api else set()

    @BOOK.play(f"versions of {_api}", versions="0", source="KIP-35", level=_COMPLETE, needs=_needs)
    def _range(stage: Stage, api: str = _api, key: int = int(_key)) -> None:
        """The oldest and the newest version that are advertised."""
        if key not in stage.target.versions:
            raise Unsupported(f"{api} is not advertised")
        first, last = stage.target.versions[key]
        stage.note("versions", f"{first}-{last}")
