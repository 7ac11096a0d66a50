"""Fixtures: the brokers under test, unique names, Spark and Kafka's tools."""

import re
import secrets
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from confluent_kafka.admin import AdminClient, NewTopic

from compat_tests.apache_kafka import apache_kafka as started_apache_kafka
from compat_tests.java_tools import JavaTools
from compat_tests.mortal_broker import MortalBroker
from compat_tests.tool_shell import SharedTools
from spark_examples.live_broker import live_broker
from tests import kafka_jars

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

NewTopicName = Callable[..., str]


@dataclass(frozen=True)
class RunningBroker:
    """A broker that accepts connections; `data` is None if the tests did not start it."""

    bootstrap: str
    is_reference: bool
    data: Path | None = None

    @property
    def address(self) -> tuple[str, int]:
        host, _, port = self.bootstrap.rpartition(":")
        return host, int(port)


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("wirekafka")
    group.addoption("--bootstrap", help="test this running broker, HOST:PORT, instead of a new one")
    group.addoption("--reference", action="store_true", help="test Apache Kafka instead")
    group.addoption("--apache", help="a running Apache Kafka to compare with, HOST:PORT")


@pytest.fixture(scope="session")
def broker(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[RunningBroker]:
    """The broker under test: a live wirekafka unless an option says otherwise."""
    given = request.config.getoption("--bootstrap")
    if given:
        yield RunningBroker(given, is_reference=given == request.config.getoption("--apache"))
    elif request.config.getoption("--reference"):
        yield request.getfixturevalue("apache_kafka")
    else:
        data = tmp_path_factory.mktemp("wirekafka") / "data"
        with live_broker(data) as bootstrap:
            yield RunningBroker(bootstrap, is_reference=False, data=data)


@pytest.fixture(scope="session")
def apache_kafka(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[RunningBroker]:
    """Apache Kafka of the same version, to compare responses with."""
    given = request.config.getoption("--apache")
    if given:
        yield RunningBroker(given, is_reference=True)
        return
    directory = tmp_path_factory.mktemp("apache-kafka")
    with started_apache_kafka(directory) as bootstrap:
        yield RunningBroker(bootstrap, is_reference=True, data=directory / "data")


@pytest.fixture(scope="session")
def bootstrap(broker: RunningBroker) -> str:
    return broker.bootstrap


@pytest.fixture
def unique(request: pytest.FixtureRequest) -> str:
    """A name for topics, groups and clients that no other test, and no other run, uses."""
    name = re.sub(r"[^A-Za-z0-9]+", "-", request.node.name)[:60].strip("-")
    return f"{name}-{secrets.token_hex(4)}"


@pytest.fixture(scope="session")
def admin(bootstrap: str) -> AdminClient:
    # Without a log: the client outlives the broker, and would log after pytest's last line.
    return AdminClient({"bootstrap.servers": bootstrap, "log_level": 0})


@pytest.fixture
def new_topic(admin: AdminClient, unique: str) -> Iterator[NewTopicName]:
    """`new_topic(partitions=1, config={...})` makes a topic of a unique name and returns it.

    The topics have no retention by time, which could delete old records at any moment.
    """
    made: list[str] = []

    def make(partitions: int = 1, config: dict[str, str] | None = None) -> str:
        name = f"{unique}-{len(made)}"
        settings = {"retention.ms": "-1"} | (config or {})
        topic = NewTopic(name, partitions, replication_factor=1, config=settings)
        admin.create_topics([topic])[name].result(30)
        made.append(name)
        return name

    yield make
    for deleted in admin.delete_topics(made).values() if made else ():
        deleted.exception(30)


@pytest.fixture
def topic(new_topic: NewTopicName) -> str:
    """A new topic of one partition."""
    return new_topic()


@pytest.fixture(scope="module")
def spark() -> "Iterator[SparkSession]":
    """A Spark session of two threads; its JVM stays warm for the next module."""
    # Imported late: most tests here need no Spark.
    from compat_tests.spark_session import spark_session

    with spark_session() as session:
        yield session


@pytest.fixture(scope="session")
def java_tools(tmp_path_factory: pytest.TempPathFactory) -> Iterator[JavaTools]:
    """The command-line tools of Kafka 4.4.0; their commands share a JVM."""
    tools = SharedTools(kafka_jars.tools_jars(), tmp_path_factory.mktemp("java-tools"))
    yield tools
    tools.close()


@pytest.fixture(scope="session")
def java_clients(tmp_path_factory: pytest.TempPathFactory) -> JavaTools:
    """Runs the programs of the folder `java` with the clients of Kafka 4.4.0."""
    return JavaTools(kafka_jars.tools_jars(), tmp_path_factory.mktemp("java-clients"))


@pytest.fixture(scope="session")
def old_java_tools(tmp_path_factory: pytest.TempPathFactory) -> JavaTools:
    """The command-line tools of Kafka 2.1.1, the oldest clients a 4.4 broker accepts."""
    return JavaTools(kafka_jars.old_kafka_jars(), tmp_path_factory.mktemp("old-java-tools"))


@pytest.fixture
def mortal(tmp_path: Path) -> Iterator[MortalBroker]:
    """A broker for one test, which the test may kill."""
    broker = MortalBroker(tmp_path / "data")
    broker.start()
    yield broker
    broker.stop()
