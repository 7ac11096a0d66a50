"""Gathers the facts about a cluster: what the bootstrap broker knows, then what each broker does.

Up to 16 brokers are asked at the same time, each with a timeout, and nothing is altered.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

from wirekafka.client.admin.cluster import describe_cluster, describe_quorum, quorum_of
from wirekafka.client.client import Client, CliError, check
from wirekafka.client.configurations import TOPIC
from wirekafka.config.address import Address
from wirekafka.config.client_config import ClientConfig
from wirekafka.doctor.cluster.broker_survey import BrokerAnswers, BrokerSurvey
from wirekafka.doctor.cluster.facts import (
    BrokerFacts,
    ClusterFacts,
    PartitionFacts,
    QuorumFacts,
    TopicFacts,
    Unanswered,
    VoterFacts,
)
from wirekafka.doctor.cluster.probe import CLIENT_ID, BrokerLost, Refusals, connected
from wirekafka.protocol.describe_configs import DescribeConfigsRequest, DescribeConfigsResponse
from wirekafka.protocol.metadata import MetadataRequest, MetadataResponse

_AT_A_TIME = 16
_TOPIC_OPTIONS = (
    "cleanup.policy",
    "min.insync.replicas",
    "retention.ms",
    "retention.bytes",
    "unclean.leader.election.enable",
)


def gather(
    bootstrap: Sequence[Address], config: ClientConfig | None, timeout_s: float
) -> ClusterFacts:
    """Ask all brokers of a cluster. Raises CliError if no bootstrap broker answers."""
    names = ",".join(map(str, bootstrap))
    refusals = Refusals()
    configs: dict[str, dict[str, str]] = {}
    quorum: QuorumFacts | None = None
    with Client(names, config, client_id=CLIENT_ID, timeout_s=timeout_s) as client:
        now_ms = _now_ms()
        metadata = _metadata(client)
        brokers = _brokers(client, metadata)
        try:
            finalized = client.any().finalized_levels()
            with refusals.noted("the metadata quorum"):
                quorum = _quorum(client)
            with refusals.noted("configurations of topics"):
                configs = _topic_configs(client, metadata, refusals)
        except BrokerLost as error:
            raise CliError(str(error)) from None
    topics = _topics(metadata, configs)
    cluster_id = metadata.cluster_id or ""
    answers = _ask_all(brokers, config, timeout_s, cluster_id=cluster_id, topics=topics)
    return ClusterFacts(
        now_ms=now_ms,
        bootstrap=bootstrap,
        silent=_silent(bootstrap, config, timeout_s),
        cluster_id=cluster_id,
        brokers={each.broker.id: each.broker for each in answers},
        topics=_completed(topics, answers),
        groups=[group for each in answers for group in each.groups],
        transactions=[found for each in answers for found in each.transactions],
        quorum=quorum,
        finalized=finalized,
        unanswered=refusals.found,
    )


def _ask_all(
    brokers: Sequence[BrokerFacts],
    config: ClientConfig | None,
    timeout_s: float,
    *,
    cluster_id: str,
    topics: Mapping[str, TopicFacts],
) -> list[BrokerAnswers]:
    def ask(broker: BrokerFacts) -> BrokerAnswers:
        if broker.is_fenced:
            return BrokerAnswers(broker)
        return BrokerSurvey(broker, config, timeout_s).ask(cluster_id, topics, _now_ms())

    with ThreadPoolExecutor(_AT_A_TIME) as threads:
        return list(threads.map(ask, brokers))


def _silent(
    bootstrap: Sequence[Address], config: ClientConfig | None, timeout_s: float
) -> list[Unanswered]:
    """The bootstrap addresses that do not answer, if there are several."""

    def failure(address: Address) -> str:
        try:
            connected(address, config, timeout_s).close()
        except CliError as error:
            return str(error)
        return ""

    if len(bootstrap) < 2:
        return []
    with ThreadPoolExecutor(_AT_A_TIME) as threads:
        failures = threads.map(failure, bootstrap)
        return [
            Unanswered(str(address), reason)
            for address, reason in zip(bootstrap, failures, strict=True)
            if reason
        ]


def _metadata(client: Client) -> MetadataResponse:
    request = MetadataRequest(topics=None, allow_auto_topic_creation=False)
    response = client.send(request, MetadataResponse)
    check(response.error_code, "metadata")
    return response


def _brokers(client: Client, metadata: MetadataResponse) -> list[BrokerFacts]:
    """The registered brokers, fenced ones included where the cluster reports them."""
    found = {
        each.node_id: BrokerFacts(id=each.node_id, address=Address(each.host, each.port))
        for each in metadata.brokers
    }
    for broker in describe_cluster(client).brokers:
        if broker.is_fenced:
            address = Address(broker.host, broker.port)
            found[broker.broker_id] = BrokerFacts(
                id=broker.broker_id, address=address, is_fenced=True
            )
    return [found[id] for id in sorted(found)]


def _quorum(client: Client) -> QuorumFacts:
    asked_ms = _now_ms()
    quorum = quorum_of(describe_quorum(client))
    answered_ms = _now_ms()
    return QuorumFacts(
        leader=quorum.leader_id,
        end_offset=quorum.high_watermark,
        voters=[
            VoterFacts(
                each.replica_id,
                each.log_end_offset,
                each.last_fetch_timestamp,
                each.last_caught_up_timestamp,
            )
            for each in quorum.current_voters
        ],
        asked_ms=asked_ms,
        answered_ms=answered_ms,
    )


def _topic_configs(
    client: Client, metadata: MetadataResponse, refusals: Refusals
) -> dict[str, dict[str, str]]:
    resources = [
        DescribeConfigsRequest.Resource(
            resource_type=TOPIC,
            resource_name=topic.name or "",
            configuration_keys=list(_TOPIC_OPTIONS),
        )
        for topic in metadata.topics
    ]
    if not resources:
        return {}
    request = DescribeConfigsRequest(resources=resources)
    results = client.send(request, DescribeConfigsResponse).results
    codes = {result.resource_name: result.error_code for result in results}
    refusals.note_codes("configurations of topics", codes)
    return {
        result.resource_name: {each.name: each.value or "" for each in result.configs}
        for result in results
        if not result.error_code
    }


def _topics(
    metadata: MetadataResponse, configs: Mapping[str, Mapping[str, str]]
) -> dict[str, TopicFacts]:
    found = {}
    for topic in metadata.topics:
        name = topic.name or ""
        found[name] = TopicFacts(
            name=name,
            id=topic.topic_id,
            is_internal=topic.is_internal,
            partitions=[
                PartitionFacts(
                    topic=name,
                    index=each.partition_index,
                    leader=each.leader_id,
                    replicas=each.replica_nodes,
                    isr=each.isr_nodes,
                )
                for each in sorted(topic.partitions, key=lambda each: each.partition_index)
            ],
            configs=configs.get(name, {}),
        )
    return found


def _completed(
    topics: Mapping[str, TopicFacts], answers: Sequence[BrokerAnswers]
) -> dict[str, TopicFacts]:
    known = {key: found for each in answers for key, found in each.partitions.items()}
    return {
        name: replace(
            topic, partitions=[known.get((name, each.index), each) for each in topic.partitions]
        )
        for name, topic in topics.items()
    }


def _now_ms() -> int:
    return time.time_ns() // 1_000_000
