"""Kafka 2.1.1's clients, the oldest that a 4.4 broker accepts, by their own compatibility test."""

import re
from itertools import product

import pytest
from confluent_kafka.admin import AdminClient

from compat_tests.conftest import NewTopicName, RunningBroker
from compat_tests.java_tools import JavaTools
from tests.repetitions import swept

_ACKS = ("0", "1", "all")
_CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
_EXCHANGES = swept([pytest.param(*each) for each in product(_ACKS, _CODECS)], every=2)


@pytest.fixture
def newtopic_is_free(admin: AdminClient) -> None:
    """The compatibility test creates a topic of this fixed name."""
    admin.delete_topics(["newtopic"])["newtopic"].exception(30)


def test_the_2_1_compatibility_test_passes(
    old_java_tools: JavaTools, broker: RunningBroker, topic: str, newtopic_is_free: None
) -> None:
    expectations = {
        "offsets-for-times-supported": "true",
        "cluster-id-supported": "true",
        "expect-record-too-large-exception": "false",
        "num-cluster-nodes": "1",
        "create-topics-supported": "true",
        # Supported, although the response only reports that there is no authorizer.
        "describe-acls-supported": "true",
    }
    options = [word for name, value in expectations.items() for word in (f"--{name}", value)]
    main = "org.apache.kafka.tools.ClientCompatibilityTest"
    where = ("--bootstrap-server", broker.bootstrap, "--topic", topic)
    printed = old_java_tools.run(main, *where, *options)
    assert "SUCCESS" in printed


@pytest.mark.parametrize(("acks", "codec"), _EXCHANGES)
def test_the_2_1_console_clients_exchange_records(
    old_java_tools: JavaTools, bootstrap: str, topic: str, codec: str, acks: str
) -> None:
    lines = [f"line {number} " * 5 for number in range(200)]
    old_java_tools.run(
        "kafka.tools.ConsoleProducer",
        *("--broker-list", bootstrap, "--topic", topic),
        *("--compression-codec", codec, "--request-required-acks", acks),
        stdin="\n".join(lines),
    )
    printed = old_java_tools.run(
        "kafka.tools.ConsoleConsumer",
        *("--bootstrap-server", bootstrap, "--topic", topic),
        *("--from-beginning", "--max-messages", "200", "--timeout-ms", "30000"),
    )
    assert printed.splitlines() == lines


def test_a_2_1_idempotent_producer_and_group_work(
    old_java_tools: JavaTools, bootstrap: str, new_topic: NewTopicName, unique: str
) -> None:
    topic = new_topic(3)
    sent = old_java_tools.run(
        "org.apache.kafka.tools.ProducerPerformance",
        *("--topic", topic, "--num-records", "20000", "--record-size", "100"),
        *("--throughput", "-1", "--producer-props", f"bootstrap.servers={bootstrap}"),
        *("enable.idempotence=true", "acks=all"),
    )
    assert "20000 records sent" in sent
    read = old_java_tools.run(
        "kafka.tools.ConsumerPerformance",
        *("--broker-list", bootstrap, "--topic", topic, "--messages", "20000"),
        *("--group", unique, "--timeout", "30000"),
    )
    assert int(read.splitlines()[-1].split(", ")[4]) == 20_000
    described = old_java_tools.run(
        "kafka.admin.ConsumerGroupCommand",
        *("--bootstrap-server", bootstrap, "--describe", "--group", unique),
    )
    rows = [line.split() for line in described.splitlines() if re.match(rf"{topic}\s", line)]
    assert sum(int(row[3]) for row in rows) == 20_000
