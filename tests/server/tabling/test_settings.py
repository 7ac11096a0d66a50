"""The settings of tables: checked before the broker serves, and imported only if they are set."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from wirekafka.config.broker_config import BrokerConfig
from wirekafka.config.option import ConfigError
from wirekafka.config.own import RegistryAccess
from wirekafka.server.tabling import settings
from wirekafka.server.tabling.settings import TablingSettings
from wirekafka.translation.messages import WorkerSetUp

_EXPECTED = "expected a directory, or file:///DIR, s3://BUCKET/PREFIX, gs://BUCKET, az://CONTAINER"
_CLUSTER = "the brokers of a cluster need one catalog for tables in an object store"


def of(directory: Path, url: str, **options: str) -> TablingSettings | None:
    names = {name.replace("_", "."): value for name, value in options.items()}
    config = {"log.dirs": f"{directory}/data", "wirekafka.tables.url": url, **names}
    return TablingSettings.of(BrokerConfig.of(config))


def test_there_are_none_without_a_url(tmp_path: Path) -> None:
    assert of(tmp_path, "") is None


@pytest.mark.parametrize(
    ("url", "found"),
    [
        ("{path}/lake", "file://{path}/lake"),
        ("{path}/a lake", "file://{path}/a%20lake"),
        ("file://{path}/a%20lake/", "file://{path}/a%20lake"),
        ("file://localhost{path}/lake", "file://{path}/lake"),
        ("s3://bucket/prefix/", "s3://bucket/prefix"),
        ("gs://bucket", "gs://bucket"),
        ("az://container/prefix", "az://container/prefix"),
    ],
)
def test_a_url_or_directory_is_accepted(tmp_path: Path, url: str, found: str) -> None:
    accepted = of(tmp_path, url.format(path=tmp_path))
    assert accepted is not None and accepted.url == found.format(path=tmp_path)
    if url.startswith(("{", "file")):
        assert (tmp_path / url.rpartition("/")[2].replace("%20", " ")).is_dir() or url[-1] == "/"
        assert "uri" not in accepted.catalog
    else:
        assert accepted.catalog["uri"] == f"sqlite:///{tmp_path}/data/wirekafka-tables.db"


def test_a_relative_directory_becomes_absolute(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    found = of(tmp_path, "lake")
    assert found is not None and found.url == f"file://{tmp_path}/lake"


@pytest.mark.parametrize(
    ("url", "reason"),
    [
        ("ftp://host/lake", _EXPECTED),
        ("s3:///lake", _EXPECTED),
        ("s3://key:secret@bucket", "credentials belong to the catalog's properties"),
        ("gs://bucket?version=1", _EXPECTED),
        ("file://lake", "file URLs have three slashes: file:///DIR"),
        ("{path}/a#b", "a path with # is not one URI for all readers"),
        ("{path}/file/lake", "it cannot be created: Not a directory"),
        ("{path}/file", "it cannot be created: File exists"),
        (
            "{path}/data/lake",
            "it is in the log directory {path}/data, which may have logs of partitions only",
        ),
    ],
)
def test_a_url_that_cannot_work_is_refused(tmp_path: Path, url: str, reason: str) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(ConfigError) as refused:
        of(tmp_path, url.format(path=tmp_path))
    text = str(refused.value)
    assert text.startswith("Invalid value ") and "\n" not in text and "secret" not in text
    assert text.endswith(f"for configuration wirekafka.tables.url: {reason.format(path=tmp_path)}")


def test_a_rate_is_a_number(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="expected a number of bytes, or 0 for no limit"):
        of(tmp_path, "s3://bucket", wirekafka_tables_rate_bytes="1 MB")


def test_a_namespace_has_one_level(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="namespaces have one level"):
        of(tmp_path, "s3://bucket", wirekafka_tables_namespace="lake.raw")


def test_brokers_of_a_cluster_need_a_common_catalog(tmp_path: Path) -> None:
    member = {
        "process_roles": "broker",
        "node_id": "1",
        "controller_quorum_voters": "3@127.0.0.1:9093",
    }
    with pytest.raises(ConfigError, match=_CLUSTER):
        of(tmp_path, "s3://bucket", **member)
    found = of(tmp_path, "s3://bucket", **member, wirekafka_tables_catalog_uri="http://host/")
    assert found is not None and found.catalog == {"name": "wirekafka", "uri": "http://host/"}
    assert of(tmp_path, str(tmp_path / "lake"), **member) is not None


def test_the_worker_gets_all_settings(tmp_path: Path) -> None:
    found = of(
        tmp_path,
        "s3://bucket",
        **{
            "wirekafka.tables.catalog.name": "lake",
            "wirekafka.tables.catalog.type": "rest",
            "wirekafka.tables.catalog.s3.access-key-id": "key",
            "wirekafka.tables.rate.bytes": "1000",
            "wirekafka.tier": "file:///mnt/tier",
        },
    )
    assert found is not None
    registry = RegistryAccess("https://host", "a", "b", Path("/certificate.pem"))
    with_tls = replace(registry, ssl={"ssl.truststore.location": "/ca.pem"})
    for access in (registry, with_tls):
        line = json.dumps(found.first_line(7, access)).encode()
        assert WorkerSetUp.decode(line).registry == access
    assert found.first_line(7, registry) == {
        "node": 7,
        "url": "s3://bucket",
        "namespace": "redpanda",
        "catalog": {"name": "lake", "type": "rest", "s3.access-key-id": "key"},
        "directories": [f"{tmp_path}/data"],
        "tier": "file:///mnt/tier",
        "rate_bytes": 1000,
        "registry": {
            "url": "https://host",
            "user": "a",
            "password": "b",
            "certificate": "/certificate.pem",
        },
    }


def test_a_missing_package_is_named_with_the_command_that_installs_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(settings, "find_spec", lambda name: None if name == "pyiceberg" else name)
    with pytest.raises(ConfigError) as refused:
        of(tmp_path, "s3://bucket")
    assert str(refused.value).endswith(
        "tables need `pip install 'wirekafka[iceberg]'`: there is no pyiceberg"
    )


@pytest.mark.parametrize("brokers", [(), ("--brokers", "2")])
def test_the_command_refuses_a_wrong_url_in_one_line(
    tmp_path: Path, brokers: tuple[str, ...]
) -> None:
    words = ("serve", "--data", str(tmp_path / "data"), *brokers, "--tables", "ftp://host")
    command = [sys.executable, "-m", "wirekafka", *words]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert done.returncode == 1
    assert done.stderr == (
        f"wirekafka: Invalid value ftp://host for configuration wirekafka.tables.url: {_EXPECTED}\n"
    )


def test_without_tables_nothing_of_them_is_imported() -> None:
    parts = ("wirekafka.server.tabling", "wirekafka.server.monitoring.tables")
    assert _imported("wirekafka.server.run, wirekafka.server.monitoring.service", *parts) == []


def test_the_process_of_the_broker_imports_no_libraries_of_tables() -> None:
    modules = "wirekafka.server.tabling.tabling, wirekafka.server.monitoring.tables"
    assert _imported(f"wirekafka.server.run, {modules}") == []


def _imported(modules: str, *parts: str) -> list[str]:
    """Which modules of tables, and of these parts, come with others."""
    unwanted = ("wirekafka.translation", "wirekafka.tables", "pyiceberg", "pyarrow", "sqlalchemy")
    code = (
        f"import sys, {modules}\n"
        "from wirekafka.apis.shared import registry; registry.load()\n"
        f"print(*[name for name in sys.modules if name.startswith({(*unwanted, *parts)})])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return done.stdout.split()
