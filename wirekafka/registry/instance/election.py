"""The election of a registry's leader by Kafka's group protocol, as Confluent's registries do it.

The instances are members of a group of the type `sr`. The group's leader chooses the registry's
leader, which Confluent's protocol calls master: the member that may lead and has the lowest
id.
"""

from __future__ import annotations

import json
import logging
import threading
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from wirekafka.client.classic_membership import ClassicMembership, SessionTimeoutRefused
from wirekafka.client.client import Client, CliError, ConnectionFailure
from wirekafka.config.option import ConfigError
from wirekafka.registry.instance.topic import OpenClient
from wirekafka.registry.names import GROUP

logger = logging.getLogger(__name__)

SESSION_TIMEOUT_MS = 6_000
"""The least that brokers allow by default: writes wait so long for another leader after a kill."""
_LONGER_SESSION_TIMEOUT_MS = 10_000
"""As Confluent's registries have it, for brokers with a higher group.min.session.timeout.ms."""
REBALANCE_TIMEOUT_MS = 15_000
_VERSION = 1
_NO_ERROR, _DUPLICATE_URLS = 0, 1
_POLL_S = 0.2
_PAUSE_S = 1.0


@dataclass(frozen=True, slots=True)
class InstanceIdentity:
    """The URL of an instance, as the other instances reach it."""

    scheme: str
    host: str
    port: int
    may_lead: bool = True

    @property
    def url(self) -> str:
        """Without a slash at the end."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{self.scheme}://{host}:{self.port}"

    def fields(self) -> dict[str, Any]:
        """The JSON that the members of the group exchange."""
        return {
            "version": _VERSION,
            "host": self.host,
            "port": self.port,
            "master_eligibility": self.may_lead,
            "scheme": self.scheme,
        }

    @classmethod
    def of(cls, fields: Mapping[str, Any]) -> InstanceIdentity:
        """Raises ValueError for what is no identity."""
        host, port = fields.get("host"), fields.get("port")
        scheme = fields.get("scheme", "http")
        is_valid = isinstance(host, str) and host and type(port) is int and 0 < port < 1 << 16
        if not is_valid or scheme not in ("http", "https"):
            raise ValueError(f"no address of a registry: {fields}")
        return cls(scheme, str(host), int(port or 0), fields.get("master_eligibility") is not False)


class RegistryProtocol:
    """The protocol of the group's members, named `v0`."""

    protocol_type = "sr"
    name = "v0"

    def __init__(self, own: InstanceIdentity) -> None:
        self._own = own

    def metadata(self) -> bytes:
        """The own identity."""
        return json.dumps(self._own.fields(), separators=(",", ":")).encode()

    def assign(self, members: Mapping[str, bytes]) -> dict[str, bytes]:
        """The same for all: the leader's member id and identity."""
        identities = {}
        for member, metadata in members.items():
            with suppress(ValueError):
                identities[member] = InstanceIdentity.of(json.loads(metadata))
        urls = {identity.url for identity in identities.values()}
        error = _NO_ERROR if len(urls) == len(identities) else _DUPLICATE_URLS
        eligible = [member for member, identity in identities.items() if identity.may_lead]
        chosen = min(eligible) if eligible and not error else None
        assignment = {
            "error": error,
            "master": chosen,
            "master_identity": None if chosen is None else identities[chosen].fields(),
        }
        encoded = json.dumps(assignment, separators=(",", ":")).encode()
        return dict.fromkeys(members, encoded)


@dataclass(frozen=True, slots=True)
class ElectionResult:
    """The result of an election; without an identity, none may lead."""

    identity: InstanceIdentity | None
    is_self: bool = False


class RegistryElection:
    """Keeps an instance in the group, on a thread of its own.

    `elected` is called on the thread after each election, and, while this instance is the elected
    one, again at each sign that it still is.
    """

    def __init__(
        self,
        open_client: OpenClient,
        own: InstanceIdentity,
        elected: Callable[[ElectionResult], None],
        *,
        group: str = GROUP,
        session_timeout_ms: int = SESSION_TIMEOUT_MS,
    ) -> None:
        self._open_client, self._own, self._elected = open_client, own, elected
        self._group, self._session_timeout_ms = group, session_timeout_ms
        self._should_stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="schemas-election", daemon=True)

    def start(self) -> None:
        """Join the group."""
        self._thread.start()

    def stop(self, timeout_s: float = 2.0) -> None:
        """Leave the group, so that another one is elected at once."""
        self._should_stop.set()
        if self._thread.is_alive():
            self._thread.join(timeout_s)

    def _run(self) -> None:
        while not self._should_stop.is_set():
            try:
                with self._open_client() as client:
                    self._take_part(client)
            except SessionTimeoutRefused as refused:
                logger.info("%s is refused: the next one is longer", refused)
                self._session_timeout_ms = max(
                    2 * self._session_timeout_ms, _LONGER_SESSION_TIMEOUT_MS
                )
                continue
            except (CliError, ConfigError, OSError) as error:
                if not self._should_stop.is_set():
                    logger.warning("No election of a leader: %s", error)
            self._should_stop.wait(_PAUSE_S)

    def _take_part(self, client: Client) -> None:
        member = ClassicMembership(
            client,
            self._group,
            RegistryProtocol(self._own),
            session_timeout_ms=self._session_timeout_ms,
            rebalance_timeout_ms=REBALANCE_TIMEOUT_MS,
        )
        try:
            while not self._should_stop.is_set():
                elected = self._result(member.join(), member.member_id)
                self._elected(elected)
                self._hold(client, member, elected)
        finally:
            if member.member_id:
                with suppress(CliError, OSError):
                    member.leave()

    def _hold(self, client: Client, member: ClassicMembership, elected: ElectionResult) -> None:
        """Send heartbeats until there has to be another election."""
        while not self._should_stop.wait(_POLL_S):
            try:
                if member.must_rejoin():
                    return
            except ConnectionFailure as error:
                # The membership outlives the connection, for as long as the session.
                logger.warning("No heartbeat to the group %s: %s", self._group, error)
                client.drop_unusable()
                self._should_stop.wait(member.heartbeat_every_s)
            else:
                if elected.is_self:
                    self._elected(elected)

    def _result(self, assignment: bytes, own_id: str) -> ElectionResult:
        try:
            fields = json.loads(assignment)
            error, member, identity = (
                fields.get(name) for name in ("error", "master", "master_identity")
            )
            if error == _DUPLICATE_URLS:
                logger.error("Two registries have the URL %s: no one leads", self._own.url)
            if error or member is None:
                return ElectionResult(None)
            return ElectionResult(InstanceIdentity.of(identity), is_self=member == own_id)
        except (ValueError, AttributeError, TypeError) as cause:
            logger.warning("The group %s has no usable assignment: %s", self._group, cause)
            return ElectionResult(None)
