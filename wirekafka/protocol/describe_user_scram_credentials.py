"""DescribeUserScramCredentials: lists the SCRAM mechanisms and iterations of users (KIP-554)."""

from __future__ import annotations

from wirekafka.codec.message import Int8, Int16, Int32, Part, Request, Response, String, field


class DescribeUserScramCredentialsRequest(Request, key=50, versions="0", flexible="0+"):
    users: list[UserName] | None = field(default=[])

    class UserName(Part):
        name: String


class DescribeUserScramCredentialsResponse(Response, answers=DescribeUserScramCredentialsRequest):
    throttle_time_ms: Int32
    error_code: Int16
    error_message: String | None = field(default="")
    results: list[Result]

    class Result(Part):
        user: String
        error_code: Int16
        error_message: String | None = field(default="")
        credential_infos: list[CredentialInfo]

        class CredentialInfo(Part):
            mechanism: Int8
            iterations: Int32
