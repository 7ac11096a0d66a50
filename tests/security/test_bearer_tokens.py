"""OAUTHBEARER: valid and invalid tokens, and the response to a refused client."""

import base64
import hmac
import json
import time
from collections.abc import Callable, Sequence
from typing import Any

import pytest
from joserfc import jws
from joserfc.jwk import ECKey, Key, OKPKey, RSAKey

from tests.sasl_client import bearer, signed_token, unsigned_token
from wirekafka.security.jaas import parse
from wirekafka.security.sasl.exchange import AuthenticationFailed, Challenge, Success
from wirekafka.security.sasl.jwt import InvalidKeys, JwtValidator, read_keys
from wirekafka.security.sasl.oauthbearer import LOGIN_MODULE, OAuthBearer, TokenRefused, Validator
from wirekafka.security.sasl.unsecured_tokens import UnsecuredValidator

RSA = RSAKey.generate_key(2048, {"kid": "first", "use": "sig"})
OTHER = RSAKey.generate_key(2048, {"kid": "first"})
NOW_MS = int(time.time() * 1000)


def validator(*keys: Key, **changed: Any) -> JwtValidator:
    public = read_keys(json.dumps({"keys": [key.as_dict(private=False) for key in keys or (RSA,)]}))

    def find(key_id: str | None) -> Sequence[Key]:
        return [key for key in public if key_id in (None, key.kid)]

    settings = {"issuer": "https://issuer", "audiences": frozenset({"kafka"}), **changed}
    return JwtValidator(keys=find, **settings)


def test_a_signed_token_is_valid() -> None:
    issued_s = NOW_MS // 1000
    expires_s = issued_s + 600
    found = validator().validate(signed_token(RSA, iat=issued_s, exp=expires_s), NOW_MS)
    assert found == ("bob", expires_s * 1000)


@pytest.mark.parametrize(
    ("key", "algorithm"),
    [
        (ECKey.generate_key("P-256", {"kid": "e"}), "ES256"),
        (OKPKey.generate_key("Ed25519", {"kid": "o"}), "EdDSA"),
        (RSA, "PS512"),
    ],
)
def test_signatures_of_other_kinds(key: Any, algorithm: str) -> None:
    token = signed_token(key, {"alg": algorithm})
    assert validator(RSA, key).validate(token, NOW_MS).user == "bob"


def test_other_claims_can_name_the_user() -> None:
    found = validator(subject_claim="email").validate(signed_token(RSA, email="x@y"), NOW_MS)
    assert found.user == "x@y"


def test_issuer_and_audience_can_be_left_unverified() -> None:
    token = signed_token(RSA, iss=None, aud=["any"])
    assert validator(issuer=None, audiences=None).validate(token, NOW_MS).user == "bob"


SECONDS = NOW_MS // 1000
REFUSED: dict[str, Callable[[], str]] = {
    "unsigned": lambda: unsigned_token(iss="https://issuer", aud="kafka"),
    "signature removed": lambda: signed_token(RSA).rpartition(".")[0] + ".",
    "signature and dot removed": lambda: signed_token(RSA).rpartition(".")[0],
    "another key": lambda: signed_token(OTHER),
    "another key id": lambda: signed_token(RSA, {"kid": "second"}),
    "a key in the header": lambda: signed_token(OTHER, {"kid": None, "jwk": OTHER.as_dict()}),
    "another issuer": lambda: signed_token(RSA, iss="https://other"),
    "no issuer": lambda: signed_token(RSA, iss=None),
    "another audience": lambda: signed_token(RSA, aud=["x", "y"]),
    "no audience": lambda: signed_token(RSA, aud=None),
    "expired": lambda: signed_token(RSA, exp=SECONDS - 31, iat=SECONDS - 60),
    "no expiry": lambda: signed_token(RSA, exp=None),
    "expiry of text": lambda: signed_token(RSA, exp=str(SECONDS + 60)),
    "endless": lambda: signed_token(RSA, exp=1 << 80),
    "no issue time": lambda: signed_token(RSA, iat=None),
    "not valid yet": lambda: signed_token(RSA, nbf=SECONDS + 60),
    "no user": lambda: signed_token(RSA, sub=None),
    "blank user": lambda: signed_token(RSA, sub=" "),
    "user of a number": lambda: signed_token(RSA, sub=1),
    "nonsense": lambda: "a.b.c",
    "deep": lambda: jws.serialize_compact({"alg": "RS256"}, b"[" * 100_000, RSA),
    "a list": lambda: jws.serialize_compact({"alg": "RS256"}, b"[]", RSA),
}


