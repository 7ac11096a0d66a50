"""SaslHandshake: what is asked before and after a login, and in which order."""

from __future__ import annotations

import struct
from collections.abc import Callable

from wirekafka.codec.message import Request
from wirekafka.conformance.case import Book, ConformanceLevel, Need
from wirekafka.conformance.cases.security.logins import (
    PLAIN,
    RAW,
    ask_versions,
    connect,
    look_whether_open,
    own_login,
    plain,
    send_token,
    shake,
)
from wirekafka.conformance.cases.security.users import SHA_256, SHA_512
from wirekafka.conformance.stage import Stage
from wirekafka.protocol.create_topics import CreateTopicsRequest
from wirekafka.protocol.describe_acls import DescribeAclsRequest
from wirekafka.protocol.fetch import FetchRequest
from wirekafka.protocol.find_coordinator import FindCoordinatorRequest
from wirekafka.protocol.list_groups import ListGroupsRequest
from wirekafka.protocol.metadata import MetadataRequest
from wirekafka.protocol.produce import ProduceRequest
from wirekafka.protocol.sasl_authenticate import SaslAuthenticateRequest
from wirekafka.protocol.sasl_handshake import SaslHandshakeRequest

BOOK = Book(SaslHandshakeRequest, "security", ConformanceLevel.SECURITY, "KIP-43")
_LOGIN = frozenset({Need.LOGIN})
_PLAIN = frozenset({Need.PLAIN})
_MECHANISMS = {
    "an unknown mechanism": "NONE",
    "a mechanism in small letters": "plain",
    "a mechanism with a blank": " PLAIN",
    "no mechanism": "",
    "a mechanism that nobody has enabled": "EXTERNAL",
}
_REQUESTS: dict[str, tuple[Request, int]] = {
    "Metadata": (MetadataRequest(topics=[]), 9),
    "Produce": (ProduceRequest(acks=1, timeout_ms=1000, topic_data=[]), 9),
    "Fetch": (FetchRequest(replica_id=-1, max_wait_ms=0, min_bytes=0, topics=[]), 12),
    "FindCoordinator": (FindCoordinatorRequest(key="g", key_type=0), 2),
    "FindCoordinator for several": (FindCoordinatorRequest(coordinator_keys=["g", "h"]), 4),
    "ListGroups": (ListGroupsRequest(), 2),
    "CreateTopics": (CreateTopicsRequest(topics=[], timeout_ms=1000), 5),
    "DescribeAcls": (
        DescribeAclsRequest(resource_type_filter=1, operation=1, permission_type=1),
        2,
    ),
}
_UNKNOWN_API = struct.pack(">ihhih", 10, 999, 0, 1, -1)
_UNKNOWN_VERSION = struct.pack(">ihhihh5s", 17, 17, 2, 1, -1, 5, b"PLAIN")
_VERSIONS_99 = struct.pack(">ihhihb", 11, 18, 99, 7, -1, 0)
_FRAMES = {
    "an unknown API": _UNKNOWN_API,
    "a handshake of an unknown version": _UNKNOWN_VERSION,
    "a frame of two bytes": b"\0\0\0\2ab",
    "an empty frame": bytes(4),
    "a frame that is too large": struct.pack(">i", (1 << 19) + 1),
    "a negative size": struct.pack(">i", -1),
    "bytes of another protocol": b"GET / HTTP/1.1\r\nHost: kafka\r\n\r\n",
}


for _what, _mechanism in _MECHANISMS.items():

    @BOOK.play(_what, needs=_LOGIN)
    def _ask(stage: Stage, mechanism: str = _mechanism) -> None:
        """The answer lists the mechanisms, and the connection ends."""
        connect(stage)
        shake(stage, mechanism, None)
        look_whether_open(stage)


for _each, _needs in ((PLAIN, Need.PLAIN), (SHA_256, Need.SCRAM), (SHA_512, Need.SCRAM)):

    @BOOK.play(f"for {_each}", needs={_needs})
    def _ask_for(stage: Stage, mechanism: str = _each) -> None:
        """The answer lists the mechanism."""
        connect(stage)
        answer = shake(stage, mechanism, None)
        stage.note("is listed", mechanism in answer.mechanisms)


