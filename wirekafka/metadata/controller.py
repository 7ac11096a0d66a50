"""The controller machine, which turns admin requests into metadata records."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable
from functools import partial
from typing import Any

from wirekafka.config.broker_config import BrokerConfig
from wirekafka.metadata.command import Command, ControllerState
from wirekafka.metadata.heartbeats import fence
from wirekafka.metadata.image import MetadataImage
from wirekafka.metadata.sessions import Sessions, Verdict
from wirekafka.metadata.tokens import expired_tokens
from wirekafka.replication.machine import Outcome, Ticket
from wirekafka.replication.timers import Timers

_EXPIRED_TOKENS = "expired tokens"
"""The key of the timer that removes them."""


class Controller:
    """A `Machine` whose hard state is the metadata image; decisions are in the command classes.

    Its soft state is the brokers' sessions, each with a timer keyed by the broker's id. One more
    timer removes expired delegation tokens.
    """

    def __init__(self, config: Callable[[], BrokerConfig], new_id: Callable[[], bytes]):
        self.timers = Timers()
        now = config()
        self.state = ControllerState(
            MetadataImage(),
            config,
            new_id,
            Sessions(now.node_id, now.broker_session_timeout_ms, self.timers),
        )

    @property
    def image(self) -> MetadataImage:
        """The metadata with all appended records, committed or not."""
        return self.state.image

    def decide(self, command: Command, ticket: Ticket, now_ms: int) -> Outcome:
        """Decide on any `Command`. Raises `KafkaError`."""
        decision = command.decide(self.state, now_ms)
        outcome = Outcome(decision.records, ((ticket, decision.reply),))
        for effect in decision.effects:
            outcome.then(effect)
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

    def tick(self, key: Hashable, now_ms: int) -> Outcome:
        """Fence a broker that sent no heartbeat for `broker.session.timeout.ms`.

        Or, at `delegation.token.expiry.check.interval.ms`, remove expired tokens.
        """
        if key == _EXPIRED_TOKENS:
            outcome = Outcome(expired_tokens(self.state, now_ms))
            outcome.schedule(_EXPIRED_TOKENS, self._next_token_check(now_ms))
            return outcome
        assert isinstance(key, int), "a broker's id"
        sessions = self.state.sessions
        outcome = Outcome()
        match sessions.judge(key, now_ms):
            case Verdict.EXCUSED:
                outcome.then(partial(sessions.excuse, key, now_ms))
            case Verdict.OVERDUE:
                outcome.then(partial(sessions.await_heartbeat, key, now_ms))
            case Verdict.OVER:
                broker = self.image.brokers.get(key)
                if broker is not None and not broker.fenced:
                    outcome = Outcome(fence(self.state, broker))
                outcome.then(partial(sessions.end, key))
        return outcome

    def _next_token_check(self, now_ms: int) -> int:
        return now_ms + self.state.config.delegation_token_expiry_check_interval_ms

    def snapshot(self) -> Iterable[Any]:
        """The image as records."""
        return self.state.image.snapshot()
