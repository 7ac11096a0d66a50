"""Clients that violate the protocol before and after authentication, on each kind of listener.

WIREKAFKA_FRAMES and WIREKAFKA_STALLED set how many there are in a longer run: 250000 and 2000.
"""

from __future__ import annotations

import hashlib
import os
import random
import resource
import socket
import ssl
import statistics
import struct
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass
from itertools import islice

import psutil
import pytest

from tests.certificates import Authority, client_context
from tests.fuzz.frames import is_unfinished, malformed_frames, odd_frames
from tests.planted_secrets import planted
from tests.ports import free_ports
from tests.raw_client import RawClient, frame
from tests.sasl_client import SaslClient, ScramClient, plain
from tests.server.serving import Serving
from wirekafka.protocol.alter_user_scram_credentials import AlterUserScramCredentialsRequest
from wirekafka.protocol.metadata import MetadataRequest
from wirekafka.protocol.sasl_authenticate import SaslAuthenticateRequest
from wirekafka.protocol.sasl_handshake import SaslHandshakeRequest

_FRAMES = int(os.environ.get("WIREKAFKA_FRAMES", "4000"))
_STALLED = int(os.environ.get("WIREKAFKA_STALLED", "60"))
_ATTACKERS = 4
_PASSWORD = planted("alice")
_MEMORY_BYTES = 64 << 20
_REQUESTS = 100
_SLOWEST_S = 0.25
"""Above this the hostile clients have delayed an honest client's median request."""
_HOST = "127.0.0.1"
_MODULES = "org.apache.kafka.common.security"
_RESET_ON_CLOSE = struct.pack("ii", 1, 0)
_LARGEST_TOKEN_BYTES = 524288
"""Kafka's default of sasl.server.max.receive.size."""
_HANDSHAKE, _API_VERSIONS, _AUTHENTICATE = 17, 18, 36


@dataclass(frozen=True)
class Target:
    """A broker process with one listener of each security protocol."""

    ports: dict[str, int]
    process: psutil.Process
    context: ssl.SSLContext

    def connect(self, listener: str) -> SaslClient:
        """A new connection, after the TLS handshake where there is one."""
        client = SaslClient(self.ports[listener], timeout_s=30)
        # A huge number of connections in TIME_WAIT would use up the ports.
        client.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET_ON_CLOSE)
        if listener in ("SSL", "SASL_SSL"):
            client.socket = self.context.wrap_socket(client.socket, server_hostname=_HOST)
        return client

    def log_in(self, listener: str) -> SaslClient:
        client = self.connect(listener)
        assert client.log_in_plain("alice", _PASSWORD).error_code == 0
        return client

    def memory_bytes(self) -> int:
        size: int = self.process.memory_info().rss
        return size


@pytest.fixture(scope="module")
def target(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Target]:
    directory = tmp_path_factory.mktemp("hostile")
    authority = Authority(directory)
    names = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
    ports = dict(zip(names, free_ports(len(names)), strict=True))
    options = {
        "listeners": ",".join(f"{name}://{_HOST}:{port}" for name, port in ports.items()),
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": authority.issue("CN=broker", _HOST).pem(),
        "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256",
        # The delay has tests of its own; here it would only bound the number of attacks.
        "connection.failed.authentication.delay.ms": "0",
    }
    for name in ("sasl_plaintext", "sasl_ssl"):
        options |= {
            f"listener.name.{name}.plain.sasl.jaas.config": (
                f'{_MODULES}.plain.PlainLoginModule required user_alice="{_PASSWORD}";'
            ),
            f"listener.name.{name}.scram-sha-256.sasl.jaas.config": (
                f"{_MODULES}.scram.ScramLoginModule required;"
            ),
        }
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, max(soft, 2 * _STALLED + 500)), hard))
    properties = directory / "server.properties"
    properties.write_text("".join(f"{name}={value}\n" for name, value in options.items()))
    arguments = ("--config", str(properties))
    with Serving(directory / "data", *arguments, listen="") as serving:
        assert serving.ready, serving.stop()
        made = Target(ports, psutil.Process(serving.process.pid), client_context(authority))
        _create_carol(made)
        yield made
        serving.stop()
        assert "Traceback" not in serving.errors


