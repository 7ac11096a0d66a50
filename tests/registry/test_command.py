"""`wirekafka schema-registry`: a registry as a process, over any cluster."""

from __future__ import annotations

import json
import ssl
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

import wirekafka
from tests.certificates import Authority
from tests.registry.servers import TYPE, ask

FULL = {"compatibility": "FULL"}


@pytest.fixture(scope="module")
def broker() -> Iterator[wirekafka.Broker]:
    with wirekafka.Broker() as broker:
        yield broker


def command(*arguments: str) -> list[str]:
    return [sys.executable, "-m", "wirekafka", "schema-registry", *arguments]


@contextmanager
def served(*arguments: str) -> Iterator[str]:
    """The URL of a registry's process."""
    process = subprocess.Popen(
        command(*arguments), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    try:
        line = process.stdout.readline()
        assert line.startswith("wirekafka schema registry: "), process.communicate()
        yield line.partition(": ")[2].strip()
    finally:
        process.terminate()
        assert process.wait(20) == 0, process.communicate()


def failure(*arguments: str) -> str:
    done = subprocess.run(command(*arguments), capture_output=True, text=True, timeout=60)
    assert done.returncode == 1
    return done.stderr


def test_a_registry_serves_until_it_is_stopped(broker: wirekafka.Broker) -> None:
    with served(broker.bootstrap_servers, "--port", "0") as url:
        assert ask(url, "PUT", "/config", FULL).status == 200
        assert ask(url, "GET", "/config").body == {"compatibilityLevel": "FULL"}


def test_writes_are_forwarded_over_tls(broker: wirekafka.Broker, tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    own = authority.issue("CN=localhost", "127.0.0.1")
    words = [broker.bootstrap_servers, "--port", "0", "--authority", authority.file]
    words += ["--certificate", own.chain_file(), "--key", own.key_file()]
    trust = ssl.create_default_context(cafile=authority.file)
    with served(*words) as first, served(*words) as second:
        for number, url in enumerate((first, second)):
            assert url.startswith("https://127.0.0.1:")
            request = urllib.request.Request(
                f"{url}/config/s{number}",
                json.dumps(FULL).encode(),
                {"Content-Type": TYPE},
                method="PUT",
            )
            with urllib.request.urlopen(request, context=trust, timeout=40) as response:
                assert json.load(response) == FULL


def test_what_prevents_a_start_is_one_line(broker: wirekafka.Broker, tmp_path: Path) -> None:
    assert "cannot connect to 127.0.0.1:1" in failure("127.0.0.1:1", "--port", "0")
    missing = failure(broker.bootstrap_servers, "--port", "0", "--certificate", "/no/such")
    assert "/no/such: no usable certificate with its key" in missing
    url = failure(broker.bootstrap_servers, "--port", "0", "--advertised-url", "ftp://a")
    assert "bad URL 'ftp://a': expected http://HOST:PORT" in url


def test_a_mechanism_without_passwords_is_refused(tmp_path: Path) -> None:
    with wirekafka.Broker(users={"alice": "secret"}) as broker:
        file = tmp_path / "client.properties"
        file.write_text(
            "security.protocol=SASL_PLAINTEXT\nsasl.mechanism=OAUTHBEARER\n"
            "sasl.jaas.config=org.apache.kafka.common.security.oauthbearer."
            'OAuthBearerLoginModule required unsecuredLoginStringClaim_sub="a";\n'
        )
        words = [broker.bootstrap_servers, "--port", "0", "--command-config", str(file)]
        assert "sasl.mechanism has to be one of SCRAM-SHA-512" in failure(*words)
