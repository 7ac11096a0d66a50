"""The cluster under test: its brokers, what they advertise, and the topics that cases share."""

from __future__ import annotations

import secrets
import threading
import time
from dataclasses import dataclass, field

from wirekafka.client.client import CliError
from wirekafka.codec.message import Request
from wirekafka.config.address import Address
from wirekafka.config.client_config import ClientConfig
from wirekafka.conformance.case import Need
from wirekafka.conformance.wait_limits import WaitLimits
from wirekafka.conformance.wire import Wire, WireExchange
from wirekafka.errors import Error
from wirekafka.protocol.api_versions import ApiVersionsRequest
from wirekafka.protocol.describe_acls import DescribeAclsRequest
from wirekafka.protocol.describe_delegation_token import DescribeDelegationTokenRequest
from wirekafka.protocol.find_coordinator import FindCoordinatorRequest
from wirekafka.protocol.metadata import MetadataRequest
from wirekafka.protocol.push_telemetry import PushTelemetryRequest
from wirekafka.protocol.sasl_handshake import SaslHandshakeRequest
from wirekafka.protocol.share_fetch import ShareFetchRequest

PREFIX = "conformance"
_ANSWER_S = 20.0
_SHARE, _OF_SHARES = 2, 6
"""The type of keys of share groups, and the version of FindCoordinator that has it."""
_SHARE_STATES_S = 10.0
_POLL_S = 0.1
_ANY = 1
"""The type, operation and permission of ACLs in a filter that matches all."""