def _create_carol(target: Target) -> None:
    salt = b"0123456789abcdef"
    request = AlterUserScramCredentialsRequest(
        deletions=[],
        upsertions=[
            AlterUserScramCredentialsRequest.ScramCredentialUpsertion(
                name="carol",
                mechanism=1,
                iterations=4096,
                salt=salt,
                salted_password=hashlib.pbkdf2_hmac("sha256", b"carol-secret", salt, 4096),
            )
        ],
    )
    with target.connect("PLAINTEXT") as client:
        assert client.call(request, 0).results[0].error_code == 0


class Honest:
    """Well-behaved clients, one on every listener."""

    def __init__(self, target: Target):
        self._target = target
        self._clients = [
            target.connect("PLAINTEXT"),
            target.connect("SSL"),
            target.log_in("SASL_PLAINTEXT"),
            target.log_in("SASL_SSL"),
        ]
        self._ask()
        self._before_bytes = target.memory_bytes()

    def assert_unharmed(self, attack: str) -> None:
        """These and new clients are served in time, and the broker's memory has not grown."""
        self._ask()
        grown_bytes = self._target.memory_bytes() - self._before_bytes
        print(f"{attack}: {grown_bytes / (1 << 20):.1f} MiB more")
        assert grown_bytes < _MEMORY_BYTES
        for listener in ("SASL_PLAINTEXT", "SASL_SSL"):
            with self._target.log_in(listener) as newcomer:
                assert newcomer.call(MetadataRequest(topics=[]), 9).brokers

    def close(self) -> None:
        for client in self._clients:
            client.socket.close()

    def _ask(self) -> None:
        spent = []
        for _ in range(_REQUESTS):
            for client in self._clients:
                start = time.perf_counter()
                assert client.call(MetadataRequest(topics=[]), 9).brokers
                spent.append(time.perf_counter() - start)
        assert statistics.median(spent) < _SLOWEST_S


@pytest.fixture
def honest(target: Target) -> Iterator[Honest]:
    clients = Honest(target)
    yield clients
    clients.close()


# Malformed frames.

STAGES: dict[str, tuple[str, bool, float]] = {
    # The listener, whether the attacker logs in first, and this stage's share of the frames.
    "PLAINTEXT": ("PLAINTEXT", False, 0.35),
    "SASL_PLAINTEXT before the login": ("SASL_PLAINTEXT", False, 0.45),
    "SASL_PLAINTEXT after the login": ("SASL_PLAINTEXT", True, 0.1),
    "SSL": ("SSL", False, 0.05),
    "SASL_SSL before the login": ("SASL_SSL", False, 0.05),
}


def test_the_stages_send_all_frames() -> None:
    assert sum(share for _, _, share in STAGES.values()) == pytest.approx(1)


@pytest.mark.timeout(1800)
@pytest.mark.parametrize("stage", STAGES)
def test_malformed_frames_are_refused_at_every_stage(
    target: Target, honest: Honest, stage: str
) -> None:
    listener, logs_in, share = STAGES[stage]
    connect = target.log_in if logs_in else target.connect
    count = round(_FRAMES * share / _ATTACKERS)
    with ThreadPoolExecutor(_ATTACKERS) as attackers:
        attacks = [
            attackers.submit(_attack, lambda: connect(listener), seed, count)
            for seed in range(_ATTACKERS)
        ]
        for attack in attacks:
            attack.result()
    honest.assert_unharmed(f"{count * _ATTACKERS} malformed frames, {stage}")


