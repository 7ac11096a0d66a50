"""Commands by which nodes come, serve, and go."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from wirekafka.codec.message import Message
from wirekafka.errors import Error, KafkaError
from wirekafka.metadata import elections
from wirekafka.metadata.command import ControllerState, Decision
from wirekafka.metadata.features import SUPPORTED
from wirekafka.metadata.image import BrokerImage
from wirekafka.metadata.records import (
    BrokerRegistrationChangeRecord,
    RegisterBrokerRecord,
    RegisterControllerRecord,
    UnregisterBrokerRecord,
)

_CORDONING = 30
"""The metadata.version from which log directories can be cordoned (KIP-1066)."""

SECURITY_PROTOCOLS = {"PLAINTEXT": 0, "SSL": 1, "SASL_PLAINTEXT": 2, "SASL_SSL": 3}


class Endpoint(NamedTuple):
    """An advertised listener; `security_protocol` as in `SECURITY_PROTOCOLS`."""

    name: str
    host: str
    port: int
    security_protocol: int = 0


@dataclass(frozen=True)
class RegisterController:
    """A controller starts; `incarnation_id` is random for every start, 16 bytes."""

    id: int
    incarnation_id: bytes
    endpoints: Sequence[Endpoint]

    def decide(self, state: ControllerState, now_ms: int) -> Decision:
        """One registration record."""
        record = RegisterControllerRecord
        return Decision([record(
            controller_id=self.id,
            incarnation_id=self.incarnation_id,
            end_points=[record.ControllerEndpoint(**endpoint._asdict())
                        for endpoint in self.endpoints],
            features=[
                record.ControllerFeature(
                    name=name, min_supported_version=first, max_supported_version=last)
                for name, (first, last) in SUPPORTED.items()
            ],
        )])


@dataclass(frozen=True, kw_only=True)
class RegisterBroker:
    """A broker starts, fenced. The broker epoch is the log's end when this is submitted; the
    log directories are the ids in their `meta.properties`, 16 bytes each."""

    id: int
    incarnation_id: bytes
    epoch: int
    endpoints: Sequence[Endpoint]
    rack: str | None
    log_dirs: Sequence[bytes]

    def decide(self, state: ControllerState, now_ms: int) -> Decision:
        """One registration record. Raises UNSUPPORTED_VERSION for features beyond this broker."""
        for name, level in state.image.features.items():
            first, last = SUPPORTED.get(name, (0, 0))
            if not first <= level <= last:
                raise KafkaError(Error.UNSUPPORTED_VERSION,
                                 f"Unable to register because the broker does not support "
                                 f"finalized version {level} of {name}.")
        record = RegisterBrokerRecord
        return Decision([record(
            broker_id=self.id,
            incarnation_id=self.incarnation_id,
            broker_epoch=self.epoch,
            end_points=[record.BrokerEndpoint(**endpoint._asdict())
                        for endpoint in self.endpoints],
            features=[
                record.BrokerFeature(
                    name=name, min_supported_version=first, max_supported_version=last)
                for name, (first, last) in SUPPORTED.items()
            ],
            rack=self.rack,
            fenced=True,
            log_dirs=sorted(self.log_dirs),
        )])


@dataclass(frozen=True)
class UnfenceBroker:
    """A registered broker has caught up: clients may be sent to it, and it may lead."""

    id: int
    epoch: int

    def decide(self, state: ControllerState, now_ms: int) -> Decision:
        """Its state, and a leader for each partition that waited for it."""
        _registered(state, self.id, self.epoch)
        change = BrokerRegistrationChangeRecord
        records: list[Message] = []
        if state.image.metadata_version >= _CORDONING:
            records.append(change(
                broker_id=self.id, broker_epoch=self.epoch, cordoned_log_dirs=[]))
        records.append(change(broker_id=self.id, broker_epoch=self.epoch, fenced=-1))
        records += elections.led_by(state, self.id)
        return Decision(records)


@dataclass(frozen=True)
class ShutDownBroker:
    """A broker stops in good order: it hands over what it leads, and is fenced."""

    id: int
    epoch: int

    def decide(self, state: ControllerState, now_ms: int) -> Decision:
        """As Kafka writes a controlled shutdown, in one batch."""
        _registered(state, self.id, self.epoch)
        change = BrokerRegistrationChangeRecord
        return Decision([
            change(broker_id=self.id, broker_epoch=self.epoch, in_controlled_shutdown=1),
            *elections.without(state, self.id),
            change(broker_id=self.id, broker_epoch=self.epoch, fenced=1),
        ])


@dataclass(frozen=True)
class UnregisterBroker:
    """A broker is gone for good. Nobody asks whether it runs: one that does has to start anew."""

    id: int

    def decide(self, state: ControllerState, now_ms: int) -> Decision:
        """What it led passes on, and its registration goes. Raises BROKER_ID_NOT_REGISTERED."""
        broker = state.image.brokers.get(self.id)
        if broker is None:
            raise KafkaError(Error.BROKER_ID_NOT_REGISTERED,
                             f"Broker ID {self.id} is not currently registered")
        return Decision([
            *elections.without(state, self.id),
            UnregisterBrokerRecord(broker_id=self.id, broker_epoch=broker.epoch),
        ])


def _registered(state: ControllerState, id: int, epoch: int) -> BrokerImage:
    broker = state.image.brokers.get(id)
    if broker is None:
        raise KafkaError(Error.BROKER_ID_NOT_REGISTERED)
    if broker.epoch != epoch:
        raise KafkaError(Error.STALE_BROKER_EPOCH,
                         f"Expected broker epoch {broker.epoch}, but got {epoch}")
    return broker
