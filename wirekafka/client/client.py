"""A small synchronous client: one connection per broker, versions negotiated on each."""

from __future__ import annotations

import math
import select
import socket
import ssl
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import NamedTuple, Self, TypeVar

from wirekafka.client import hints
from wirekafka.codec.frame import decode_response, encode_request
from wirekafka.codec.message import Request, Response, UnencodableMessage
from wirekafka.config.address import Address
from wirekafka.config.client_config import ClientConfig
from wirekafka.config.version import VERSION
from wirekafka.errors import Error, error_name
from wirekafka.protocol.api_versions import ApiVersionsRequest, ApiVersionsResponse
from wirekafka.protocol.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from wirekafka.protocol.list_offsets import ListOffsetsRequest, ListOffsetsResponse
from wirekafka.protocol.metadata import MetadataRequest, MetadataResponse

R = TypeVar("R", bound=Response)
T = TypeVar("T")

CONNECT_TIMEOUT_S = 10.0
RESPONSE_TIMEOUT_S = 60.0
RETRY_FOR_S = 30.0
_RETRY_EVERY_S = 0.1
_GROUP, _TRANSACTION = 0, 1
_KINDS = {_GROUP: "group", _TRANSACTION: "transactional id"}
CLIENT_ID = "wirekafka-cli"
_LARGEST_RESPONSE_BYTES = 1 << 30
_AT_ONCE_BYTES = 1 << 22
"""How much memory a response gets before bytes of it have come."""


class CliError(Exception):
    """A failure of a command, with a message of one line for the user."""


class ConnectionFailure(CliError):
    """A broker that cannot be reached, or a connection that broke: a later try may succeed."""


class UnknownHost(ConnectionFailure):
    """A broker whose host name does not resolve."""


class CertificateRefused(CliError):
    """A broker whose certificate is not trusted, not valid, or of another host."""


class LoginRefused(CliError):
    """A login that a broker does not accept."""


class MechanismRefused(LoginRefused):
    """A login by a mechanism that a broker does not have, whoever the user is."""


class CoordinatorRefused(CliError):
    """A coordinator that a broker does not name, for an error that lasts."""

    def __init__(self, key: str, error: Error) -> None:
        super().__init__(f"{key}: {error.name}")
        self.error = error


class ListedOffset(NamedTuple):
    """The result of ListOffsets in a partition; -1 for nothing found."""

    offset: int
    timestamp: int


