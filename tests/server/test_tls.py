"""Listeners with TLS: certificates, principals, failed handshakes and their limits."""

from __future__ import annotations

import ssl
import time
from asyncio import _get_running_loop
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.certificates import PASSWORD, Authority, Issued, client_context
from tests.config.test_small_file import hostile_paths
from tests.eventually import eventually
from tests.raw_client import RawClient
from wirekafka.config import sources
from wirekafka.config.option import Type
from wirekafka.config.options import SecurityOptions, rows
from wirekafka.config.reference import value_of
from wirekafka.protocol.api_versions import ApiVersionsRequest
from wirekafka.protocol.incremental_alter_configs import IncrementalAlterConfigsRequest
from wirekafka.server.node import Node
from wirekafka.testing import Broker

_HOST = "127.0.0.1"
_FILE_PROVIDER = "org.apache.kafka.common.config.provider.FileConfigProvider"


class TlsClient(RawClient):
    """A raw client whose connection is encrypted."""

    def __init__(self, port: int, context: ssl.SSLContext, timeout_s: float = 10):
        super().__init__(port, timeout_s=timeout_s)
        self.socket = context.wrap_socket(self.socket, server_hostname=_HOST)

    def is_served(self) -> bool:
        try:
            return bool(self.call(ApiVersionsRequest(), 0).api_keys)
        except (RawClient.Closed, ssl.SSLError):
            return False


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("certificates"))


@pytest.fixture(scope="module")
def server(authority: Authority) -> Issued:
    return authority.issue("O=Example,CN=broker", _HOST, "localhost")


@pytest.fixture(scope="module")
def alice(authority: Authority) -> Issued:
    return authority.issue("C=DE,O=Example,OU=Sales,CN=alice")


Start = Callable[..., Broker]


@pytest.fixture
def start(authority: Authority, server: Issued) -> Iterator[Start]:
    """Start a broker with a TLS listener and these options."""
    started: list[Broker] = []

    def run(**settings: Any) -> Broker:
        config = {
            "listeners": f"SSL://{_HOST}:0",
            "ssl.keystore.type": "PEM",
            "ssl.keystore.location": server.pem(),
            **{name.replace("_", "."): value for name, value in settings.items()},
        }
        broker = Broker(config={name: value for name, value in config.items() if value is not None})
        started.append(broker.__enter__())
        return broker

    yield run
    for broker in started:
        broker.__exit__(None, None, None)


def port_of(broker: Broker) -> int:
    return int(broker.bootstrap_servers.rpartition(":")[2])


def test_a_client_is_served_over_tls(start: Start, authority: Authority) -> None:
    with TlsClient(port_of(start()), client_context(authority)) as client:
        assert client.is_served()
        assert client.socket.version() == "TLSv1.3"  # type: ignore[attr-defined]


@pytest.mark.parametrize("key", ["ec", "rsa"])
@pytest.mark.parametrize("store", ["PEM", "PEM encrypted", "PEM inline", "PKCS12", "JKS"])
def test_keys_are_read_from_every_kind_of_store(
    start: Start, authority: Authority, store: str, key: str
) -> None:
    issued = authority.issue("CN=broker", _HOST, key=key)
    settings: dict[str, Any] = {"ssl_keystore_location": issued.pem()}
    match store:
        case "PEM encrypted":
            settings["ssl_keystore_location"] = issued.pem(PASSWORD)
            settings["ssl_key_password"] = PASSWORD
        case "PEM inline":
            settings["ssl_keystore_location"] = None
            # As in a properties file whose lines are joined.
            settings["ssl_keystore_key"] = issued.key_pem(PASSWORD).replace("\n", " ")
            settings["ssl_keystore_certificate_chain"] = issued.chain_pem
            settings["ssl_key_password"] = PASSWORD
        case "PKCS12" | "JKS":  # Java uses both extensions for PKCS#12 stores.
            settings["ssl_keystore_type"] = store
            settings["ssl_keystore_location"] = issued.pkcs12()
            settings["ssl_keystore_password"] = PASSWORD
    with TlsClient(port_of(start(**settings)), client_context(authority)) as client:
        assert client.is_served()


def test_options_of_the_listener_overrule_the_common_ones(
    start: Start, authority: Authority, server: Issued
) -> None:
    broker = start(
        ssl_keystore_location="/nowhere",
        **{
            "listeners": f"INSIDE://{_HOST}:0",
            "listener.security.protocol.map": "INSIDE:SSL,CONTROLLER:PLAINTEXT",
            "listener.name.inside.ssl.keystore.location": server.pem(),
        },
    )
    with TlsClient(port_of(broker), client_context(authority)) as client:
        assert client.is_served()


