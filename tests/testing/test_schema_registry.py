"""`Broker(schema_registry=True)`: a registry that lives and dies with its broker."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from confluent_kafka import KafkaError

from tests.registry.servers import ask
from tests.testing.test_schema_validation import outcome
from wirekafka import Broker, Cluster
from wirekafka.testing import Allow

FULL, NONE = {"compatibility": "FULL"}, {"compatibility": "NONE"}


def level(broker: Broker, subject: str) -> object:
    return ask(broker.schema_registry_url, "GET", f"/config/{subject}").body.get(
        "compatibilityLevel"
    )


def test_a_registry_keeps_its_port_and_what_it_has_acknowledged(tmp_path: Path) -> None:
    with Broker(tmp_path / "data", schema_registry=True) as broker:
        url = broker.schema_registry_url
        assert ask(url, "PUT", "/config/a", FULL).status == 200
        broker.restart()
        assert (broker.schema_registry_url, level(broker, "a")) == (url, "FULL")
        assert ask(url, "PUT", "/config/b", NONE).status == 200
        broker.crash()
        with pytest.raises(OSError, match="refused"):
            ask(url, "GET", "/subjects")
        broker.restart()
        assert (level(broker, "a"), level(broker, "b")) == ("FULL", "NONE")
        assert ask(url, "PUT", "/config/c", NONE).status == 200


def test_reset_and_restore_change_what_the_registry_knows() -> None:
    with Broker(schema_registry=True) as broker:
        assert ask(broker.schema_registry_url, "PUT", "/config/a", FULL).status == 200
        snapshot = broker.snapshot()
        broker.reset()
        assert level(broker, "a") is None
        assert ask(broker.schema_registry_url, "PUT", "/config/a", NONE).status == 200
        broker.restore(snapshot)
        assert level(broker, "a") == "FULL"


def test_requests_of_the_registry_are_neither_recorded_nor_disturbed() -> None:
    with Broker(schema_registry=True) as broker, broker.fail("Produce", error="REQUEST_TIMED_OUT"):
        assert ask(broker.schema_registry_url, "PUT", "/config", FULL).status == 200
        assert not [each for each in broker.requests if "registry" in (each.client_id or "")]


def test_a_registry_serves_beside_a_broker_in_a_child_process() -> None:
    with Broker(schema_registry=True, process=True) as broker:
        assert ask(broker.schema_registry_url, "PUT", "/config", FULL).status == 200


def test_a_cluster_has_a_registry_that_its_brokers_validate_by() -> None:
    validated = {"confluent.value.schema.validation": "true"}
    schema = {"type": "record", "name": "R", "fields": [{"name": "n", "type": "int"}]}
    with Cluster(2, schema_registry=True) as cluster:
        cluster.create_topic("orders", replication_factor=2, config=validated)
        cluster.schemas.register("orders-value", schema)
        value = cluster.schemas.encoded("orders-value", {"n": 5})
        url = cluster.schema_registry_url
        restarted = cluster.leader("orders", 0)
        cluster.restart(restarted)
        cluster.move_leader("orders", 0, restarted)
        assert outcome(cluster, "orders", value) == 0
        assert outcome(cluster, "orders", b"no schema") == KafkaError.INVALID_RECORD
        [stored] = cluster.records("orders")
        assert cluster.schemas.decoded(stored).value == {"n": 5}
        assert ask(url, "PUT", "/config/a", FULL).status == 200
        cluster.reset()
        assert ask(url, "GET", "/subjects").body == []
    with Cluster(1) as cluster, pytest.raises(RuntimeError, match="this cluster has no schema reg"):
        cluster.schema_registry_url  # noqa: B018


def test_users_of_the_broker_log_in_to_the_registry() -> None:
    users = {"alice": "secret", "bob": "secret"}
    with Broker(
        schema_registry=True, users=users, tls=True, acls=[Allow("alice", "all", topic="orders")]
    ) as broker:
        url = broker.schema_registry_url
        alice, bob = ("alice", "secret"), ("bob", "secret")
        assert ask(url, "PUT", "/config/orders-value", FULL, login=alice).status == 200
        assert ask(url, "PUT", "/config/orders-value", FULL, login=bob).status == 403
        assert ask(url, "PUT", "/config/orders-value", FULL).status == 401
        assert broker.schemas.registry.request("GET", "config/orders-value") == {
            "compatibilityLevel": "FULL"
        }


def test_a_broker_without_a_registry_says_so_and_imports_none() -> None:
    code = (
        "import sys, wirekafka\n"
        "with wirekafka.Broker() as broker:\n"
        "    try: broker.schema_registry_url\n"
        "    except RuntimeError as error: print(error)\n"
        "parts = 'starlette', 'uvicorn', 'wirekafka.web', 'wirekafka.registry.', 'fastavro'\n"
        "print([name for name in sys.modules if name.startswith(parts)])\n"
    )
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout.splitlines() == [
        "this broker has no schema registry: Broker(schema_registry=True)",
        "['wirekafka.registry.names']",
    ]
