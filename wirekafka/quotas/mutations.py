"""The limit on the partitions that one request creates or deletes (`controller_mutation_rate`)."""

from __future__ import annotations

from wirekafka.errors import Error, KafkaError
from wirekafka.quotas.token_bucket import TokenBucket


class MutationQuota:
    """The tokens that one request takes from its client, one for each partition (KIP-599).

    A strict quota refuses further changes as soon as there is a debt. For clients that do not know
    the error, a permissive quota allows all changes, and throttles the client for the debt.
    """

    __slots__ = ("_bucket", "_is_strict", "_spent", "_throttled_until_ms")

    def __init__(self, bucket: TokenBucket | None, *, is_strict: bool):
        self._bucket = bucket
        """None for a client without this quota."""
        self._is_strict = is_strict
        self._spent = 0
        """Tokens that are taken once the changes are made."""
        self._throttled_until_ms = 0

    def spend(self, partitions: int, now_ms: int) -> None:
        """Reserve tokens for one change. Raises THROTTLING_QUOTA_EXCEEDED."""
        bucket = self._bucket
        if bucket is None:
            return
        if not self._is_strict:
            self._spent += partitions
        if bucket.tokens(now_ms) >= self._spent:
            self._spent += partitions if self._is_strict else 0
            return
        self._throttled_until_ms = now_ms + bucket.throttle_ms(now_ms, self._spent)
        if self._is_strict:
            raise KafkaError(
                Error.THROTTLING_QUOTA_EXCEEDED, "The throttling quota has been exceeded."
            )

    def settle(self, now_ms: int) -> None:
        """Take the reserved tokens."""
        if self._bucket is not None and self._spent:
            self._bucket.take(self._spent, now_ms)
            self._spent = 0

    def throttle_ms(self, now_ms: int) -> int:
        """For how long the client must wait after this request."""
        return max(self._throttled_until_ms - now_ms, 0)


UNLIMITED = MutationQuota(None, is_strict=False)
