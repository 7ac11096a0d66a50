"""The client instances that ask for their subscriptions and push, and how often they may."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from typing import NamedTuple

from wirekafka.codec.compression import Codec
from wirekafka.errors import Error, KafkaError
from wirekafka.metadata.image.image import MetadataImage
from wirekafka.telemetry.subscriptions import Subscription, TelemetryClient, TelemetrySubscriptions

ACCEPTED_CODECS = (Codec.ZSTD, Codec.LZ4, Codec.GZIP, Codec.SNAPPY)
"""How metrics may be compressed, the preferred one first."""

NO_ID = bytes(16)
_RESERVED = (NO_ID, NO_ID[:-1] + b"\1")
_MOST = 16_384
"""Kafka keeps as many instances; beyond it, the least recently seen is forgotten."""
_LEAST_EXPIRY_MS = 60_000
_EXPIRY_INTERVALS = 3
_MAY_ASK_AGAIN = (Error.UNKNOWN_SUBSCRIPTION_ID, Error.UNSUPPORTED_COMPRESSION_TYPE)
"""After these errors a client may ask for its subscription before its interval is over."""
_LONG_AGO_MS = -(1 << 62)


class Push(NamedTuple):
    """A client's push, as it was received."""

    instance_id: bytes
    subscription_id: int
    is_terminating: bool
    codec: int
    metrics: bytes


class Receiver(NamedTuple):
    """Where the metrics of clients go."""

    max_bytes: int
    """The most bytes of one push, both as it is received and decompressed."""
    receive: Callable[[Push, TelemetryClient, int, Subscription], None] | None
    """Called with a push that is not empty, its client, `max_bytes` and its subscription. It raises
    KafkaError(INVALID_RECORD) for an unreadable push. None discards all pushes."""


class Instance:
    """One client, by the id that a broker has given it."""

    __slots__ = (
        "asked_ms",
        "connection_id",
        "exports",
        "is_terminating",
        "last_error",
        "pushed_ms",
        "refusals",
        "subscription",
        "throttles",
        "version",
    )

    def __init__(self, connection_id: str, subscription: Subscription, version: int):
        self.connection_id = connection_id
        self.subscription = subscription
        self.version = version
        """The version of the subscriptions."""
        self.asked_ms = self.pushed_ms = _LONG_AGO_MS
        self.last_error = Error.NONE
        self.is_terminating = False
        self.exports = self.refusals = self.throttles = 0
        """The number of accepted pushes, of pushes that the receiver refused, and of early
        requests."""

    def expires_ms(self) -> int:
        """When it is forgotten unless it is seen again."""
        kept_ms = max(_LEAST_EXPIRY_MS, _EXPIRY_INTERVALS * self.subscription.interval_ms)
        return max(self.asked_ms, self.pushed_ms) + kept_ms

    def ask(self, now_ms: int) -> None:
        """Raise THROTTLING_QUOTA_EXCEEDED if the client asks too often."""
        since_ms = now_ms - max(self.asked_ms, self.pushed_ms)
        if since_ms >= self.subscription.interval_ms:
            self.asked_ms = now_ms
        elif self.last_error not in _MAY_ASK_AGAIN:
            self.throttles += 1
            raise KafkaError(Error.THROTTLING_QUOTA_EXCEEDED)
        self.last_error = Error.NONE

    def push(self, push: Push, now_ms: int, max_bytes: int) -> None:
        """Raise the error of a refused push, in Kafka's order of checks."""
        if self.is_terminating:
            raise KafkaError(Error.INVALID_REQUEST)
        # Clients vary the time of their first push after they have asked.
        is_first = self.asked_ms > self.pushed_ms
        if is_first or now_ms - self.pushed_ms >= self.subscription.interval_ms:
            self.pushed_ms = now_ms
        elif not push.is_terminating:
            self.throttles += 1
            raise KafkaError(Error.THROTTLING_QUOTA_EXCEEDED)
        if push.subscription_id != self.subscription.id:
            raise KafkaError(Error.UNKNOWN_SUBSCRIPTION_ID)
        if push.codec != Codec.NONE and push.codec not in ACCEPTED_CODECS:
            raise KafkaError(Error.UNSUPPORTED_COMPRESSION_TYPE)
        if len(push.metrics) > max_bytes:
            raise KafkaError(Error.TELEMETRY_TOO_LARGE)


