"""The account stage of a request: counts it against its client's quotas, which may throttle it."""

from __future__ import annotations

from typing import Any

from wirekafka.apis.registry import Call
from wirekafka.apis.routes import Route
from wirekafka.quotas.client_quotas import PERCENT_PER_NS, ClientQuotas

_PRODUCE, _FETCH, _WRITE_TXN_MARKERS = 0, 1, 27
_EXEMPT = frozenset({_FETCH, _WRITE_TXN_MARKERS})
"""Fetch is counted by its handler, whose response depends on it; followers and markers never."""


def charge(quotas: ClientQuotas, route: Route, request: Any, call: Call) -> None:
    """Count a request that has been handled, and raise the throttle time of its response."""
    key = route.key
    if key in _EXEMPT or not call.is_authenticated:
        call.began_ns = 0
        return
    account = call.account
    if (
        account is None
        or account.revision != quotas.revision
        or account.client_id != (call.client_id or "")
    ):
        account = call.account_of(quotas)
    if account.produce is not None and key == _PRODUCE:
        throttle_ms = account.produce.add(call.request_bytes, call.broker.clock.now_ms())
        if throttle_ms:
            call.throttle_ms = max(throttle_ms, call.throttle_ms)
    # Producers that get no response have no limit on work, as in Kafka.
    if account.request is not None and (key != _PRODUCE or request.acks):
        percent = call.take_work_ns() * PERCENT_PER_NS
        throttle_ms = account.request.add(percent, call.broker.clock.now_ms())
        if throttle_ms:
            call.throttle_ms = max(throttle_ms, call.throttle_ms)


def charge_failure(quotas: ClientQuotas, route: Route, call: Call) -> None:
    """Count the work for a request whose handler has failed, but none of its bytes."""
    if route.key == _WRITE_TXN_MARKERS or not call.is_authenticated:
        call.began_ns = 0
        return
    throttle_ms = call.account_of(quotas).worked(call.take_work_ns(), call.now_ms)
    call.throttle_ms = max(throttle_ms, call.throttle_ms)


def charge_sending(call: Call) -> None:
    """Count the time since the last request was counted: encoding and sending its response."""
    quotas, account = call.broker.quotas, call.account
    if quotas is not None and account is not None and account.request is not None:
        account.worked(call.take_work_ns(), call.now_ms)
    call.began_ns = call.worked_ns = 0
