"""Commands that register and unregister brokers and controllers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, field, replace
from functools import partial
from typing import NamedTuple, TypeAlias

from wirekafka.errors import Error, KafkaError
from wirekafka.metadata.controller import elections
from wirekafka.metadata.controller.command import ControllerCommand, ControllerState, Decision
from wirekafka.metadata.controller.features import SUPPORTED
from wirekafka.metadata.controller.sweep import begin
from wirekafka.metadata.image.framing import METADATA_FEATURE
from wirekafka.metadata.image.image import RESERVED_DIRECTORIES, BrokerImage
from wirekafka.metadata.image.partition_change import DIRECTORIES_SINCE
from wirekafka.protocol.records.metadata import (
    RegisterBrokerRecord,
    RegisterControllerRecord,
    UnregisterBrokerRecord,
    UnregisterControllerRecord,
)
from wirekafka.runtime.machine import command

_CONTROLLERS_SINCE = 15
"""The metadata.version (3.7-IV0) from which controllers register (KIP-919)."""
_UNREGISTRATION_SINCE = 33
"""The metadata.version (4.4-IV2) from which controllers are unregistered."""
_DUPLICATE = (
    "Another broker is registered with that broker id. If the broker was recently restarted this "
    "should self-resolve once the heartbeat manager expires the broker's session."
)

Features: TypeAlias = Mapping[str, tuple[int, int]]
"""Ranges of levels by feature name."""

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


@command
class RegisterController(ControllerCommand[None]):
    """Register a controller; `incarnation_id` is random for every start, 16 bytes.

    `features` are the ranges of levels that it supports.
    """

    id: int
    incarnation_id: bytes
    endpoints: Sequence[Endpoint]
    features: Features = field(default_factory=lambda: SUPPORTED)

    def decide(self, state: ControllerState, now_ms: int) -> Decision[None]:
        """Return one registration record; none of this controller at an old metadata.version.

        Raises UNSUPPORTED_VERSION for another controller at an old metadata.version.
        """
        if state.image.metadata_version < _CONTROLLERS_SINCE:
            if self.id == state.config.node_id:
                return Decision((), None)
            raise KafkaError(
                Error.UNSUPPORTED_VERSION,
                "The current MetadataVersion is too old to support controller registrations.",
            )
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
                        for name, (first, last) in self.features.items()
                    ],
                )
            ],
            None,
        )


@command
class UnregisterController(ControllerCommand[None]):
    """Remove the registration of a controller that does not return (since Kafka 4.4)."""

    id: int

    def decide(self, state: ControllerState, now_ms: int) -> Decision[None]:
        """Return one record.

        Raises INVALID_REQUEST for the active controller, UNSUPPORTED_VERSION, and
        CONTROLLER_ID_NOT_REGISTERED.
        """
        if self.id == state.config.node_id:
            raise KafkaError(
                Error.INVALID_REQUEST, "Controller cannot unregister itself while it is active."
            )
        if state.image.metadata_version < _UNREGISTRATION_SINCE:
            raise KafkaError(
                Error.UNSUPPORTED_VERSION,
                "The current MetadataVersion is too old to support controller unregistration.",
            )
        if self.id not in state.image.controllers:
            raise KafkaError(
                Error.CONTROLLER_ID_NOT_REGISTERED,
                f"Controller ID {self.id} is not currently registered.",
            )
        return Decision([UnregisterControllerRecord(controller_id=self.id)], None)


@command
class RegisterBroker(ControllerCommand[int]):
    """Register a broker, fenced; the reply is its broker epoch.

    `epoch` is the log's end when this is submitted. The log directories are the ids in their
    `meta.properties`, 16 bytes each; `features` are the ranges of levels that the broker supports.
    """

    _: KW_ONLY

    id: int
    incarnation_id: bytes
    epoch: int
    endpoints: Sequence[Endpoint]
    rack: str | None
    log_dirs: Sequence[bytes]
    previous_epoch: int | None = None
    """The broker epoch of its last clean shutdown, -1 if there was none. None from a broker that
    does not report it, and is taken to have shut down cleanly."""
    features: Features = field(default_factory=lambda: SUPPORTED)

    def decide(self, state: ControllerState, now_ms: int) -> Decision[int]:
        """Return the registration record, after the records that remove the broker from ISRs.

        Raises DUPLICATE_BROKER_REGISTRATION while the session of another incarnation lasts,
        INVALID_REGISTRATION, and UNSUPPORTED_VERSION for a feature level that the broker does not
        support.
        """
        existing = state.image.brokers.get(self.id)
        is_same = (
            existing is not None and existing.registration.incarnation_id == self.incarnation_id
        )
        if self.id in state.sweeps or (
            existing is not None and not is_same and state.sessions.is_open(self.id)
        ):
            raise KafkaError(Error.DUPLICATE_BROKER_REGISTRATION, _DUPLICATE)
        self._check_directories(state)
        self._check_features(state.image.features)
        record = self._record(state)
        if existing is not None and is_same:
            # A retry whose first response was lost: keep its epoch and state.
            record.broker_epoch = existing.epoch
            record.fenced = existing.fenced
            record.in_controlled_shutdown = existing.registration.in_controlled_shutdown
            return Decision([record], record.broker_epoch)
        return self._join(state, existing, record)

    def _join(
        self, state: ControllerState, existing: BrokerImage | None, record: RegisterBrokerRecord
    ) -> Decision[int]:
        """Register a new incarnation, which is in no ISR until it has caught up."""
        was_clean = self.previous_epoch is None or (
            existing is not None and existing.epoch == self.previous_epoch
        )
        if state.image.has_elr and not was_clean:
            sweep = elections.without_lost(state, self.id)
        else:
            sweep = elections.without(state, self.id)
        sweep = replace(
            sweep,
            last=lambda: [record],
            ended=[partial(state.sessions.end, self.id)],
            replies_last=True,
            reply=self.epoch,
        )
        records, rest = begin(state.image, (), sweep)
        if rest is not None:
            return Decision(records, self.epoch, (), rest)
        offset = self.epoch + len(records) - 1
        registered = partial(state.sessions.registered, self.id, offset)
        return Decision(records, self.epoch, [*sweep.ended, registered])

    def _check_features(self, finalized: Mapping[str, int]) -> None:
        if METADATA_FEATURE not in self.features:
            raise KafkaError(
                Error.INVALID_REGISTRATION, "Request features do not contain 'metadata.version'"
            )
        for name, level in finalized.items():
            first, last = self.features.get(name, (0, 0))
            if not first <= level <= last:
                raise KafkaError(
                    Error.UNSUPPORTED_VERSION,
                    "Unable to register because the broker does not support finalized version "
                    f"{level} of {name}. The broker wants a version between {first} and {last}, "
                    "inclusive.",
                )

    def _check_directories(self, state: ControllerState) -> None:
        if state.image.metadata_version < DIRECTORIES_SINCE:
            return
        if not self.log_dirs:
            raise KafkaError(Error.INVALID_REGISTRATION, "No directories specified in request")
        if any(int.from_bytes(id) < RESERVED_DIRECTORIES for id in self.log_dirs):
            raise KafkaError(Error.INVALID_REGISTRATION, "Reserved directory ID in request")
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

    def _record(self, state: ControllerState) -> RegisterBrokerRecord:
        record = RegisterBrokerRecord
        has_directories = state.image.metadata_version >= DIRECTORIES_SINCE
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
            log_dirs=sorted(self.log_dirs) if has_directories else [],
        )


@command
class UnregisterBroker(ControllerCommand[None]):
    """Remove a broker from the cluster. A broker that still runs must be restarted to return."""

    id: int

    def decide(self, state: ControllerState, now_ms: int) -> Decision[None]:
        """Return the records that move its leaderships and remove it.

        Raises BROKER_ID_NOT_REGISTERED.
        """
        broker = state.image.brokers.get(self.id)
        if broker is None:
            raise KafkaError(
                Error.BROKER_ID_NOT_REGISTERED, f"Broker ID {self.id} is not currently registered"
            )
        if self.id in state.sweeps:
            raise KafkaError(
                Error.REQUEST_TIMED_OUT, f"Broker {self.id} is being fenced or registered"
            )
        record = UnregisterBrokerRecord(broker_id=self.id, broker_epoch=broker.epoch)
        ended = [partial(state.sessions.end, self.id)]
        sweep = replace(
            elections.without(state, self.id), last=lambda: [record], ended=ended, replies_last=True
        )
        records, rest = begin(state.image, (), sweep)
        return Decision(records, None, () if rest else ended, rest)


def registered(state: ControllerState, id: int, epoch: int) -> BrokerImage:
    """Return the broker that sent a request with this epoch.

    Raises STALE_BROKER_EPOCH, also for a broker that is not registered.
    """
    broker = state.image.brokers.get(id)
    if broker is None:
        raise KafkaError(
            Error.STALE_BROKER_EPOCH, f"No broker registration found for broker id {id}"
        )
    if broker.epoch != epoch:
        raise KafkaError(
            Error.STALE_BROKER_EPOCH,
            f"Expected broker epoch {broker.epoch}, but got broker epoch {epoch}",
        )
    return broker
