"""Broker heartbeats: they unfence, fence or shut down a broker (KIP-631)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import KW_ONLY, replace
from enum import Enum, auto
from functools import partial
from typing import Any, NamedTuple

from wirekafka.codec.message import Message
from wirekafka.metadata.controller import elections
from wirekafka.metadata.controller.command import ControllerCommand, ControllerState, Decision
from wirekafka.metadata.controller.registration import registered
from wirekafka.metadata.controller.sweep import Sweep, begin
from wirekafka.metadata.image.framing import CORDONED_SINCE
from wirekafka.metadata.image.image import BrokerImage
from wirekafka.protocol.records.metadata import BrokerRegistrationChangeRecord
from wirekafka.runtime.machine import command


class Standing(NamedTuple):
    """The state of a broker in a BrokerHeartbeat response."""

    is_caught_up: bool
    is_fenced: bool
    should_shut_down: bool


class _State(Enum):
    """The states of a broker for the controller."""

    FENCED = auto()
    UNFENCED = auto()
    LEAVING = auto()
    """In a controlled shutdown."""
    GONE = auto()
    """Fenced, and free to shut down."""


@command
class BrokerHeartbeat(ControllerCommand[Standing]):
    """A broker's heartbeat, possibly with a request to be fenced or shut down.

    The reply is a `Standing`. `metadata_offset` is the last offset the broker has applied,
    `log_end` the end of the controller's log when this is submitted; `cordoned` are the ids of
    cordoned log directories, None from a broker that did not report any; `offline` the ids of
    failed directories.
    """

    _: KW_ONLY

    broker_id: int
    broker_epoch: int
    metadata_offset: int
    wants_fence: bool = False
    wants_shut_down: bool = False
    cordoned: Sequence[bytes] | None = None
    offline: Sequence[bytes] = ()
    log_end: int = 0

    def decide(self, state: ControllerState, now_ms: int) -> Decision[Standing]:
        """Return the records of a state change.

        Raises as `registered`.
        """
        broker = registered(state, self.broker_id, self.broker_epoch)
        sessions = state.sessions
        heard = partial(sessions.touch, broker.id, now_ms)
        is_caught_up = self._is_caught_up(state, broker)
        running = state.sweeps.get(broker.id)
        if running is not None:
            is_fenced = broker.fenced or running.sweep.is_gone
            return Decision((), Standing(is_caught_up, is_fenced, False), [heard])
        before = _present(state, broker)
        after = self._next(state, broker, before)
        records, sweep = self._changes(state, broker, (before, after))
        if after is _State.LEAVING and sweep is None and _is_alone(state, broker.id):
            records.append(fencing(broker))
            after = _State.GONE
        offset = self.metadata_offset
        if any(isinstance(each, BrokerRegistrationChangeRecord) for each in records):
            offset = -1  # As in Kafka, the broker must report an offset again.
        effects = [heard, partial(sessions.applied, broker.id, offset)]
        if after is not _State.LEAVING:
            effects.append(partial(sessions.stay, broker.id))
        else:
            effects.append(partial(sessions.leave, broker.id))
            if sweep is None:
                last_offset = self.log_end + len(records) - 1
                effects.append(partial(sessions.has_moved, broker.id, last_offset))
        is_fenced = after in (_State.FENCED, _State.GONE)
        standing = Standing(is_caught_up, is_fenced, after is _State.GONE)
        return Decision(records, standing, effects, sweep)

    def _is_caught_up(self, state: ControllerState, broker: BrokerImage) -> bool:
        return self.metadata_offset >= state.sessions.registration_offset(broker.id, broker.epoch)

    def _next(self, state: ControllerState, broker: BrokerImage, present: _State) -> _State:
        match present:
            case _State.FENCED:
                if self.wants_shut_down:
                    return _State.GONE
                is_ready = not self.wants_fence and self._is_caught_up(state, broker)
                return _State.UNFENCED if is_ready else _State.FENCED
            case _State.UNFENCED if self.wants_fence:
                return _State.GONE if self.wants_shut_down else _State.FENCED
            case _State.UNFENCED if self.wants_shut_down:
                return _State.LEAVING if _leads(state, broker.id) else _State.GONE
            case _State.LEAVING:
                others = [each.id for each in state.image.live_brokers() if each.id != broker.id]
                has_left = state.sessions.may_leave(broker.id, others)
                is_over = has_left and not _leads(state, broker.id)
                return _State.GONE if is_over else _State.LEAVING
            case _:
                return present

    def _changes(
        self, state: ControllerState, broker: BrokerImage, step: tuple[_State, _State]
    ) -> tuple[list[Message], Sweep | None]:
        """The records of the step, of failed directories, and of cordoned directories.

        If the step changes partitions, directories have to wait for the next heartbeat.
        """
        first: list[Message] = []
        last: list[Message] = []
        sweep = None
        match step:
            case before, after if before is after:
                pass
            case _, _State.FENCED | _State.GONE:
                sweep = elections.without(state, broker.id)
                last.append(fencing(broker))
            case _, _State.UNFENCED:
                first.append(_change(broker, fenced=-1))
                sweep = elections.leaderless(state, broker.id)
            case _:
                if not broker.registration.in_controlled_shutdown:
                    first.append(_change(broker, in_controlled_shutdown=1))
                sweep = elections.without(state, broker.id)
        online = broker.registration.log_dirs
        failed = {id for id in self.offline if id in online}
        if failed and (sweep is None or not sweep.pending):
            first, last = [*first, *last], []
            sweep = elections.without_directories(state, broker.id, failed)
            last.append(_change(broker, log_dirs=[id for id in online if id not in failed]))
        last += self._cordoned(state, broker)
        if sweep is None:
            return [*first, *last], None
        return begin(state.image, first, replace(sweep, last=lambda: last))

    def _cordoned(self, state: ControllerState, broker: BrokerImage) -> list[Message]:
        known = broker.registration.cordoned_log_dirs
        if self.cordoned is None or state.image.metadata_version < CORDONED_SINCE:
            return []
        if known is not None and set(known) == set(self.cordoned):
            return []
        return [_change(broker, cordoned_log_dirs=list(self.cordoned))]


def fencing(broker: BrokerImage) -> Message:
    """The record that fences a broker."""
    return _change(broker, fenced=1)


def expired(state: ControllerState, broker: BrokerImage) -> tuple[list[Message], Sweep | None]:
    """The records that fence a broker whose session is over; the sweep has further records."""
    sweep = elections.without(state, broker.id)
    return begin(state.image, (), replace(sweep, last=lambda: [fencing(broker)]))


def _present(state: ControllerState, broker: BrokerImage) -> _State:
    if broker.fenced:
        return _State.FENCED
    return _State.LEAVING if state.sessions.is_leaving(broker.id) else _State.UNFENCED


def _is_alone(state: ControllerState, broker: int) -> bool:
    """Whether a leaving broker is the controller's own and nobody else is in service.

    Kafka fences it at its second heartbeat; nobody has to apply anything in between.
    """
    alive = state.image.live_brokers()
    return broker == state.config.node_id and [each.id for each in alive] == [broker]


def _leads(state: ControllerState, broker: int) -> bool:
    return any(
        partition.leader == broker
        for topic in state.image.topics.values()
        for partition in topic.partitions.values()
    )


def _change(broker: BrokerImage, **fields: Any) -> BrokerRegistrationChangeRecord:
    return BrokerRegistrationChangeRecord(broker_id=broker.id, broker_epoch=broker.epoch, **fields)
