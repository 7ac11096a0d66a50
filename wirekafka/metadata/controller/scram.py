"""Changes of users' SCRAM credentials (KIP-554, RFC 5802)."""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Sequence
from dataclasses import dataclass

from wirekafka.codec.message import Message
from wirekafka.errors import Error, KafkaError
from wirekafka.metadata.controller.command import (
    ControllerCommand,
    ControllerState,
    Decision,
    bounded,
)
from wirekafka.protocol.records.metadata import (
    RemoveUserScramCredentialRecord,
    UserScramCredentialRecord,
)
from wirekafka.runtime.machine import command
from wirekafka.security.sasl.scram import FEWEST_ITERATIONS, MOST_ITERATIONS

HASHES = {1: hashlib.sha256, 2: hashlib.sha512}
"""The hash function by mechanism: 1 is SCRAM-SHA-256, 2 is SCRAM-SHA-512."""


@dataclass(frozen=True, slots=True)
class Deletion:
    """A credential to delete."""

    user: str
    mechanism: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Upsertion:
    """A credential to create or replace."""

    user: str
    mechanism: int
    iterations: int
    salt: bytes
    salted_password: bytes


@command
class AlterCredentials(ControllerCommand[dict[str, KafkaError | None]]):
    """Change credentials, at most one per user; the reply maps users to an error or None."""

    deletions: Sequence[Deletion]
    upsertions: Sequence[Upsertion]

    def decide(self, state: ControllerState, now_ms: int) -> Decision[dict[str, KafkaError | None]]:
        """Return a record for each user whose change is valid."""
        records: dict[str, Message] = {}
        reply: dict[str, KafkaError | None] = {}
        changes: list[Deletion | Upsertion] = [*self.deletions, *self.upsertions]
        for change in changes:
            if reply.get(change.user) is not None:
                continue
            try:
                if change.user in reply:
                    raise KafkaError(
                        Error.DUPLICATE_RESOURCE,
                        "A user credential cannot be altered twice in the same request",
                    )
                records[change.user] = _record(change, state)
                reply[change.user] = None
            except KafkaError as error:
                reply[change.user] = error
                records.pop(change.user, None)
        return Decision(bounded(list(records.values())), reply)


def _record(change: Deletion | Upsertion, state: ControllerState) -> Message:
    _check(change)
    if isinstance(change, Upsertion):
        return _credential(change)
    if (change.user, change.mechanism) not in state.image.security.scram:
        raise KafkaError(
            Error.RESOURCE_NOT_FOUND, "Attempt to delete a user credential that does not exist"
        )
    return RemoveUserScramCredentialRecord(name=change.user, mechanism=change.mechanism)


def _check(change: Deletion | Upsertion) -> None:
    if not change.user:
        raise KafkaError(Error.UNACCEPTABLE_CREDENTIAL, "Username must not be empty")
    if change.mechanism not in HASHES:
        raise KafkaError(Error.UNSUPPORTED_SASL_MECHANISM, "Unknown SCRAM mechanism")
    if isinstance(change, Upsertion):
        if change.iterations < FEWEST_ITERATIONS:
            raise KafkaError(Error.UNACCEPTABLE_CREDENTIAL, "Too few iterations")
        if change.iterations > MOST_ITERATIONS:
            raise KafkaError(Error.UNACCEPTABLE_CREDENTIAL, "Too many iterations")
        if not change.salted_password:
            # Everybody knows the keys of an empty one. Kafka fails on it: UNKNOWN_SERVER_ERROR.
            raise KafkaError(Error.UNACCEPTABLE_CREDENTIAL, "Salted password must not be empty")


def _credential(change: Upsertion) -> UserScramCredentialRecord:
    """The record of a credential: only derived keys, as the salted password allows a login."""
    make = HASHES[change.mechanism]
    client_key = hmac.digest(change.salted_password, b"Client Key", make)
    return UserScramCredentialRecord(
        name=change.user,
        mechanism=change.mechanism,
        salt=change.salt,
        stored_key=make(client_key).digest(),
        server_key=hmac.digest(change.salted_password, b"Server Key", make),
        iterations=change.iterations,
    )