class ClientTelemetry:
    """The instances of one broker: one for each connection, forgotten with the connection."""

    def __init__(self, image: MetadataImage, new_id: Callable[[], bytes]):
        self._subscriptions = TelemetrySubscriptions(image)
        self._new_id = new_id
        self._instances: OrderedDict[bytes, Instance] = OrderedDict()
        """The least recently seen first."""
        self._of_connections: dict[str, bytes] = {}
        self.unknown_subscriptions = 0
        """Pushes for a subscription that has changed since."""

    def __len__(self) -> int:
        return len(self._instances)

    def ask(
        self, instance_id: bytes, client: TelemetryClient, now_ms: int
    ) -> tuple[bytes, Subscription]:
        """The subscription of a client, with the id of its instance, which may be new.

        Raises KafkaError(THROTTLING_QUOTA_EXCEEDED).
        """
        if instance_id == NO_ID:
            instance_id = self._new_id()
        instance = self._instance(instance_id, client, now_ms)
        instance.ask(now_ms)
        return instance_id, instance.subscription

    def push(self, push: Push, client: TelemetryClient, now_ms: int, receiver: Receiver) -> None:
        """Pass a push on to a receiver. Raises the KafkaError with which either refuses it."""
        if push.instance_id in _RESERVED:
            raise KafkaError(Error.INVALID_REQUEST)
        instance = self._instance(push.instance_id, client, now_ms)
        try:
            instance.push(push, now_ms, receiver.max_bytes)
            if push.metrics and receiver.receive is not None:
                self._export(push, client, receiver, instance)
            instance.last_error = Error.NONE
        except KafkaError as error:
            self.unknown_subscriptions += error.error is Error.UNKNOWN_SUBSCRIPTION_ID
            instance.last_error = error.error
            raise
        finally:
            # Even after a refusal, as in Kafka.
            instance.is_terminating = push.is_terminating

    def instances(self) -> list[tuple[bytes, Instance]]:
        """All instances with their ids."""
        return list(self._instances.items())

    def _export(
        self, push: Push, client: TelemetryClient, receiver: Receiver, instance: Instance
    ) -> None:
        assert receiver.receive is not None
        try:
            receiver.receive(push, client, receiver.max_bytes, instance.subscription)
        except KafkaError:
            instance.refusals += 1
            raise
        instance.exports += 1

    def disconnected(self, connection_id: str) -> None:
        """Forget the instance that a connection has made known."""
        instance_id = self._of_connections.pop(connection_id, None)
        if instance_id is not None:
            self._instances.pop(instance_id, None)

    def _instance(self, instance_id: bytes, client: TelemetryClient, now_ms: int) -> Instance:
        self._subscriptions.refresh()
        instance = self._instances.get(instance_id)
        if instance is not None and instance.version == self._subscriptions.version:
            self._instances.move_to_end(instance_id)
            return instance
        self._expire(now_ms)
        if instance is not None:
            self._forget(instance_id)
        # A client has one instance: who names others on its connection would fill the memory.
        self.disconnected(client.connection_id)
        instance = Instance(
            client.connection_id,
            self._subscriptions.of(instance_id, client),
            self._subscriptions.version,
        )
        self._instances[instance_id] = instance
        self._of_connections[client.connection_id] = instance_id
        return instance

    def _expire(self, now_ms: int) -> None:
        while self._instances:
            oldest_id, oldest = next(iter(self._instances.items()))
            if len(self._instances) < _MOST and oldest.expires_ms() > now_ms:
                return
            self._forget(oldest_id)

    def _forget(self, instance_id: bytes) -> None:
        instance = self._instances.pop(instance_id)
        if self._of_connections.get(instance.connection_id) == instance_id:
            del self._of_connections[instance.connection_id]
