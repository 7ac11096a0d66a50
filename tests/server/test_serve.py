"""`wirekafka serve` as a process: started, configured, stopped, killed and restarted."""

from __future__ import annotations

import signal
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from tests.in_process import batch
from tests.raw_client import RawClient
from tests.repetitions import swept
from tests.server.serving import Serving
from wirekafka.codec.batch import batches
from wirekafka.protocol.api_versions import ApiVersionsRequest
from wirekafka.protocol.create_topics import CreateTopicsRequest
from wirekafka.protocol.fetch import FetchRequest
from wirekafka.protocol.metadata import MetadataRequest
from wirekafka.protocol.produce import ProduceRequest


def create(client: RawClient, name: str, partitions: int = 1) -> None:
    topic = CreateTopicsRequest.CreatableTopic(
        name=name, num_partitions=partitions, replication_factor=1
    )
    response = client.call(CreateTopicsRequest(topics=[topic], timeout_ms=5000), 5)
    assert response.topics[0].error_code == 0


def produce(client: RawClient, topic: str, records: bytes, acks: int = -1) -> Any:
    data = ProduceRequest.TopicProduceData
    request = ProduceRequest(
        acks=acks,
        timeout_ms=5000,
        topic_data=[
            data(name=topic, partition_data=[data.PartitionProduceData(index=0, records=records)])
        ],
    )
    return client.call(request, 9).responses[0].partition_responses[0]


def fetch_request(topic: str, offset: int = 0, max_wait_ms: int = 0) -> FetchRequest:
    return FetchRequest(
        max_wait_ms=max_wait_ms,
        min_bytes=1,
        topics=[
            FetchRequest.Topic(
                topic=topic,
                partitions=[
                    FetchRequest.Topic.Partition(
                        partition=0, fetch_offset=offset, partition_max_bytes=1 << 20
                    )
                ],
            )
        ],
    )


def fetch(client: RawClient, topic: str, offset: int = 0) -> Any:
    return client.call(fetch_request(topic, offset), 11).responses[0].partitions[0]


def offsets(records: Any) -> list[int]:
    return [header.base_offset for _, header in batches(records)]


def advertised(client: RawClient) -> list[tuple[str, int]]:
    response = client.call(MetadataRequest(topics=[]), 9)
    return [(broker.host, broker.port) for broker in response.brokers]


@pytest.fixture
def data(tmp_path: Path) -> Path:
    return tmp_path / "data"


def test_a_broker_without_any_configuration_serves_and_stops(data: Path) -> None:
    with Serving(data) as serving:
        with serving.client() as client:
            assert advertised(client) == [("127.0.0.1", serving.port)]
            create(client, "t")
            assert produce(client, "t", batch(b"hello")).error_code == 0
            assert offsets(fetch(client, "t").records) == [0]
        assert serving.stop() == 0
    assert (data / ".kafka_cleanshutdown").exists()
    assert not (data / ".lock").exists()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_a_signal_stops_within_seconds(data: Path, number: int) -> None:
    with Serving(data) as serving, serving.client() as client:
        create(client, "t")
        client.send(fetch_request("t", max_wait_ms=30_000), 11)
        idle = serving.client()
        started = time.monotonic()
        assert serving.stop(number) == 0
        assert time.monotonic() - started < 5
        assert client.receive(FetchRequest, 11).error_code == 0
        assert client.is_closed()
        assert idle.is_closed()


def test_topics_and_records_survive_a_stop_and_a_kill(data: Path) -> None:
    with Serving(data) as first, first.client() as client:
        create(client, "t")
        topic_id = client.call(MetadataRequest(topics=None), 12).topics[0].topic_id
        produce(client, "t", batch(b"a"))
        assert first.stop() == 0
    with Serving(data) as second, second.client() as client:
        assert offsets(fetch(client, "t").records) == [0]
        for sequence in range(3):
            produce(
                client, "t", batch(b"b", producer_id=5, producer_epoch=0, base_sequence=sequence)
            )
        second.stop(signal.SIGKILL)
    assert not (data / ".kafka_cleanshutdown").exists()
    with Serving(data) as third, third.client() as client:
        assert client.call(MetadataRequest(topics=None), 12).topics[0].topic_id == topic_id
        assert offsets(fetch(client, "t").records) == [0, 1, 2, 3]
        again = produce(client, "t", batch(b"b", producer_id=5, producer_epoch=0, base_sequence=2))
        assert (again.error_code, again.base_offset) == (0, 3)
        assert produce(client, "t", batch(b"c")).base_offset == 4


