"""A broker with every SASL mechanism over TLS that denies by default, and its clients' settings."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from confluent_kafka.admin import (
    AclBinding,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ResourcePatternType,
    ResourceType,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialUpsertion,
)

from compat_tests.sasl_stage import SIGNING_KEY, write_keys
from tests.certificates import Authority
from tests.sasl_client import signed_token
from wirekafka.config.checks.authorization import STANDARD_AUTHORIZER
from wirekafka.testing import Broker

_HOST = "127.0.0.1"
_MODULES = "org.apache.kafka.common.security"
_OAUTH = f"{_MODULES}.oauthbearer"
PASSWORDS = {"admin": "admin-secret", "alice": "alice-secret", "carol": "carol-secret"}
USERS = {"PLAIN": "alice", "SCRAM-SHA-256": "carol", "SCRAM-SHA-512": "carol"}
"""The user of each mechanism; tokens of OAUTHBEARER belong to bob."""
MECHANISMS = (*USERS, "OAUTHBEARER")


@dataclass(frozen=True)
class Secured:
    """The address of a broker, and what its clients need."""

    bootstrap: str
    authority: Authority

    def confluent(self, mechanism: str, **more: Any) -> dict[str, Any]:
        """The settings of a client of librdkafka."""
        settings = {
            "bootstrap.servers": self.bootstrap,
            "security.protocol": "SASL_SSL",
            "ssl.ca.location": self.authority.file,
            "sasl.mechanism": mechanism,
            "log_level": 0,
            **more,
        }
        if mechanism == "OAUTHBEARER":
            return {**settings, "oauth_cb": lambda _: (token(), time.time() + 3600)}
        user = more.get("sasl.username", USERS[mechanism])
        return {**settings, "sasl.username": user, "sasl.password": PASSWORDS[user]}

    def java(self, directory: Path, mechanism: str) -> dict[str, str]:
        """The settings of a Java client; a token is written into the directory."""
        settings = {
            "security.protocol": "SASL_SSL",
            "ssl.truststore.type": "PEM",
            "ssl.truststore.location": self.authority.file,
            "sasl.mechanism": mechanism,
        }
        if mechanism == "OAUTHBEARER":
            handler = f"{_OAUTH}.OAuthBearerLoginCallbackHandler"
            return {
                **settings,
                "sasl.jaas.config": f"{_OAUTH}.OAuthBearerLoginModule required;",
                "sasl.login.callback.handler.class": handler,
                "sasl.oauthbearer.token.endpoint.url": token_file(directory).as_uri(),
            }
        user = USERS[mechanism]
        kind = "plain.Plain" if mechanism == "PLAIN" else "scram.Scram"
        login = f'{kind}LoginModule required username={user} password="{PASSWORDS[user]}";'
        return {**settings, "sasl.jaas.config": f"{_MODULES}.{login}"}

    def admin(self) -> AdminClient:
        return AdminClient(self.confluent("PLAIN", **{"sasl.username": "admin"}))


def token() -> str:
    """A valid token of user bob."""
    return signed_token(SIGNING_KEY)


def token_file(directory: Path) -> Path:
    """A file with a valid token, as Java clients read it."""
    path = directory / "token.jwt"
    path.write_text(token())
    return path


@contextmanager
def secured_broker(directory: Path) -> Iterator[Secured]:
    """A broker that denies whatever its ACLs do not allow, and reads clients' certificates."""
    authority = Authority(directory)
    listed = " ".join(f'user_{user}="{PASSWORDS[user]}"' for user in ("admin", "alice"))
    prefix = "listener.name.sasl_ssl"
    settings = {
        "listeners": f"SASL_SSL://{_HOST}:0",
        "inter.broker.listener.name": "SASL_SSL",
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": authority.issue("CN=broker", _HOST, key="rsa").pem(),
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": authority.file,
        f"{prefix}.ssl.client.auth": "requested",
        "sasl.enabled.mechanisms": ",".join(MECHANISMS),
        f"{prefix}.plain.sasl.jaas.config": f"{_MODULES}.plain.PlainLoginModule required {listed};",
        f"{prefix}.oauthbearer.sasl.jaas.config": (f"{_OAUTH}.OAuthBearerLoginModule required;"),
        f"{prefix}.oauthbearer.sasl.server.callback.handler.class": (
            f"{_OAUTH}.OAuthBearerValidatorCallbackHandler"
        ),
        f"{prefix}.sasl.oauthbearer.jwks.endpoint.url": write_keys(directory).as_uri(),
        f"{prefix}.sasl.oauthbearer.expected.audience": "kafka",
        f"{prefix}.sasl.oauthbearer.expected.issuer": "https://issuer",
        "authorizer.class.name": STANDARD_AUTHORIZER,
        "super.users": "User:admin;User:CN=root",
    }
    for bits in ("256", "512"):
        module = f"{_MODULES}.scram.ScramLoginModule required;"
        settings[f"{prefix}.scram-sha-{bits}.sasl.jaas.config"] = module
    with Broker(config=settings) as broker:
        made = Secured(broker.bootstrap_servers, authority)
        _create_users(made.admin())
        yield made


def _create_users(admin: AdminClient) -> None:
    """Carol's credentials, and ACLs of all users for the topics and groups named `shared*`."""
    for mechanism in (ScramMechanism.SCRAM_SHA_256, ScramMechanism.SCRAM_SHA_512):
        change = UserScramCredentialUpsertion(
            "carol", ScramCredentialInfo(mechanism, 4096), PASSWORDS["carol"].encode()
        )
        for done in admin.alter_user_scram_credentials([change]).values():
            done.result(20)
    bindings = [
        AclBinding(
            kind,
            "shared",
            ResourcePatternType.PREFIXED,
            f"User:{user}",
            "*",
            AclOperation.ALL,
            AclPermissionType.ALLOW,
        )
        for kind in (ResourceType.TOPIC, ResourceType.GROUP)
        for user in ("alice", "bob", "carol")
    ]
    for created in admin.create_acls(bindings).values():
        created.result(20)
