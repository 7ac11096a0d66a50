"""Users with SCRAM passwords: lists them, sets and removes their passwords (KIP-554)."""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Iterable
from typing import NamedTuple

from wirekafka.client.client import Client, check
from wirekafka.errors import Error
from wirekafka.protocol.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    AlterUserScramCredentialsResponse,
)
from wirekafka.protocol.describe_user_scram_credentials import (
    DescribeUserScramCredentialsRequest,
    DescribeUserScramCredentialsResponse,
)
from wirekafka.security.sasl.scram import ALGORITHMS, FEWEST_ITERATIONS, Algorithm

_SALT_BYTES = 32
_NAMES = {each.number: each.name for each in ALGORITHMS.values()}


class ScramUser(NamedTuple):
    """A user with a password for one SCRAM mechanism."""

    name: str
    mechanism: str
    iterations: int


def scram_users(client: Client, user: str | None = None) -> list[ScramUser]:
    """The passwords of all users, or of one, which may have none. Raises CliError."""
    # An empty list stands for all users, as null does; to null, Apache Kafka 4.4 never answers a
    # user without DESCRIBE on the cluster.
    names = [] if user is None else [user]
    wanted = [DescribeUserScramCredentialsRequest.UserName(name=each) for each in names]
    response = client.send(
        DescribeUserScramCredentialsRequest(users=wanted), DescribeUserScramCredentialsResponse
    )
    check(response.error_code, "users", response.error_message)
    for each in response.results:
        if each.error_code != Error.RESOURCE_NOT_FOUND:
            check(each.error_code, f"user {each.user}", each.error_message)
    return sorted(
        ScramUser(each.user, _NAMES.get(info.mechanism, "unknown"), info.iterations)
        for each in response.results
        for info in each.credential_infos
    )


def set_password(
    client: Client,
    user: str,
    password: str,
    algorithms: Iterable[Algorithm],
    iterations: int = FEWEST_ITERATIONS,
) -> None:
    """Set the password of a user for some mechanisms, one after the other. Raises CliError.

    The password itself does not leave this process.
    """
    upsertion = AlterUserScramCredentialsRequest.ScramCredentialUpsertion
    for algorithm in algorithms:
        salt = secrets.token_bytes(_SALT_BYTES)
        name = algorithm.hash().name
        change = upsertion(
            name=user,
            mechanism=algorithm.number,
            iterations=iterations,
            salt=salt,
            salted_password=hashlib.pbkdf2_hmac(name, password.encode(), salt, iterations),
        )
        _alter(client, AlterUserScramCredentialsRequest(deletions=[], upsertions=[change]))


def remove_passwords(client: Client, user: str, algorithms: Iterable[Algorithm]) -> None:
    """Remove the passwords of a user for some mechanisms, one after the other. Raises CliError."""
    deletion = AlterUserScramCredentialsRequest.ScramCredentialDeletion
    for each in algorithms:
        change = deletion(name=user, mechanism=each.number)
        _alter(client, AlterUserScramCredentialsRequest(deletions=[change], upsertions=[]))


def _alter(client: Client, request: AlterUserScramCredentialsRequest) -> None:
    """Make one change: Kafka refuses requests that name a user twice, for two mechanisms too."""
    for result in client.send(request, AlterUserScramCredentialsResponse).results:
        check(result.error_code, f"user {result.user}", result.error_message)
