"""The token bucket of `controller_mutation_rate`, and the two ways in which requests use it."""

from __future__ import annotations

import pytest

from wirekafka.errors import Error, KafkaError
from wirekafka.quotas.mutations import UNLIMITED, MutationQuota
from wirekafka.quotas.rate import Windows
from wirekafka.quotas.token_bucket import TokenBucket

NOW_MS = 1_700_000_000_000


def bucket(limit: float = 2) -> TokenBucket:
    return TokenBucket(Windows(11, 1000), limit)


def test_a_bucket_is_full_at_first_and_refills_at_its_rate() -> None:
    tokens = bucket()
    assert tokens.tokens(NOW_MS) == 22
    tokens.take(10, NOW_MS)
    assert tokens.tokens(NOW_MS) == 12
    assert tokens.tokens(NOW_MS + 1000) == 14
    assert tokens.tokens(NOW_MS + 60_000) == 22


def test_a_debt_takes_its_time_to_be_paid() -> None:
    tokens = bucket()
    tokens.take(25, NOW_MS)
    assert tokens.throttle_ms(NOW_MS) == 1500
    assert tokens.throttle_ms(NOW_MS + 1000) == 500
    assert tokens.throttle_ms(NOW_MS + 1500) == 0


def test_a_new_limit_applies_at_once() -> None:
    tokens = bucket()
    tokens.take(30, NOW_MS)
    tokens.limit = 8
    assert tokens.throttle_ms(NOW_MS) == 1000


def test_a_strict_quota_refuses_while_there_is_a_debt() -> None:
    tokens = bucket()
    quota = MutationQuota(tokens, is_strict=True)
    quota.spend(20, NOW_MS)
    quota.spend(5, NOW_MS)  # There are two tokens: the last change may go into debt.
    with pytest.raises(KafkaError) as refused:
        quota.spend(1, NOW_MS)
    assert refused.value.error is Error.THROTTLING_QUOTA_EXCEEDED
    assert quota.throttle_ms(NOW_MS) == 1500
    assert quota.throttle_ms(NOW_MS + 1000) == 500
    quota.settle(NOW_MS)
    assert tokens.tokens(NOW_MS) == -3


def test_a_permissive_quota_allows_and_throttles() -> None:
    tokens = bucket()
    quota = MutationQuota(tokens, is_strict=False)
    quota.spend(22, NOW_MS)
    assert quota.throttle_ms(NOW_MS) == 0
    quota.spend(3, NOW_MS)
    quota.spend(1, NOW_MS)
    assert quota.throttle_ms(NOW_MS) == 2000
    quota.settle(NOW_MS)
    assert tokens.tokens(NOW_MS) == -4


def test_nothing_is_taken_before_the_changes_are_made() -> None:
    tokens = bucket()
    MutationQuota(tokens, is_strict=True).spend(30, NOW_MS)
    assert tokens.tokens(NOW_MS) == 22


def test_a_client_without_a_quota_is_never_refused() -> None:
    UNLIMITED.spend(1_000_000, NOW_MS)
    UNLIMITED.settle(NOW_MS)
    assert UNLIMITED.throttle_ms(NOW_MS) == 0
