"""Users with SCRAM passwords (KIP-554): listed, given passwords, removed."""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from wirekafka.client.client import Client, CliError, check
from wirekafka.errors import Error
from wirekafka.protocol.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    AlterUserScramCredentialsResponse,
)
from wirekafka.protocol.describe_user_scram_credentials import (
    DescribeUserScramCredentialsRequest,
    DescribeUserScramCredentialsResponse,
)
from wirekafka.security.sasl.scram import ALGORITHMS, Algorithm

_SALT_BYTES = 16
_BY_NUMBER = {each.number: each for each in ALGORITHMS.values()}


class ScramUser(NamedTuple):
    """A user's credential of one mechanism."""

    name: str
    mechanism: str
    """The name in SASL; "unknown" for a mechanism of a later Kafka."""
    iterations: int


def list_users(client: Client, names: Iterable[str] = ()) -> list[ScramUser]:
    """The credentials of the named users, without names of all, sorted; unknown users have none.

    Raises CliError.
    """
    # Not null for all: Apache Kafka 4.4 does not answer that to a user without DESCRIBE.
    kind = DescribeUserScramCredentialsRequest.UserName
    request = DescribeUserScramCredentialsRequest(users=[kind(name=name) for name in names])
    response = client.send(request, DescribeUserScramCredentialsResponse)
    check(response.error_code, "users", response.error_message)
    found = []
    for result in response.results:
        if result.error_code == Error.RESOURCE_NOT_FOUND:
            continue
        check(result.error_code, f"user {result.user}", result.error_message)
        for info in result.credential_infos:
            algorithm = _BY_NUMBER.get(info.mechanism)
            mechanism = algorithm.name if algorithm else "unknown"
            found.append(ScramUser(result.user, mechanism, info.iterations))
    return sorted(found)


def set_password(client: Client, credentials: Sequence[ScramUser], password: str) -> None:
    """Create these credentials, or replace them, each with a new salt. Raises CliError.

    The password does not leave this process, only its salted hashes do. Credentials before the
    failed one are changed.
    """
    for each in credentials:
        _send(client, each, upsertions=[upsertion_of(each, password)])


def delete_credentials(client: Client, credentials: Sequence[ScramUser]) -> None:
    """Delete these credentials. Raises CliError; credentials before the failed one are deleted."""
    for each in credentials:
        deletion = AlterUserScramCredentialsRequest.ScramCredentialDeletion(
            name=each.name, mechanism=_algorithm(each.mechanism).number
        )
        _send(client, each, deletions=[deletion])


def upsertion_of(
    credential: ScramUser, password: str
) -> AlterUserScramCredentialsRequest.ScramCredentialUpsertion:
    """The part of a request that creates a credential with a new salt. Raises CliError."""
    algorithm = _algorithm(credential.mechanism)
    salt = secrets.token_bytes(_SALT_BYTES)
    return AlterUserScramCredentialsRequest.ScramCredentialUpsertion(
        name=credential.name,
        mechanism=algorithm.number,
        iterations=credential.iterations,
        salt=salt,
        salted_password=hashlib.pbkdf2_hmac(
            algorithm.hash().name, password.encode(), salt, credential.iterations
        ),
    )


def _algorithm(mechanism: str) -> Algorithm:
    if mechanism not in ALGORITHMS:
        raise CliError(f"no mechanism {mechanism!r}: one of {', '.join(ALGORITHMS)}")
    return ALGORITHMS[mechanism]


def _send(
    client: Client,
    credential: ScramUser,
    *,
    deletions: Sequence[AlterUserScramCredentialsRequest.ScramCredentialDeletion] = (),
    upsertions: Sequence[AlterUserScramCredentialsRequest.ScramCredentialUpsertion] = (),
) -> None:
    """Change one credential: a request may not have two of one user."""
    request = AlterUserScramCredentialsRequest(
        deletions=list(deletions), upsertions=list(upsertions)
    )
    for result in client.send(request, AlterUserScramCredentialsResponse).results:
        subject = f"user {result.user} with {credential.mechanism}"
        check(result.error_code, subject, result.error_message)
