"""The account stage of a request: counts it against its client's quotas, which may throttle it."""

from __future__ import annotations

from typing import Any

from wirekafka.apis.registry import Call
from wirekafka.apis.routes import Route
from wirekafka.quotas.client_quotas import AMPLE_PERCENT, PERCENT_PER_NS, ClientQuotas

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
    produced = account.produce if key == _PRODUCE else None
    # Producers that get no response have no limit on work, as in Kafka.
    worked = account.request if key != _PRODUCE or request.acks else None
    if produced is None and worked is None:
        return
    now_ms = call.broker.clock.now_ms()
    if produced is not None:
        throttle_ms = produced.add(call.request_bytes, now_ms)
        if throttle_ms:
            call.throttle_ms = max(throttle_ms, call.throttle_ms)
    if worked is not None:
        if worked.pending + AMPLE_PERCENT <= worked.room and now_ms < worked.stable_until_ms:
            worked.pending_ms = now_ms  # `charge_sending` counts the work.
            return
        throttle_ms = worked.add(call.take_work_ns() * PERCENT_PER_NS, now_ms)
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
    """Count the work since the last time that it was counted, up to the sending of responses.

    The requests of one read are counted here together if the client's rate had ample room.
    """
    account = call.account
    if account is not None and (rate := account.request) is not None:
        worked_ns = call.worked_ns + call.broker.clock.work_ns() - call.began_ns
        rate.pending += worked_ns * PERCENT_PER_NS
    call.began_ns = call.worked_ns = 0