for _what, (_request, _version) in _REQUESTS.items():

    @BOOK.play(f"{_what} before a login", versions="1", needs=_LOGIN)
    def _first(stage: Stage, request: Request = _request, version: int = _version) -> None:
        """Without a handshake, nothing but ApiVersions is answered."""
        connect(stage)
        stage.ask(request, version, by=RAW)

    @BOOK.play(f"{_what} between handshake and login", needs=_PLAIN)
    def _between(stage: Stage, request: Request = _request, version: int = _version) -> None:
        """After a handshake, nothing but a token is answered."""
        connect(stage)
        shake(stage, PLAIN, None)
        stage.ask(request, version, by=RAW)


for _what, _frame in _FRAMES.items():

    @BOOK.play(f"{_what} before a login", versions="1", needs=_LOGIN)
    def _frame_first(stage: Stage, frame: bytes = _frame) -> None:
        """The connection ends."""
        connect(stage)
        stage.exchange(frame, by=RAW, logs_in=False)

    @BOOK.play(f"{_what} after a handshake", needs=_PLAIN)
    def _frame_between(stage: Stage, frame: bytes = _frame) -> None:
        """The connection ends."""
        connect(stage)
        shake(stage, PLAIN, None)
        stage.exchange(frame, by=RAW, logs_in=False)


def _login(stage: Stage) -> None:
    send_token(stage, plain(*own_login(stage)))


def _shake_for_nothing(stage: Stage) -> None:
    shake(stage, "NONE")


def _shake_for_scram(stage: Stage) -> None:
    shake(stage, SHA_256)


def _old_versions(stage: Stage) -> None:
    ask_versions(stage, 0)


def _misnamed(stage: Stage) -> None:
    ask_versions(stage, client_software_name="-")


def _future_versions(stage: Stage) -> None:
    stage.exchange(_VERSIONS_99, by=RAW, logs_in=False)


Steps = tuple[Callable[[Stage], object], ...]

_ORDERS: dict[str, Steps] = {
    "versions, handshake, login": (ask_versions, shake, _login),
    "versions twice": (ask_versions, ask_versions),
    "versions after the handshake": (shake, ask_versions, _login),
    "versions before and after the handshake": (ask_versions, shake, ask_versions, _login),
    "old versions of ApiVersions": (_old_versions, shake, _login),
    "versions after the login": (shake, _login, ask_versions),
    "two handshakes": (shake, shake, _login),
    "two handshakes for two mechanisms": (_shake_for_scram, shake, _login),
    "a handshake after the login": (shake, _login, shake),
    "a second login": (shake, _login, shake, _login),
    "an unknown mechanism, then a known one": (_shake_for_nothing, shake, _login),
    "a misnamed client, then another": (_misnamed, ask_versions, shake, _login),
    "versions of a future release": (_future_versions, _old_versions, shake, _login),
    "versions of a future release after the handshake": (shake, _future_versions),
}

for _what, _order in _ORDERS.items():

    @BOOK.play(_what, versions="1", source="KIP-152", needs=_PLAIN)
    def _in_order(stage: Stage, order: Steps = _order) -> None:
        """Requests of a login in some order, and whether the connection serves afterwards."""
        connect(stage)
        for step in order:
            step(stage)
        look_whether_open(stage)


@BOOK.play("on a listener without logins", needs={Need.NO_LOGIN}, source="KIP-43")
def _without(stage: Stage) -> None:
    """A listener without SASL refuses handshakes, and goes on serving."""
    shake(stage, PLAIN, None, by="plain")
    shake(stage, "NONE", None, by="plain")
    look_whether_open(stage, "plain")


@BOOK.play("a token on a listener without logins", versions="1", needs={Need.NO_LOGIN})
def _token_without(stage: Stage) -> None:
    """A listener without SASL refuses tokens, and goes on serving."""
    for version in (0, 1, 2):
        stage.ask(SaslAuthenticateRequest(auth_bytes=b"x"), version, by="plain")
    look_whether_open(stage, "plain")
