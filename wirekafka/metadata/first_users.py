"""Reads the SCRAM users of a new cluster, as `kafka-storage format --add-scram` does (KIP-900)."""

from __future__ import annotations

import base64
import binascii
import re

from wirekafka.config.option import ConfigError
from wirekafka.protocol.records.metadata import UserScramCredentialRecord
from wirekafka.security.sasl.scram import (
    ALGORITHMS,
    FEWEST_ITERATIONS,
    MOST_ITERATIONS,
    Algorithm,
    Credential,
)

_OPTION = "--add-scram"
_ARGUMENT = re.compile(r"(?P<mechanism>[A-Z0-9-]+)=\[(?P<fields>.*)\]", re.DOTALL)
_FIELD = re.compile(r"(?P<name>[a-z]+)=(?:\"(?P<quoted>[^\"]*)\"|(?P<bare>[^,\"]*))(?:,|$)")
_FIELDS = {"name", "password", "salt", "saltedpassword", "iterations"}
_ITERATIONS = range(FEWEST_ITERATIONS, MOST_ITERATIONS + 1)


def parse(text: str, salt: bytes) -> UserScramCredentialRecord:
    """The credential of `SCRAM-SHA-256=[name=alice,password=secret]`, salted with `salt`.

    Optional fields: `iterations` (4096 to 16384), `salt` in base64, and `saltedpassword` in base64
    in place of `password`. Raises ConfigError, whose message does not contain the text.
    """
    match = _ARGUMENT.fullmatch(text.strip())
    algorithm = ALGORITHMS.get(match["mechanism"]) if match else None
    if match is None or algorithm is None:
        raise _refused(f"expected one of {', '.join(ALGORITHMS)} and =[name=…,password=…]")
    fields = _fields(match["fields"])
    name = fields.get("name")
    if not name:
        raise _refused("the user has no name")
    credential = _credential(fields, algorithm, salt)
    return UserScramCredentialRecord(
        name=name,
        mechanism=algorithm.number,
        salt=credential.salt,
        stored_key=credential.stored_key,
        server_key=credential.server_key,
        iterations=credential.iterations,
    )


def _fields(text: str) -> dict[str, str]:
    fields: dict[str, str] = {}
    at = 0
    while at < len(text):
        match = _FIELD.match(text, at)
        if match is None or match["name"] not in _FIELDS or match["name"] in fields:
            raise _refused(f"expected each of {', '.join(sorted(_FIELDS))} at most once")
        bare = match["bare"]
        fields[match["name"]] = match["quoted"] if bare is None else bare
        at = match.end()
    return fields


def _credential(fields: dict[str, str], algorithm: Algorithm, salt: bytes) -> Credential:
    iterations = fields.get("iterations", str(_ITERATIONS.start))
    if not iterations.isdecimal() or int(iterations) not in _ITERATIONS:
        raise _refused("iterations must be a number from 4096 to 16384")
    if "salt" in fields:
        salt = _decoded(fields["salt"])
    password, salted = fields.get("password"), fields.get("saltedpassword")
    if (password is None) == (salted is None):
        raise _refused("a user needs either a password or a saltedpassword")
    if salted is not None:
        if "salt" not in fields:
            raise _refused("a saltedpassword needs its salt")
        return Credential.of_salted(_decoded(salted), algorithm, salt, int(iterations))
    if not password:
        raise _refused("the password is empty")
    return Credential.of_password(password, algorithm, salt, int(iterations))


def _decoded(text: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except binascii.Error:
        raise _refused("salt and saltedpassword must be in base64") from None


def _refused(reason: str) -> ConfigError:
    return ConfigError(_OPTION, "[hidden]", reason, f"{_OPTION}: {reason}")
