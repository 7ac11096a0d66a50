"""Requests for a node's own access tokens to an identity provider (KIP-768, 1139, 1258)."""

from __future__ import annotations

import base64
import json
import random
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple
from urllib.parse import quote_plus, urlencode, urlsplit

from wirekafka.config.broker_config import BrokerConfig
from wirekafka.config.option import ConfigError
from wirekafka.config.reference import revealed
from wirekafka.security.jaas import LoginModule
from wirekafka.security.sasl.claims import decoded_part, time_claim_ms
from wirekafka.security.sasl.client_assertion import AssertionFile, SignedAssertion
from wirekafka.security.sasl.oauthbearer import TokenRefused

_OAUTH = "org.apache.kafka.common.security.oauthbearer."
_DEFAULT, _FILE, _CREDENTIALS, _BEARER = (
    f"{_OAUTH}{name}JwtRetriever" for name in ("Default", "File", "ClientCredentials", "JwtBearer")
)
_ASSERTION_TYPE = "urn:ietf:params:oauth:client-assertion-type:jwt-bearer"
_BEARER_GRANT = "urn:ietf:params:oauth:grant-type:jwt-bearer"
_TOKEN = re.compile(r"[-_~+/.a-zA-Z0-9]+=*")
_SCHEMES = {_FILE: ("file",), _DEFAULT: ("file", "https", "http")}
_URL = "sasl.oauthbearer.token.endpoint.url"

Assertion = AssertionFile | SignedAssertion


class TokenRequest(NamedTuple):
    """The headers and the body of a request for a token; both may have secrets."""

    headers: Mapping[str, str]
    body: bytes


@dataclass(frozen=True, slots=True)
class AccessToken:
    """A token of a provider, and the period of its validity, in ms."""

    text: str = field(repr=False)
    issued_ms: int
    expires_ms: int


@dataclass(frozen=True, slots=True)
class RefreshTimes:
    """When a token is replaced before it expires (`sasl.login.refresh.*`)."""

    window_factor: float
    window_jitter: float
    least_period_s: int
    buffer_s: int

    def due_ms(self, token: AccessToken, now_ms: int) -> float:
        """The time from which on a new token is requested, chosen at random as Kafka does."""
        begin_ms = min(token.issued_ms, now_ms)
        lifetime_ms = token.expires_ms - begin_ms
        share = self.window_factor + self.window_jitter * random.random()  # noqa: S311
        due_ms = begin_ms + lifetime_ms * share
        earliest_ms = begin_ms + self.least_period_s * 1000
        latest_ms = token.expires_ms - self.buffer_s * 1000
        if earliest_ms > latest_ms:
            return due_ms  # A token that lives too shortly for these limits.
        return min(max(due_ms, earliest_ms), latest_ms)


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenEndpoint:
    """A provider's URL, or a file that has the token, and the node's credentials there."""

    url: str
    client_id: str | None
    secret: str | None = field(repr=False)
    assertion: Assertion | None
    scope: str | None
    is_bearer_grant: bool = False
    """Whether the assertion is exchanged for a token, rather than proves who the client is."""
    subject_claim: str = "sub"

    @classmethod
    def of(cls, config: BrokerConfig, module: LoginModule) -> TokenEndpoint:
        """Read the options of a listener's mechanism; its login module may have the credentials.

        Raises ConfigError.
        """
        endpoint = cls(
            url=_url(config),
            client_id=_plain(
                config.sasl_oauthbearer_client_credentials_client_id, module.options.get("clientId")
            ),
            secret=_plain(
                config.sasl_oauthbearer_client_credentials_client_secret,
                module.options.get("clientSecret"),
            ),
            assertion=_assertion(config),
            scope=_plain(config.sasl_oauthbearer_scope, module.options.get("scope")),
            is_bearer_grant=config.sasl_oauthbearer_jwt_retriever_class == _BEARER,
            subject_claim=config.sasl_oauthbearer_sub_claim_name,
        )
        if endpoint.is_file or endpoint.assertion is not None:
            return endpoint
        if endpoint.is_bearer_grant:
            raise _wrong(config, "sasl.oauthbearer.assertion.file", "an assertion must be set")
        for name, value in (("id", endpoint.client_id), ("secret", endpoint.secret)):
            if value is None:
                option = f"sasl.oauthbearer.client.credentials.client.{name}"
                raise _wrong(config, option, "must be set")
        return endpoint

    @property
    def is_file(self) -> bool:
        """Whether the token is in a file, which something else keeps up to date."""
        return urlsplit(self.url).scheme.lower() == "file"

    def form(self, now_ms: int) -> TokenRequest:
        """The request for a new token. Raises OSError, UnusableAssertion."""
        headers = {
            "Accept": "application/json",
            "Cache-Control": "no-cache",
            "Content-Type": "application/x-www-form-urlencoded",
        }
        fields = {"grant_type": _BEARER_GRANT if self.is_bearer_grant else "client_credentials"}
        if self.assertion is None:
            credentials = f"{self.client_id}:{self.secret}"
            headers["Authorization"] = f"Basic {base64.b64encode(credentials.encode()).decode()}"
        elif self.is_bearer_grant:
            fields["assertion"] = self.assertion.make(now_ms)
        else:
            fields["client_assertion_type"] = _ASSERTION_TYPE
            fields["client_assertion"] = self.assertion.make(now_ms)
            if self.client_id:
                fields["client_id"] = self.client_id
        if self.scope:
            fields["scope"] = self.scope
        return TokenRequest(headers, urlencode(fields, quote_via=quote_plus).encode())

    def read_response(self, body: bytes) -> AccessToken:
        """The token in a provider's response. Raises TokenRefused."""
        try:
            found = json.loads(body)
        except (ValueError, RecursionError):
            raise TokenRefused("the response is not JSON") from None
        if isinstance(found, dict):
            for name in ("access_token", "id_token"):
                if isinstance(found.get(name), str) and found[name].strip():
                    return self.read_token(found[name])
        raise TokenRefused("the response has no access_token")

    def read_token(self, text: str) -> AccessToken:
        """The times of a token, whose signature only the other node verifies.

        Raises TokenRefused for a token that no node would accept.
        """
        text = text.strip()
        parts = text.split(".")
        if not _TOKEN.fullmatch(text) or len(parts) != 3:
            raise TokenRefused("the token is no JSON Web Token")
        claims = decoded_part(parts[1])
        subject = claims.get(self.subject_claim)
        if not isinstance(subject, str) or not subject.strip():
            raise TokenRefused(f"the token has no valid {self.subject_claim} claim")
        expires_ms, issued_ms = time_claim_ms(claims, "exp"), time_claim_ms(claims, "iat")
        if expires_ms is None:
            raise TokenRefused("the token has no exp claim")
        # Without an iat claim the lifetime begins when the token is received (`RefreshTimes`).
        return AccessToken(text, expires_ms if issued_ms is None else issued_ms, expires_ms)


