"""Mirrors of wirekafka brokers: security, leaders that move, an absent source, what is reported."""

from __future__ import annotations

import json
import re
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka.admin import AdminClient

import wirekafka
from tests.eventually import eventually
from tests.ports import free_ports
from tests.server.serving import Serving
from wirekafka.cli.clients import reports
from wirekafka.cli.serve import main as serve
from wirekafka.client.client import Client
from wirekafka.config.option import ConfigError
from wirekafka.testing import Allow

METRICS = (Path(__file__).resolve().parents[3] / "docs/reference/metrics.md").read_text()
_LEAST = ("read", "describe")


@contextmanager
def mirroring(path: Path, source: str, *more: str) -> Iterator[Serving]:
    """A mirror; what it logs is not read before it ends, so that it must not log much."""
    refresh = ("--set", "wirekafka.mirror.refresh.ms=200")
    with Serving(path / "mirror", "--mirror", source, *refresh, *more) as serving:
        yield serving


def report(mirror: Serving) -> dict[str, Any]:
    bootstrap = f"127.0.0.1:{mirror.port}"
    with Client(bootstrap) as client:
        [found] = reports(client, bootstrap)
    return {**found["mirror"][0], "rows": found["mirrored"]}


def ends(mirror: Serving) -> dict[tuple[str, int], int]:
    return {(row["topic"], row["partition"]): row["end"] for row in report(mirror)["rows"]}


def has_end(mirror: Serving, end: int) -> bool:
    return ends(mirror).get(("t", 0)) == end


def java_properties(source: wirekafka.Broker, path: Path, user: str) -> Path:
    """A properties file for a user of the broker."""
    settings = source.client_config("java", user)
    file = path / "client.properties"
    file.write_text(
        "".join(f"{key}={json.dumps(value)[1:-1]}\n" for key, value in settings.items())
    )
    return file


def test_a_consumers_rights_suffice_over_tls_and_a_wrong_login_is_said_aloud(
    tmp_path: Path,
) -> None:
    acls = [
        Allow("reader", _LEAST, topic="*", group="*"),
        Allow("writer", "all", topic="*", group="*", cluster=True),
    ]
    users = {"reader": "secret", "writer": "secret"}
    with wirekafka.Broker(topics={"t": 2}, users=users, acls=acls, tls=True) as source:
        source.produce("t", [b"a", b"b"])
        properties = java_properties(source, tmp_path, "reader")
        options = ("--mirror-config", str(properties), "--mirror-groups", ".*")
        with mirroring(tmp_path, source.bootstrap_servers, *options, "--mirror-configs") as mirror:
            eventually(lambda: sum(end or 0 for end in ends(mirror).values()) == 2)
            found = report(mirror)
            assert (found["state"], found["lag"], found["error"]) == ("copying", 0, None)
            mirror.stop()
        assert "configuration of topic t is not mirrored: TOPIC_AUTHORIZATION_FAILED" in (
            mirror.errors
        )
        properties.write_text(properties.read_text().replace("secret", "guessed"))
        with mirroring(tmp_path, source.bootstrap_servers, *options) as mirror:
            eventually(lambda: report(mirror)["error"])
            found = report(mirror)
            assert "refuses the login" in found["error"]
            assert found["state"] == "waiting"
            mirror.stop()
        refused = [line for line in mirror.errors.splitlines() if "refuses the login" in line]
        assert len(refused) == 1 and "ERROR" in refused[0], "once, though it tries again"


def test_a_mirror_follows_leaders_that_move(tmp_path: Path) -> None:
    with (
        wirekafka.Cluster(
            brokers=3, topics={"t": 3}, default_replication_factor=3, min_insync_replicas=1
        ) as source,
        mirroring(tmp_path, source.bootstrap_servers) as mirror,
    ):
        source.produce("t", [b"%d" % number for number in range(30)])
        eventually(lambda: sum(end or 0 for end in ends(mirror).values()) == 30)
        for _ in range(2):
            move_the_leader(source, mirror)
        mirror.stop()
        assert "Traceback" not in mirror.errors


