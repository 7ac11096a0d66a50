"""Commands on a cluster with TLS, configured by the properties of a Kafka client."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.certificates import PASSWORD, Authority
from tests.cli.conftest import Run
from wirekafka.testing import Broker

_HOST = "127.0.0.1"


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("certificates"))


@pytest.fixture
def secured(authority: Authority) -> Iterator[str]:
    """The address of a broker that requires certificates."""
    settings = {
        "listeners": f"SSL://{_HOST}:0",
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": authority.issue("CN=broker", _HOST).pem(),
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": authority.file,
        "ssl.client.auth": "required",
    }
    with Broker(config=settings) as broker:
        yield broker.bootstrap_servers


@pytest.fixture
def properties(authority: Authority, tmp_path: Path) -> dict[str, str]:
    return {
        "security.protocol": "SSL",
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": authority.file,
        "ssl.keystore.type": "PKCS12",
        "ssl.keystore.location": authority.issue("CN=alice").pkcs12(),
        "ssl.keystore.password": PASSWORD,
        "client.id": "known to other clients",
    }


def written(tmp_path: Path, properties: dict[str, str]) -> str:
    file = tmp_path / "client.properties"
    file.write_text("".join(f"{name}={value}\n" for name, value in properties.items()))
    return str(file)


def test_commands_use_the_properties_of_a_client(
    run: Run, secured: str, properties: dict[str, str], tmp_path: Path
) -> None:
    options = ("-b", secured, "--command-config", written(tmp_path, properties))
    assert run("topics", "create", "t", *options).status == 0
    assert run("produce", "t", *options, given="one\ntwo\n").status == 0
    consumed = run("consume", "t", "--from", "beginning", "-n", "2", *options)
    assert consumed.out.splitlines() == ["one", "two"], consumed


@pytest.mark.parametrize(
    ("changes", "complaint"),
    [
        ({"ssl.truststore.location": "/nowhere"}, "ssl.truststore.location: /nowhere: No such"),
        ({"security.protocol": "TLS"}, "Invalid value TLS for configuration security.protocol"),
        ({"ssl.keystore.password": "wrong"}, "not a PKCS#12 store, or its password is wrong"),
    ],
)
def test_unusable_properties_are_named_in_one_line(
    run: Run,
    secured: str,
    properties: dict[str, str],
    tmp_path: Path,
    changes: dict[str, str],
    complaint: str,
) -> None:
    file = written(tmp_path, properties | changes)
    outcome = run("topics", "list", "-b", secured, "--command-config", file)
    assert outcome.status == 1
    [line] = outcome.err.strip().splitlines()
    assert complaint in line and PASSWORD not in line


def test_a_server_of_an_unknown_authority_is_refused(
    run: Run, secured: str, properties: dict[str, str], tmp_path: Path
) -> None:
    other = tmp_path / "other"
    other.mkdir()
    changes = {"ssl.truststore.location": Authority(other, "Another CA").file}
    file = written(tmp_path, properties | changes)
    outcome = run("topics", "list", "-b", secured, "--command-config", file)
    assert outcome.status == 1
    assert "certificate of 127.0.0.1" in outcome.err


def test_a_server_under_another_name_is_refused_unless_names_are_not_compared(
    run: Run, secured: str, properties: dict[str, str], tmp_path: Path
) -> None:
    elsewhere = secured.replace(_HOST, "localhost")
    file = written(tmp_path, properties)
    outcome = run("topics", "list", "-b", elsewhere, "--command-config", file)
    assert outcome.status == 1
    assert "not valid for 'localhost'" in outcome.err
    lax = written(tmp_path, properties | {"ssl.endpoint.identification.algorithm": ""})
    assert run("topics", "list", "-b", elsewhere, "--command-config", lax).status == 0