def test_a_second_process_on_the_directory_is_refused_in_one_line(data: Path) -> None:
    with Serving(data) as first:
        with Serving(data) as second:
            assert second.stop() == 1
            assert second.ready == ""
            [line] = second.errors.strip().splitlines()
            assert str(data) in line and "in use" in line
        with first.client() as client:
            assert client.call(ApiVersionsRequest(), 0).error_code == 0


def test_a_port_that_is_in_use_is_reported_in_one_line(data: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with Serving(data, listen=f"127.0.0.1:{port}") as serving:
            assert serving.stop() == 1
            [line] = serving.errors.strip().splitlines()
            assert f"127.0.0.1:{port}" in line
    with Serving(data) as serving:
        assert serving.port


def test_a_wrong_setting_is_reported_in_one_line(data: Path) -> None:
    with Serving(data, "--set", "num.partitions=many") as serving:
        assert serving.stop() == 1
        [line] = serving.errors.strip().splitlines()
        assert "num.partitions" in line and "many" in line


@pytest.mark.parametrize(
    ("setting", "named"),
    [
        ("process.roles=broker", "process.roles"),
        ("listeners=SSL://127.0.0.1:0", "ssl.keystore.location"),
    ],
)
def test_an_unsupported_configuration_is_reported_in_one_line(
    data: Path, setting: str, named: str
) -> None:
    with Serving(data, "--set", setting, listen="") as serving:
        assert serving.stop() == 1
        [line] = serving.errors.strip().splitlines()
        assert named in line


def test_an_unknown_setting_is_logged_as_a_warning(data: Path) -> None:
    with Serving(data, "--set", "no.such.option=1") as serving:
        assert serving.port
        serving.stop()
        assert "no.such.option" in serving.errors


def test_a_properties_file_configures_listeners(data: Path, tmp_path: Path) -> None:
    file = tmp_path / "server.properties"
    file.write_text(
        "process.roles=broker,controller\nnode.id=7\n"
        "listeners=INSIDE://127.0.0.1:0,OUTSIDE://127.0.0.1:0\n"
        "listener.security.protocol.map=INSIDE:PLAINTEXT,OUTSIDE:PLAINTEXT,"
        "CONTROLLER:PLAINTEXT\n"
        "inter.broker.listener.name=OUTSIDE\ncontroller.listener.names=CONTROLLER\n"
        "advertised.listeners=OUTSIDE://kafka.example.com:19092\n"
        "num.partitions=3\n"
    )
    with Serving(data, "--config", str(file), listen="") as serving, serving.client() as client:
        assert advertised(client) == [("127.0.0.1", serving.port)]
        response = client.call(MetadataRequest(topics=[]), 9)
        assert [broker.node_id for broker in response.brokers] == [7]
        create(client, "t", partitions=-1)
        assert len(client.call(MetadataRequest(topics=None), 9).topics[0].partitions) == 3


def test_metadata_returns_the_advertised_listeners(data: Path) -> None:
    with (
        Serving(data, "--set", "advertised.listeners=PLAINTEXT://kafka.example.com:443") as serving,
        serving.client() as client,
    ):
        assert advertised(client) == [("kafka.example.com", 443)]


@pytest.mark.parametrize("listen", ["PLAINTEXT://:0", "0.0.0.0:0"])
def test_a_wildcard_listener_advertises_an_address_that_works_locally(
    data: Path, listen: str
) -> None:
    with Serving(data, listen=listen) as serving:
        assert serving.ready == f"wirekafka ready: 127.0.0.1:{serving.port}"
        with serving.client() as client:
            [(host, port)] = advertised(client)
        with RawClient(port, host=host) as client:
            assert advertised(client) == [(host, port)]


def test_environment_variables_configure_the_broker(data: Path) -> None:
    with (
        Serving(data, environment={"KAFKA_NUM_PARTITIONS": "4"}) as serving,
        serving.client() as client,
    ):
        create(client, "t", partitions=-1)
        assert len(client.call(MetadataRequest(topics=None), 9).topics[0].partitions) == 4


def test_the_environment_names_the_cluster_of_a_new_directory(data: Path) -> None:
    first, other = "5L6g3nShT-eMCtK--X86sw", "b1R0aGVyIG9yYWNsZSEhIQ"
    # What the container image sets is for new directories only.
    default = {"WIREKAFKA_DEFAULT_CLUSTER_ID": other}
    for given in ({"CLUSTER_ID": first}, {}, default):
        with Serving(data, environment=given) as serving, serving.client() as client:
            assert client.call(MetadataRequest(topics=None), 9).cluster_id == first
    with Serving(data, "--cluster-id", other, environment={"CLUSTER_ID": first}) as serving:
        assert serving.stop() == 1
        [line] = serving.errors.strip().splitlines()
        assert f"{data} belongs to cluster {first}, but --cluster-id or CLUSTER_ID" in line
        assert line.endswith(other)
    with Serving(data, "--cluster-id", "two\nlines") as serving:
        assert serving.stop() == 1
        [line] = serving.errors.strip().splitlines()
        assert r"two\nlines" in line and "such as 5L6g3nShT-eMCtK--X86sw" in line


@pytest.mark.parametrize(
    "id",
    swept(
        [r"a: \b #!", "MkU3OEVBNTcwNTJENTM2Qk", "test-cluster", "MkU3OEVBNTcwNTJENTM2Qg=="], every=4
    ),
)
def test_any_cluster_id_is_kept_as_given(data: Path, id: str) -> None:
    """Such as one of 22 letters with bits that no UUID has, which many compose files set."""
    for given in (id, None):
        environment = {} if given is None else {"CLUSTER_ID": given}
        with Serving(data, environment=environment) as serving, serving.client() as client:
            assert client.call(MetadataRequest(topics=None), 9).cluster_id == id


def test_the_standard_event_loop_serves_as_well(data: Path) -> None:
    with Serving(data, "--loop", "asyncio") as serving, serving.client() as client:
        create(client, "t")
        big = batch(*[b"x" * 1000] * 800)
        for _ in range(3):
            assert produce(client, "t", big).error_code == 0
        assert offsets(fetch(client, "t", 1600).records) == [1600]
        assert serving.stop() == 0


def test_several_log_directories_share_the_partitions(tmp_path: Path) -> None:
    directories = f"{tmp_path}/a,{tmp_path}/b"
    with Serving(Path(directories)) as serving, serving.client() as client:
        create(client, "t", partitions=4)
        assert serving.stop() == 0
    for name in ("a", "b"):
        assert len(list((tmp_path / name).glob("t-*"))) == 2
    with Serving(Path(directories)) as serving, serving.client() as client:
        assert len(client.call(MetadataRequest(topics=None), 9).topics[0].partitions) == 4


def test_a_directory_of_another_node_is_refused(data: Path) -> None:
    with Serving(data) as serving:
        assert serving.port
        serving.stop()
    with Serving(data, "--set", "node.id=2") as serving:
        assert serving.stop() == 1
        assert str(data) in serving.errors and "Traceback" not in serving.errors


def test_every_command_line_option_is_explained() -> None:
    shown = subprocess.run(
        [sys.executable, "-m", "wirekafka", "serve", "--help"],
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    for option in ("--config", "--data", "--listen", "--set"):
        assert option in shown


def test_a_broker_that_waits_for_its_controllers_says_so_once_and_can_be_stopped(
    tmp_path: Path,
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as nobody:
        # A port that is bound but accepts no connection.
        controller = f"127.0.0.1:{nobody.getsockname()[1]}"
        settings = {
            "process.roles": "broker",
            "node.id": "7",
            "controller.quorum.bootstrap.servers": controller,
            "controller.quorum.request.timeout.ms": "100",
            "listeners": "PLAINTEXT://127.0.0.1:0",
            "log.dirs": str(tmp_path / "data"),
        }
        command = [sys.executable, "-m", "wirekafka", "serve"]
        command += [word for each in settings.items() for word in ("--set", "=".join(each))]
        with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
            assert process.stderr is not None
            first = process.stderr.readline()
            assert "No active controller is known" in first and controller in first
            process.send_signal(signal.SIGTERM)
            rest = process.stderr.read()
            assert process.wait(30) == 0
            assert "No active controller is known" not in rest
    assert not (tmp_path / "data").exists(), "nothing is written before the cluster is known"
