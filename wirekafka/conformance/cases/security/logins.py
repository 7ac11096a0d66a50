"""Logins step by step, on a connection that does not log in by itself."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

from wirekafka.conformance.cases.security.scram import ScramMessages
from wirekafka.conformance.cases.security.users import SHA_256
from wirekafka.conformance.stage import PreparationFailed, Stage
from wirekafka.errors import Error
from wirekafka.protocol.api_versions import ApiVersionsRequest
from wirekafka.protocol.metadata import MetadataRequest
from wirekafka.protocol.sasl_authenticate import SaslAuthenticateRequest
from wirekafka.protocol.sasl_handshake import SaslHandshakeRequest
from wirekafka.security import jaas

RAW = "raw"
"""The connection of these functions, as `Stage.exchange` names it."""
SOFTWARE = {"client_software_name": "conformance", "client_software_version": "1"}
PLAIN = "PLAIN"


def connect(stage: Stage, by: str = RAW) -> None:
    """Have a connection begin without a login."""
    stage.log_in(by, None)


def shake(stage: Stage, mechanism: str = PLAIN, version: int | None = 1, by: str = RAW) -> Any:
    """Ask for a mechanism."""
    return stage.ask(SaslHandshakeRequest(mechanism=mechanism), version, by=by)


def send_token(stage: Stage, data: bytes, version: int | None = 2, by: str = RAW) -> bytes:
    """Send a token; returns the token of the broker, which is empty after a refusal."""
    answer = stage.ask(SaslAuthenticateRequest(auth_bytes=data), version, by=by)
    return b"" if isinstance(answer, str) else bytes(answer.auth_bytes)


def scram(
    stage: Stage, messages: ScramMessages, mechanism: str = SHA_256, version: int | None = 2
) -> None:
    """The messages of an exchange, after a handshake."""
    shake(stage, mechanism)
    challenge = send_token(stage, messages.first(), version)
    if challenge:
        name_nonce(stage, messages, challenge)
        send_token(stage, messages.final(challenge), version)
        name_signature(stage, messages)


def name_nonce(stage: Stage, messages: ScramMessages, challenge: bytes) -> None:
    """Show the random part of a challenge as what it is."""
    nonce = challenge.decode().partition(",")[0].removeprefix(f"r={messages.nonce}")
    if nonce:
        stage.call(nonce, "NONCE")


def name_signature(stage: Stage, messages: ScramMessages) -> None:
    """Show the proof of the broker as what it is."""
    if messages.signature:
        stage.call(messages.signature, "SIGNATURE")


def look_whether_open(stage: Stage, by: str = RAW) -> None:
    """Note whether the connection serves requests, or is closed by the next one."""
    stage.note("the connection", "serves" if _serves(stage, by) else "is closed")


def _serves(stage: Stage, by: str) -> bool:
    with suppress(PreparationFailed):
        stage.do(MetadataRequest(topics=[]), 9, by=by)
        return True
    return False


def ask_versions(stage: Stage, version: int = 3, by: str = RAW, **fields: Any) -> None:
    """Ask for the versions, and note whether they are there: which they are is no matter here."""
    known = {**(SOFTWARE if version >= 3 else {}), **fields}
    try:
        answer = stage.do(ApiVersionsRequest(**known), version, by=by)
    except PreparationFailed:
        stage.note("versions", "the connection is closed")
        return
    code = Error.of(answer.error_code).name
    stage.note("versions", {"error": code, "has APIs": bool(answer.api_keys)})


def plain(user: str, password: str, authorization_id: str = "") -> bytes:
    """The token of PLAIN."""
    return f"{authorization_id}\0{user}\0{password}".encode()


def own_login(stage: Stage) -> tuple[str, str]:
    """The user and the password by which the run logs in."""
    assert stage.target.config is not None
    text = stage.target.config.sources.text("sasl.jaas.config")
    options = jaas.parse(text or "").options
    user, password = options["username"], options["password"]
    stage.call(user, "SUPER")
    return user, password