@pytest.mark.parametrize(
    ("settings", "complaint"),
    [
        (
            {"ssl_keystore_location": None},
            "ssl.keystore.location: a TLS listener needs a key store",
        ),
        (
            {"ssl_keystore_location": "/nowhere"},
            "ssl.keystore.location: /nowhere: No such file or directory",
        ),
        ({"ssl_keystore_password": PASSWORD}, "ssl.keystore.password: a PEM file has no password"),
        ({"ssl_keystore_type": "BKS"}, "ssl.keystore.type: BKS is not one of JKS, PKCS12, PEM"),
        ({"ssl_keystore_type": "PKCS12"}, "ssl.keystore.password: not set"),
        (
            {"ssl_keystore_type": "PKCS12", "ssl_keystore_password": PASSWORD},
            "not a PKCS#12 store, or its password is wrong",
        ),
        ({"ssl_truststore_password": PASSWORD}, "ssl.truststore.location: not set"),
        ({"ssl_enabled_protocols": "TLSv1.1"}, "only TLSv1.2 and TLSv1.3 are supported"),
        ({"ssl_enabled_protocols": "TLSv9"}, "TLSv9 is not a version of TLS"),
        ({"ssl_cipher_suites": "TLS_MADE_UP"}, "ssl.cipher.suites: TLS_MADE_UP is not supported"),
        ({"ssl_principal_mapping_rules": "RULE:x"}, "Invalid rule: RULE:x"),
        (
            {"listener_name_ssl_ssl_keystore_location": "/nowhere"},
            "listener.name.ssl.ssl.keystore.location: /nowhere: No such file or directory",
        ),
    ],
)
def test_unusable_tls_settings_prevent_the_start_with_one_line(
    start: Start, settings: dict[str, Any], complaint: str
) -> None:
    with pytest.raises(ValueError) as refused:
        start(**settings)
    assert complaint in str(refused.value)
    assert "\n" not in str(refused.value)
    assert PASSWORD not in str(refused.value)


def test_a_jks_store_is_refused_with_the_way_to_convert_it(start: Start, tmp_path: Path) -> None:
    store = tmp_path / "store.jks"
    store.write_bytes(bytes.fromhex("feedfeed00000002"))
    with pytest.raises(ValueError, match="keytool -importkeystore"):
        start(
            ssl_keystore_type="JKS",
            ssl_keystore_location=str(store),
            ssl_keystore_password=PASSWORD,
        )


@pytest.mark.parametrize("store", ["PEM", "PEM inline", "PKCS12"])
def test_a_clients_principal_comes_from_its_certificate(
    start: Start, authority: Authority, server: Issued, alice: Issued, store: str
) -> None:
    settings: dict[str, Any] = {"ssl_client_auth": "required", "ssl_truststore_type": "PEM"}
    match store:
        case "PEM":
            settings["ssl_truststore_location"] = authority.file
        case "PEM inline":
            settings["ssl_truststore_certificates"] = authority.pem
        case "PKCS12":
            settings["ssl_truststore_type"] = "PKCS12"
            settings["ssl_truststore_location"] = _trust_store(authority)
            settings["ssl_truststore_password"] = PASSWORD
    broker = start(**settings)
    with TlsClient(port_of(broker), client_context(authority, alice)) as client:
        assert client.is_served()
        assert principals(broker) == ["User:CN=alice,OU=Sales,O=Example,C=DE"]
    with TlsClient(port_of(broker), client_context(authority)) as client:
        assert not client.is_served()


def test_a_requested_certificate_may_be_missing_but_not_invalid(
    start: Start, authority: Authority, tmp_path: Path
) -> None:
    broker = start(
        ssl_client_auth="requested",
        ssl_truststore_type="PEM",
        ssl_truststore_location=authority.file,
    )
    with TlsClient(port_of(broker), client_context(authority)) as client:
        assert client.is_served()
        assert principals(broker) == ["User:ANONYMOUS"]
    mallory = Authority(tmp_path, "Another CA").issue("CN=alice")
    with TlsClient(port_of(broker), client_context(authority, mallory)) as client:
        assert not client.is_served()


