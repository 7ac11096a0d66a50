"""Kafka's own command-line tools, each doing its job against the broker."""

import json
import re
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from compat_tests.apache_kafka import apache_kafka_on
from compat_tests.conftest import NewTopicName, RunningBroker
from compat_tests.java_tools import JavaTools
from spark_examples.live_broker import live_broker
from tests.eventually import eventually


@pytest.fixture(scope="module")
def server(bootstrap: str) -> tuple[str, str]:
    return ("--bootstrap-server", bootstrap)


def produce(tools: JavaTools, server: tuple[str, str], topic: str, lines: list[str]) -> None:
    """Lines are KEY:VALUE, or \\N for a null."""
    properties = ("parse.key=true", "key.separator=:", "null.marker=\\N")
    options = [word for each in properties for word in ("--reader-property", each)]
    tools.run(
        "kafka-console-producer", *server, "--topic", topic, *options, stdin="\n".join(lines) + "\n"
    )


def consume(tools: JavaTools, server: tuple[str, str], *options: str) -> list[str]:
    printed = tools.run("kafka-console-consumer", *server, "--timeout-ms", "30000", *options)
    return printed.splitlines()


@contextmanager
def running(process: "subprocess.Popen[str]") -> Iterator["subprocess.Popen[str]"]:
    try:
        yield process
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(30)
        assert process.stdout is not None
        process.stdout.close()


def events(output: str) -> list[dict[str, Any]]:
    """The output of the verifiable clients, one JSON object per line."""
    return [json.loads(line) for line in output.splitlines() if line.startswith("{")]


def test_console_clients_carry_keys_values_nulls_and_times(
    java_tools: JavaTools, server: tuple[str, str], topic: str
) -> None:
    produce(java_tools, server, topic, ["a:1", "b:\\N", "c:ünïcode"])
    shown = [f"print.{what}=true" for what in ("key", "offset", "partition", "timestamp")]
    options = [word for each in shown for word in ("--formatter-property", each)]
    lines = consume(
        java_tools, server, "--topic", topic, "--from-beginning", "--max-messages", "3", *options
    )
    fields = [line.split("\t") for line in lines]
    assert all(re.fullmatch(r"CreateTime:\d{13}", field[0]) for field in fields)
    assert [field[1:] for field in fields] == [
        ["Partition:0", "Offset:0", "a", "1"],
        ["Partition:0", "Offset:1", "b", "null"],
        ["Partition:0", "Offset:2", "c", "ünïcode"],
    ]


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_the_java_producer_writes_every_codec(
    java_tools: JavaTools, server: tuple[str, str], topic: str, codec: str
) -> None:
    options = ("--topic", topic, "--compression-codec", codec)
    lines = [f"line {number} " * 10 for number in range(500)]
    java_tools.run("kafka-console-producer", *server, *options, stdin="\n".join(lines))
    read = consume(
        java_tools, server, "--topic", topic, "--from-beginning", "--max-messages", "500"
    )
    assert read == lines


def test_kafka_topics_creates_lists_describes_alters_and_deletes(
    java_tools: JavaTools, server: tuple[str, str], unique: str
) -> None:
    def topics(*arguments: str) -> str:
        return java_tools.run("kafka-topics", *server, *arguments)

    created = topics(
        "--create", "--topic", unique, "--partitions", "3", "--config", "retention.ms=9"
    )
    assert created.strip() == f"Created topic {unique}."
    assert unique in topics("--list").splitlines()
    described = topics("--describe", "--topic", unique).splitlines()
    assert re.search(r"TopicId: [\w-]{22}\tPartitionCount: 3\tReplicationFactor: 1", described[0])
    assert described[0].endswith("Configs: min.insync.replicas=1,retention.ms=9")
    assert re.search(r"Partition: 2\tLeader: 1\tReplicas: 1\tIsr: 1", described[3])
    topics("--alter", "--topic", unique, "--partitions", "5")
    eventually(lambda: "PartitionCount: 5" in topics("--describe", "--topic", unique))
    assert topics("--describe", "--under-replicated-partitions", "--topic", unique) == ""
    again = java_tools.finish("kafka-topics", *server, "--create", "--topic", unique)
    assert again.returncode == 1
    assert f"Topic '{unique}' already exists." in again.stdout
    topics("--delete", "--topic", unique)
    missing = java_tools.finish("kafka-topics", *server, "--describe", "--topic", unique)
    assert missing.returncode == 1
    assert f"Topic '{unique}' does not exist as expected" in missing.stdout