def _plain(configured: str | None, of_module: str | None) -> str | None:
    """The option's value, or else the login module's, without blanks around it."""
    return revealed((configured or of_module or "").strip()) or None


def _url(config: BrokerConfig) -> str:
    retriever = config.sasl_oauthbearer_jwt_retriever_class
    if retriever not in (_DEFAULT, _FILE, _CREDENTIALS, _BEARER):
        name = "sasl.oauthbearer.jwt.retriever.class"
        raise _wrong(config, name, "Java classes cannot be loaded", retriever)
    url = config.sasl_oauthbearer_token_endpoint_url
    allowed = _SCHEMES.get(retriever, ("https", "http"))
    parts = urlsplit(url or "")
    scheme = parts.scheme.lower()
    if not url or scheme not in allowed or (scheme != "file" and not parts.hostname):
        raise _wrong(config, _URL, f"must be a URL of {' or '.join(allowed)}", url)
    return url


def _assertion(config: BrokerConfig) -> Assertion | None:
    """The assertion, preferably from a file; None where client id and secret are used."""
    if config.sasl_oauthbearer_assertion_file:
        return AssertionFile(config.sasl_oauthbearer_assertion_file)
    issuer = config.sasl_oauthbearer_assertion_claim_iss
    is_bearer_grant = config.sasl_oauthbearer_jwt_retriever_class == _BEARER
    key_path = config.sasl_oauthbearer_assertion_private_key_file
    if not issuer and not (is_bearer_grant and key_path):
        return None
    if not key_path:
        name = "sasl.oauthbearer.assertion.private.key.file"
        raise _wrong(config, name, "must be set: it signs the assertion")
    claims = {
        "aud": config.sasl_oauthbearer_assertion_claim_aud,
        "iss": issuer,
        "sub": config.sasl_oauthbearer_assertion_claim_sub,
    }
    return SignedAssertion(
        algorithm=config.sasl_oauthbearer_assertion_algorithm.upper(),
        key_path=key_path,
        passphrase=config.sasl_oauthbearer_assertion_private_key_passphrase,
        claims={name: revealed(value) for name, value in claims.items() if value},
        template_path=config.sasl_oauthbearer_assertion_template_file,
        expires_s=config.sasl_oauthbearer_assertion_claim_exp_seconds,
        not_before_s=config.sasl_oauthbearer_assertion_claim_nbf_seconds,
        has_id=config.sasl_oauthbearer_assertion_claim_jti_include,
    )


def _wrong(config: BrokerConfig, name: str, reason: str, value: str | None = None) -> ConfigError:
    return ConfigError(config.sources.configured_name(name), value, reason)
