"""`wirekafka serve --secure`: what it generates, prints and refuses."""

from __future__ import annotations

import signal
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import confluent_kafka
import psutil
import pytest
from confluent_kafka.admin import AdminClient, NewTopic
from cryptography import x509

from tests.raw_client import RawClient
from tests.secret_search import SecretSearch
from tests.server.serving import Serving
from wirekafka.config.sources import read_properties
from wirekafka.protocol.api_versions import ApiVersionsRequest
from wirekafka.security import certificates


def client(directory: Path, port: int, **changed: str) -> dict[str, Any]:
    """The settings of the administrator for confluent-kafka."""
    return {
        "bootstrap.servers": f"127.0.0.1:{port}",
        "security.protocol": "SASL_SSL",
        "sasl.mechanism": "SCRAM-SHA-512",
        "sasl.username": "admin",
        "sasl.password": (directory / "password").read_text().strip(),
        "ssl.ca.location": str(directory / "ca.pem"),
        **changed,
    }


def produce(settings: dict[str, Any], topic: str) -> confluent_kafka.KafkaError | None:
    errors: list[Any] = []
    producer = confluent_kafka.Producer(settings)
    producer.produce(topic, b"v", on_delivery=lambda error, _: errors.append(error))
    assert producer.flush(60) == 0
    return errors[0]


def test_one_command_gives_a_secured_broker_that_keeps_its_secrets(
    tmp_path: Path, secrets: SecretSearch
) -> None:
    data, directory = tmp_path / "data", tmp_path / "data-security"
    with Serving(data, "--secure") as broker:
        port = broker.port
        secrets.add((directory / "password").read_text().strip())
        assert produce(client(directory, port), "orders") is None
        refusals: list[confluent_kafka.KafkaError] = []
        wrong = client(directory, port, **{"sasl.password": "guessed"})
        assert AdminClient({**wrong, "error_cb": refusals.append}).poll(60) > 0
        assert refusals[0].code() == confluent_kafka.KafkaError._AUTHENTICATION
        broker.process.send_signal(signal.SIGTERM)
        printed, log = broker.output()
    password = (directory / "password").read_text().strip()
    properties = read_properties(directory / "client.properties")
    assert properties["bootstrap.servers"] == f"127.0.0.1:{port}"
    assert password not in printed + log
    assert str(directory / "client.properties") in printed
    assert directory.stat().st_mode & 0o777 == 0o700
    private = {path.name: path.stat().st_mode & 0o777 for path in directory.iterdir()}
    assert private == dict.fromkeys(
        ("password", "ca.pem", "ca-key.pem", "broker.pem", "client.properties"), 0o600
    )
    assert not any(path.name.startswith("security") for path in data.iterdir())

    before = {path.name: path.read_bytes() for path in directory.iterdir()}
    with Serving(data, "--secure") as broker:
        new_port = broker.port
        assert produce(client(directory, new_port), "orders") is None
        broker.process.send_signal(signal.SIGTERM)
        printed, _ = broker.output()
    assert password not in printed
    properties = read_properties(directory / "client.properties")
    assert properties["bootstrap.servers"] == f"127.0.0.1:{new_port}"
    after = {path.name: path.read_bytes() for path in directory.iterdir()}
    del before["client.properties"], after["client.properties"]
    assert after == before


def test_several_brokers_share_secrets_and_have_no_unsecured_listener(
    tmp_path: Path, secrets: SecretSearch
) -> None:
    data, directory = tmp_path / "data", tmp_path / "data-security"
    user = "SCRAM-SHA-512=[name=alice,password=secret]"
    with Serving(data, "--secure", "--brokers", "2", "--add-scram", user) as cluster:
        ports = [int(each.rpartition(":")[2]) for each in cluster.ready.split(",")]
        for port in ports:
            # Each logs the administrator in itself, and copies what the other leads.
            produced = client(directory, port, acks="all")
            admin = AdminClient(produced)
            topic = f"orders-{port}"
            admin.create_topics([NewTopic(topic, 4, 2)])[topic].result(60)
            assert produce(produced, topic) is None
            alice = {**produced, "sasl.username": "alice", "sasl.password": "secret"}
            error = produce(alice, topic)
            assert error is not None
            assert error.code() == confluent_kafka.KafkaError.TOPIC_AUTHORIZATION_FAILED
        password = (directory / "password").read_text().strip()
        secrets.add(password)
        nodes = psutil.Process(cluster.process.pid).children(recursive=True)
        assert not [each for each in nodes if password in " ".join(each.cmdline())]
        listening = [
            each.laddr.port
            for node in nodes
            for each in node.net_connections("tcp")
            if each.status == psutil.CONN_LISTEN
        ]
        assert set(ports) < set(listening) and len(listening) == 3
        for port in listening:
            with pytest.raises(RawClient.Closed), RawClient(port) as plain:
                plain.call(ApiVersionsRequest(), 0)
        cluster.process.send_signal(signal.SIGTERM)
        printed, log = cluster.output()
    assert password not in printed + log
    assert str(directory / "password") in printed
    assert cluster.process.returncode == 0
    with Serving(data, "--secure", "--brokers", "3") as cluster:
        assert produce(client(directory, cluster.port), topic) is None
        assert len(cluster.ready.split(",")) == 3
        written = read_properties(directory / "client.properties")["bootstrap.servers"]
        cluster.process.send_signal(signal.SIGTERM)
        printed, _ = cluster.output()
    assert cluster.ready.endswith(written) and password not in printed
    assert {path.stat().st_mode & 0o777 for path in directory.iterdir()} == {0o600}