def test_kafka_configs_describes_alters_and_resets(
    java_tools: JavaTools, server: tuple[str, str], topic: str
) -> None:
    def configs(action: str, *arguments: str) -> str:
        entity = ("--entity-type", "topics", "--entity-name", topic)
        return java_tools.run("kafka-configs", *server, action, *entity, *arguments)

    configs("--alter", "--add-config", "retention.ms=5000,cleanup.policy=[delete,compact]")
    expected = "retention.ms=5000 sensitive=false synonyms={DYNAMIC_TOPIC_CONFIG:retention.ms=5000}"
    eventually(lambda: expected in configs("--describe"))
    assert "cleanup.policy=delete,compact" in configs("--describe")
    configs("--alter", "--delete-config", "retention.ms")
    eventually(lambda: "retention.ms" not in configs("--describe"))
    everything = configs("--describe", "--all")
    assert "segment.bytes=1073741824 sensitive=false" in everything
    assert "DEFAULT_CONFIG:log.segment.bytes=1073741824" in everything


def test_kafka_configs_changes_a_broker_setting(
    java_tools: JavaTools, server: tuple[str, str]
) -> None:
    entity = ("--entity-type", "brokers", "--entity-default")
    change = ("--alter", "--add-config", "log.cleaner.backoff.ms=15001")
    java_tools.run("kafka-configs", *server, *entity, *change)
    try:
        eventually(
            lambda: (
                "log.cleaner.backoff.ms=15001"
                in java_tools.run("kafka-configs", *server, *entity, "--describe")
            )
        )
    finally:
        undo = ("--alter", "--delete-config", "log.cleaner.backoff.ms")
        java_tools.run("kafka-configs", *server, *entity, *undo)


def test_get_offsets_prints_earliest_latest_and_by_time(
    java_tools: JavaTools, server: tuple[str, str], new_topic: NewTopicName
) -> None:
    topic = new_topic(2)
    produce(java_tools, server, topic, [f"same key:{number}" for number in range(7)])

    def offsets(time: str) -> list[int]:
        lines = java_tools.run("kafka-get-offsets", *server, "--topic", topic, "--time", time)
        return sorted(int(line.rsplit(":", 1)[1] or -1) for line in lines.splitlines())

    assert offsets("-1") == [0, 7]
    assert offsets("earliest") == [0, 0]
    assert max(offsets("max-timestamp")) in range(7)
    assert max(offsets("1000")) == 0


def test_delete_records_moves_the_start(
    java_tools: JavaTools, server: tuple[str, str], topic: str, tmp_path: Path
) -> None:
    produce(java_tools, server, topic, [f"k:{number}" for number in range(10)])
    offsets = tmp_path / "offsets.json"
    asked = {"partitions": [{"topic": topic, "partition": 0, "offset": 4}], "version": 1}
    offsets.write_text(json.dumps(asked))
    printed = java_tools.run("kafka-delete-records", *server, "--offset-json-file", str(offsets))
    assert f"partition: {topic}-0\tlow_watermark: 4" in printed
    options = ("--topic", topic, "--from-beginning", "--max-messages", "6")
    assert consume(java_tools, server, *options) == ["4", "5", "6", "7", "8", "9"]


def test_broker_api_versions_finds_every_version_usable(
    java_tools: JavaTools, server: tuple[str, str]
) -> None:
    printed = java_tools.run("kafka-broker-api-versions", *server)
    assert "Fetch(1): 4 to 18 [usable: 18]" in printed
    assert "Produce(0): 0 to 13 [usable: 13]" in printed
    assert "UnregisterController(94): 0 [usable: 0]" in printed
    assert "UNKNOWN" not in printed


@pytest.mark.parametrize("acks", ["0", "1", "all"])
def test_the_performance_tools_move_every_record(
    java_tools: JavaTools, server: tuple[str, str], new_topic: NewTopicName, acks: str
) -> None:
    topic = new_topic(3)
    load = ("--num-records", "50000", "--record-size", "200", "--throughput", "-1")
    settings = ("--command-property", f"acks={acks}", *server)
    sent = java_tools.run("kafka-producer-perf-test", "--topic", topic, *load, *settings)
    assert "50000 records sent" in sent
    read = java_tools.run(
        "kafka-consumer-perf-test", *server, "--topic", topic, "--num-records", "50000"
    )
    row = read.splitlines()[-1].split(", ")
    assert int(row[4]) == 50_000