class BrokerConnection:
    """One socket to one broker; requests are answered in their order."""

    def __init__(
        self,
        address: Address,
        config: ClientConfig | None = None,
        *,
        client_id: str = CLIENT_ID,
        timeout_s: float | None = None,
    ) -> None:
        """Connect and negotiate versions. Raises CliError.

        `timeout_s` is the longest wait for the connection and for each response; None is 10 s for
        the connection and 60 s for a response.
        """
        self.address = address
        self.is_lost = False
        self._client_id = client_id
        self._config = config
        self._correlation_id = self._answers = 0
        self._response_s = RESPONSE_TIMEOUT_S if timeout_s is None else timeout_s
        self._is_bounded = timeout_s is not None
        connect_s = CONNECT_TIMEOUT_S if timeout_s is None else timeout_s
        try:
            self._socket = socket.create_connection(address, timeout=connect_s)
        except OSError as error:
            reason = f"cannot connect to {address}: {_reason(error)}"
            failed = UnknownHost if isinstance(error, socket.gaierror) else ConnectionFailure
            raise failed(reason) from None
        except (ValueError, OverflowError) as error:
            # Metadata may have names that no host has, and ports that there are not.
            raise ConnectionFailure(f"cannot connect to {address}: {error}") from None
        try:
            self._set_up(config)
        except BaseException:
            self.close()
            raise

    def send(self, request: Request, answer: type[R], *, most: int | None = None) -> R:
        """Send a request in the newest common version, at most `most`; returns the response."""
        return self.begin(request, answer, most=most)()

    def begin(
        self, request: Request, answer: type[R], *, most: int | None = None
    ) -> Callable[[], R]:
        """Send a request as `send` does, and return a function that waits for the response.

        The functions are to be called in the order of their requests.
        """
        version = self.version_of(type(request), most)
        correlation_id = self._put(request, version)
        return lambda: self._take(correlation_id, request, answer, version)

    def version_of(self, request: type[Request], most: int | None = None) -> int:
        """The newest common version of an API; CliError if there is none."""
        low, high = self._versions.get(request.key, (0, -1))
        first, last = request.versions
        version = min(high, last, last if most is None else most)
        if version < max(low, first):
            raise CliError(f"{self.address} does not answer {request.__name__}")
        return version

    def finalized_level(self, feature: str) -> int:
        """The level at which the cluster has a feature; 0 without it."""
        return self._features.get(feature, 0)

    def finalized_levels(self) -> dict[str, int]:
        """The levels of all features that the cluster has."""
        return dict(self._features)

    def supported_levels(self) -> dict[str, tuple[int, int]]:
        """The lowest and the highest level of each feature that the broker supports."""
        return dict(self._supported_features)

    def post(self, request: Request, *, most: int | None = None) -> None:
        """Send a request that gets no response (produce with acks 0)."""
        version = self.version_of(type(request), most)
        self._put(request, version)

    def close(self) -> None:
        """Close the connection."""
        self.is_lost = True
        self._socket.close()

    def is_usable(self) -> bool:
        """Whether an idle connection is still open: neither lost nor closed by the broker."""
        if self.is_lost:
            return False
        polled = select.poll()
        polled.register(self._socket, select.POLLIN | select.POLLHUP | select.POLLERR)
        return not polled.poll(0)

    def _set_up(self, config: ClientConfig | None) -> None:
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if config is not None and config.uses_tls:
            self._socket = _encrypted(self._socket, self.address, config)
        self._socket.settimeout(self._response_s)
        self._versions = self._negotiate()
        if config is not None and config.logs_in:
            self._log_in(config)

    def _log_in(self, config: ClientConfig) -> None:
        from wirekafka.client.login import log_in
        from wirekafka.client.sasl_client import MechanismNotOffered
        from wirekafka.security.sasl.exchange import AuthenticationFailed

        try:
            log_in(config, self.send)
        except MechanismNotOffered as error:
            raise MechanismRefused(f"{self.address} refuses the login: {error}") from None
        except AuthenticationFailed as error:
            raise LoginRefused(f"{self.address} refuses the login: {error}") from None

    def _negotiate(self) -> dict[int, tuple[int, int]]:
        request = ApiVersionsRequest(
            client_software_name="wirekafka", client_software_version=VERSION
        )
        response = self._exchange(request, ApiVersionsResponse, ApiVersionsRequest.versions.last)
        if response.error_code == Error.UNSUPPORTED_VERSION:
            response = self._exchange(ApiVersionsRequest(), ApiVersionsResponse, 0)
        check(response.error_code, f"{self.address}")
        self._features = {
            feature.name: feature.max_version_level for feature in response.finalized_features
        }
        self._supported_features = {
            feature.name: (feature.min_version, feature.max_version)
            for feature in response.supported_features
        }
        return {key.api_key: (key.min_version, key.max_version) for key in response.api_keys}

    def _exchange(self, request: Request, answer: type[R], version: int) -> R:
        return self._take(self._put(request, version), request, answer, version)

    def _put(self, request: Request, version: int) -> int:
        """Write a request; returns its correlation id."""
        self._correlation_id += 1
        try:
            frame = encode_request(self._correlation_id, self._client_id, request, version)
        except UnencodableMessage as error:
            raise CliError(f"Kafka's protocol has no such value: {error}") from None
        self._write(frame)
        return self._correlation_id

    def _take(self, correlation_id: int, request: Request, answer: type[R], version: int) -> R:
        """Read the response to the oldest request that waits for one."""
        if self.is_lost:
            raise ConnectionFailure(f"lost the connection to {self.address}")
        deadline = time.monotonic() + self._response_s if self._is_bounded else math.inf
        start = self._read(4, deadline)
        size = int.from_bytes(start, "big", signed=True)
        if not self._answers and hints.is_tls_alert(start):
            reason = hints.of_tls(self._config)
            raise CliError(f"{self.address} closed the connection; {reason}")
        if not 4 <= size <= _LARGEST_RESPONSE_BYTES:
            raise CliError(f"{self.address} does not speak Kafka's protocol")
        payload = self._read(size, deadline)
        try:
            if _is_old_refusal(request, payload):
                version = 0
            answered_id, message = decode_response(answer, version, payload)
        except ValueError as error:
            raise CliError(f"{self.address} sent a malformed response: {error}") from None
        if answered_id != correlation_id:
            raise CliError(f"{self.address} answered out of order")
        self._answers += 1
        return message

    def _write(self, frame: bytes) -> None:
        try:
            self._socket.sendall(frame)
        except OSError as error:
            self.is_lost = True
            reason = f"lost the connection to {self.address}: {_reason(error)}"
            raise ConnectionFailure(reason) from None

    def _read(self, size: int, deadline: float) -> bytes:
        whole = bytearray(min(size, _AT_ONCE_BYTES))
        filled = 0
        while filled < size:
            if filled == len(whole):
                whole += bytes(min(size - filled, filled))
            try:
                if time.monotonic() > deadline:
                    raise TimeoutError
                with memoryview(whole) as view:
                    count = self._socket.recv_into(view[filled:])
            except OSError as error:
                self.is_lost = True
                reason = f"no answer from {self.address}: {_reason(error)}"
                raise ConnectionFailure(reason) from None
            if not count:
                self.is_lost = True
                # A listener that expects a login answers ApiVersions alone without one.
                hint = hints.of_closed(self._config) if self._answers < 2 else ""
                reason = f"{self.address} closed the connection{hint and f'; {hint}'}"
                raise ConnectionFailure(reason)
            filled += count
        return bytes(whole)


