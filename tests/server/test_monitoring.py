"""The metrics listener of `wirekafka serve`, over HTTP."""

from __future__ import annotations

import gzip
import json
import re
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import pytest
from confluent_kafka import Consumer, TopicPartition
from prometheus_client.metrics_core import Metric
from prometheus_client.openmetrics import parser as openmetrics
from prometheus_client.parser import text_string_to_metric_families

from tests.eventually import eventually
from tests.in_process import InProcessBroker
from tests.manual_clock import ManualClock
from tests.raw_client import RawClient
from tests.server.serving import Serving
from tests.server.test_serve import batch, create, fetch_request, produce
from wirekafka.cli.serve import main as serve_main
from wirekafka.config.option import ConfigError
from wirekafka.config.own import metrics_listener
from wirekafka.config.sources import Sources
from wirekafka.protocol.fetch import FetchRequest
from wirekafka.server.monitoring.topics import PartitionCollector

OPENMETRICS = "application/openmetrics-text; version=1.0.0"


class Answer(NamedTuple):
    status: int
    headers: dict[str, str]
    body: bytes


class Monitored:
    """A broker process with metrics on a free port."""

    def __init__(self, data: Path, *arguments: str, under: Sequence[str] = ()):
        self.serving = Serving(data, "--metrics", "0", *arguments, under=under)
        assert self.serving.process.stderr is not None
        self.url = ""
        while not self.url:
            found = re.search(r"http://\S+", self.serving.process.stderr.readline())
            self.url = found.group() if found else ""

    def get(self, path: str, **headers: str) -> Answer:
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        try:
            with urlopen(Request(self.url + path, headers=named), timeout=20) as answer:
                return Answer(answer.status, dict(answer.headers), answer.read())
        except HTTPError as error:
            with error:
                return Answer(error.code, dict(error.headers), error.read())

    def metrics(self) -> dict[str, Metric]:
        text = self.get("/metrics").body.decode()
        return {family.name: family for family in text_string_to_metric_families(text)}

    def value(self, metric: str, **labels: str) -> float:
        name = metric.removesuffix("_total")
        [value] = [
            sample.value for sample in self.metrics()[name].samples if sample.labels == labels
        ]
        return value


@pytest.fixture(scope="module")
def monitored(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Monitored]:
    found = Monitored(tmp_path_factory.mktemp("monitored") / "data")
    with found.serving, RawClient(found.serving.port) as client:
        create(client, "flights")
        produce(client, "flights", batch(b"one"))
        yield found


def test_metrics_are_parsed_by_prometheus_client(monitored: Monitored) -> None:
    answer = monitored.get("/metrics")
    assert answer.headers["Content-Type"].startswith("text/plain")
    assert monitored.value("kafka_server_brokertopicmetrics_messagesin_total", topic="flights") == 1
    assert monitored.value("kafka_server_brokertopicmetrics_messagesin_total") == 1
    assert monitored.value("kafka_server_replicamanager_leadercount") == 1
    assert monitored.value("kafka_log_log_logendoffset", topic="flights", partition="0") == 1
    assert monitored.value("kafka_controller_kafkacontroller_activecontrollercount") == 1


def test_openmetrics_is_sent_to_those_who_accept_it(monitored: Monitored) -> None:
    answer = monitored.get("/metrics", Accept=OPENMETRICS)
    assert answer.headers["Content-Type"].startswith("application/openmetrics-text")
    families = {f.name for f in openmetrics.text_string_to_metric_families(answer.body.decode())}
    assert families >= {"kafka_network_requestmetrics_requests", "process_cpu_seconds"}
    assert answer.body.endswith(b"# EOF\n") and answer.body.count(b"# EOF") == 1


def test_metrics_are_compressed_for_those_who_accept_it(monitored: Monitored) -> None:
    answer = monitored.get("/metrics", Accept_Encoding="gzip")
    assert answer.headers["Content-Encoding"] == "gzip"
    assert b"kafka_server_replicamanager_leadercount 1\n" in gzip.decompress(answer.body)


def test_each_metric_is_declared_once(monitored: Monitored) -> None:
    text = monitored.get("/metrics").body.decode()
    names = re.findall(r"^# TYPE (\S+)", text, re.MULTILINE)
    assert len(names) == len(set(names)) > 60
    series = re.findall(r"^([^#\s].*) \S+$", text, re.MULTILINE)
    assert len(series) == len(set(series))