@pytest.mark.parametrize(
    "option, message",
    [
        ("sasl.mechanism.inter.broker.protocol=PLAIN", "--secure sets this option itself"),
        ("ssl.truststore.location=/other.pem", "--secure sets this option itself"),
        (
            "listener.security.protocol.map=SASL_SSL:SASL_SSL,CONTROLLER:PLAINTEXT",
            "every listener is SASL_SSL",
        ),
    ],
)
def test_options_that_would_weaken_the_links_between_nodes_are_refused(
    tmp_path: Path, option: str, message: str
) -> None:
    several = ("--secure", "--brokers", "2", "--set", option)
    with Serving(tmp_path / "data", *several) as cluster:
        assert cluster.stop() == 1
    assert message in cluster.errors
    assert not (tmp_path / "data-security").exists()


def test_a_cluster_that_was_served_without_passwords_is_refused(tmp_path: Path) -> None:
    (tmp_path / "data" / "controller").mkdir(parents=True)
    (tmp_path / "data" / "controller" / "meta.properties").write_text("version=1\n")
    with Serving(tmp_path / "data", "--secure", "--brokers", "2") as cluster:
        assert cluster.stop() == 1
    assert "has no administrator" in cluster.errors


def test_a_user_without_acls_may_do_nothing(tmp_path: Path) -> None:
    user = "SCRAM-SHA-512=[name=alice,password=secret]"
    with Serving(tmp_path / "data", "--secure", "--add-scram", user) as broker:
        admin = client(tmp_path / "data-security", broker.port)
        assert produce(admin, "orders") is None
        alice = {**admin, "sasl.username": "alice", "sasl.password": "secret"}
        error = produce(alice, "orders")
        assert error is not None
        assert error.code() == confluent_kafka.KafkaError.TOPIC_AUTHORIZATION_FAILED


@pytest.mark.parametrize(
    "arguments, message",
    [
        (["--listen", "PLAINTEXT://127.0.0.1:0"], "every listener is SASL_SSL"),
        (["--set", "sasl.enabled.mechanisms=PLAIN"], "--secure sets this option itself"),
        (["--set", "allow.everyone.if.no.acl.found=true"], "--secure sets this option itself"),
    ],
)
def test_options_that_would_weaken_security_are_refused(
    tmp_path: Path, arguments: list[str], message: str
) -> None:
    with Serving(tmp_path / "data", "--secure", *arguments, listen="") as broker:
        assert broker.process.wait(60) == 1
        assert broker.stop() == 1
    assert message in broker.errors
    assert not (tmp_path / "data-security").exists()


def test_data_without_a_generated_administrator_is_refused(tmp_path: Path) -> None:
    with Serving(tmp_path / "data") as broker:
        assert broker.port
        broker.stop()
    with Serving(tmp_path / "data", "--secure") as broker:
        assert broker.stop() == 1
    assert "has no administrator" in broker.errors


def test_certificates_are_for_all_names_and_renewed_before_they_end() -> None:
    now = datetime(2026, 1, 1, tzinfo=UTC)
    authority = certificates.new_authority(now)
    own = certificates.issue(authority, ["broker.example", "10.0.0.7"], now)
    certificate = x509.load_pem_x509_certificate(own.certificate_pem.encode())
    certificate.verify_directly_issued_by(
        x509.load_pem_x509_certificate(authority.certificate_pem.encode())
    )
    names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert names.get_values_for_type(x509.DNSName) == ["localhost", "broker.example"]
    assert [str(each) for each in names.get_values_for_type(x509.IPAddress)] == [
        "127.0.0.1",
        "::1",
        "10.0.0.7",
    ]
    assert certificates.is_usable(own.certificate_pem, ["10.0.0.7"], now)
    assert not certificates.is_usable(own.certificate_pem, ["10.0.0.8"], now)
    assert not certificates.is_usable(own.certificate_pem, [], now + timedelta(days=700))
    assert "PRIVATE" not in repr(own)
    odd = certificates.issue(authority, ["my_host", "x" * 70, "bücher.example"], now)
    assert certificates.is_usable(odd.certificate_pem, ["my_host", "x" * 70], now)
