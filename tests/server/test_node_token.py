"""Nodes log in at each other by tokens of an identity provider (KIP-768, 1139, 1258)."""

from __future__ import annotations

import asyncio
import base64
import json
import logging
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from joserfc import jwt
from joserfc.jwk import ECKey, RSAKey

from tests.server.test_peer_security import _BEARER, between_brokers, brokers_seen, settings
from tests.token_provider import OAUTH, PROVIDER, SECRET, Handler, Provider, by_assertion, by_secret
from wirekafka.config.broker_config import BrokerConfig
from wirekafka.config.option import ConfigError
from wirekafka.security.jaas import LoginModule
from wirekafka.security.sasl.exchange import AuthenticationFailed
from wirekafka.security.sasl.token_endpoint import AccessToken, RefreshTimes
from wirekafka.server.peers.node_token import NodeToken
from wirekafka.testing import Broker

_PREFIX = "listener.name.inside.oauthbearer."
_START_S = 1_700_000_000
_START_MS = _START_S * 1000
"""The time of the nodes under test, which none of them may read from the machine's clock."""


@pytest.fixture
def provider() -> Iterator[Provider]:
    with Provider(after(0)) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        yield server
        server.shutdown()
        thread.join()


def after(seconds: int) -> Callable[[], float]:
    """A clock that stands at a time after the start."""
    return lambda: _START_S + seconds


def node_token(options: dict[str, str], **module: str) -> NodeToken:
    return NodeToken(
        BrokerConfig.of(options), LoginModule(f"{OAUTH}.OAuthBearerLoginModule", module)
    )


def got(token: NodeToken, *times_ms: int) -> list[str]:
    """The tokens at these times, in ms after the start."""

    async def get() -> list[str]:
        return [await token.get(_START_MS + time_ms) for time_ms in times_ms]

    return asyncio.run(get())


def test_a_node_logs_in_at_another_one_with_a_token_of_the_provider(
    provider: Provider, tmp_path: Path
) -> None:
    keys = tmp_path / "keys.json"
    keys.write_text(json.dumps({"keys": [PROVIDER.as_dict(private=False)]}))
    options = {
        **settings("SASL_PLAINTEXT", "OAUTHBEARER"),
        f"{_PREFIX}sasl.jaas.config": f"{_BEARER};",
        f"{_PREFIX}sasl.server.callback.handler.class": (
            f"{OAUTH}.OAuthBearerValidatorCallbackHandler"
        ),
        "sasl.oauthbearer.jwks.endpoint.url": keys.as_uri(),
        "sasl.oauthbearer.allow.unverified.audience": "true",
        "sasl.oauthbearer.allow.unverified.issuer": "true",
        **{f"{_PREFIX}{name}": value for name, value in by_secret(provider).items()},
    }
    provider.now_s = time.time
    with Broker(config=options) as broker:
        security = between_brokers(options)
        assert brokers_seen(broker, security) == 1
        assert brokers_seen(broker, security) == 1
    assert len(provider.requests) == 1


def test_id_and_secret_are_sent_as_kafka_sends_them(provider: Provider) -> None:
    got(node_token(by_secret(provider, sasl_oauthbearer_scope="kafka all")), 0)
    [(headers, fields)] = provider.requests
    kind, _, credentials = headers["Authorization"].partition(" ")
    assert (kind, base64.b64decode(credentials).decode()) == ("Basic", f"the node:{SECRET}")
    assert headers["path"] == "/token?tenant=one"
    assert headers["Content-Type"] == "application/x-www-form-urlencoded"
    assert fields == {"grant_type": "client_credentials", "scope": "kafka all"}


def test_the_login_module_may_have_the_credentials(provider: Provider) -> None:
    options = by_secret(provider)
    for name in ("id", "secret"):
        del options[f"sasl.oauthbearer.client.credentials.client.{name}"]
    got(node_token(options, clientId="one", clientSecret=SECRET, scope="kafka"), 0)
    [(headers, fields)] = provider.requests
    assert base64.b64decode(headers["Authorization"][6:]).decode() == f"one:{SECRET}"
    assert fields["scope"] == "kafka"


