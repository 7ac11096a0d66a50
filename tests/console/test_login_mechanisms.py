"""A visitor logs in by the mechanism that the user has, and no password is sent in the clear."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from typing import NamedTuple

import pytest

from tests.certificates import Authority
from tests.console.site import Shown, Site, console
from tests.planted_secrets import planted
from tests.ports import free_ports
from tests.server.serving import Serving
from wirekafka.client.admin.users import ScramUser, set_password
from wirekafka.client.client import Client
from wirekafka.config.client_config import ClientConfig
from wirekafka.security.sasl.scram import SHA_256, SHA_512

_MODULES = "org.apache.kafka.common.security"
PASSWORDS = {name: planted(name) for name in ("strong", "weak", "plain")}
"""By user: a password for SCRAM-SHA-512 only, for SCRAM-SHA-256 only, and for PLAIN only."""


class Stage(NamedTuple):
    """The listeners of a broker by their protocols, and what a client trusts."""

    addresses: dict[str, str]
    truststore: str

    def values(self, protocol: str, mechanism: str | None) -> dict[str, str]:
        found = {"security.protocol": protocol}
        if mechanism is not None:
            found["sasl.mechanism"] = mechanism
        if protocol == "SASL_SSL":
            found |= {"ssl.truststore.type": "PEM", "ssl.truststore.location": self.truststore}
        return found

    @contextmanager
    def visitor(
        self, protocol: str, mechanism: str | None = None, address: str | None = None
    ) -> Iterator[Site]:
        config = ClientConfig(self.values(protocol, mechanism))
        with console(address or self.addresses[protocol], config=config) as site:
            yield site


class Tapped:
    """A link to a broker, which keeps what a client has sent on each connection."""

    def __init__(self, target: str) -> None:
        host, _, port = target.rpartition(":")
        self._target = host, int(port)
        self.sent: list[bytearray] = []
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.address = f"127.0.0.1:{self._listener.getsockname()[1]}"
        threading.Thread(target=self._accept, daemon=True).start()

    def close(self) -> None:
        self._listener.close()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                near, _ = self._listener.accept()
                far = socket.create_connection(self._target)
                self.sent.append(bytearray())
                for ends in ((near, far, self.sent[-1]), (far, near, bytearray())):
                    threading.Thread(target=_forward, args=ends, daemon=True).start()


def _forward(source: socket.socket, target: socket.socket, kept: bytearray) -> None:
    with suppress(OSError):
        while data := source.recv(1 << 16):
            kept += data
            target.sendall(data)
    for each in (source, target):
        with suppress(OSError):
            each.shutdown(socket.SHUT_RDWR)


@pytest.fixture(scope="module")
def stage(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    directory = tmp_path_factory.mktemp("mechanisms")
    authority = Authority(directory)
    names = ("PLAINTEXT", "SASL_PLAINTEXT", "SASL_SSL")
    ports = dict(zip(names, free_ports(len(names)), strict=True))
    options = {
        "listeners": ",".join(f"{name}://127.0.0.1:{port}" for name, port in ports.items()),
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": authority.issue("CN=broker", "127.0.0.1").pem(),
        "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512",
    }
    for name in ("sasl_plaintext", "sasl_ssl"):
        options[f"listener.name.{name}.plain.sasl.jaas.config"] = (
            f'{_MODULES}.plain.PlainLoginModule required user_plain="{PASSWORDS["plain"]}";'
        )
        for mechanism in ("scram-sha-256", "scram-sha-512"):
            options[f"listener.name.{name}.{mechanism}.sasl.jaas.config"] = (
                f"{_MODULES}.scram.ScramLoginModule required;"
            )
    properties = directory / "server.properties"
    properties.write_text("".join(f"{name}={value}\n" for name, value in options.items()))
    with Serving(directory / "data", "--config", str(properties), listen="") as serving:
        assert serving.ready, serving.stop()
        addresses = {name: f"127.0.0.1:{port}" for name, port in ports.items()}
        with Client(addresses["PLAINTEXT"]) as client:
            set_password(client, [ScramUser("strong", SHA_512.name, 4096)], PASSWORDS["strong"])
            set_password(client, [ScramUser("weak", SHA_256.name, 4096)], PASSWORDS["weak"])
        yield Stage(addresses, authority.file)


def log_in(site: Site, user: str, password: str | None = None) -> Shown:
    return site.another().log_in(user, password or PASSWORDS[user])


@pytest.mark.parametrize("mechanism", [None, "SCRAM-SHA-512", "SCRAM-SHA-256"])
def test_each_user_logs_in_by_its_own_mechanism(stage: Stage, mechanism: str | None) -> None:
    with stage.visitor("SASL_PLAINTEXT", mechanism) as site:
        for user in ("strong", "weak"):
            assert log_in(site, user).words("h1") == "Overview"


def test_a_user_of_plain_logs_in_over_tls(stage: Stage) -> None:
    with stage.visitor("SASL_SSL", None) as site:
        for user in PASSWORDS:
            assert log_in(site, user).words("h1") == "Overview"


def test_where_scram_is_configured_no_password_is_sent(stage: Stage) -> None:
    with stage.visitor("SASL_SSL", "SCRAM-SHA-512") as site:
        assert log_in(site, "strong").words("h1") == "Overview"
        page = log_in(site, "plain")
        assert page.status == 401 and "PLAIN" not in page.words("[role=alert]")


def test_a_user_of_plain_logs_in_without_tls_where_plain_is_configured(stage: Stage) -> None:
    with stage.visitor("SASL_PLAINTEXT", "PLAIN") as site:
        for user in PASSWORDS:
            assert log_in(site, user).words("h1") == "Overview"


def test_without_tls_no_password_is_sent_unless_plain_is_configured(stage: Stage) -> None:
    with closing(Tapped(stage.addresses["SASL_PLAINTEXT"])) as link:
        with stage.visitor("SASL_PLAINTEXT", "SCRAM-SHA-256", link.address) as site:
            page = log_in(site, "plain")
        assert page.status == 401 and "SCRAM-SHA-512, SCRAM-SHA-256" in page.words("[role=alert]")
        sent = b"".join(map(bytes, link.sent))
        assert b"plain" in sent and PASSWORDS["plain"].encode() not in sent
        with stage.visitor("SASL_PLAINTEXT", "PLAIN", link.address) as site:
            assert log_in(site, "plain").status == 200
        assert PASSWORDS["plain"].encode() in b"".join(map(bytes, link.sent))


def test_a_refused_login_says_and_takes_the_same_for_every_name(stage: Stage) -> None:
    with closing(Tapped(stage.addresses["SASL_PLAINTEXT"])) as link:
        several = f"{link.address},{link.address},{link.address}"
        with stage.visitor("SASL_PLAINTEXT", "PLAIN", several) as site:
            answers, connections, took_s = set(), [], []
            for user in ("strong", "weak", "plain", "nobody"):
                before, began_s = len(link.sent), time.monotonic()
                page = log_in(site, user, "wrong")
                took_s.append(time.monotonic() - began_s)
                connections.append(len(link.sent) - before)
                assert page.status == 401 and page.soup.select_one("input[name=name]")
                answers.add(page.words("[role=alert]"))
        assert len(answers) == 1 and "by SCRAM-SHA-512, SCRAM-SHA-256, PLAIN" in answers.pop()
        assert connections == [3, 3, 3, 3]
        assert min(took_s) >= 1


def test_a_mechanism_without_passwords_is_not_replaced_by_another(stage: Stage) -> None:
    with stage.visitor("SASL_PLAINTEXT", "OAUTHBEARER") as site:
        page = log_in(site, "strong")
        assert page.status == 502
        assert "sasl.mechanism=OAUTHBEARER" in page.words("[role=alert]")


def test_a_name_or_a_password_that_is_missing_is_asked_for(stage: Stage) -> None:
    with stage.visitor("SASL_PLAINTEXT") as site:
        for name, password in (("", "x"), ("strong", "")):
            page = site.another().log_in(name, password)
            assert page.status == 401 and "Enter a name and a password" in page.words("main")


def test_brokers_that_cannot_be_reached_are_no_refused_login() -> None:
    config = ClientConfig({"security.protocol": "SASL_PLAINTEXT"})
    with console("127.0.0.1:1", config=config) as site:
        page = site.log_in("strong", "x")
        assert page.status == 502 and "cannot connect" in page.words("[role=alert]")
