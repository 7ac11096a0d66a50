"""The settings of authorization: which authorizer, super users, and resources without ACLs."""

from __future__ import annotations

from dataclasses import dataclass

from wirekafka.config.broker_config import BrokerConfig
from wirekafka.config.option import ConfigError

STANDARD_AUTHORIZER = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"
"""The only `authorizer.class.name` there is."""


@dataclass(frozen=True)
class Policy:
    """The policy for requests on which no ACL decides."""

    super_users: frozenset[str] = frozenset()
    """Principals that may do everything."""
    allows_without_acls: bool = False
    """Whether everyone may use a resource that no ACL names."""

    @classmethod
    def of(cls, config: BrokerConfig) -> Policy | None:
        """The policy in the configuration; None without an authorizer. Raises ConfigError."""
        name = config.authorizer_class_name
        if not name:
            return None
        if name != STANDARD_AUTHORIZER:
            raise ConfigError(
                "authorizer.class.name", name, f"the only authorizer here is {STANDARD_AUTHORIZER}"
            )
        text = config.sources.static_value("super.users") or ""
        users = frozenset(user.strip() for user in text.split(";") if user.strip())
        for user in users:
            if ":" not in user:
                raise ConfigError(
                    "super.users", text, f"expected a string in format User:name but got {user}"
                )
        open_text = config.sources.static_value("allow.everyone.if.no.acl.found") or "false"
        return cls(users, open_text.strip().lower() == "true")
