"""Broker heartbeats: they unfence, fence or shut down a broker (KIP-631)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

from wirekafka.codec.message import Message
from wirekafka.metadata import elections
from wirekafka.metadata.command import ControllerState, Decision
from wirekafka.metadata.image import BrokerImage
from wirekafka.metadata.records import BrokerRegistrationChangeRecord
from wirekafka.metadata.registration import registered

_CORDONING = 30
"""The metadata.version from which log directories can be cordoned (KIP-1066)."""


class Standing(NamedTuple):
    """The state of a broker in a BrokerHeartbeat response."""

    is_caught_up: bool
    is_fenced: bool
    should_shut_down: bool


@dataclass(frozen=True, kw_only=True)
class Heartbeat:
    """A broker's heartbeat, possibly with a request to be fenced or shut down.

    The reply is a `Standing`. `metadata_offset` is the last offset the broker has applied,
    `log_end` the end of the controller's log when this is submitted; `cordoned` are ids of log
    directories, None from a broker that did not report any; `offline` those of failed ones.
    """

    broker_id: int
    broker_epoch: int
    metadata_offset: int
    wants_fence: bool = False
    wants_shut_down: bool = False
    cordoned: Sequence[bytes] | None = None
    offline: Sequence[bytes] = ()
    log_end: int = 0

    def decide(self, state: ControllerState, now_ms: int) -> Decision:
        """Return the records of a state change.

        Raises BROKER_ID_NOT_REGISTERED, STALE_BROKER_EPOCH.
        """
        broker = registered(state, self.broker_id, self.broker_epoch)
        # The broker epoch is the offset of the registration record, which the broker must have.
        is_caught_up = self.metadata_offset >= broker.epoch
        heard = partial(state.sessions.touch, self.broker_id, now_ms, self.metadata_offset)
        if self.wants_shut_down:
            return self._shut_down(state, broker, Standing(is_caught_up, False, False), heard)
        failed = self._directories_failed(state, broker)
        if failed:
            return Decision(failed, Standing(is_caught_up, broker.fenced, False), [heard])
        records: Sequence[Message] = ()
        is_fenced = broker.fenced
        if broker.fenced and is_caught_up and not self.wants_fence:
            records, is_fenced = self._unfence(state), False
        elif not broker.fenced and self.wants_fence:
            records, is_fenced = fence(state, broker), True
        return Decision(records, Standing(is_caught_up, is_fenced, False), [heard])

    def _directories_failed(self, state: ControllerState, broker: BrokerImage) -> list[Message]:
        """Move leaderships away from failed log directories; none if they are known (KIP-858)."""
        online = broker.registration.log_dirs
        failed = {id for id in self.offline if id in online}
        if not failed:
            return []
        change = BrokerRegistrationChangeRecord(
            broker_id=broker.id,
            broker_epoch=broker.epoch,
            log_dirs=[id for id in online if id not in failed],
        )
        return [*elections.without(state, broker.id, failed), change]

    def _unfence(self, state: ControllerState) -> list[Message]:
        """Unfence the broker, and elect it in each partition that has no leader."""
        change = BrokerRegistrationChangeRecord
        records: list[Message] = []
        if self.cordoned is not None and state.image.metadata_version >= _CORDONING:
            records.append(
                change(
                    broker_id=self.broker_id,
                    broker_epoch=self.broker_epoch,
                    cordoned_log_dirs=list(self.cordoned),
                )
            )
        records.append(change(broker_id=self.broker_id, broker_epoch=self.broker_epoch, fenced=-1))
        return [*records, *elections.led_by(state, self.broker_id)]

    def _shut_down(
        self,
        state: ControllerState,
        broker: BrokerImage,
        stays: Standing,
        heard: Callable[[], None],
    ) -> Decision:
        """Move its leaderships; fence it and let it stop once all others have applied that."""
        sessions = state.sessions
        goes = stays._replace(is_fenced=True, should_shut_down=True)
        ended = [partial(sessions.end, broker.id)]
        if broker.fenced:
            return Decision((), goes, ended)
        change = BrokerRegistrationChangeRecord
        fenced = change(broker_id=broker.id, broker_epoch=broker.epoch, fenced=1)
        others = [other.id for other in state.image.live_brokers() if other.id != broker.id]
        if broker.registration.in_controlled_shutdown:
            if sessions.may_leave(broker.id, others):
                return Decision([fenced], goes, ended)
            return Decision((), stays, [heard])
        records = [
            change(broker_id=broker.id, broker_epoch=broker.epoch, in_controlled_shutdown=1),
            *elections.without(state, broker.id),
        ]
        if not others:
            return Decision([*records, fenced], goes, ended)
        end_offset = self.log_end + len(records)
        return Decision(records, stays, [heard, partial(sessions.leave, broker.id, end_offset)])


def fence(state: ControllerState, broker: BrokerImage) -> list[Message]:
    """The records that fence a broker and move its leaderships to other brokers."""
    return [
        *elections.without(state, broker.id),
        BrokerRegistrationChangeRecord(broker_id=broker.id, broker_epoch=broker.epoch, fenced=1),
    ]
