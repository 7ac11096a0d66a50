"""The configuration of an attacked node: listeners, users, their ACLs, and planted secrets."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from tests.attacks.hostile_values import PREFIX
from tests.certificates import Authority
from tests.planted_secrets import planted
from wirekafka.config.checks.authorization import STANDARD_AUTHORIZER
from wirekafka.config.prefixed_names import jaas_option
from wirekafka.protocol.create_acls import CreateAclsRequest

CLIENTS, CONTROLLERS = "CLIENTS", "CONTROLLER"
"""The listeners that are attacked."""
NONE, NARROW, NEIGHBOUR = "none", "narrow", "neighbour"
ATTACKERS = (NONE, NARROW, NEIGHBOUR)
"""Without any ACL; all rights on a prefix; rights on the cluster's configurations."""
ADMIN = "admin"
"""The super user, whom nobody attacks as."""
_ALLOW, _ALL, _DESCRIBE_CONFIGS, _ALTER_CONFIGS = 3, 2, 10, 11
_TOPIC, _GROUP, _CLUSTER, _TRANSACTIONAL_ID = 2, 3, 4, 5
_LITERAL, _PREFIXED = 3, 4
_PLAIN_MODULE = "org.apache.kafka.common.security.plain.PlainLoginModule"
_PROVIDERS = "org.apache.kafka.common.config.provider."


def password_of(user: str) -> str:
    """The planted password of a user."""
    return planted(f"password-of-{user}")


def settings(authority: Authority) -> dict[str, str]:
    """Options of a secured broker and controller, with a secret wherever one can be."""
    users = " ".join(f'user_{name}="{password_of(name)}"' for name in (ADMIN, *ATTACKERS))
    login = f'{_PLAIN_MODULE} required username="{ADMIN}" password="{password_of(ADMIN)}" {users};'
    issued = authority.issue("CN=broker", "broker.test")
    password = planted("of-the-keystore")
    return {
        "listeners": ",".join(
            f"{name}://broker.test:{port}"
            for port, name in enumerate((CLIENTS, "TLS", CONTROLLERS), 9092)
        ),
        "listener.security.protocol.map": (
            f"{CLIENTS}:SASL_PLAINTEXT,TLS:SSL,{CONTROLLERS}:SASL_PLAINTEXT"
        ),
        "controller.listener.names": CONTROLLERS,
        "inter.broker.listener.name": CLIENTS,
        "sasl.enabled.mechanisms": "PLAIN",
        "sasl.mechanism.inter.broker.protocol": "PLAIN",
        "sasl.mechanism.controller.protocol": "PLAIN",
        jaas_option(CLIENTS, "PLAIN"): login,
        jaas_option(CONTROLLERS, "PLAIN"): login,
        "listener.name.tls.ssl.keystore.location": issued.pkcs12(password),
        "listener.name.tls.ssl.keystore.type": "PKCS12",
        "listener.name.tls.ssl.keystore.password": password,
        "delegation.token.secret.key": planted("of-tokens"),
        "authorizer.class.name": STANDARD_AUTHORIZER,
        "super.users": f"User:{ADMIN}",
        "config.providers": "file,env,directory,wirekafka",
        "config.providers.file.class": f"{_PROVIDERS}FileConfigProvider",
        "config.providers.wirekafka.class": f"{_PROVIDERS}FileConfigProvider",
        "config.providers.env.class": f"{_PROVIDERS}EnvVarConfigProvider",
        "config.providers.directory.class": f"{_PROVIDERS}DirectoryConfigProvider",
        "group.initial.rebalance.delay.ms": "0",
        "offsets.topic.num.partitions": "2",
        "transaction.state.log.num.partitions": "2",
    }


def acls() -> Iterator[Any]:
    """What the attackers are allowed."""
    kind = CreateAclsRequest.AclCreation
    rights = [
        *((NARROW, each, PREFIX, _PREFIXED, _ALL) for each in (_TOPIC, _GROUP, _TRANSACTIONAL_ID)),
        (NEIGHBOUR, _CLUSTER, "kafka-cluster", _LITERAL, _DESCRIBE_CONFIGS),
        (NEIGHBOUR, _CLUSTER, "kafka-cluster", _LITERAL, _ALTER_CONFIGS),
    ]
    for user, resource_type, name, pattern, operation in rights:
        yield kind(
            resource_type=resource_type,
            resource_name=name,
            resource_pattern_type=pattern,
            principal=f"User:{user}",
            host="*",
            operation=operation,
            permission_type=_ALLOW,
        )