@dataclass
class ClusterUnderTest:
    """One cluster and one run of cases on it."""

    bootstrap: list[Address]
    config: ClientConfig | None = None
    prefix: str = field(default_factory=lambda: f"{PREFIX}-{secrets.token_hex(3)}")
    """The beginning of every name that the run makes."""
    nodes: dict[int, Address] = field(default_factory=dict)
    cluster_id: str = ""
    home: int = -1
    """The broker that is asked where no other has to be, and that leads the shared topics."""
    versions: dict[int, tuple[int, int]] = field(default_factory=dict)
    """The advertised versions by API key."""
    facts: set[Need] = field(default_factory=set)
    others: list[str] = field(default_factory=list)
    """Topics that were there before."""
    ids: dict[str, bytes] = field(default_factory=dict)
    """The ids of the shared topics."""
    limits: WaitLimits = field(default_factory=WaitLimits)
    making: threading.Lock = field(default_factory=threading.Lock)
    """Held by the case that makes a topic for others to read."""

    def range_of(self, request: type[Request]) -> range:
        """The versions of an API that the brokers advertise and this codec knows."""
        low, high = self.versions.get(request.key, (0, -1))
        first, last = request.versions
        return range(max(low, first), min(high, last) + 1)

    def newest(self, request: type[Request], most: int) -> int | None:
        """The newest advertised version of an API up to `most`; None without one."""
        return max((each for each in self.range_of(request) if each <= most), default=None)

    def answering(self) -> list[int]:
        """The brokers that accept a connection and answer ApiVersions now."""
        return [id for id, address in self.nodes.items() if self._is_answering(address)]

    def look(self) -> None:
        """Find out what the brokers are and have. Raises CliError."""
        wire, home = self._first()
        try:
            self._look(wire)
        finally:
            wire.close()
        if not self.nodes:
            self.nodes = {0: home}
        self.home = next((id for id, at in self.nodes.items() if at == home), min(self.nodes))

    def _is_answering(self, address: Address) -> bool:
        wire = Wire(address, self.config, logs_in=False)
        try:
            return not isinstance(self._ask(wire, ApiVersionsRequest(), 0).answer, str)
        except CliError:
            return False
        finally:
            wire.close()

    def _first(self) -> tuple[Wire, Address]:
        reason: CliError | None = None
        for address in self.bootstrap:
            wire = Wire(address, self.config)
            try:
                answer = self._ask(wire, ApiVersionsRequest(), 0).answer
            except CliError as error:
                reason = error
                continue
            if isinstance(answer, str):
                reason = CliError(f"{address}: {answer}")
                continue
            self.versions = {
                each.api_key: (each.min_version, each.max_version) for each in answer.api_keys
            }
            return wire, address
        raise reason or CliError("no bootstrap address: expected HOST:PORT")

    def _look(self, wire: Wire) -> None:
        version = self.newest(MetadataRequest, 9)
        if version is None:
            raise CliError("the broker does not answer Metadata")
        found = self._ask(wire, MetadataRequest(topics=None), version).answer
        if isinstance(found, str):
            raise CliError(f"Metadata: {found}")
        self.nodes = {each.node_id: Address(each.host, each.port) for each in found.brokers}
        self.cluster_id = found.cluster_id or ""
        self.others = [each.name for each in found.topics if each.name and not each.is_internal]
        self._see_logins(wire)
        self._see_tokens(wire)
        if self.range_of(PushTelemetryRequest):
            self.facts.add(Need.TELEMETRY)
        if self._has_share_states(wire):
            self.facts.add(Need.SHARE_STATES)
        if len(self.nodes) >= 3:
            self.facts.add(Need.THREE_BROKERS)
        self.facts.add(Need.AUTHORIZER if self._has_authorizer(wire) else Need.NO_AUTHORIZER)

    def _see_logins(self, wire: Wire) -> None:
        if self.config is None or not self.config.logs_in:
            self.facts.add(Need.NO_LOGIN)
            return
        self.facts.add(Need.LOGIN)
        fresh = Wire(self.bootstrap[0], self.config, logs_in=False)
        try:
            request = SaslHandshakeRequest(mechanism="none of them")
            answer = self._ask(fresh, request, 1).answer
        finally:
            fresh.close()
        offered = [] if isinstance(answer, str) else answer.mechanisms
        if {"SCRAM-SHA-256", "SCRAM-SHA-512"} <= set(offered):
            self.facts.add(Need.SCRAM)
        if self.config.sasl_mechanism == "PLAIN":
            self.facts.add(Need.PLAIN)

    def _see_tokens(self, wire: Wire) -> None:
        version = self.newest(DescribeDelegationTokenRequest, 2)
        if version is None or Need.LOGIN not in self.facts:
            return
        answer = self._ask(wire, DescribeDelegationTokenRequest(owners=[]), version).answer
        if not isinstance(answer, str) and answer.error_code == Error.NONE:
            self.facts.add(Need.TOKENS)

    def _has_share_states(self, wire: Wire) -> bool:
        """Whether there is a coordinator for share groups; looking for it creates its topic.

        By default Apache Kafka wants three replicas for that topic: one node has none then.
        """
        version = self.newest(FindCoordinatorRequest, 6)
        if not self.range_of(ShareFetchRequest) or version is None or version < _OF_SHARES:
            return False
        key = f"{self.prefix}:AAAAAAAAAAAAAAAAAAAAAQ:0"
        request = FindCoordinatorRequest(key_type=_SHARE, coordinator_keys=[key])
        deadline = time.monotonic() + _SHARE_STATES_S
        while True:
            answer = self._ask(wire, request, version).answer
            if isinstance(answer, str) or not answer.coordinators:
                return False
            error = answer.coordinators[0].error_code
            if error != Error.COORDINATOR_NOT_AVAILABLE or time.monotonic() > deadline:
                return bool(error == Error.NONE)
            time.sleep(_POLL_S)

    def _has_authorizer(self, wire: Wire) -> bool:
        version = self.newest(DescribeAclsRequest, 2)
        if version is None:
            return False
        request = DescribeAclsRequest(
            resource_type_filter=_ANY,
            operation=_ANY,
            permission_type=_ANY,
            pattern_type_filter=_ANY,
        )
        answer = self._ask(wire, request, version).answer
        return not isinstance(answer, str) and answer.error_code != Error.SECURITY_DISABLED

    def _ask(self, wire: Wire, request: Request, version: int) -> WireExchange:
        return wire.ask(request, version, _ANSWER_S)
