"""What the cases about delegation tokens share: tokens that end with their case."""

from __future__ import annotations

import base64
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any

from wirekafka.conformance.case import Need
from wirekafka.conformance.cases.security.users import login
from wirekafka.conformance.stage import PreparationFailed, Stage
from wirekafka.errors import Error
from wirekafka.protocol.create_delegation_token import CreateDelegationTokenRequest
from wirekafka.protocol.describe_delegation_token import DescribeDelegationTokenRequest
from wirekafka.protocol.expire_delegation_token import ExpireDelegationTokenRequest
from wirekafka.protocol.renew_delegation_token import RenewDelegationTokenRequest

NEEDS = frozenset({Need.AUTHORIZER, Need.SCRAM, Need.TOKENS})
ALICE, BOB, CAROL = "alice", "bob", "carol"
"""Users of the cases, and the connections of these users."""
HOUR_MS = 3_600_000
DAY_MS = 24 * HOUR_MS
MINUTE_MS = 60_000


class CaseTokens:
    """The tokens that a case has created."""

    def __init__(self, stage: Stage) -> None:
        self._stage = stage
        self.created: list[tuple[str, Any]] = []
        """Who may end the token, and the answer that has it."""

    def create(
        self,
        by: str,
        *,
        owner: str = "",
        owner_type: str = "User",
        renewers: Sequence[tuple[str, str]] = (),
        lifetime_ms: int = -1,
        version: int | None = None,
    ) -> Any:
        """Ask for a token, and note its times; returns the answer."""
        request = creation(
            owner=owner, owner_type=owner_type, renewers=renewers, lifetime_ms=lifetime_ms
        )
        answer = self._stage.ask(request, version, by=by)
        if not answer.error_code:
            self._keep(by, answer)
            issued = answer.issue_timestamp_ms
            self._stage.note(
                "minutes until the expiry", minutes(answer.expiry_timestamp_ms, issued)
            )
            self._stage.note(
                "minutes of the longest life", minutes(answer.max_timestamp_ms, issued)
            )
            await_token(self._stage, answer.token_id, answer.expiry_timestamp_ms)
        return answer

    def prepare(self, by: str, **fields: Any) -> Any:
        """Create a token that is not compared; returns the answer."""
        answer = self._stage.do(creation(**fields), 3, by=by)
        if answer.error_code:
            raise PreparationFailed(f"CreateDelegationToken: {Error.of(answer.error_code).name}")
        self._keep(by, answer)
        await_token(self._stage, answer.token_id, answer.expiry_timestamp_ms)
        return answer

    def renew(self, by: str, token: Any, period_ms: int, version: int | None = None) -> Any:
        """Renew a token, and note until when, counted from its creation."""
        request = RenewDelegationTokenRequest(hmac=token.hmac, renew_period_ms=period_ms)
        return self._changed(self._stage.ask(request, version, by=by), token)

    def expire(self, by: str, token: Any, period_ms: int, version: int | None = None) -> Any:
        """Change when a token ends, and note it, counted from its creation."""
        request = ExpireDelegationTokenRequest(hmac=token.hmac, expiry_time_period_ms=period_ms)
        return self._changed(self._stage.ask(request, version, by=by), token)

    def end(self) -> None:
        """End all tokens."""
        for by, token in self.created:
            request = ExpireDelegationTokenRequest(hmac=token.hmac, expiry_time_period_ms=-1)
            with suppress(PreparationFailed):
                self._stage.do(request, 2, by=by)

    def _keep(self, by: str, token: Any) -> None:
        self.created.append((by, token))
        number = len(self.created)
        self._stage.call(token.token_id, f"TOKEN {number}")
        self._stage.call(bytes(token.hmac).decode("latin-1"), f"HMAC {number}")

    def _changed(self, answer: Any, token: Any) -> Any:
        if not answer.error_code:
            passed = minutes(answer.expiry_timestamp_ms, token.issue_timestamp_ms)
            self._stage.note("minutes until the expiry", passed)
        return answer


@contextmanager
def tokens_of(stage: Stage) -> Iterator[CaseTokens]:
    """Tokens that end with the case."""
    made = CaseTokens(stage)
    try:
        yield made
    finally:
        made.end()


def creation(
    *,
    owner: str = "",
    owner_type: str = "User",
    renewers: Sequence[tuple[str, str]] = (),
    lifetime_ms: int = -1,
) -> CreateDelegationTokenRequest:
    """A request for a token; without an owner, of the user who asks."""
    kind = CreateDelegationTokenRequest.CreatableRenewers
    return CreateDelegationTokenRequest(
        owner_principal_type=owner_type if owner else None,
        owner_principal_name=owner or None,
        renewers=[kind(principal_type=type, principal_name=name) for type, name in renewers],
        max_lifetime_ms=lifetime_ms,
    )


def description(*owners: tuple[str, str]) -> DescribeDelegationTokenRequest:
    """A request for the tokens of owners."""
    kind = DescribeDelegationTokenRequest.Owner
    return DescribeDelegationTokenRequest(
        owners=[kind(principal_type=type, principal_name=name) for type, name in owners]
    )


def await_token(stage: Stage, token_id: str, expiry_ms: int | None) -> None:
    """Wait until all brokers know when a token ends; None if it is gone."""
    everything = DescribeDelegationTokenRequest(owners=None)

    def is_known(node: int) -> bool:
        found = stage.do(everything, 2, at=node).tokens
        return {each.token_id: each.expiry_timestamp for each in found}.get(token_id) == expiry_ms

    def is_known_to_all() -> bool:
        return all(map(is_known, stage.target.nodes))

    stage.until(is_known_to_all, "the token")


def minutes(time_ms: int, since_ms: int) -> int:
    """The minutes between two times."""
    return round((time_ms - since_ms) / MINUTE_MS)


def log_in_by(stage: Stage, by: str, token: Any) -> None:
    """Have a connection log in by a token."""
    password = base64.b64encode(bytes(token.hmac)).decode()
    stage.log_in(by, login(stage, token.token_id, password=password, more=' tokenauth="true"'))