@pytest.mark.parametrize("algorithm", ["RS256", "ES256"])
def test_an_assertion_is_signed_for_each_token(
    provider: Provider, tmp_path: Path, algorithm: str
) -> None:
    got(node_token(by_assertion(provider, tmp_path, algorithm)), 0)
    [(headers, fields)] = provider.requests
    assert "Authorization" not in headers
    assertion = fields.pop("client_assertion")
    assert fields == {
        "client_assertion_type": "urn:ietf:params:oauth:client-assertion-type:jwt-bearer",
        "grant_type": "client_credentials",
        "client_id": "the node",
    }
    kind = RSAKey if algorithm == "RS256" else ECKey
    public = kind.import_key((tmp_path / "public.pem").read_bytes())
    decoded = jwt.decode(assertion, public, algorithms=[algorithm])
    assert decoded.header == {"alg": algorithm, "typ": "JWT", "kid": "k"}
    assert len(decoded.claims.pop("jti")) == 36
    assert decoded.claims == {
        "iss": "the node",
        "sub": "the node",
        "aud": "the provider",
        "env": "test",
        "iat": _START_S,
        "exp": _START_S + 300,
        "nbf": _START_S - 60,
    }


def test_an_assertion_file_goes_before_a_key_and_is_read_each_time(
    provider: Provider, tmp_path: Path
) -> None:
    file = tmp_path / "assertion"
    options = by_assertion(provider, tmp_path, "RS256")
    options["sasl.oauthbearer.assertion.file"] = str(file)
    token = node_token(options)
    for number in (1, 2):
        file.write_text(f"a.b.{number}\n")
        got(token, number * 590_000)
        provider.now_s = after(number * 590)
    assert [fields["client_assertion"] for _, fields in provider.requests] == ["a.b.1", "a.b.2"]


def test_an_assertion_is_exchanged_for_a_token_where_kafkas_class_for_that_is_named(
    provider: Provider, tmp_path: Path
) -> None:
    options = by_assertion(provider, tmp_path, "RS256")
    options["sasl.oauthbearer.jwt.retriever.class"] = f"{OAUTH}.JwtBearerJwtRetriever"
    got(node_token(options), 0)
    [(_, fields)] = provider.requests
    assert fields.pop("assertion").count(".") == 2
    assert fields == {"grant_type": "urn:ietf:params:oauth:grant-type:jwt-bearer"}


def test_the_token_may_be_in_a_file(provider: Provider, tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_text(provider.token() + "\n")
    options = by_secret(provider, sasl_oauthbearer_token_endpoint_url=file.as_uri())
    assert got(node_token(options), 0) == [provider.token()]


def test_a_token_is_used_until_it_is_due_and_then_replaced(provider: Provider) -> None:
    options = by_secret(provider, sasl_login_refresh_buffer_seconds="30")
    token = node_token(options)
    # Due between 80 and 85 % of 600 s.
    first, same = got(token, 0, 479_000)
    provider.now_s = after(511)
    [second] = got(token, 511_000)
    assert first == same != second
    assert len(provider.requests) == 2


@pytest.mark.parametrize(
    ("lifetime_s", "expected_s"), [(1000, 800), (10_000, 8000), (1000.5, 800.4), (300, 240)]
)
def test_a_token_is_due_after_a_share_of_its_lifetime(lifetime_s: float, expected_s: float) -> None:
    times = RefreshTimes(0.8, 0.0, 60, 100)
    token = AccessToken("", _START_MS, _START_MS + int(lifetime_s * 1000))
    due_s = (times.due_ms(token, _START_MS) - _START_MS) / 1000
    assert due_s == pytest.approx(min(expected_s, lifetime_s - 100))


def test_the_limits_give_way_for_a_token_that_lives_too_shortly() -> None:
    token = AccessToken("", _START_MS, _START_MS + 100_000)
    assert RefreshTimes(0.8, 0.0, 60, 300).due_ms(token, _START_MS) == _START_MS + 80_000
    late = AccessToken("", _START_MS, _START_MS + 400_000)
    assert RefreshTimes(0.1, 0.0, 60, 300).due_ms(late, _START_MS) == _START_MS + 60_000


def test_a_failing_provider_is_asked_again_and_the_last_token_used_while_it_is_valid(
    provider: Provider, caplog: pytest.LogCaptureFixture
) -> None:
    token = node_token(by_secret(provider))
    [first] = got(token, 0)
    provider.status = 503
    assert got(token, 550_000, 550_050) == [first, first]
    assert len(provider.requests) == 2
    assert "No new access token from http://" in caplog.text
    assert "has the status 503" in caplog.text
    with pytest.raises(AuthenticationFailed, match="has the status 503"):
        got(token, 600_000)
    provider.status, provider.now_s = 200, after(601)
    [second] = got(token, 601_000)
    assert second != first


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"body": b"<html>"}, "not JSON"),
        ({"body": b"[" * 100_000}, "not JSON"),
        ({"body": b"[]"}, "no access_token"),
        ({"body": b'{"access_token": 7}'}, "no access_token"),
        ({"body": b'{"access_token": "a.b"}'}, "no JSON Web Token"),
        ({"body": b'{"access_token": "a.b\\u0001auth=Bearer x.c"}'}, "no JSON Web Token"),
        ({"body": b" " * (2 << 20)}, "larger than 1048576 bytes"),
        ({"claims": {"exp": None}}, "no exp claim"),
        ({"claims": {"exp": "soon"}}, "no valid exp claim"),
        ({"claims": {"exp": _START_S - 1}}, "has expired"),
        ({"claims": {"sub": None}}, "no valid sub claim"),
        ({"status": 401, "body": SECRET.encode()}, "the status 401"),
        ({"status": 302, "location": "http://127.0.0.1:1/"}, "the status 302"),
    ],
)
def test_responses_without_a_usable_token_are_failures_that_reveal_nothing(
    provider: Provider, changes: dict[str, Any], reason: str, caplog: pytest.LogCaptureFixture
) -> None:
    changes = dict(changes)
    claims = changes.pop("claims", None)
    if claims is not None:
        changes["body"] = json.dumps({"access_token": provider.token(**claims)}).encode()
    for name, value in changes.items():
        setattr(provider, name, value)
    with pytest.raises(AuthenticationFailed, match=reason) as failure:
        got(node_token(by_secret(provider)), 0)
    assert SECRET not in f"{failure.value}{caplog.text}"
    assert len(provider.requests) == 1


