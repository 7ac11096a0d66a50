"""What one broker answers: about itself, the partitions that it leads, and what it coordinates."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from wirekafka.client.admin.transactions import ACTIVE, TransactionRow, coordinated, described
from wirekafka.client.client import (
    BrokerConnection,
    CertificateRefused,
    CliError,
    UnknownHost,
    check,
    list_offsets,
    only,
)
from wirekafka.client.configurations import BROKER
from wirekafka.config.client_config import ClientConfig
from wirekafka.config.own import DISK_BUDGET, DISK_POLICY
from wirekafka.doctor.cluster.facts import (
    BrokerFacts,
    DirectoryFacts,
    FailureCause,
    GroupFacts,
    PartitionFacts,
    ProducerFacts,
    TopicFacts,
    TopicPartition,
)
from wirekafka.doctor.cluster.groups import DUE_SHARE
from wirekafka.doctor.cluster.probe import BrokerLost, Refusals, certificate_of, connected
from wirekafka.errors import Error
from wirekafka.protocol.describe_configs import DescribeConfigsRequest, DescribeConfigsResponse
from wirekafka.protocol.describe_log_dirs import DescribeLogDirsRequest, DescribeLogDirsResponse
from wirekafka.protocol.describe_producers import (
    DescribeProducersRequest,
    DescribeProducersResponse,
)
from wirekafka.protocol.list_groups import ListGroupsRequest, ListGroupsResponse
from wirekafka.protocol.list_offsets import ListOffsetsResponse
from wirekafka.protocol.list_transactions import ListTransactionsRequest
from wirekafka.protocol.metadata import MetadataRequest, MetadataResponse
from wirekafka.protocol.offset_fetch import OffsetFetchRequest, OffsetFetchResponse

_EARLIEST, _LATEST, _NEWEST = -2, -1, -3
_READ_COMMITTED = 1
_SHARE = "share"
_NAMED_TOPICS = 9
"""The last version of OffsetFetch that names topics rather than their ids."""
_GROUPS_AT_A_TIME = 100
_OPTIONS = ("node.id", "transaction.max.timeout.ms", DISK_BUDGET, DISK_POLICY)


@dataclass(frozen=True, slots=True)
class BrokerAnswers:
    """What a broker answered; `partitions` are the partitions that it leads, completed."""

    broker: BrokerFacts
    partitions: Mapping[TopicPartition, PartitionFacts] = field(default_factory=dict)
    groups: Sequence[GroupFacts] = ()
    transactions: Sequence[TransactionRow] = ()


class BrokerSurvey:
    """Asks one broker; a broker that does not answer costs one timeout, and with TLS two."""

    def __init__(self, broker: BrokerFacts, config: ClientConfig | None, timeout_s: float) -> None:
        self._broker, self._config, self._timeout_s = broker, config, timeout_s
        self._refusals = Refusals()
        self._partitions: dict[TopicPartition, PartitionFacts] = {}
        self._groups: list[GroupFacts] = []
        self._transactions: list[TransactionRow] = []

    def ask(self, cluster_id: str, topics: Mapping[str, TopicFacts], now_ms: int) -> BrokerAnswers:
        """Ask everything that checks need; a failure ends it and is in the result."""
        broker = self._broker
        certificate = certificate_of(broker.address, self._config, self._timeout_s)
        self._broker = replace(broker, certificate=certificate)
        try:
            connection = connected(broker.address, self._config, self._timeout_s)
        except CliError as error:
            self._note(failure=str(error), cause=_cause(error))
            return BrokerAnswers(self._broker)
        try:
            self._ask(connection, cluster_id, topics, now_ms)
        except BrokerLost as error:
            self._note(failure=str(error))
        finally:
            connection.close()
        self._note(unanswered=self._refusals.found)
        return BrokerAnswers(self._broker, self._partitions, self._groups, self._transactions)

    def _note(self, **changes: object) -> None:
        self._broker = replace(self._broker, **changes)  # type: ignore[arg-type]

    def _ask(
        self,
        connection: BrokerConnection,
        cluster_id: str,
        topics: Mapping[str, TopicFacts],
        now_ms: int,
    ) -> None:
        with self._refusals.noted("its metadata"):
            self._ask_metadata(connection)
        with self._refusals.noted("its configuration"):
            self._ask_identity(connection)
        if self._broker.stranger or self._broker.cluster_id not in ("", cluster_id):
            return
        self._note(supported=connection.supported_levels())
        self._partitions = {
            (each.topic, each.index): each
            for topic in topics.values()
            for each in topic.partitions
            if each.leader == self._broker.id
        }
        with self._refusals.noted("its log directories"):
            self._ask_directories(connection, topics)
        with self._refusals.noted("offsets of its partitions"):
            self._ask_offsets(connection, topics, now_ms)
        with self._refusals.noted("producers of its partitions"):
            self._ask_producers(connection)
        with self._refusals.noted("its transactions"):
            self._ask_transactions(connection)
        with self._refusals.noted("its groups"):
            self._ask_groups(connection)

    def _ask_metadata(self, connection: BrokerConnection) -> None:
        request = MetadataRequest(topics=None, allow_auto_topic_creation=False)
        response = connection.send(request, MetadataResponse)
        check(response.error_code, "metadata")
        self._note(
            cluster_id=response.cluster_id or "",
            topic_ids={topic.name or "": topic.topic_id for topic in response.topics},
            leader_epochs={
                (topic.name or "", each.partition_index): each.leader_epoch
                for topic in response.topics
                for each in topic.partitions
            },
        )

    def _ask_identity(self, connection: BrokerConnection) -> None:
        """A broker describes its own configuration only, so that another one refuses this."""
        resource = DescribeConfigsRequest.Resource(
            resource_type=BROKER,
            resource_name=str(self._broker.id),
            configuration_keys=list(_OPTIONS),
        )
        request = DescribeConfigsRequest(resources=[resource])
        response = connection.send(request, DescribeConfigsResponse)
        result = only(response.results, "configuration")
        if result.error_code == Error.INVALID_REQUEST:
            self._note(stranger=result.error_message or "it has another id")
            return
        check(result.error_code, "configuration", result.error_message)
        self._note(configs={each.name: each.value or "" for each in result.configs})

    def _ask_directories(
        self, connection: BrokerConnection, topics: Mapping[str, TopicFacts]
    ) -> None:
        response = connection.send(DescribeLogDirsRequest(topics=None), DescribeLogDirsResponse)
        check(response.error_code, "log directories")
        found = []
        for result in response.results:
            code = result.error_code
            error = Error.of(code).name if code else ""
            used_bytes = sum(
                each.partition_size for topic in result.topics for each in topic.partitions
            )
            found.append(
                DirectoryFacts(
                    result.log_dir, error, result.total_bytes, result.usable_bytes, used_bytes
                )
            )
            for topic in result.topics:
                for each in topic.partitions:
                    if not each.is_future_key:
                        self._complete(
                            (topic.name, each.partition_index), size_bytes=each.partition_size
                        )
        self._note(directories=found)
        stored = {topic.name for result in response.results for topic in result.topics}
        self._ask_hidden(connection, sorted(stored - topics.keys()))

    def _ask_hidden(self, connection: BrokerConnection, names: Sequence[str]) -> None:
        """Metadata of all topics leaves out the topics that the user may not describe."""
        if not names:
            return
        named = [MetadataRequest.Topic(name=name) for name in names]
        request = MetadataRequest(topics=named, allow_auto_topic_creation=False)
        answered = connection.send(request, MetadataResponse).topics
        codes = {topic.name or "": topic.error_code for topic in answered}
        self._refusals.note_codes("topics in its log directories", codes)

    def _ask_offsets(
        self, connection: BrokerConnection, topics: Mapping[str, TopicFacts], now_ms: int
    ) -> None:
        keys = list(self._partitions)
        for key, (offset, _) in self._listed(connection, keys, _EARLIEST).items():
            self._complete(key, start_offset=offset)
        for key, (offset, _) in self._listed(connection, keys, _LATEST).items():
            self._complete(key, end_offset=offset)
        stable = self._listed(connection, keys, _LATEST, isolation_level=_READ_COMMITTED)
        for key, (offset, _) in stable.items():
            self._complete(key, stable_offset=offset)
        deleted: dict[int, list[TopicPartition]] = {}
        for key in keys:
            topic = topics[key[0]]
            retention_ms = topic.number("retention.ms") or 0
            due_ms = now_ms - int(retention_ms * (1 - DUE_SHARE))
            if topic.is_deleted_by_retention and retention_ms > 0 and due_ms > 0:
                deleted.setdefault(due_ms, []).append(key)
        every = [key for each in deleted.values() for key in each]
        for key, (_, timestamp) in self._listed(connection, every, _NEWEST).items():
            self._complete(key, newest_ms=timestamp)
        for due_ms, chosen in deleted.items():
            for key, (offset, _) in self._listed(connection, chosen, due_ms).items():
                # Without a record so new, all records are due.
                due = offset if offset >= 0 else self._partitions[key].end_offset
                self._complete(key, due_offset=due)

    def _listed(
        self,
        connection: BrokerConnection,
        keys: Iterable[TopicPartition],
        timestamp: int,
        *,
        isolation_level: int = 0,
    ) -> dict[TopicPartition, tuple[int, int]]:
        """The offset and timestamp of each partition; without partitions that it does not lead."""
        wanted = _by_topic(keys)
        if not wanted:
            return {}
        request = list_offsets(wanted, timestamp)
        request.isolation_level = isolation_level
        response = connection.send(request, ListOffsetsResponse)
        return {
            (topic.name, each.partition_index): (each.offset, each.timestamp)
            for topic in response.topics
            for each in topic.partitions
            if not each.error_code and each.partition_index in wanted.get(topic.name, ())
        }

    def _ask_producers(self, connection: BrokerConnection) -> None:
        held = [key for key, each in self._partitions.items() if _is_held_back(each)]
        if not held:
            return
        kind = DescribeProducersRequest.TopicRequest
        request = DescribeProducersRequest(
            topics=[
                kind(name=name, partition_indexes=indexes)
                for name, indexes in _by_topic(held).items()
            ]
        )
        response = connection.send(request, DescribeProducersResponse)
        codes = {}
        for topic in response.topics:
            for each in topic.partitions:
                codes[f"{topic.name}-{each.partition_index}"] = each.error_code
                producers = [
                    ProducerFacts(
                        producer.producer_id,
                        producer.current_txn_start_offset,
                        producer.last_timestamp,
                    )
                    for producer in each.active_producers
                    if producer.current_txn_start_offset >= 0
                ]
                self._complete((topic.name, each.partition_index), open_producers=producers)
        self._refusals.note_codes("producers of its partitions", codes)

    def _ask_transactions(self, connection: BrokerConnection) -> None:
        request = ListTransactionsRequest(state_filters=list(ACTIVE))
        found = coordinated(connection, self._broker.id, request)
        described(connection, found)
        for each in found:
            if each.error == Error.TRANSACTIONAL_ID_NOT_FOUND.name:
                continue  # It has expired between both requests.
            if each.error:
                raise CliError(f"transactional id {each.transactional_id}: {each.error}")
            self._transactions.append(each)
        self._note(knows_transactions=True)

    def _ask_groups(self, connection: BrokerConnection) -> None:
        response = connection.send(ListGroupsRequest(), ListGroupsResponse)
        check(response.error_code, "groups")
        names = [each.group_id for each in response.groups if each.group_type.lower() != _SHARE]
        offsets: dict[str, dict[TopicPartition, int]] = {}
        for at in range(0, len(names), _GROUPS_AT_A_TIME):
            offsets |= self._committed(connection, names[at : at + _GROUPS_AT_A_TIME])
        for each in response.groups:
            self._groups.append(
                GroupFacts(
                    name=each.group_id,
                    state=each.group_state,
                    offsets=offsets.get(each.group_id, {}),
                )
            )

    def _committed(
        self, connection: BrokerConnection, names: Sequence[str]
    ) -> dict[str, dict[TopicPartition, int]]:
        kind = OffsetFetchRequest.Group
        request = OffsetFetchRequest(groups=[kind(group_id=name, topics=None) for name in names])
        response = connection.send(request, OffsetFetchResponse, most=_NAMED_TOPICS)
        codes = {group.group_id: group.error_code for group in response.groups}
        self._refusals.note_codes("offsets of groups", codes)
        return {
            group.group_id: {
                (topic.name, each.partition_index): each.committed_offset
                for topic in group.topics
                for each in topic.partitions
                if not each.error_code and each.committed_offset >= 0
            }
            for group in response.groups
            if not group.error_code
        }

    def _complete(self, key: TopicPartition, **changes: object) -> None:
        if key in self._partitions:
            changed = replace(self._partitions[key], **changes)  # type: ignore[arg-type]
            self._partitions[key] = changed


def _cause(error: CliError) -> FailureCause:
    if isinstance(error, UnknownHost):
        return FailureCause.NAME
    is_refused = isinstance(error, CertificateRefused)
    return FailureCause.CERTIFICATE if is_refused else FailureCause.CONNECTION


def _by_topic(keys: Iterable[TopicPartition]) -> dict[str, list[int]]:
    found: dict[str, list[int]] = {}
    for name, index in keys:
        found.setdefault(name, []).append(index)
    return found


def _is_held_back(partition: PartitionFacts) -> bool:
    return 0 <= partition.stable_offset < partition.end_offset
