"""Clients and nodes log in with tickets of MIT's key distribution centre, where it is installed."""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from compat_tests.cluster import HOST, KAFKA, WIREKAFKA, Cluster, Node, Shape
from compat_tests.java_tools import JavaTools
from tests import kafka_jars
from tests.eventually import eventually
from tests.ports import free_ports
from tests.sasl_client import SaslClient
from tests.server.serving import Serving
from wirekafka.security import jaas
from wirekafka.security.sasl.exchange import AuthenticationFailed
from wirekafka.security.sasl.gssapi_client import KerberosLogin

REALM = "WIREKAFKA.TEST"
KDC = next((path for path in (shutil.which("krb5kdc"), "/usr/sbin/krb5kdc") if path), "")

pytestmark = pytest.mark.skipif(
    not (Path(KDC).exists() and importlib.util.find_spec("gssapi")),
    reason="needs Debian's krb5-kdc, krb5-admin-server and krb5-user, and python-gssapi",
)

KRB5 = """[libdefaults]
default_realm = {realm}
dns_lookup_kdc = false
dns_lookup_realm = false
dns_canonicalize_hostname = false
rdns = false
udp_preference_limit = 1
[realms]
{realm} = {{
    kdc = 127.0.0.1:{port}
}}
"""
KDC_CONF = """[kdcdefaults]
kdc_ports = {port}
kdc_tcp_ports = {port}
[realms]
{realm} = {{
    database_name = {directory}/principal
    key_stash_file = {directory}/stash
    acl_file = {directory}/acl
    max_life = 1h
}}
[logging]
kdc = FILE:{directory}/kdc.log
"""
PROPERTIES = """listeners=SASL://localhost:0
listener.security.protocol.map=SASL:SASL_PLAINTEXT,CONTROLLER:PLAINTEXT
inter.broker.listener.name=SASL
sasl.enabled.mechanisms=GSSAPI
sasl.kerberos.service.name=kafka
listener.name.sasl.gssapi.sasl.jaas.config=com.sun.security.auth.module.Krb5LoginModule required \
useKeyTab=true storeKey=true keyTab="{directory}/broker.keytab" principal="kafka/localhost@{realm}";
"""


_KEYTAB = """com.sun.security.auth.module.Krb5LoginModule required useKeyTab=true storeKey=true \
keyTab="{directory}/broker.keytab" principal="kafka/localhost@{realm}";"""


class KerberosCluster(Cluster):
    """Nodes that log in at each other by Kerberos; clients need no login."""

    def __init__(self, shape: Shape, directory: Path, realm: Realm):
        self.module = _KEYTAB.format(directory=realm.directory, realm=REALM)
        super().__init__(shape, directory)

    def _properties(self, node: Node) -> dict[str, str]:
        properties = super()._properties(node)
        [inside] = free_ports(1)
        listeners = properties["listeners"].replace(
            f"CONTROLLER://{HOST}", "CONTROLLER://localhost"
        )
        voters = properties["controller.quorum.voters"].replace(HOST, "localhost")
        return properties | {
            "listeners": f"{listeners},INSIDE://localhost:{inside}",
            "listener.security.protocol.map": (
                "PLAINTEXT:PLAINTEXT,INSIDE:SASL_PLAINTEXT,CONTROLLER:SASL_PLAINTEXT"
            ),
            "inter.broker.listener.name": "INSIDE",
            "controller.quorum.voters": voters,
            "sasl.enabled.mechanisms": "GSSAPI",
            "sasl.mechanism.inter.broker.protocol": "GSSAPI",
            "sasl.mechanism.controller.protocol": "GSSAPI",
            "sasl.kerberos.service.name": "kafka",
            "listener.name.inside.gssapi.sasl.jaas.config": self.module,
            "listener.name.controller.gssapi.sasl.jaas.config": self.module,
        }


class Realm:
    """A key distribution centre with a broker and a client."""

    def __init__(self, directory: Path):
        self.directory = directory
        (self.port,) = free_ports(1)
        values = {"realm": REALM, "port": self.port, "directory": directory}
        (directory / "krb5.conf").write_text(KRB5.format(**values))
        (directory / "kdc.conf").write_text(KDC_CONF.format(**values))
        (directory / "acl").write_text("")
        self.environment = {
            "KRB5_CONFIG": f"{directory}/krb5.conf",
            "KRB5_KDC_PROFILE": f"{directory}/kdc.conf",
        }
        self._run("/usr/sbin/kdb5_util", "create", "-s", "-P", "master", "-r", REALM)
        for keytab, name in (("broker", "kafka/localhost"), ("client", "alice")):
            self._administer(f"addprinc -randkey {name}@{REALM}")
            self._administer(f"ktadd -k {directory}/{keytab}.keytab {name}@{REALM}")

    @contextmanager
    def running(self) -> Iterator[None]:
        process = subprocess.Popen([KDC, "-n", "-r", REALM], env={**os.environ, **self.environment})
        try:
            yield
        finally:
            process.terminate()
            process.wait(10)

    def ticket(self) -> dict[str, str]:
        """The environment of a client that holds a ticket of alice."""
        cache = {"KRB5CCNAME": f"FILE:{self.directory}/cache", **self.environment}
        command = ["kinit", "-k", "-t", f"{self.directory}/client.keytab", f"alice@{REALM}"]
        eventually(
            lambda: (
                subprocess.run(
                    command, env={**os.environ, **cache}, capture_output=True, check=False
                ).returncode
                == 0
            )
        )
        return cache

    def _administer(self, query: str) -> None:
        self._run("/usr/sbin/kadmin.local", "-r", REALM, "-q", query)

    def _run(self, *command: str) -> None:
        environment = {**os.environ, **self.environment}
        subprocess.run(command, env=environment, capture_output=True, check=True)


