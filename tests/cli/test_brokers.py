"""The nodes of `serve --brokers`: directories, addresses and settings, and what is refused."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from wirekafka.cli import brokers, serve
from wirekafka.config.broker_config import BrokerConfig
from wirekafka.config.checks.unsupported_options import refuse_unsupported
from wirekafka.config.endpoints.listeners import listeners
from wirekafka.config.option import ConfigError
from wirekafka.config.own import console_listener, metrics_listener


def configs(*words: str) -> dict[str, BrokerConfig]:
    """The configuration of each node, by its name, as its process reads it."""
    arguments = serve._parser().parse_args(words)
    stages = brokers.nodes(arguments, serve.configuration(arguments))
    assert [program.name for program in stages[0]] == ["controller"]
    found = {}
    for program in (program for stage in stages for program in stage):
        own = serve._parser().parse_args(program.arguments)
        found[program.name] = config = serve.configuration(own)
        refuse_unsupported(config)
    return found


def bound(config: BrokerConfig) -> list[str]:
    found = listeners(config)
    return [str(each) for each in (*found.bound, *found.controller)]


def refusal(*words: str) -> str:
    with pytest.raises(ConfigError) as refused:
        configs(*words)
    return str(refused.value)


def test_each_node_has_a_directory_an_id_and_a_role(tmp_path: Path) -> None:
    found = configs("--brokers", "2", "--data", str(tmp_path / "data"))
    assert {
        name: (each.node_id, each.process_roles, Path(each.data_directories[0]).name)
        for name, each in found.items()
    } == {
        "controller": (3000, ("controller",), "controller"),
        "broker 1": (1, ("broker",), "broker1"),
        "broker 2": (2, ("broker",), "broker2"),
    }


def test_ports_are_consecutive_from_the_given_ones() -> None:
    found = configs("--brokers", "3", "--listen", "127.0.0.1:9092")
    assert {name: bound(each) for name, each in found.items()} == {
        "controller": ["CONTROLLER://127.0.0.1:9095"],
        "broker 1": ["PLAINTEXT://127.0.0.1:9092"],
        "broker 2": ["PLAINTEXT://127.0.0.1:9093"],
        "broker 3": ["PLAINTEXT://127.0.0.1:9094"],
    }
    voters = {each.controller_quorum_voters for each in found.values()}
    assert voters == {("3000@127.0.0.1:9095",)}


def test_port_0_takes_a_different_free_port_for_each_node() -> None:
    found = configs("--brokers", "3", "--listen", "127.0.0.1:0")
    ports = [int(text.rpartition(":")[2]) for each in found.values() for text in bound(each)]
    assert len(set(ports)) == 4 and 0 not in ports


def test_advertised_addresses_and_metrics_are_consecutive_too() -> None:
    advertised = "advertised.listeners=PLAINTEXT://kafka.example.com:19092"
    found = configs(
        *("--brokers", "2", "--listen", ":9092", "--metrics", "9200", "--set", advertised)
    )
    second = found["broker 2"]
    assert [str(each) for each in listeners(second).advertised] == [
        "PLAINTEXT://kafka.example.com:19093"
    ]
    ports = {name: metrics_listener(each.sources) for name, each in found.items()}
    assert {name: at.port for name, at in ports.items() if at is not None} == {
        "broker 1": 9200,
        "broker 2": 9201,
        "controller": 9202,
    }


def test_the_first_broker_serves_the_console_and_all_nodes_have_the_tier(tmp_path: Path) -> None:
    place = ("--data", str(tmp_path / "data"))
    found = configs("--brokers", "2", *place, "--console", "8080", "--tier", f"file://{tmp_path}")
    consoles = {name: console_listener(each.sources) for name, each in found.items()}
    assert {name: str(at) for name, at in consoles.items() if at is not None} == {
        "broker 1": "127.0.0.1:8080"
    }
    assert {each.sources.static["wirekafka.tier"].text for each in found.values()} == {
        f"file://{tmp_path}"
    }
    assert all(each.remote_log_storage_system_enable for each in found.values())


@pytest.mark.parametrize(
    ("given", "uri"),
    [
        (("--tables", "lake"), None),
        (("--tables", "s3://bucket/lake"), "sqlite:///{data}/wirekafka-tables.db"),
        (
            ("--tables", "s3://b", "--set", "wirekafka.tables.catalog.uri=http://host/"),
            "http://host/",
        ),
    ],
)
def test_all_nodes_have_the_tables_and_one_catalog(
    tmp_path: Path, given: tuple[str, ...], uri: str | None
) -> None:
    data = tmp_path / "data"
    found = configs("--brokers", "2", "--data", str(data), *given)
    sources = [each.sources for each in found.values()]
    assert {each.text("wirekafka.tables.url") for each in sources} == {given[1]}
    wanted = None if uri is None else uri.format(data=data)
    assert {each.text("wirekafka.tables.catalog.uri") for each in sources} == {wanted}


def test_several_listeners_keep_their_names_and_the_controller_may_have_a_given_one() -> None:
    found = configs(
        *("--brokers", "2", "--listen", "INSIDE://127.0.0.1:9092"),
        *("--listen", "OUTSIDE://127.0.0.1:9192", "--listen", "CONTROLLER://127.0.0.1:9292"),
        "--set",
        "listener.security.protocol.map=INSIDE:PLAINTEXT,OUTSIDE:PLAINTEXT,CONTROLLER:PLAINTEXT",
    )
    assert bound(found["broker 2"]) == ["INSIDE://127.0.0.1:9093", "OUTSIDE://127.0.0.1:9193"]
    assert listeners(found["broker 2"]).inter_broker == "INSIDE"
    assert bound(found["controller"]) == ["CONTROLLER://127.0.0.1:9292"]


@pytest.mark.parametrize(
    ("count", "replicas", "min_isr"), [(1, 1, 1), (2, 2, 1), (3, 3, 2), (5, 3, 2)]
)
def test_internal_topics_have_as_many_replicas_as_there_are_brokers_up_to_three(
    count: int, replicas: int, min_isr: int
) -> None:
    for config in configs("--brokers", str(count), "--listen", "127.0.0.1:0").values():
        assert config.offsets_topic_replication_factor == replicas
        assert config.transaction_state_log_replication_factor == replicas
        assert config.share_coordinator_state_topic_replication_factor == replicas
        assert config.transaction_state_log_min_isr == min_isr
        assert config.share_coordinator_state_topic_min_isr == min_isr
        assert config.num_partitions == count
        assert config.default_replication_factor == 1
        assert config.group_initial_rebalance_delay_ms == 0


def test_every_source_of_settings_applies_to_all_nodes_and_overrules_these_defaults(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "server.properties"
    file.write_text("num.partitions=7\noffsets.topic.replication.factor=1\n")
    monkeypatch.setenv("KAFKA_DEFAULT_REPLICATION_FACTOR", "2")
    monkeypatch.setenv("KAFKA_LOG_DIRS", str(tmp_path / "data"))
    monkeypatch.setenv("KAFKA_LISTENERS", "PLAINTEXT://127.0.0.1:9100")
    found = configs(
        "--brokers", "3", "--config", str(file), "--set", "broker.session.timeout.ms=9000"
    )
    assert bound(found["broker 3"]) == ["PLAINTEXT://127.0.0.1:9102"]
    for config in found.values():
        assert config.num_partitions == 7
        assert config.offsets_topic_replication_factor == 1
        assert config.default_replication_factor == 2
        assert config.broker_session_timeout_ms == 9000
        assert Path(config.data_directories[0]).parent == tmp_path / "data"
        # As Kafka's default: a file stands for itself.
        assert config.group_initial_rebalance_delay_ms == 3000


@pytest.mark.parametrize(
    ("words", "named"),
    [
        (["--set", "node.id=5"], "node.id: --brokers sets this option itself, and --set sets it"),
        (["--set", "process.roles=broker"], "process.roles: "),
        (["--set", "controller.quorum.voters=1@h:1"], "controller.quorum.voters: "),
        (["--data", "a,b"], "--brokers needs one data directory"),
        (["--set", "num.partitions=many"], "num.partitions"),
        (
            [
                *("--listen", "A://127.0.0.1:9092", "--listen", "B://127.0.0.1:9093"),
                *("--set", "listener.security.protocol.map=A:PLAINTEXT,B:PLAINTEXT"),
            ],
            "port 9093 would be that of both broker 1 and broker 2",
        ),
        (["--listen", "127.0.0.1:65535"], "broker 2 would have port 65536"),
    ],
)
def test_what_cannot_be_combined_is_refused_with_its_reason(words: list[str], named: str) -> None:
    message = refusal("--brokers", "2", *words)
    assert named in message and "\n" not in message


@pytest.mark.parametrize("count", ["0", "-1", "many", "1001"])
def test_a_wrong_number_of_brokers_is_wrong_usage(
    count: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        configs("--brokers", count)
    assert ended.value.code == 2
    assert f"expected a number from 1 to 1000: {count}" in capsys.readouterr().err


def test_brokers_without_replicas_may_be_left_out(tmp_path: Path) -> None:
    (tmp_path / "broker3" / "__cluster_metadata-0").mkdir(parents=True)
    assert len(configs("--brokers", "2", "--data", str(tmp_path))) == 3
    (tmp_path / "broker3" / "orders-0").mkdir()
    message = refusal("--brokers", "2", "--data", str(tmp_path))
    assert message.startswith(f"{tmp_path} has a broker 3 with 1 replicas")


def test_directories_of_one_broker_and_of_several_are_not_mixed_up(tmp_path: Path) -> None:
    single = tmp_path / "single"
    single.mkdir()
    (single / "meta.properties").write_text("version=1\nnode.id=1\n")
    assert "is the log directory of a single broker" in refusal(
        "--brokers", "2", "--data", str(single)
    )
    several = tmp_path / "several"
    (several / "controller").mkdir(parents=True)
    (several / "controller" / "meta.properties").write_text("version=1\nnode.id=3000\n")
    refused = subprocess.run(
        [sys.executable, "-m", "wirekafka", "serve", "--data", str(several)],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert refused.returncode == 1
    assert re.fullmatch(
        rf"wirekafka: {several} has the nodes of a cluster: serve them with --brokers\n",
        refused.stderr,
    )
