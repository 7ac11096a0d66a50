"""Users and ACLs of Apache Kafka in front of a registry."""

from __future__ import annotations

from pathlib import Path

from compat_tests.secured import ADMIN, secured_kafka
from tests.registry.servers import ask, registry
from wirekafka.config.client_config import ClientConfig
from wirekafka.protocol.create_acls import CreateAclsRequest
from wirekafka.security.acl import Operation, ResourceType

LEVEL = {"compatibility": "FULL"}


def test_acls_of_apache_kafka_decide_about_subjects(tmp_path: Path) -> None:
    with secured_kafka(tmp_path, ["alice", "bob"]) as kafka:
        grants = [
            ("alice", Operation.WRITE, ResourceType.TOPIC, "orders"),
            ("alice", Operation.ALTER_CONFIGS, ResourceType.TOPIC, "orders"),
            ("bob", Operation.DESCRIBE, ResourceType.TOPIC, "orders"),
            ("bob", Operation.ALTER, ResourceType.CLUSTER, "kafka-cluster"),
        ]
        creations = [
            CreateAclsRequest.AclCreation(
                resource_type=kind,
                resource_name=name,
                resource_pattern_type=3,
                principal=f"User:{user}",
                host="*",
                operation=operation,
                permission_type=3,
            )
            for user, operation, kind, name in grants
        ]
        kafka.ask(ADMIN, CreateAclsRequest(creations=creations), 3)
        module = "org.apache.kafka.common.security.plain.PlainLoginModule"
        config = ClientConfig(
            {
                "security.protocol": "SASL_PLAINTEXT",
                "sasl.mechanism": "PLAIN",
                "sasl.jaas.config": f'{module} required username="{ADMIN}" password="secret";',
            }
        )
        host, port = kafka.address
        with registry(f"{host}:{port}", config) as url:
            alice, bob = ("alice", "secret"), ("bob", "secret")
            # The topic orders does not exist: permissions are by name.
            for subject in ("orders-value", "hidden-value"):
                schema = {"schema": "{}", "schemaType": "JSON"}
                path = f"/subjects/{subject}/versions"
                assert ask(url, "POST", path, schema, login=(ADMIN, "secret")).status == 200
            assert ask(url, "GET", "/subjects", login=alice).body == ["orders-value"]
            assert ask(url, "GET", "/subjects", login=bob).body == ["orders-value"]
            assert ask(url, "PUT", "/config/orders-value", LEVEL, login=alice).status == 200
            assert ask(url, "PUT", "/config/orders-value", LEVEL, login=bob).status == 403
            assert ask(url, "GET", "/config/orders-value", login=bob).status == 200
            assert ask(url, "GET", "/config/hidden-value", login=bob).status == 403
            assert ask(url, "PUT", "/config", LEVEL, login=alice).status == 403
            assert ask(url, "PUT", "/config", LEVEL, login=bob).status == 200
            assert ask(url, "GET", "/subjects", login=("alice", "wrong")).status == 401
            assert ask(url, "GET", "/subjects").status == 401
