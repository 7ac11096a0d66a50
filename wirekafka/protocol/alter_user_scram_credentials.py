"""AlterUserScramCredentials: sets and deletes the SCRAM credentials of users (KIP-554)."""

from __future__ import annotations

from wirekafka.codec.message import (
    Bytes,
    Int8,
    Int16,
    Int32,
    Part,
    Request,
    Response,
    String,
    field,
)


class AlterUserScramCredentialsRequest(Request, key=51, versions="0", flexible="0+"):
    deletions: list[ScramCredentialDeletion]
    upsertions: list[ScramCredentialUpsertion]

    class ScramCredentialDeletion(Part):
        name: String
        mechanism: Int8

    class ScramCredentialUpsertion(Part):
        name: String
        mechanism: Int8
        iterations: Int32
        salt: Bytes
        salted_password: Bytes


class AlterUserScramCredentialsResponse(Response, answers=AlterUserScramCredentialsRequest):
    throttle_time_ms: Int32
    results: list[Result]

    class Result(Part):
        user: String
        error_code: Int16
        error_message: String | None = field(default="")