def test_connections_are_counted_by_listener_and_software(monitored: Monitored) -> None:
    labels = {"listener": "PLAINTEXT", "networkProcessor": "0"}
    prefix = "kafka_server_socket_server_metrics"
    assert monitored.value(f"{prefix}_connection_count", **labels) == 1
    software = {"clientSoftwareName": "unknown", "clientSoftwareVersion": "unknown"}
    assert monitored.value(f"{prefix}_connections_software", **labels, **software) == 1


def test_there_are_no_queues_between_threads(monitored: Monitored) -> None:
    families = monitored.metrics()
    samples = {
        sample.name: sample.value
        for family in families.values()
        for sample in family.samples
        if sample.labels in ({}, {"request": "Produce"}, {"request": "Produce", "quantile": "0.99"})
    }
    assert samples["kafka_network_requestchannel_requestqueuesize"] == 0
    assert samples["kafka_network_requestchannel_responsequeuesize"] == 0
    prefix = "kafka_network_requestmetrics"
    assert samples[f"{prefix}_totaltimems"] > 0
    for queue in ("requestqueuetimems", "responsequeuetimems"):
        assert samples[f"{prefix}_{queue}"] == 0
        assert samples[f"{prefix}_{queue}_count"] == samples[f"{prefix}_totaltimems_count"] == 1


def test_the_time_to_send_is_that_of_responses_which_the_socket_does_not_take_at_once(
    monitored: Monitored,
) -> None:
    def longest_ms(request: str) -> tuple[float, float]:
        prefix = "kafka_network_requestmetrics_responsesendtimems"
        samples = monitored.metrics()[prefix].samples
        of_request = {
            (sample.name, sample.labels.get("quantile")): sample.value
            for sample in samples
            if sample.labels["request"] == request
        }
        return of_request[prefix, "0.999"], of_request[f"{prefix}_count", None]

    with RawClient(monitored.serving.port) as client:
        client.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 16)
        create(client, "large")
        for _ in range(8):
            produce(client, "large", batch(b"x" * 900_000))
        client.call(fetch_request("large", 8), 12)
        fetched = longest_ms("Fetch")[1]
        client.send(fetch_request("large"), 12)
        eventually(lambda: longest_ms("Fetch")[1] > fetched)
        assert longest_ms("Fetch")[0] == 0  # It is not sent yet: the client does not read.
        assert client.receive(FetchRequest, 12).responses[0].partitions[0].records
    eventually(lambda: longest_ms("FetchConsumer")[0] > 0)
    assert longest_ms("Fetch") == longest_ms("FetchConsumer")
    assert longest_ms("Produce")[0] == 0
    assert longest_ms("Produce")[1] >= 8


def test_requests_that_wait_are_in_the_purgatory(monitored: Monitored) -> None:
    prefix = "kafka_server_delayedoperationpurgatory"

    def waiting(operation: str) -> set[float]:
        return {
            monitored.value(f"{prefix}_{name}", delayedOperation=operation)
            for name in ("purgatorysize", "numdelayedoperations")
        }

    assert waiting("Fetch") == waiting("DeleteRecords") == waiting("AlterAcls") == {0}
    with RawClient(monitored.serving.port) as client:
        client.send(fetch_request("flights", 1, max_wait_ms=60_000), 11)
        eventually(lambda: waiting("Fetch") == {1})
    eventually(lambda: waiting("Fetch") == {0})


def test_groups_are_counted_by_type_and_state(monitored: Monitored) -> None:
    prefix = "kafka_server_group_coordinator_metrics"
    bootstrap = f"127.0.0.1:{monitored.serving.port}"
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "nobody"})
    consumer.commit(offsets=[TopicPartition("flights", 0, 1)], asynchronous=False)
    consumer.close()
    assert monitored.value(f"{prefix}_group_count", protocol="classic") == 1
    assert monitored.value(f"{prefix}_group_count", protocol="streams") == 0
    assert monitored.value(f"{prefix}_classic_group_count", state="Empty") == 1
    assert monitored.value(f"{prefix}_consumer_group_count", state="Reconciling") == 0
    assert monitored.value(f"{prefix}_offset_count") == 1


def test_a_cordoned_directory_is_reported(tmp_path: Path) -> None:
    monitored = Monitored(tmp_path / "data", "--set", "cordoned.log.dirs=*")
    with monitored.serving:
        prefix, path = "kafka_log_logmanager", str(tmp_path / "data")
        eventually(lambda: monitored.value(f"{prefix}_cordonedlogdirectorycount") == 1)
        assert monitored.value(f"{prefix}_logdirectorycordoned", logDirectory=path) == 1
        assert monitored.value(f"{prefix}_logdirectoryoffline", logDirectory=path) == 0