def test_a_provider_that_is_not_reached_or_does_not_answer_is_given_up(
    provider: Provider, monkeypatch: pytest.MonkeyPatch
) -> None:
    closed = by_secret(provider, sasl_oauthbearer_token_endpoint_url="http://127.0.0.1:1/")
    with pytest.raises(AuthenticationFailed, match="refused"):
        got(node_token(closed), 0)
    answered = threading.Event()
    monkeypatch.setattr(Handler, "do_POST", lambda handler: answered.wait(30) and None)
    silent = by_secret(
        provider, sasl_login_connect_timeout_ms="300", sasl_login_read_timeout_ms="100"
    )
    try:
        with pytest.raises(AuthenticationFailed, match=r"timed out|TimeoutError"):
            got(node_token(silent), 0)
    finally:
        answered.set()


def test_logins_at_the_same_time_share_one_request(provider: Provider) -> None:
    token = node_token(by_secret(provider))

    async def several() -> set[str]:
        return set(await asyncio.gather(*(token.get(_START_MS) for _ in range(20))))

    assert len(asyncio.run(several())) == len(provider.requests) == 1


@pytest.mark.parametrize(
    ("changes", "option"),
    [
        ({"token.endpoint.url": ""}, "token.endpoint.url"),
        ({"token.endpoint.url": "ftp://x/token"}, "token.endpoint.url"),
        ({"token.endpoint.url": "https:///token"}, "token.endpoint.url"),
        ({"client.credentials.client.id": " "}, "client.credentials.client.id"),
        ({"client.credentials.client.secret": ""}, "client.credentials.client.secret"),
        ({"jwt.retriever.class": "com.example.Own"}, "jwt.retriever.class"),
        ({"jwt.retriever.class": f"{OAUTH}.JwtBearerJwtRetriever"}, "assertion.file"),
        ({"jwt.retriever.class": f"{OAUTH}.FileJwtRetriever"}, "token.endpoint.url"),
        ({"assertion.claim.iss": "me"}, "assertion.private.key.file"),
    ],
)
def test_options_that_are_missing_are_refused_at_the_start(
    provider: Provider, changes: dict[str, str], option: str
) -> None:
    changed = {f"sasl.oauthbearer.{name}": value for name, value in changes.items()}
    with pytest.raises(ConfigError) as refusal:
        node_token({**by_secret(provider), **changed})
    assert refusal.value.name == f"sasl.oauthbearer.{option}"
    assert SECRET not in str(refusal.value)


@pytest.mark.parametrize("broken", ["absent", "garbage", "passphrase", "kind", "template"])
def test_an_assertion_that_cannot_be_signed_is_a_failure_without_the_key(
    provider: Provider, tmp_path: Path, broken: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    options = by_assertion(provider, tmp_path, "RS256")
    match broken:
        case "absent":
            (tmp_path / "key.pem").unlink()
        case "garbage":
            (tmp_path / "key.pem").write_text(SECRET)
        case "passphrase":
            options["sasl.oauthbearer.assertion.private.key.passphrase"] = f"{SECRET}-wrong"
        case "kind":
            options["sasl.oauthbearer.assertion.algorithm"] = "ES256"
        case _:
            (tmp_path / "template.json").write_text(f'["{SECRET}"]')
    with pytest.raises(AuthenticationFailed) as failure:
        got(node_token(options), 0)
    assert SECRET not in f"{failure.value}{caplog.text}"
    assert not provider.requests