def move_the_leader(source: wirekafka.Cluster, mirror: Serving) -> None:
    leader = source.leader("t", 0)
    source.kill(leader)
    source.wait_for(lambda: source.leader("t", 0) not in (leader, None), 30)
    source.produce("t", [b"%d" % number for number in range(30)])
    total = sum(len(source.records("t", index)) for index in range(3))
    eventually(lambda: sum(end or 0 for end in ends(mirror).values()) == total)
    source.start(leader)


def test_a_source_that_is_down_is_waited_for(tmp_path: Path) -> None:
    [port] = free_ports(1)
    data = tmp_path / "source"
    with mirroring(tmp_path, f"127.0.0.1:{port}") as mirror:
        eventually(lambda: report(mirror)["error"])
        assert report(mirror)["state"] == "waiting"
        for count in (2, 4):
            with wirekafka.Broker(data, topics=["t"], port=port) as source:
                source.produce("t", [b"a", b"b"])
                eventually(partial(has_end, mirror, count))
                eventually(lambda: report(mirror)["error"] is None)
            eventually(lambda: report(mirror)["state"] == "waiting")
        assert ends(mirror) == {("t", 0): 4}
        mirror.stop()
    assert "Traceback" not in mirror.errors


def test_metrics_have_the_lag(tmp_path: Path) -> None:
    [port] = free_ports(1)
    with (
        wirekafka.Broker(topics=["t"]) as source,
        mirroring(tmp_path, source.bootstrap_servers, "--metrics", str(port)) as mirror,
    ):
        source.produce("t", [b"a", b"b"])
        eventually(lambda: ends(mirror).get(("t", 0)) == 2)

        def text() -> str:
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics") as response:
                found: str = response.read().decode()
                return found

        lag = 'wirekafka_mirror_lag_records{topic="t",partition="0"} 0'
        eventually(lambda: lag in text())
        assert "wirekafka_mirror_source_up 1" in text()
        assert 'wirekafka_mirror_partitions{state="copying"} 1' in text()
        named = set(re.findall(r"`(wirekafka_mirror_\w+)`", METRICS))
        assert named == set(re.findall(r"^# TYPE (wirekafka_mirror_\S+)", text(), re.MULTILINE))


def test_a_topic_that_is_about_to_be_mirrored_is_not_created_on_first_use(tmp_path: Path) -> None:
    with (
        wirekafka.Broker(topics=["t"]) as source,
        mirroring(tmp_path, source.bootstrap_servers, "--mirror-topics", "t|u") as mirror,
    ):
        admin = AdminClient({"bootstrap.servers": f"127.0.0.1:{mirror.port}"})
        with Client(f"127.0.0.1:{mirror.port}") as client:
            [topic] = client.metadata(["u"], create=True).topics
            assert topic.error_code == 3
        source.create_topic("u")
        source.produce("u", [b"a"])
        eventually(lambda: ends(mirror).get(("u", 0)) == 1)
        assert admin.list_topics(timeout=10).topics.keys() >= {"t", "u"}


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (("--mirror", "nowhere"), "expected HOST:PORT"),
        (("--mirror", "h:1", "--mirror-from", "soon"), "as 1h"),
        (("--mirror", "h:1", "--mirror-topics", "("), "not a regular expression"),
        (("--mirror", "h:1", "--mirror-rate", "fast"), "expected a number"),
        (("--mirror", "h:1", "--brokers", "2"), "only a single node can be a mirror"),
        (("--mirror-topics", "t"), "--mirror-topics needs --mirror"),
    ],
)
def test_wrong_options_are_refused_before_the_start(
    tmp_path: Path, words: tuple[str, ...], reason: str
) -> None:
    with pytest.raises(ConfigError, match=reason):
        serve(["--data", str(tmp_path / "data"), "--listen", "127.0.0.1:0", *words])