def test_partitions_whose_replicas_are_being_moved_are_counted(
    tmp_path: Path, manual_clock: ManualClock
) -> None:
    kafka = InProcessBroker(tmp_path / "data", manual_clock)
    kafka.create("t", partitions=3)
    partitions = kafka.broker.image.topics["t"].partitions
    partitions[0].adding_replicas.append(2)
    partitions[1].removing_replicas.append(3)
    collector = PartitionCollector(kafka.broker)
    for _ in collector.collect():
        pass
    text = "".join(part for table in collector.tables for part in table.texts())
    assert "\nkafka_server_replicamanager_reassigningpartitions 2\n" in text
    kafka.stop()


def test_the_size_of_a_log_is_compared_with_its_retention(
    tmp_path: Path, manual_clock: ManualClock
) -> None:
    kafka = InProcessBroker(tmp_path / "data", manual_clock)
    records = batch(bytes(1000))
    for topic, limit in (("limited", str(4 * len(records))), ("unlimited", "-1")):
        kafka.create(topic, retention_bytes=limit)
        partition = kafka.broker.partition(topic, 0)
        partition.leading().append_from_client(records, 1, manual_clock.now_ms())
    collector = PartitionCollector(kafka.broker)
    for _ in collector.collect():
        pass
    text = "".join(part for table in collector.tables for part in table.texts())
    name = "kafka_log_log_retentionsizein_percent"
    assert f'\n{name}{{topic="limited",partition="0"}} 25\n' in text
    assert f'\n{name}{{topic="unlimited",partition="0"}} 0\n' in text
    kafka.stop()


def test_a_serving_node_is_live_and_ready(monitored: Monitored) -> None:
    for path in ("/health/live", "/health/ready", "/live", "/ready", "/health"):
        answer = monitored.get(path)
        assert (answer.status, json.loads(answer.body)) == (200, {"status": "up"})


@pytest.mark.parametrize("path", ["/", "/metric", "/health/", "/health/other"])
def test_other_paths_are_not_found(monitored: Monitored, path: str) -> None:
    assert monitored.get(path).status == 404


def test_a_request_that_changes_something_is_not_allowed(monitored: Monitored) -> None:
    with pytest.raises(HTTPError, match="405"):
        urlopen(monitored.url + "/metrics", data=b"x", timeout=20)


def test_a_stopped_process_closes_the_listener(tmp_path: Path) -> None:
    monitored = Monitored(tmp_path / "data")
    with monitored.serving as serving:
        assert monitored.get("/health/ready").status == 200
        assert serving.stop() == 0
        with pytest.raises(OSError):
            urlopen(monitored.url, timeout=5)


def test_a_paused_process_answers_again(tmp_path: Path) -> None:
    monitored = Monitored(tmp_path / "data")
    with monitored.serving as serving:
        serving.process.send_signal(signal.SIGSTOP)
        serving.process.send_signal(signal.SIGCONT)
        eventually(lambda: monitored.get("/health/live").status == 200)


def test_a_port_that_is_in_use_is_reported(tmp_path: Path, monitored: Monitored) -> None:
    port = monitored.url.rpartition(":")[2]
    data = str(tmp_path / "data")
    with pytest.raises(OSError, match="in use"):
        serve_main(["--data", data, "--listen", "127.0.0.1:0", "--metrics", port])


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("9404", "127.0.0.1:9404"),
        ("0.0.0.0:9404", "0.0.0.0:9404"),
        ("[::1]:9404", "[::1]:9404"),
        ("", "None"),
    ],
)
def test_the_listener_is_a_port_or_an_address(text: str, address: str) -> None:
    assert str(metrics_listener(Sources.of({"wirekafka.metrics.listener": text}))) == address


@pytest.mark.parametrize("text", ["many", "localhost:", "70000", ":9404", "-1"])
def test_other_addresses_are_refused(text: str) -> None:
    with pytest.raises(ConfigError, match="expected PORT or HOST:PORT"):
        metrics_listener(Sources.of({"wirekafka.metrics.listener": text}))


def test_without_metrics_none_of_it_is_imported() -> None:
    code = (
        "import sys, wirekafka.server.node, wirekafka.cli.serve\n"
        "from wirekafka.apis.shared import registry; registry.load()\n"
        "print([name for name in sys.modules if name.startswith("
        "('wirekafka.metrics', 'wirekafka.server.monitoring', 'prometheus', 'wsgiref'))])"
    )
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "[]"