@pytest.fixture(scope="module")
def realm(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Realm]:
    made = Realm(tmp_path_factory.mktemp("kdc"))
    with made.running():
        yield made


@pytest.fixture(scope="module")
def broker(realm: Realm, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Serving]:
    directory = tmp_path_factory.mktemp("broker")
    properties = directory / "server.properties"
    properties.write_text(PROPERTIES.format(directory=realm.directory, realm=REALM))
    with Serving(
        directory / "data", *("--config", str(properties)), listen="", environment=realm.environment
    ) as serving:
        yield serving


def test_a_ticket_logs_in(realm: Realm, broker: Serving, monkeypatch: pytest.MonkeyPatch) -> None:
    import gssapi

    for name, value in realm.ticket().items():
        monkeypatch.setenv(name, value)
    name = gssapi.Name(f"kafka/localhost@{REALM}", gssapi.NameType.kerberos_principal)
    context = gssapi.SecurityContext(name=name, usage="initiate")
    with SaslClient(broker.port, host="localhost") as client:
        assert client.handshake("GSSAPI").error_code == 0
        token = context.step() or b""
        while not context.complete:
            answer = client.authenticate(token)
            assert answer.error_code == 0, answer
            token = context.step(bytes(answer.auth_bytes)) or b""
        offer = client.authenticate(token)
        assert context.unwrap(bytes(offer.auth_bytes)).message == b"\1\0\0\0"
        choice = context.wrap(b"\1\0\0\0" + f"alice@{REALM}".encode(), False).message
        assert client.authenticate(choice).error_code == 0
        assert client.versions().error_code == 0


def test_kafka_s_own_client_logs_in(realm: Realm, broker: Serving, tmp_path: Path) -> None:
    realm.ticket()
    module = "com.sun.security.auth.module.Krb5LoginModule required useKeyTab=true storeKey=true"
    settings = tmp_path / "client.properties"
    settings.write_text(
        "security.protocol=SASL_PLAINTEXT\nsasl.mechanism=GSSAPI\n"
        "sasl.kerberos.service.name=kafka\n"
        f'sasl.jaas.config={module} keyTab="{realm.directory}/client.keytab" '
        f'principal="alice@{REALM}";\n'
    )
    tools = JavaTools(kafka_jars.tools_jars(), tmp_path)
    command = tools.command(
        "kafka-broker-api-versions",
        *("--bootstrap-server", f"localhost:{broker.port}", "--command-config", str(settings)),
    )
    command.insert(1, f"-Djava.security.krb5.conf={realm.directory}/krb5.conf")
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert "Produce(0)" in done.stdout, done.stdout + done.stderr


def test_garbage_is_refused(broker: Serving) -> None:
    with SaslClient(broker.port, host="localhost") as client:
        client.handshake("GSSAPI")
        answer = client.authenticate(b"garbage")
        assert answer.error_code == 58
        assert client.is_closed()


def test_brokers_log_in_at_controllers_and_at_each_other(
    realm: Realm, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in realm.environment.items():
        monkeypatch.setenv(name, value)
    krb5 = f"-Djava.security.krb5.conf={realm.directory}/krb5.conf"
    monkeypatch.setenv("JAVA_TOOL_OPTIONS", krb5)
    cluster = KerberosCluster(Shape(brokers=(KAFKA, WIREKAFKA)), tmp_path, realm)
    try:
        cluster.start(*cluster.nodes)
        admin = AdminClient({"bootstrap.servers": cluster.bootstrap})
        topic = NewTopic("t", 2, replica_assignment=[[1, 2], [2, 1]])
        admin.create_topics([topic])["t"].result(60)
        producer = Producer({"bootstrap.servers": cluster.bootstrap, "acks": "all"})
        errors: list[object] = []
        for partition in (0, 1):
            producer.produce(
                "t",
                b"v",
                partition=partition,
                on_delivery=lambda error, message: errors.append(error),
            )
        assert producer.flush(60) == 0
        assert errors == [None, None]

        def are_in_sync() -> bool:
            found = admin.list_topics("t", timeout=10).topics["t"].partitions.values()
            return all(len(each.isrs) == 2 for each in found)

        eventually(are_in_sync, timeout_s=30)
    finally:
        cluster.end()


def test_login_at_a_node_without_a_ticket_says_why(
    realm: Realm, broker: Serving, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in realm.environment.items():
        monkeypatch.setenv(name, value)
    module = jaas.parse(_KEYTAB.format(directory=realm.directory, realm=REALM))
    exchange = KerberosLogin.of(module, "another").start("localhost")
    with pytest.raises(AuthenticationFailed, match=r"no Kerberos ticket: .*not found in Kerberos"):
        exchange.first()
    module.options["keyTab"] = "/nowhere"
    module.options["principal"] = f"nobody@{REALM}"
    with pytest.raises(AuthenticationFailed, match="no Kerberos ticket: "):
        KerberosLogin.of(module, "kafka").start("localhost").first()