def test_rules_map_the_names_of_certificates(
    start: Start, authority: Authority, alice: Issued
) -> None:
    broker = start(
        ssl_client_auth="required",
        ssl_truststore_type="PEM",
        ssl_truststore_location=authority.file,
        ssl_principal_mapping_rules="RULE:^CN=(.*?),OU=(.*?),.*$/$1@$2/U",
    )
    with TlsClient(port_of(broker), client_context(authority, alice)) as client:
        assert client.is_served()
        assert principals(broker) == ["User:ALICE@SALES"]
    nameless = authority.issue("CN=bob")
    with TlsClient(port_of(broker), client_context(authority, nameless)) as client:
        assert not client.is_served()
    eventually(lambda: not principals(broker))


@pytest.mark.parametrize(
    ("settings", "version", "cipher"),
    [
        ({"ssl_enabled_protocols": "TLSv1.2"}, "TLSv1.2", None),
        ({"ssl_enabled_protocols": "TLSv1.3"}, "TLSv1.3", None),
        ({"ssl_enabled_protocols": "TLSv1.1,TLSv1.2"}, "TLSv1.2", None),
        (
            {"ssl_cipher_suites": "TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256"},
            "TLSv1.2",
            "ECDHE-ECDSA-AES128-GCM-SHA256",
        ),
        ({"ssl_cipher_suites": "TLS_AES_256_GCM_SHA384"}, "TLSv1.3", "TLS_AES_256_GCM_SHA384"),
    ],
)
def test_versions_and_suites_are_limited(
    start: Start, authority: Authority, settings: dict[str, str], version: str, cipher: str | None
) -> None:
    with TlsClient(port_of(start(**settings)), client_context(authority)) as client:
        encrypted: Any = client.socket
        assert client.is_served()
        assert encrypted.version() == version
        assert cipher in (None, encrypted.cipher()[0])


def test_a_suite_of_tls_1_3_that_is_not_allowed_is_refused(
    start: Start, authority: Authority
) -> None:
    broker = start(ssl_cipher_suites="TLS_AES_128_GCM_SHA256")
    with TlsClient(port_of(broker), client_context(authority)) as client:
        assert not client.is_served()


def test_old_versions_of_tls_are_refused(start: Start, authority: Authority) -> None:
    context = client_context(authority)
    context.minimum_version = ssl.TLSVersion.TLSv1
    context.maximum_version = ssl.TLSVersion.TLSv1_1
    context.set_ciphers("ALL:@SECLEVEL=0")
    broker = start()
    with pytest.raises((ssl.SSLError, OSError)):
        TlsClient(port_of(broker), context)


def principals(broker: Broker) -> list[str]:
    """The principals of the connections that are open."""
    listener = broker._engine._node.listeners[0]  # type: ignore[union-attr]
    return sorted(each.call.principal for each in tuple(listener._connections))


def _trust_store(authority: Authority) -> str:
    """A PKCS#12 store with the authority's certificate only."""
    from cryptography.hazmat.primitives import serialization
    from cryptography.hazmat.primitives.serialization import pkcs12

    named = pkcs12.PKCS12Certificate(authority.certificate, b"ca")
    content = pkcs12.serialize_java_truststore(
        [named], serialization.BestAvailableEncryption(PASSWORD.encode())
    )
    path = Path(authority.file).with_suffix(".p12")
    path.write_bytes(content)
    return str(path)


def alter(broker: Broker, **options: str) -> str | None:
    """Set options of the listener SSL; returns the error's message, if any."""
    resource = IncrementalAlterConfigsRequest.AlterConfigsResource
    changes = [
        resource.AlterableConfig(
            name=f"listener.name.ssl.ssl.{name.replace('_', '.')}", value=value, config_operation=0
        )
        for name, value in options.items()
    ]
    request = IncrementalAlterConfigsRequest(
        resources=[resource(resource_type=4, resource_name="1", configs=changes)]
    )
    plain = int(broker._engine._node.listeners[1].address[1])  # type: ignore[union-attr]
    with RawClient(plain) as client:
        [result] = client.call(request, 1).responses
    assert bool(result.error_code) == bool(result.error_message)
    return result.error_message or None


@pytest.fixture
def dynamic(start: Start, server: Issued, tmp_path: Path) -> tuple[Broker, Path]:
    """A broker with a plain listener too, and the file with its certificate."""
    file = tmp_path / "store.pem"
    file.write_text(Path(server.pem()).read_text())
    broker = start(listeners=f"SSL://{_HOST}:0,PLAINTEXT://{_HOST}:0", ssl_keystore_location=file)
    return broker, file


