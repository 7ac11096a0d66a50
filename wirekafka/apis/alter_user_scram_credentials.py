"""AlterUserScramCredentials: sets and deletes the SCRAM credentials of users (KIP-554)."""

from __future__ import annotations

from wirekafka.apis.shared.call import Call, ControllerCall
from wirekafka.apis.shared.registry import api, failure_of
from wirekafka.errors import Error, KafkaError
from wirekafka.metadata.controller.scram import AlterCredentials, Deletion, Upsertion
from wirekafka.protocol.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    AlterUserScramCredentialsResponse,
)
from wirekafka.security.acl import ALTER, CLUSTER

_Result = AlterUserScramCredentialsResponse.Result


@api(AlterUserScramCredentialsRequest, AlterUserScramCredentialsResponse, forwarded=True)
async def alter_user_scram_credentials(
    request: AlterUserScramCredentialsRequest, call: ControllerCall
) -> AlterUserScramCredentialsResponse:
    """Set and delete credentials; each user has a result of its own."""
    call.authorize(ALTER, CLUSTER)
    changes = (
        [Deletion(each.name, each.mechanism) for each in request.deletions],
        [
            Upsertion(
                user=each.name,
                mechanism=each.mechanism,
                iterations=each.iterations,
                salt=each.salt,
                salted_password=each.salted_password,
            )
            for each in request.upsertions
        ],
    )
    outcome = await call.controller.submit(AlterCredentials(*changes))
    return AlterUserScramCredentialsResponse(
        results=[_result(user, error) for user, error in outcome.items()]
    )


def _result(user: str, error: KafkaError | None) -> _Result:
    return _Result(
        user=user,
        error_code=error.error if error else Error.NONE,
        error_message=error.message if error else None,
    )


@failure_of(alter_user_scram_credentials)
def alter_user_scram_credentials_failure(
    request: AlterUserScramCredentialsRequest, error: KafkaError, call: Call
) -> AlterUserScramCredentialsResponse:
    """Report the error for every user of the request."""
    users = dict.fromkeys(
        [each.name for each in request.deletions] + [each.name for each in request.upsertions]
    )
    return AlterUserScramCredentialsResponse(results=[_result(user, error) for user in users])
