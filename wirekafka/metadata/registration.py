"""Commands that register and unregister brokers and controllers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import NamedTuple

from wirekafka.errors import Error, KafkaError
from wirekafka.metadata import elections
from wirekafka.metadata.command import ControllerState, Decision
from wirekafka.metadata.features import SUPPORTED
from wirekafka.metadata.image import BrokerImage
from wirekafka.metadata.records import (
    RegisterBrokerRecord,
    RegisterControllerRecord,
    UnregisterBrokerRecord,
)

DIRECTORIES_SINCE = 17
"""The metadata.version (3.7-IV2) from which records have the log directories of replicas."""

SECURITY_PROTOCOLS = {"PLAINTEXT": 0, "SSL": 1, "SASL_PLAINTEXT": 2, "SASL_SSL": 3}


class Endpoint(NamedTuple):
    """An advertised listener; `security_protocol` as in `SECURITY_PROTOCOLS`."""

    name: str
    host: str
    port: int
    security_protocol: int = 0


class BrokerAddress(NamedTuple):
    """A broker's advertised address on the listener of the request."""

    id: int
    host: str
    port: int
    rack: str | None


@dataclass(frozen=True)
class RegisterController:
    """Register a controller; `incarnation_id` is random for every start, 16 bytes."""

    id: int
    incarnation_id: bytes
    endpoints: Sequence[Endpoint]

    def decide(self, state: ControllerState, now_ms: int) -> Decision:
        """Return one registration record."""
        record = RegisterControllerRecord
        return Decision(
            [
                record(
                    controller_id=self.id,
                    incarnation_id=self.incarnation_id,
                    end_points=[
                        record.ControllerEndpoint(**endpoint._asdict())
                        for endpoint in self.endpoints
                    ],
                    features=[
                        record.ControllerFeature(
                            name=name, min_supported_version=first, max_supported_version=last
                        )
                        for name, (first, last) in SUPPORTED.items()
                    ],
                )
            ]
        )


@dataclass(frozen=True, kw_only=True)
class RegisterBroker:
    """Register a broker, fenced; the reply is its broker epoch.

    `epoch` is the log's end when this is submitted. The log directories are the ids in their
    `meta.properties`, 16 bytes each; `features` are the ranges of levels that the broker supports.
    """

    id: int
    incarnation_id: bytes
    epoch: int
    endpoints: Sequence[Endpoint]
    rack: str | None
    log_dirs: Sequence[bytes]
    features: Mapping[str, tuple[int, int]] = field(default_factory=lambda: SUPPORTED)

    def decide(self, state: ControllerState, now_ms: int) -> Decision:
        """Return one registration record.

        Raises DUPLICATE_BROKER_REGISTRATION, INVALID_REGISTRATION, and UNSUPPORTED_VERSION for a
        feature level that the broker does not support.
        """
        existing = state.image.brokers.get(self.id)
        is_same = (
            existing is not None and existing.registration.incarnation_id == self.incarnation_id
        )
        if existing is not None and not is_same:
            self._check_duplicate(existing, state)
        self._check_directories(state)
        for name, level in state.image.features.items():
            first, last = self.features.get(name, (0, 0))
            if not first <= level <= last:
                raise KafkaError(
                    Error.UNSUPPORTED_VERSION,
                    "Unable to register because the broker does not support finalized version "
                    f"{level} of {name}. The broker wants a version between {first} and {last}, "
                    "inclusive.",
                )
        record = self._record()
        if existing is not None and is_same:
            # A retry whose first response was lost: keep its epoch and state.
            record.broker_epoch = existing.epoch
            record.fenced = existing.fenced
            record.in_controlled_shutdown = existing.registration.in_controlled_shutdown
        heard = partial(state.sessions.touch, self.id, now_ms)
        return Decision([record], record.broker_epoch, [heard])

    def _check_duplicate(self, existing: BrokerImage, state: ControllerState) -> None:
        if (
            existing.fenced
            or existing.registration.in_controlled_shutdown
            or not state.sessions.is_open(self.id)
        ):
            return
        raise KafkaError(
            Error.DUPLICATE_BROKER_REGISTRATION,
            "Another broker is registered with that broker id. If the broker was recently "
            "restarted this should self-resolve once the heartbeat manager expires the broker's "
            "session.",
        )

    def _check_directories(self, state: ControllerState) -> None:
        if state.image.metadata_version < DIRECTORIES_SINCE:
            return
        if not self.log_dirs:
            raise KafkaError(Error.INVALID_REGISTRATION, "No directories specified in request")
        if len(set(self.log_dirs)) < len(self.log_dirs):
            raise KafkaError(Error.INVALID_REGISTRATION, "Duplicate directory ID in request")
        for other in state.image.brokers.values():
            if other.id != self.id and not set(self.log_dirs).isdisjoint(
                other.registration.log_dirs
            ):
                raise KafkaError(
                    Error.INVALID_REGISTRATION,
                    f"Broker {other.id} is already registered with a directory of broker {self.id}",
                )

    def _record(self) -> RegisterBrokerRecord:
        record = RegisterBrokerRecord
        return record(
            broker_id=self.id,
            incarnation_id=self.incarnation_id,
            broker_epoch=self.epoch,
            end_points=[record.BrokerEndpoint(**endpoint._asdict()) for endpoint in self.endpoints],
            features=[
                record.BrokerFeature(
                    name=name, min_supported_version=first, max_supported_version=last
                )
                for name, (first, last) in self.features.items()
            ],
            rack=self.rack,
            fenced=True,
            log_dirs=sorted(self.log_dirs),
        )


@dataclass(frozen=True)
class UnregisterBroker:
    """Remove a broker from the cluster. A broker that still runs must be restarted to return."""

    id: int

    def decide(self, state: ControllerState, now_ms: int) -> Decision:
        """Return the records that move its leaderships and remove it.

        Raises BROKER_ID_NOT_REGISTERED.
        """
        broker = state.image.brokers.get(self.id)
        if broker is None:
            raise KafkaError(
                Error.BROKER_ID_NOT_REGISTERED, f"Broker ID {self.id} is not currently registered"
            )
        return Decision(
            [
                *elections.without(state, self.id),
                UnregisterBrokerRecord(broker_id=self.id, broker_epoch=broker.epoch),
            ],
            None,
            [partial(state.sessions.end, self.id)],
        )


def registered(state: ControllerState, id: int, epoch: int) -> BrokerImage:
    """Return the broker that sent a request with this epoch.

    Raises BROKER_ID_NOT_REGISTERED, STALE_BROKER_EPOCH.
    """
    broker = state.image.brokers.get(id)
    if broker is None:
        raise KafkaError(Error.BROKER_ID_NOT_REGISTERED)
    if broker.epoch != epoch:
        raise KafkaError(
            Error.STALE_BROKER_EPOCH, f"Expected broker epoch {broker.epoch}, but got {epoch}"
        )
    return broker
