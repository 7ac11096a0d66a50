"""DescribeUserScramCredentials: lists the SCRAM mechanisms and iterations of users (KIP-554)."""

from __future__ import annotations

from collections import Counter

from wirekafka.apis.shared.call import Call
from wirekafka.apis.shared.registry import api, failure_of
from wirekafka.errors import Error, KafkaError
from wirekafka.protocol.describe_user_scram_credentials import (
    DescribeUserScramCredentialsRequest,
    DescribeUserScramCredentialsResponse,
)
from wirekafka.security.acl import CLUSTER, DESCRIBE

_Result = DescribeUserScramCredentialsResponse.Result


@api(
    DescribeUserScramCredentialsRequest,
    DescribeUserScramCredentialsResponse,
    on_every_listener=True,
)
def describe_user_scram_credentials(
    request: DescribeUserScramCredentialsRequest, call: Call
) -> DescribeUserScramCredentialsResponse:
    """List the credentials of the requested users, or of all; never the keys."""
    if not call.is_authorized(DESCRIBE, CLUSTER):
        raise KafkaError(Error.CLUSTER_AUTHORIZATION_FAILED)
    known: dict[str, list[_Result.CredentialInfo]] = {}
    for (user, mechanism), record in call.broker.image.security.scram.items():
        known.setdefault(user, []).append(
            _Result.CredentialInfo(mechanism=mechanism, iterations=record.iterations)
        )
    requested = Counter(each.name for each in request.users or ()) or Counter(iter(known))
    return DescribeUserScramCredentialsResponse(
        results=[
            _result(user, known.get(user), is_repeated=count > 1)
            for user, count in requested.items()
        ]
    )


@failure_of(describe_user_scram_credentials)
def describe_user_scram_credentials_failure(
    request: DescribeUserScramCredentialsRequest, error: KafkaError, call: Call
) -> DescribeUserScramCredentialsResponse:
    """Report the error, with a result without a name for each requested user, as Kafka does."""
    return DescribeUserScramCredentialsResponse(
        error_code=error.error,
        error_message=error.message,
        results=[
            _Result(error_code=error.error, error_message=error.message)
            for _ in request.users or ()
        ],
    )


def _result(
    user: str, credentials: list[_Result.CredentialInfo] | None, *, is_repeated: bool
) -> _Result:
    if is_repeated:
        return _Result(
            user=user,
            error_code=Error.DUPLICATE_RESOURCE,
            error_message="Cannot describe SCRAM credentials for the same user twice in a single "
            f"request: {user}",
        )
    if credentials is None:
        return _Result(
            user=user,
            error_code=Error.RESOURCE_NOT_FOUND,
            error_message=f"Attempt to describe a user credential that does not exist: {user}",
        )
    return _Result(user=user, credential_infos=credentials)