def serial_of(broker: Broker, authority: Authority) -> int:
    """The serial number of the certificate that the broker presents."""
    with TlsClient(port_of(broker), client_context(authority)) as client:
        encrypted: Any = client.socket
        assert client.is_served()
        return int(encrypted.getpeercert()["serialNumber"], 16)


def test_a_certificate_is_replaced_without_a_restart(
    dynamic: tuple[Broker, Path], authority: Authority, server: Issued
) -> None:
    broker, _ = dynamic
    old = server.chain[0].serial_number
    assert serial_of(broker, authority) == old
    with TlsClient(port_of(broker), client_context(authority)) as before:
        new = authority.issue("O=Example,CN=broker", _HOST, "localhost", "another.example")
        assert alter(broker, keystore_location=new.pem()) is None
        eventually(lambda: serial_of(broker, authority) == new.chain[0].serial_number)
        assert before.is_served()


def test_the_same_file_is_read_again_when_its_option_is_set_again(
    dynamic: tuple[Broker, Path], authority: Authority, server: Issued
) -> None:
    broker, file = dynamic
    assert alter(broker, keystore_location=str(file)) is None
    eventually(lambda: serial_of(broker, authority) == server.chain[0].serial_number)
    new = authority.issue("O=Example,CN=broker", _HOST, "localhost")
    file.write_text(Path(new.pem()).read_text())
    assert serial_of(broker, authority) == server.chain[0].serial_number
    assert alter(broker, keystore_location=str(file)) is None
    eventually(lambda: serial_of(broker, authority) == new.chain[0].serial_number)


def test_certificates_of_another_name_are_refused_as_by_kafka(
    dynamic: tuple[Broker, Path], authority: Authority, server: Issued
) -> None:
    broker, _ = dynamic
    failed = (
        "Invalid value org.apache.kafka.common.config.ConfigException: Validation of dynamic "
        "config update of SSLFactory failed: "
    )
    wrong = "org.apache.kafka.common.config.ConfigException: "
    end = " for configuration Invalid dynamic configuration"
    other = authority.issue("O=Example,CN=other", _HOST, "localhost")
    assert alter(broker, keystore_location=other.pem()) == (
        f"{failed}{wrong}Keystore DistinguishedName does not match:  existing={{alias=kafka, "
        f"DN=CN=broker, O=Example}}, new={{alias=kafka, DN=CN=other, O=Example}}{end}"
    )
    fewer = authority.issue("O=Example,CN=broker", _HOST)
    assert alter(broker, keystore_location=fewer.pem()) == (
        f"{failed}{wrong}Keystore SubjectAltNames do not match:  existing={{alias=kafka, "
        "SAN=[[7, 127.0.0.1], [2, localhost]]}, new={alias=kafka, SAN=[[7, 127.0.0.1]]}" + end
    )
    assert alter(broker, truststore_location=authority.file, truststore_type="PEM") == (
        f"{failed}{wrong}Cannot add SSL truststore to an existing listener for which no "
        f"truststore was configured.{end}"
    )
    assert alter(broker, keystore_location="/nowhere") == (
        f"{failed}org.apache.kafka.common.errors.InvalidConfigurationException: Failed to load PEM "
        f"SSL keystore /nowhere{end}"
    )
    assert serial_of(broker, authority) == server.chain[0].serial_number


@pytest.mark.parametrize("store", ["keystore", "truststore"])
@pytest.mark.parametrize("kind", ["PEM", "PKCS12"])
def test_a_client_does_not_learn_why_a_file_cannot_be_used(
    start: Start, authority: Authority, tmp_path: Path, store: str, kind: str, caplog: Any
) -> None:
    """Neither which files exist: the reasons are in the log, and no file is read to its end."""
    broker = start(
        listeners=f"SSL://{_HOST}:0,PLAINTEXT://{_HOST}:0",
        ssl_truststore_type="PEM",
        ssl_truststore_location=authority.file,
    )
    (tmp_path / "text").write_text("no store")
    paths = {"a text": str(tmp_path / "text"), **hostile_paths(tmp_path)}
    del paths["an empty name"]  # As if the option was not set.
    password = {f"{store}_password": "x"} if kind == "PKCS12" else {}
    others = set()
    for reason, path in paths.items():
        begin = time.monotonic()
        options = {f"{store}_location": path, f"{store}_type": kind, **password}
        message = alter(broker, **options)
        assert time.monotonic() - begin < 2, reason
        assert message is not None
        shown = f"PEM SSL keystore {path} for" if kind == "PEM" else f"keystore {path} of type"
        assert f"Failed to load {'' if kind == 'PEM' else 'SSL '}{shown}" in message, message
        others.add(message.replace(path, ""))
        assert f"location: {path}: " in caplog.text
        caplog.clear()
    assert len(others) == 1