@pytest.mark.parametrize("name", REFUSED)
def test_other_tokens_are_refused(name: str) -> None:
    with pytest.raises(TokenRefused):
        validator().validate(REFUSED[name](), NOW_MS)


def test_a_public_key_is_no_shared_secret() -> None:
    """The public key, used as the secret of HS256, must not sign tokens."""
    claims = {"sub": "bob", "iss": "https://issuer", "aud": "kafka"}
    body = json.dumps({**claims, "iat": SECONDS, "exp": SECONDS + 60}).encode()
    header = b'{"alg":"HS256","kid":"first"}'
    signed = b".".join(base64.urlsafe_b64encode(part).rstrip(b"=") for part in (header, body))
    signature = hmac.digest(RSA.as_pem(private=False), signed, "sha256")
    forged = f"{signed.decode()}.{base64.urlsafe_b64encode(signature).decode().rstrip('=')}"
    with pytest.raises(TokenRefused):
        validator().validate(forged, NOW_MS)


@pytest.mark.parametrize(
    "document", ["", "[]", "{}", '{"keys":[]}', '{"keys":[{"kty":"oct","k":"AA"}]}', '{"keys":[7]}']
)
def test_a_document_without_public_keys_is_refused(document: str) -> None:
    with pytest.raises(InvalidKeys):
        read_keys(document)


# The message flow.


def respond(validator: Validator, token: bytes) -> Any:
    return OAuthBearer(validator).start().respond(token, int(time.time() * 1000))


def test_a_token_logs_in_until_it_expires() -> None:
    success = respond(validator(), bearer(signed_token(RSA, exp=SECONDS + 3600)))
    assert success == Success(b"", "bob", (SECONDS + 3600) * 1000)


def test_a_refused_client_acknowledges_the_report() -> None:
    exchange = OAuthBearer(validator()).start()
    report = exchange.respond(bearer(signed_token(OTHER)), NOW_MS)
    assert report == Challenge(b'{"status":"invalid_token"}')
    with pytest.raises(AuthenticationFailed) as failure:
        exchange.respond(b"\x01", NOW_MS)
    assert failure.value.shown == '{"status":"invalid_token"}'


def test_a_second_token_after_a_refused_one_is_ignored() -> None:
    exchange = OAuthBearer(validator()).start()
    exchange.respond(bearer(signed_token(OTHER)), NOW_MS)
    with pytest.raises(AuthenticationFailed):
        exchange.respond(bearer(signed_token(RSA)), NOW_MS)


def test_the_authorization_id_is_the_token_s_user() -> None:
    assert respond(validator(), bearer(signed_token(RSA), "bob")).user == "bob"
    with pytest.raises(AuthenticationFailed):
        respond(validator(), bearer(signed_token(RSA), "alice"))


# Unsecured tokens.


def test_unsecured_tokens_need_required_scopes() -> None:
    options = 'unsecuredValidatorRequiredScope="read write" unsecuredValidatorScopeClaimName=scp'
    checked = UnsecuredValidator.of(parse(f"{LOGIN_MODULE} required {options};"))
    assert respond(checked, bearer(unsigned_token(scp=["write", "read", "x"]))).user == "bob"
    assert respond(checked, bearer(unsigned_token(scp="read"))) == Challenge(
        b'{"status":"insufficient_scope", "scope":"read write"}'
    )


def test_an_unsecured_validator_reads_no_signed_token() -> None:
    assert isinstance(respond(UnsecuredValidator(), bearer(signed_token(RSA))), Challenge)
