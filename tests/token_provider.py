"""A token endpoint of an identity provider, and the options with which nodes use it."""

from __future__ import annotations

import json
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs

from joserfc import jwt
from joserfc.jwk import ECKey, RSAKey

from tests.planted_secrets import planted

OAUTH = "org.apache.kafka.common.security.oauthbearer"
SECRET = planted("client")
PASSPHRASE = planted("passphrase")
PROVIDER = RSAKey.generate_key(2048, {"kid": "provider"})


class Provider(ThreadingHTTPServer):
    """A token endpoint that issues tokens of ten minutes, and notes what it was sent."""

    daemon_threads = True

    def __init__(self, now_s: Callable[[], float]) -> None:
        """`now_s` returns the time, in s, at which tokens are issued.

        It must be the time of the nodes that check the tokens: a test's own time where the test
        gives it to the node, `time.time` where a server reads the clock.
        """
        super().__init__(("127.0.0.1", 0), Handler)
        self.now_s = now_s
        self.requests: list[tuple[dict[str, str], dict[str, str]]] = []
        self.status = 200
        self.body: bytes | None = None
        self.location = ""
        self.claims: dict[str, Any] = {}
        """Further claims of the tokens."""

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}/token?tenant=one"

    def token(self, **changed: Any) -> str:
        now_s = int(self.now_s())
        claims = {"sub": "node", "iat": now_s, "exp": now_s + 600}
        claims |= self.claims | changed
        claims = {name: value for name, value in claims.items() if value is not None}
        return jwt.encode({"alg": "RS256", "kid": "provider"}, claims, PROVIDER)


class Handler(BaseHTTPRequestHandler):
    server: Provider

    def do_POST(self) -> None:
        provider = self.server
        body = self.rfile.read(int(self.headers["Content-Length"])).decode()
        fields = {name: value for name, [value] in parse_qs(body).items()}
        provider.requests.append(({"path": self.path, **self.headers}, fields))
        answer = provider.body
        if answer is None:
            answer = json.dumps({"access_token": provider.token(), "expires_in": 600}).encode()
        self.send_response(provider.status)
        if provider.location:
            self.send_header("Location", provider.location)
        self.end_headers()
        self.wfile.write(answer)

    def log_message(self, format: str, *args: Any) -> None:
        """Log nothing."""


def by_secret(provider: Provider, **more: str) -> dict[str, str]:
    """Options with which a node gets tokens for its id and secret."""
    return {
        "sasl.login.callback.handler.class": f"{OAUTH}.OAuthBearerLoginCallbackHandler",
        "sasl.oauthbearer.token.endpoint.url": provider.url,
        "sasl.oauthbearer.client.credentials.client.id": "the node",
        "sasl.oauthbearer.client.credentials.client.secret": SECRET,
        **{name.replace("_", "."): value for name, value in more.items()},
    }


def by_assertion(provider: Provider, tmp_path: Path, algorithm: str) -> dict[str, str]:
    """Options with which a node signs assertions in place of a secret, by an encrypted key."""
    key = {"RS256": RSAKey.generate_key(2048), "ES256": ECKey.generate_key("P-256")}[algorithm]
    (tmp_path / "key.pem").write_bytes(key.as_pem(private=True, password=PASSPHRASE))
    (tmp_path / "public.pem").write_bytes(key.as_pem(private=False))
    (tmp_path / "template.json").write_text('{"header": {"kid": "k"}, "payload": {"env": "test"}}')
    options = by_secret(provider)
    del options["sasl.oauthbearer.client.credentials.client.secret"]
    return options | {
        "sasl.oauthbearer.assertion.algorithm": algorithm,
        "sasl.oauthbearer.assertion.claim.iss": "the node",
        "sasl.oauthbearer.assertion.claim.sub": "the node",
        "sasl.oauthbearer.assertion.claim.aud": "the provider",
        "sasl.oauthbearer.assertion.claim.jti.include": "true",
        "sasl.oauthbearer.assertion.private.key.file": str(tmp_path / "key.pem"),
        "sasl.oauthbearer.assertion.private.key.passphrase": PASSPHRASE,
        "sasl.oauthbearer.assertion.template.file": str(tmp_path / "template.json"),
    }