def test_end_to_end_latency_is_measured(
    java_tools: JavaTools, server: tuple[str, str], topic: str
) -> None:
    load = ("--num-records", "100", "--producer-acks", "all", "--record-size", "20")
    printed = java_tools.run("kafka-e2e-latency", *server, "--topic", topic, *load)
    assert "Percentiles: 50th" in printed


def test_the_verifiable_clients_account_for_every_record(
    java_tools: JavaTools, server: tuple[str, str], new_topic: NewTopicName, unique: str
) -> None:
    topic = new_topic(3)
    load = ("--topic", topic, "--max-messages", "2000")
    sent = events(java_tools.run("kafka-verifiable-producer", *server, *load))
    acknowledged = [event for event in sent if event["name"] == "producer_send_success"]
    assert len(acknowledged) == 2000
    reading = ("--group-id", unique, "--reset-policy", "earliest", "--verbose")
    read = events(java_tools.run("kafka-verifiable-consumer", *server, *load, *reading))
    consumed = [event for event in read if event["name"] == "record_data"]
    assert sorted(int(event["value"]) for event in consumed) == list(range(2000))
    commits = [event for event in read if event["name"] == "offsets_committed"]
    assert commits and all(event["success"] for event in commits)


@pytest.mark.parametrize(
    "assignor",
    ["RangeAssignor", "RoundRobinAssignor", "StickyAssignor", "CooperativeStickyAssignor"],
)
def test_verifiable_consumers_share_a_group_under_every_assignor(
    java_tools: JavaTools,
    server: tuple[str, str],
    new_topic: NewTopicName,
    unique: str,
    assignor: str,
) -> None:
    topic = new_topic(4)
    options = ("--topic", topic, "--group-id", unique, "--session-timeout", "6000")
    strategy = f"org.apache.kafka.clients.consumer.{assignor}"
    command = ("kafka-verifiable-consumer", *server, *options, "--assignment-strategy", strategy)
    with running(java_tools.start(*command)), running(java_tools.start(*command)):

        def members() -> list[int]:
            describe = ("--describe", "--group", unique, "--members")
            printed = java_tools.finish("kafka-consumer-groups", *server, *describe).stdout
            rows = [line.split() for line in printed.splitlines() if line.startswith(unique)]
            return sorted(int(row[4]) for row in rows)

        eventually(lambda: members() == [2, 2], timeout_s=60)


def test_dump_log_reads_our_files(
    java_tools: JavaTools, server: tuple[str, str], topic: str, broker: RunningBroker
) -> None:
    if broker.data is None:
        pytest.skip("the files of a broker started elsewhere are not at hand")
    produce(java_tools, server, topic, [f"key:{number}" for number in range(20)])
    directory = broker.data / f"{topic}-0"
    log = directory / "00000000000000000000.log"
    printed = java_tools.run(
        "kafka-dump-log", "--print-data-log", "--deep-iteration", "--files", str(log)
    )
    payloads = re.findall(r"keySize: 3 valueSize: \d+ .*payload: (\d+)", printed)
    assert payloads == [str(number) for number in range(20)]
    assert "isvalid: false" not in printed
    for index in ("index", "timeindex"):
        file = directory / f"00000000000000000000.{index}"
        checked = java_tools.finish("kafka-dump-log", "--files", str(file), "--index-sanity-check")
        assert "mismatch" not in checked.stdout.lower(), checked.stdout


