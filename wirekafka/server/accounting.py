"""The account stage of a request: counts it against its client's quotas, which may throttle it."""

from __future__ import annotations

from typing import Any

from wirekafka.apis.registry import Call, Route
from wirekafka.quotas.client_quotas import ClientQuotas

_PRODUCE, _FETCH, _WRITE_TXN_MARKERS = 0, 1, 27
_EXEMPT = frozenset({_FETCH, _WRITE_TXN_MARKERS})
"""Fetch is counted by its handler, whose response depends on it; followers and markers never."""


def charge(quotas: ClientQuotas, route: Route, request: Any, call: Call) -> None:
    """Count a request that has been handled, and raise the throttle time of its response."""
    key = route.key
    if key in _EXEMPT or not call.is_authenticated:
        return
    account = call.account_of(quotas)
    throttle_ms = 0
    if key == _PRODUCE and account.produce is not None:
        throttle_ms = account.produce.record(call.request_bytes, call.now_ms)
    # Producers that get no response have no limit on work, as in Kafka.
    if account.request is not None and (key != _PRODUCE or request.acks):
        throttle_ms = max(throttle_ms, account.worked(call.take_work_ns(), call.now_ms))
    if throttle_ms > call.throttle_ms:
        call.throttle_ms = throttle_ms


def charge_failure(quotas: ClientQuotas, route: Route, call: Call) -> None:
    """Count the work for a request whose handler has failed, but none of its bytes."""
    if route.key == _WRITE_TXN_MARKERS or not call.is_authenticated:
        return
    throttle_ms = call.account_of(quotas).worked(call.take_work_ns(), call.now_ms)
    call.throttle_ms = max(throttle_ms, call.throttle_ms)


def charge_sending(call: Call) -> None:
    """Count the time since the last request was counted: encoding and sending its response."""
    quotas, account = call.broker.quotas, call.account
    if quotas is None:
        call.account = None
    elif account is not None and account.request is not None and quotas.measures_work:
        account.worked(call.take_work_ns(), call.now_ms)
