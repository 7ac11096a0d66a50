"""The checks by which request handlers authorize their clients."""

from __future__ import annotations

from collections import Counter
from collections.abc import Container, Iterable

from wirekafka.errors import Error, KafkaError
from wirekafka.security.acl import (
    ALTER,
    ALTER_CONFIGS,
    CLUSTER,
    CLUSTER_ACTION,
    CLUSTER_NAME,
    CREATE,
    CREATE_TOKENS,
    DELEGATION_TOKEN,
    DELETE,
    DESCRIBE,
    DESCRIBE_CONFIGS,
    DESCRIBE_TOKENS,
    GROUP,
    IDEMPOTENT_WRITE,
    READ,
    TOPIC,
    TRANSACTIONAL_ID,
    TWO_PHASE_COMMIT,
    USER,
    WRITE,
    Operation,
    ResourceType,
)
from wirekafka.security.authorizer import Audit, Authorizer

REFUSALS = {
    TOPIC: Error.TOPIC_AUTHORIZATION_FAILED,
    GROUP: Error.GROUP_AUTHORIZATION_FAILED,
    CLUSTER: Error.CLUSTER_AUTHORIZATION_FAILED,
    TRANSACTIONAL_ID: Error.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
    DELEGATION_TOKEN: Error.DELEGATION_TOKEN_AUTHORIZATION_FAILED,
    USER: Error.DELEGATION_TOKEN_AUTHORIZATION_FAILED,
}
"""The error for a refused operation, by the type of the resource."""

OPERATIONS_OF = {
    TOPIC: (READ, WRITE, CREATE, DESCRIBE, DELETE, ALTER, DESCRIBE_CONFIGS, ALTER_CONFIGS),
    GROUP: (READ, DESCRIBE, DELETE, DESCRIBE_CONFIGS, ALTER_CONFIGS),
    CLUSTER: (
        CREATE,
        CLUSTER_ACTION,
        DESCRIBE_CONFIGS,
        ALTER_CONFIGS,
        IDEMPOTENT_WRITE,
        ALTER,
        DESCRIBE,
    ),
    TRANSACTIONAL_ID: (DESCRIBE, WRITE, TWO_PHASE_COMMIT),
    DELEGATION_TOKEN: (DESCRIBE,),
    USER: (CREATE_TOKENS, DESCRIBE_TOKENS),
}
"""The operations that exist for a type of resource (KIP-430)."""


class _Everything(Container[str]):
    def __contains__(self, name: object) -> bool:
        return True


_EVERYTHING = _Everything()


def refusal(resource_type: ResourceType) -> KafkaError:
    """The error of a refused operation, with Kafka's text."""
    subject = resource_type.name.replace("_", " ").capitalize()
    return KafkaError(REFUSALS[resource_type], f"{subject} authorization failed.")


class Access:
    """The checks of one request; without an authorizer everything is allowed.

    A subclass supplies the attributes of `Subject`.
    """

    __slots__ = ()

    authorizer: Authorizer | None
    api_name: str

    @property
    def principal(self) -> str:
        """The principal of the client, such as "User:name"."""
        raise NotImplementedError

    @property
    def client_host(self) -> str:
        """The address of the client."""
        raise NotImplementedError

    def authorize(
        self, operation: Operation, resource_type: ResourceType, name: str = CLUSTER_NAME
    ) -> None:
        """Raise the authorization error of the resource type unless the operation is allowed."""
        if self.authorizer is not None and not self.authorizer.allows(
            self, operation, (resource_type, name)
        ):
            if resource_type is CLUSTER:
                message = f"Request {self.api_name} needs {operation.name} permission."
                raise KafkaError(Error.CLUSTER_AUTHORIZATION_FAILED, message)
            raise refusal(resource_type)

    def is_authorized(
        self, operation: Operation, resource_type: ResourceType, name: str = CLUSTER_NAME
    ) -> bool:
        """Whether the operation is allowed; a denial is logged."""
        return self.authorizer is None or self.authorizer.allows(
            self, operation, (resource_type, name)
        )

    def may(
        self, operation: Operation, resource_type: ResourceType, name: str = CLUSTER_NAME
    ) -> bool:
        """As `is_authorized`, where a denial is nothing to log: a list is filtered, or another
        operation would do."""
        return self.authorizer is None or self.authorizer.allows(
            self, operation, (resource_type, name), Audit.ALLOWED
        )

    def may_on_some(self, operation: Operation, resource_type: ResourceType) -> bool:
        """Whether the operation is allowed on at least one resource of the type."""
        return self.authorizer is None or self.authorizer.allows_on_some(
            self, operation, resource_type
        )

    def authorized(
        self, operation: Operation, resource_type: ResourceType, names: Iterable[str]
    ) -> Container[str]:
        """The names for which the operation is allowed; denials are logged."""
        if self.authorizer is None:
            return _EVERYTHING
        # The iterator, as a Counter of a mapping would take its values for counts.
        return {
            name
            for name, count in Counter(iter(names)).items()
            if self.authorizer.allows(self, operation, (resource_type, name), references=count)
        }

    def allowed_operations(self, resource_type: ResourceType, name: str = CLUSTER_NAME) -> int:
        """The bit field of the operations that the client may do (KIP-430); nothing is logged."""
        return sum(
            1 << operation
            for operation in OPERATIONS_OF[resource_type]
            if self.authorizer is None
            or self.authorizer.allows(self, operation, (resource_type, name), Audit.NONE)
        )

    def cluster_operations(self) -> int:
        """`allowed_operations` on the cluster; none without permission to describe it."""
        return self.allowed_operations(CLUSTER) if self.is_authorized(DESCRIBE, CLUSTER) else 0