class Client:
    """A cluster reached through its bootstrap addresses."""

    def __init__(
        self,
        bootstrap: str,
        config: ClientConfig | Path | None = None,
        *,
        client_id: str = CLIENT_ID,
        timeout_s: float | None = None,
    ) -> None:
        """`timeout_s` bounds each wait, as in `BrokerConnection`.

        Raises CliError, and ConfigError for a file that cannot be used.
        """
        self._client_id, self._timeout_s = client_id, timeout_s
        self._bootstrap = [_address(part) for part in bootstrap.split(",") if part.strip()]
        if not self._bootstrap:
            raise CliError("no bootstrap address: expected HOST:PORT")
        self._config = ClientConfig.read(config) if isinstance(config, Path) else config
        if self._config is not None and self._config.logs_in:
            from wirekafka.client.login import login_of

            login_of(self._config)  # Mistakes are reported before any connection is made.
        self._connections: dict[Address, BrokerConnection] = {}
        self._nodes: dict[int, Address] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close all connections."""
        for connection in self._connections.values():
            connection.close()
        self._connections.clear()

    def drop_unusable(self) -> None:
        """Close the idle connections that a broker has closed, so that they are made again."""
        for address, connection in list(self._connections.items()):
            if not connection.is_usable():
                connection.close()
                del self._connections[address]

    def send(self, request: Request, answer: type[R], *, most: int | None = None) -> R:
        """Send a request to the first bootstrap broker that can be reached."""
        return self.any().send(request, answer, most=most)

    def any(self) -> BrokerConnection:
        """A connection to the first bootstrap broker that can be reached.

        A refused login ends the search, as in Java clients: other brokers know the same users.
        """
        for address in self._bootstrap:
            if address in self._connections:
                return self._connections[address]
        for address in self._bootstrap[:-1]:
            try:
                return self._connect(address)
            except LoginRefused:
                raise
            except CliError:
                continue
        return self._connect(self._bootstrap[-1])

    def node(self, node_id: int) -> BrokerConnection:
        """A connection to a broker by its id, whose address Metadata returned."""
        address = self._nodes.get(node_id)
        if address is None:
            raise ConnectionFailure(f"no broker {node_id} in the cluster")
        return self._connect(address)

    def metadata(
        self, topics: Iterable[str] | None = None, *, create: bool = False
    ) -> MetadataResponse:
        """Request Metadata of topics (None: all) and keep the brokers' addresses."""
        named = None if topics is None else [MetadataRequest.Topic(name=name) for name in topics]
        request = MetadataRequest(topics=named, allow_auto_topic_creation=create)
        response = self.send(request, MetadataResponse)
        self._nodes = {b.node_id: Address(b.host, b.port) for b in response.brokers}
        return response

    def topics(self, names: Iterable[str] | None = None) -> list[MetadataResponse.Topic]:
        """The present metadata of these topics, or of all. Raises CliError if one is missing."""
        found = self.metadata(names).topics
        for topic in found:
            if topic.error_code == Error.UNKNOWN_TOPIC_OR_PARTITION:
                raise CliError(f"no topic {topic.name}")
            check(topic.error_code, f"topic {topic.name}")
        return found

    def topic(self, name: str, *, create: bool = False) -> MetadataResponse.Topic:
        """One topic's metadata once it has leaders; CliError if there is no such topic."""
        deadline = time.monotonic() + RETRY_FOR_S
        while True:
            topic = only(self.metadata([name], create=create).topics, f"topic {name}")
            error = Error.of(topic.error_code)
            leaderless = any(partition.leader_id < 0 for partition in topic.partitions)
            if not error and not leaderless:
                return topic
            if error is Error.UNKNOWN_TOPIC_OR_PARTITION and not create:
                raise CliError(f"no topic {name}")
            if (error and not error.retriable) or time.monotonic() > deadline:
                raise CliError(f"topic {name}: {error.name if error else 'no leader'}")
            time.sleep(_RETRY_EVERY_S)

    def coordinator(self, group: str) -> BrokerConnection:
        """The coordinator of a group; retries while it is not available or still loading."""
        return self._coordinator(group, _GROUP)

    def transaction_coordinator(self, transactional_id: str) -> BrokerConnection:
        """The coordinator of a transactional id; retries as `coordinator` does."""
        return self._coordinator(transactional_id, _TRANSACTION)

    def _coordinator(self, key: str, kind: int) -> BrokerConnection:
        deadline = time.monotonic() + RETRY_FOR_S
        while True:
            found = self._find_coordinator(key, kind)
            error = Error.of(found.error_code)
            if not error:
                return self._connect(Address(found.host, found.port))
            if not error.retriable or time.monotonic() > deadline:
                raise CoordinatorRefused(f"{_KINDS[kind]} {key}", error)
            time.sleep(_RETRY_EVERY_S)

    def offsets(
        self, partitions: Iterable[tuple[str, int]], timestamp: int
    ) -> dict[tuple[str, int], int]:
        """Each partition's offset for a timestamp in ms (-1 latest, -2 earliest)."""
        wanted: dict[str, list[int]] = {}
        for name, index in partitions:
            wanted.setdefault(name, []).append(index)
        by_leader: dict[int, dict[str, list[int]]] = {}
        for name, indexes in wanted.items():
            leaders = {p.partition_index: p.leader_id for p in self.topic(name).partitions}
            for index in indexes:
                if index not in leaders:
                    raise CliError(f"topic {name} has no partition {index}")
                by_leader.setdefault(leaders[index], {}).setdefault(name, []).append(index)
        listed = self.list_offsets(by_leader, timestamp)
        return {partition: found.offset for partition, found in listed.items()}

    def known_offsets(
        self, partitions: Iterable[tuple[str, int]], timestamp: int
    ) -> dict[tuple[str, int], int]:
        """The `offsets` of partitions whose leaders answer now, without waiting for others."""
        wanted = set(partitions)
        by_leader: dict[int, dict[str, list[int]]] = {}
        for topic in self.metadata(sorted({name for name, _ in wanted})).topics:
            name = topic.name or ""
            for partition in topic.partitions:
                if partition.leader_id >= 0 and (name, partition.partition_index) in wanted:
                    indexes = by_leader.setdefault(partition.leader_id, {}).setdefault(name, [])
                    indexes.append(partition.partition_index)
        found: dict[tuple[str, int], int] = {}
        for leader, topics in by_leader.items():
            with suppress(CliError):
                request = list_offsets(topics, timestamp)
                response = self.node(leader).send(request, ListOffsetsResponse)
                for answered in response.topics:
                    for each in answered.partitions:
                        if not each.error_code:
                            found[answered.name, each.partition_index] = each.offset
        return found

    def list_offsets(
        self, by_leader: Mapping[int, dict[str, list[int]]], timestamp: int
    ) -> dict[tuple[str, int], ListedOffset]:
        """`offsets` of partitions whose leaders are known, given by leader and topic.

        The result has the found timestamps, too (-3: the timestamp of the newest record).
        """
        found: dict[tuple[str, int], ListedOffset] = {}
        for leader, topics in by_leader.items():
            response = self.node(leader).send(list_offsets(topics, timestamp), ListOffsetsResponse)
            found |= _listed(response)
        return found

    def _find_coordinator(
        self, key: str, kind: int
    ) -> FindCoordinatorResponse | FindCoordinatorResponse.Coordinator:
        connection = self.any()
        if connection.version_of(FindCoordinatorRequest) < 4:
            request = FindCoordinatorRequest(key=key, key_type=kind)
            return connection.send(request, FindCoordinatorResponse, most=3)
        request = FindCoordinatorRequest(coordinator_keys=[key], key_type=kind)
        found = connection.send(request, FindCoordinatorResponse).coordinators
        return only(found, f"the coordinator of {_KINDS[kind]} {key}")

    def _connect(self, address: Address) -> BrokerConnection:
        connection = self._connections.get(address)
        if connection is None:
            connection = BrokerConnection(
                address, self._config, client_id=self._client_id, timeout_s=self._timeout_s
            )
            self._connections[address] = connection
        return connection