def test_dump_log_decodes_our_metadata_and_offsets(
    java_tools: JavaTools, server: tuple[str, str], topic: str, broker: RunningBroker, unique: str
) -> None:
    if broker.data is None:
        pytest.skip("the files of a broker started elsewhere are not at hand")
    produce(java_tools, server, topic, ["k:v"])
    options = ("--topic", topic, "--group", unique, "--from-beginning", "--max-messages", "1")
    consume(java_tools, server, *options)
    metadata = broker.data / "__cluster_metadata-0" / "00000000000000000000.log"
    decode = ("--cluster-metadata-decoder", "--skip-record-metadata")
    printed = java_tools.run("kafka-dump-log", *decode, "--files", str(metadata))
    assert f'"type":"TOPIC_RECORD","version":0,"data":{{"name":"{topic}"' in printed
    assert "REGISTER_BROKER_RECORD" in printed
    written = [
        log
        for log in broker.data.glob("__consumer_offsets-*/*.log")
        if log.stat().st_size > 0 and unique.encode() in log.read_bytes()
    ]
    printed = java_tools.run("kafka-dump-log", "--offsets-decoder", "--files", str(written[0]))
    assert f'"group":"{unique}","topic":"{topic}","partition":0' in printed.replace(" ", "")


def test_subscriptions_to_client_metrics_are_kept_and_deleted(
    java_tools: JavaTools, server: tuple[str, str], unique: str
) -> None:
    def metrics(*arguments: str) -> str:
        return java_tools.run("kafka-client-metrics", *server, *arguments, "--name", unique)

    match = "client_id=some.*"
    metrics("--alter", "--metrics", "org.apache.kafka.producer.", "--match", match)
    assert f"  match={match}\n  metrics=org.apache.kafka.producer." in metrics("--describe")
    metrics("--delete")
    assert "doesn't exist" in metrics("--describe")


def test_a_broker_that_is_not_there_cannot_be_unregistered(
    java_tools: JavaTools, server: tuple[str, str]
) -> None:
    done = java_tools.finish("kafka-cluster", "unregister", *server, "--id", "99")
    assert done.returncode == 1
    assert "Broker ID 99 is not currently registered" in done.stderr


LEVELS = {
    "eligible.leader.replicas.version": 1,
    "group.version": 1,
    "kraft.version": 1,
    "metadata.version": 33,
    "share.version": 2,
    "streams.version": 1,
    "transaction.version": 2,
}
"""The levels of the features of Kafka 4.4."""


def test_the_upgrade_to_this_release_finalizes_all_features_and_kafka_goes_on(
    java_tools: JavaTools, tmp_path: Path
) -> None:
    def features(bootstrap: str, *arguments: str) -> str:
        return java_tools.run("kafka-features", "--bootstrap-server", bootstrap, *arguments)

    data = tmp_path / "data"
    with live_broker(data) as bootstrap:
        # The second time there is nothing left to do, which is no error.
        for _ in range(2):
            printed = features(bootstrap, "upgrade", "--release-version", "4.4")
            upgraded = re.findall(r"^(\S+) was upgraded to (\d+)\.$", printed, re.MULTILINE)
            assert {name: int(level) for name, level in upgraded} == LEVELS
    for engine in (apache_kafka_on([data], tmp_path), live_broker(data)):
        with engine as bootstrap:
            described = features(bootstrap, "describe")
            assert re.search(r"Feature: kraft.version .*FinalizedVersionLevel: 1\s", described)


def test_the_cluster_describes_itself(
    java_tools: JavaTools, server: tuple[str, str], topic: str, unique: str
) -> None:
    assert re.search(r"Cluster ID: \S{22}", java_tools.run("kafka-cluster", "cluster-id", *server))
    quorum = java_tools.run("kafka-metadata-quorum", *server, "describe", "--status")
    assert re.search(r"LeaderId: +1\n", quorum)
    features = java_tools.run("kafka-features", *server, "describe")
    assert re.search(r"Feature: metadata.version\s+.*FinalizedVersionLevel: 4.4-IV2", features)
    logs = java_tools.run("kafka-log-dirs", *server, "--describe", "--topic-list", topic)
    found = json.loads(logs.splitlines()[-1])["brokers"][0]["logDirs"][0]
    assert [each["partition"] for each in found["partitions"]] == [f"{topic}-0"]
    election = ("--election-type", "PREFERRED", "--topic", topic, "--partition", "0")
    printed = java_tools.run("kafka-leader-election", *server, *election)
    assert f"Valid replica already elected for partitions {topic}-0" in printed
    produce(java_tools, server, topic, ["k:v"])
    producers = ("describe-producers", "--topic", topic, "--partition", "0")
    rows = java_tools.run("kafka-transactions", *server, *producers).splitlines()
    assert rows[1].split()[1:3] == ["0", "-1"]