def _attack(connect: Callable[[], RawClient], seed: int, count: int) -> None:
    for data in islice(malformed_frames(seed), count):
        with connect() as client:
            try:
                client.socket.sendall(data)
                if not is_unfinished(data):
                    answer = client.socket.recv(100)
                    assert answer == b"", f"{data.hex()} was answered {answer.hex()}"
            except (ConnectionResetError, BrokenPipeError, ssl.SSLEOFError):
                pass  # The broker closed the connection before it read everything.


def test_only_login_requests_get_a_response_before_the_login(
    target: Target, honest: Honest
) -> None:
    """Well-formed requests of every other API close the connection without a response."""
    for data in islice(odd_frames(5), min(_FRAMES, 20_000) // 4):
        (key,) = struct.unpack_from(">h", data, 4)
        if key in (_HANDSHAKE, _API_VERSIONS):
            continue
        with target.connect("SASL_PLAINTEXT") as client:
            client.socket.sendall(data)
            assert client.is_closed(), key
    honest.assert_unharmed("requests before the login")


# SASL messages in the wrong order, of the wrong size, or with the wrong contents.


def _metadata_is_refused(client: SaslClient) -> bool:
    """Whether the client is refused Metadata, so that it learns nothing about the cluster."""
    try:
        client.call(MetadataRequest(topics=None), 9)
    except (RawClient.Closed, BrokenPipeError, ConnectionResetError, ssl.SSLError):
        return True
    return False


def _token_first(client: SaslClient) -> None:
    client.send(SaslAuthenticateRequest(auth_bytes=plain("alice", _PASSWORD)), 2)
    assert client.is_closed()


def _two_handshakes(client: SaslClient) -> None:
    client.handshake("PLAIN")
    assert client.handshake("PLAIN").error_code == 34
    assert client.is_closed()


def _final_message_first(client: SaslClient) -> None:
    client.handshake("SCRAM-SHA-256")
    assert client.authenticate(b"c=biws,r=x,p=" + b"A" * 43 + b"=").error_code == 58


def _first_message_twice(client: SaslClient) -> None:
    scram = ScramClient("carol", "carol-secret")
    client.handshake("SCRAM-SHA-256")
    assert client.authenticate(scram.first()).error_code == 0
    assert client.authenticate(scram.first()).error_code == 58


def _another_nonce(client: SaslClient) -> None:
    scram = ScramClient("carol", "carol-secret")
    scram.final_nonce = scram.nonce + "another"
    assert client.log_in_scram("SCRAM-SHA-256", scram).error_code == 58


def _no_nonce(client: SaslClient) -> None:
    scram = ScramClient("carol", "carol-secret")
    scram.nonce = ""
    assert client.log_in_scram("SCRAM-SHA-256", scram).error_code == 58


def _another_channel_binding(client: SaslClient) -> None:
    scram = ScramClient("carol", "carol-secret")
    scram.binding = b"y,,"
    assert client.log_in_scram("SCRAM-SHA-256", scram).error_code == 58


def _another_mechanism_s_token(client: SaslClient) -> None:
    client.handshake("SCRAM-SHA-256")
    assert client.authenticate(plain("alice", _PASSWORD)).error_code == 58


def _an_oversized_token(client: SaslClient) -> None:
    client.handshake("PLAIN")
    client.socket.sendall(struct.pack(">i", _LARGEST_TOKEN_BYTES + 1) + bytes(100))
    assert client.is_closed()


def _an_oversized_bare_token(client: SaslClient) -> None:
    client.handshake("PLAIN", 0)
    client.socket.sendall(struct.pack(">i", _LARGEST_TOKEN_BYTES + 1) + bytes(100))
    assert client.is_closed()


def _a_bare_token_of_negative_size(client: SaslClient) -> None:
    client.handshake("PLAIN", 0)
    client.socket.sendall(struct.pack(">i", -5))
    assert client.is_closed()


def _noise(client: SaslClient) -> None:
    client.handshake("PLAIN")
    assert client.authenticate(random.Random(1).randbytes(2000)).error_code == 58


def _an_unknown_mechanism(client: SaslClient) -> None:
    assert client.handshake("plain").error_code == 33


def _pipelined_behind_a_wrong_password(client: SaslClient) -> None:
    """A request that is sent along with the login is not served when the login fails."""
    handshake = frame(SaslHandshakeRequest(mechanism="PLAIN"), 1, 1)
    token = frame(SaslAuthenticateRequest(auth_bytes=plain("alice", "wrong")), 2, 2)
    wanted = frame(MetadataRequest(topics=None), 9, 3)
    sent = b"".join(struct.pack(">i", len(each)) + each for each in (handshake, token, wanted))
    client.socket.sendall(sent)
    client.receive(SaslHandshakeRequest, 1, 1)
    assert client.receive(SaslAuthenticateRequest, 2, 2).error_code == 58
    assert client.is_closed()


MISUSES = (
    _token_first,
    _two_handshakes,
    _final_message_first,
    _first_message_twice,
    _another_nonce,
    _no_nonce,
    _another_channel_binding,
    _another_mechanism_s_token,
    _an_oversized_token,
    _an_oversized_bare_token,
    _a_bare_token_of_negative_size,
    _noise,
    _an_unknown_mechanism,
    _pipelined_behind_a_wrong_password,
)


@pytest.mark.parametrize("listener", ["SASL_PLAINTEXT", "SASL_SSL"])
@pytest.mark.parametrize("misuse", MISUSES, ids=lambda each: each.__name__.strip("_"))
def test_a_malformed_login_exchange_does_not_authenticate(
    target: Target, listener: str, misuse: Callable[[SaslClient], None]
) -> None:
    for _ in range(max(1, _FRAMES // 25_000)):
        with target.connect(listener) as client:
            misuse(client)
            assert _metadata_is_refused(client)


def test_a_replayed_login_does_not_authenticate(target: Target) -> None:
    """The recorded messages of a good SCRAM login are of no use on another connection."""
    scram = ScramClient("carol", "carol-secret")
    with target.connect("SASL_PLAINTEXT") as victim:
        victim.handshake("SCRAM-SHA-256")
        first = scram.first()
        final = scram.final(bytes(victim.authenticate(first).auth_bytes))
        assert victim.authenticate(final).error_code == 0
        assert not _metadata_is_refused(victim)
    with target.connect("SASL_PLAINTEXT") as thief:
        thief.handshake("SCRAM-SHA-256")
        assert thief.authenticate(first).error_code == 0
        assert thief.authenticate(final).error_code == 58
        assert _metadata_is_refused(thief)


# Connections that stall.


def _silent(client: SaslClient) -> None:
    pass


def _part_of_a_frame(client: SaslClient) -> None:
    client.socket.sendall(struct.pack(">i", _LARGEST_TOKEN_BYTES) + b"\0\x11")


def _after_the_handshake(client: SaslClient) -> None:
    assert client.handshake("SCRAM-SHA-256").error_code == 0


def _within_scram(client: SaslClient) -> None:
    assert client.handshake("SCRAM-SHA-256").error_code == 0
    assert client.authenticate(ScramClient("carol", "").first()).error_code == 0


def _after_the_login(client: SaslClient) -> None:
    assert client.log_in_plain("alice", _PASSWORD).error_code == 0


STALLS = (_silent, _part_of_a_frame, _after_the_handshake, _within_scram, _after_the_login)


@pytest.mark.parametrize("listener", ["SASL_PLAINTEXT", "SASL_SSL"])
@pytest.mark.parametrize("stall", STALLS, ids=lambda each: each.__name__.strip("_"))
def test_stalled_logins_cost_little_and_delay_no_other_client(
    target: Target, honest: Honest, listener: str, stall: Callable[[SaslClient], None]
) -> None:
    with ExitStack() as open_until_the_end:
        for _ in range(_STALLED):
            stall(open_until_the_end.enter_context(target.connect(listener)))
        name = stall.__name__.strip("_").replace("_", " ")
        honest.assert_unharmed(f"{_STALLED} stalled on {listener}, {name}")