def test_what_a_dynamic_option_refers_to_is_in_no_response_and_no_log(
    start: Start, tmp_path: Path, caplog: Any
) -> None:
    (tmp_path / "secrets").write_text("key=planted-secret\n")
    broker = start(
        listeners=f"SSL://{_HOST}:0,PLAINTEXT://{_HOST}:0",
        config_providers="file",
        config_providers_file_class=_FILE_PROVIDER,
    )
    reference = f"${{file:{tmp_path}/secrets:key}}"
    for name, option in rows(SecurityOptions).items():
        if name.startswith("ssl.") and option.type is not Type.BOOLEAN:
            message = alter(broker, **{name.removeprefix("ssl."): reference}) or ""
            assert "planted" not in message, message
    assert "planted-secret" not in caplog.text


def test_a_store_that_config_providers_name_is_used(
    start: Start, authority: Authority, tmp_path: Path
) -> None:
    new = authority.issue("O=Example,CN=broker", _HOST, "localhost")
    secrets = tmp_path / "secrets.properties"
    secrets.write_text(f"store={new.pem()}\n")
    broker = start(
        listeners=f"SSL://{_HOST}:0,PLAINTEXT://{_HOST}:0",
        config_providers="file",
        config_providers_file_class=_FILE_PROVIDER,
    )
    assert alter(broker, keystore_location=f"${{file:{secrets}:store}}") is None
    eventually(lambda: serial_of(broker, authority) == new.chain[0].serial_number)


def test_nothing_but_the_stores_changes_while_a_listener_runs(
    start: Start, authority: Authority
) -> None:
    broker = start(
        listeners=f"SSL://{_HOST}:0,PLAINTEXT://{_HOST}:0",
        ssl_truststore_type="PEM",
        ssl_truststore_location=authority.file,
    )
    new = authority.issue("O=Example,CN=broker", _HOST, "localhost")
    options = {
        "client_auth": "required",
        "enabled_protocols": "TLSv1.2",
        "principal_mapping_rules": "RULE:.*/admin/",
        "keystore_location": new.pem(),
    }
    assert alter(broker, **options) is None
    eventually(lambda: serial_of(broker, authority) == new.chain[0].serial_number)
    with TlsClient(port_of(broker), client_context(authority)) as client:
        assert client.is_served(), "without a certificate"
        assert client.socket.version() == "TLSv1.3"  # type: ignore[attr-defined]


def test_a_new_name_is_accepted_where_that_is_allowed(start: Start, authority: Authority) -> None:
    broker = start(
        listeners=f"SSL://{_HOST}:0,PLAINTEXT://{_HOST}:0",
        ssl_allow_dn_changes=True,
        ssl_allow_san_changes=True,
    )
    other = authority.issue("O=Example,CN=other", _HOST)
    assert alter(broker, keystore_location=other.pem()) is None
    eventually(lambda: serial_of(broker, authority) == other.chain[0].serial_number)


def test_neither_the_broker_nor_its_controller_reads_what_config_providers_name_on_the_event_loop(
    start: Start, authority: Authority, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    new = authority.issue("O=Example,CN=broker", _HOST, "localhost")
    (tmp_path / "secrets").write_text(f"store={new.pem()}\n")
    broker = start(
        listeners=f"SSL://{_HOST}:0,PLAINTEXT://{_HOST}:0",
        config_providers="file",
        config_providers_file_class=_FILE_PROVIDER,
    )
    look_up, threads = sources.with_references, []

    def noting(*arguments: Any) -> Any:
        threads.append("the event loop" if _get_running_loop() else "a thread")
        return look_up(*arguments)

    monkeypatch.setattr(sources, "with_references", noting)
    assert alter(broker, keystore_location=f"${{file:{tmp_path}/secrets:store}}") is None
    node = broker._engine._node
    assert isinstance(node, Node)
    name = "listener.name.ssl.ssl.keystore.location"
    roles = node.broker, node.broker.controller
    eventually(
        lambda: all(value_of(each.config.sources.text(name) or "") == new.pem() for each in roles)
    )
    assert set(threads) == {"a thread"}
