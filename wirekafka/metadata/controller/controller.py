"""The controller machine, which turns admin requests into metadata records."""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Iterable
from functools import partial
from typing import Any, TypeVar

from wirekafka.config.broker_config import BrokerConfig
from wirekafka.metadata.controller import heartbeats
from wirekafka.metadata.controller.command import ControllerCommand, ControllerState
from wirekafka.metadata.controller.periodic import Periodic
from wirekafka.metadata.controller.sessions import Sessions, Verdict
from wirekafka.metadata.controller.sweep import Running, Sweep, SweepKey
from wirekafka.metadata.controller.tokens import expired_tokens
from wirekafka.metadata.image.image import MetadataImage
from wirekafka.runtime.machine import Outcome, Ticket
from wirekafka.runtime.timers import Timers

_Reply = TypeVar("_Reply")

_EXPIRED_TOKENS = "expired tokens"
"""The key of the timer that removes them."""


class Controller:
    """A `Machine` whose hard state is the metadata image; decisions are in the command classes.

    Its soft state is the brokers' sessions, each with a timer keyed by the broker's id, and the
    sweeps that fence brokers in portions. Further timers remove expired delegation tokens, move
    leaderships back to the preferred replicas, and so on (`Periodic`). `voters` returns the ids of
    the quorum's controllers.
    """

    def __init__(
        self,
        config: Callable[[], BrokerConfig],
        new_id: Callable[[], bytes],
        image: MetadataImage | None = None,
        *,
        voters: Callable[[], Collection[int]] | None = None,
    ):
        """`image` is the state to go on from; None is the state of a new cluster."""
        self.timers = Timers()
        now = config()
        self.state = ControllerState(
            image or MetadataImage(),
            config,
            new_id,
            Sessions(now.node_id, now.broker_session_timeout_ms, self.timers),
            voters=voters or (lambda: (now.node_id,)),
        )
        self._periodic = Periodic(self.state)

    @property
    def image(self) -> MetadataImage:
        """The metadata with all appended records, committed or not."""
        return self.state.image

    def decide(
        self, command: ControllerCommand[_Reply], ticket: Ticket[_Reply], now_ms: int
    ) -> Outcome:
        """Decide on any `ControllerCommand`. Raises `KafkaError`."""
        decision = command.decide(self.state, now_ms)
        sweep = decision.sweep
        is_answered = sweep is None or not sweep.replies_last
        outcome = Outcome(decision.records, [(ticket, decision.reply)] if is_answered else ())
        for effect in decision.effects:
            outcome.then(effect)
        if sweep is not None:
            self._continue(outcome, Running(sweep, ticket), now_ms)
        return outcome

    def replay(self, record: Any) -> None:
        """Apply one record to the image."""
        self.state.image.replay(record)

    def loaded(self, now_ms: int) -> None:
        """Start the sessions of unfenced brokers, which have to find this controller first."""
        self.image.security.acl_index.is_loaded = True
        self.state.sessions.begin([broker.id for broker in self.image.live_brokers()], now_ms)
        if self.state.config.delegation_token_secret_key:
            self.timers.schedule(_EXPIRED_TOKENS, self._next_token_check(now_ms))
        for task, due_ms in self._periodic.first(now_ms):
            self.timers.schedule(task, due_ms)

    def tick(self, key: Hashable, now_ms: int) -> Outcome:
        """Fence a broker that sent no heartbeat for `broker.session.timeout.ms`.

        Or continue a sweep, remove expired tokens, or do a periodic task.
        """
        if key == _EXPIRED_TOKENS:
            outcome = Outcome(expired_tokens(self.state, now_ms))
            outcome.schedule(_EXPIRED_TOKENS, self._next_token_check(now_ms))
            return outcome
        if isinstance(key, SweepKey):
            return self._sweep_on(self.state.sweeps[key.broker], now_ms)
        if isinstance(key, str):
            records, due_ms = self._periodic.run(key, now_ms)
            outcome = Outcome(records)
            outcome.schedule(key, due_ms)
            return outcome
        assert isinstance(key, int), "a broker's id"
        return self._judge(key, now_ms)

    def _judge(self, id: int, now_ms: int) -> Outcome:
        """Decide on a broker whose session has ended."""
        sessions = self.state.sessions
        outcome = Outcome()
        match sessions.judge(id, now_ms):
            case Verdict.EXCUSED:
                outcome.then(partial(sessions.excuse, id, now_ms))
            case Verdict.OVERDUE:
                outcome.then(partial(sessions.await_heartbeat, id, now_ms))
            case Verdict.OVER if id in self.state.sweeps:
                outcome.then(partial(sessions.await_heartbeat, id, now_ms))
            case Verdict.OVER:
                broker = self.image.brokers.get(id)
                if broker is not None and not broker.fenced:
                    records, sweep = heartbeats.expired(self.state, broker)
                    outcome = Outcome(records)
                    if sweep is not None:
                        self._continue(outcome, Running(sweep, Ticket()), now_ms)
                outcome.then(partial(sessions.end, id))
        return outcome

    def _sweep_on(self, running: Running, now_ms: int) -> Outcome:
        """The next portion of a sweep."""
        sweep = running.sweep
        records, begin = sweep.portion(self.image, running.begin)
        if begin < len(sweep.pending):
            outcome = Outcome(records)
            self._continue(outcome, Running(sweep, running.ticket, begin), now_ms)
            return outcome
        outcome = Outcome(records, [(running.ticket, sweep.reply)] if sweep.replies_last else ())
        outcome.then(partial(self.state.sweeps.__delitem__, sweep.broker))
        for effect in sweep.ended:
            outcome.then(effect)
        return outcome

    def _continue(self, outcome: Outcome, running: Running, now_ms: int) -> None:
        sweep: Sweep = running.sweep
        outcome.then(partial(self.state.sweeps.__setitem__, sweep.broker, running))
        outcome.schedule(sweep.key, now_ms)

    def _next_token_check(self, now_ms: int) -> int:
        return now_ms + self.state.config.delegation_token_expiry_check_interval_ms

    def snapshot(self) -> Iterable[Any]:
        """The image as records."""
        return self.state.image.snapshot()