def check(error_code: int, subject: str, message: str | None = None) -> None:
    """Raise CliError if a response carries an error about `subject`."""
    if error_code:
        name = error_name(error_code)
        raise CliError(f"{subject}: {message} ({name})" if message else f"{subject}: {name}")


def only(elements: Sequence[T], subject: str) -> T:
    """The element of a response about one `subject`. Raises CliError for none, and for several."""
    if len(elements) != 1:
        raise CliError(f"{subject}: the broker has answered {len(elements)} times")
    return elements[0]


def _address(text: str) -> Address:
    try:
        return Address.parse(text)
    except ValueError:
        raise CliError(f"bad address {text!r}: expected HOST:PORT") from None


def _encrypted(plain: socket.socket, address: Address, config: ClientConfig) -> socket.socket:
    from wirekafka.security import tls_context

    secured = tls_context.client_context(config)
    try:
        encrypted = secured.context.wrap_socket(plain, server_hostname=address.host)
    except ssl.SSLCertVerificationError as error:
        reason = f"the certificate of {address} is refused: {error.verify_message}"
        raise CertificateRefused(reason) from None
    except ssl.SSLError as error:
        hint = hints.of_no_tls(error, config)
        raise CliError(f"no TLS with {address}: {error.reason or error}{hint}") from None
    except OSError as error:
        hint = hints.of_no_tls(error, config)
        raise CliError(f"no TLS with {address}: {_reason(error)}{hint}") from None
    except ValueError as error:
        raise CliError(f"no TLS with {address}: {error}") from None
    cipher = encrypted.cipher()
    if cipher is not None and cipher[1] == "TLSv1.3" and cipher[0] not in secured.suites:
        encrypted.close()
        raise CliError(f"{address} has chosen {cipher[0]}, which ssl.cipher.suites lacks")
    return encrypted


def _is_old_refusal(request: Request, payload: bytes) -> bool:
    """Whether this is ApiVersions with UNSUPPORTED_VERSION, which is encoded in version 0."""
    code = int.from_bytes(payload[4:6], "big", signed=True)
    return isinstance(request, ApiVersionsRequest) and code == Error.UNSUPPORTED_VERSION


def list_offsets(topics: dict[str, list[int]], timestamp: int) -> ListOffsetsRequest:
    kind = ListOffsetsRequest.Topic
    return ListOffsetsRequest(
        replica_id=-1,
        topics=[
            kind(
                name=name,
                partitions=[
                    kind.Partition(partition_index=index, timestamp=timestamp) for index in indexes
                ],
            )
            for name, indexes in topics.items()
        ],
        timeout_ms=int(RESPONSE_TIMEOUT_S * 1000),
    )


def _listed(response: ListOffsetsResponse) -> dict[tuple[str, int], ListedOffset]:
    found = {}
    for topic in response.topics:
        for partition in topic.partitions:
            check(partition.error_code, f"{topic.name}-{partition.partition_index}")
            listed = ListedOffset(partition.offset, partition.timestamp)
            found[topic.name, partition.partition_index] = listed
    return found


def _reason(error: OSError) -> str:
    if isinstance(error, TimeoutError):
        return "timed out"
    return error.strerror or str(error)
