"""The account stage of a request: counts it against its client's quotas, which may throttle it."""

from __future__ import annotations

from typing import Any

from wirekafka.apis.shared.call import Call
from wirekafka.apis.shared.routes import Route
from wirekafka.quotas.client_quotas import PERCENT_PER_NS, ClientQuotas

_PRODUCE, _WRITE_TXN_MARKERS = 0, 27


def charge(quotas: ClientQuotas, route: Route, request: Any, call: Call, size_bytes: int) -> None:
    """Count a request that has been handled, and raise the throttle time of its response."""
    metering = call.metering
    if route.is_exempt or not call.client.is_authenticated:
        metering.began_ns = 0
        return
    account = metering.account
    if account is None or not metering.knows_account(call.client_id, quotas):
        account = call.account_of(quotas)
    worked = account.request
    if route.key != _PRODUCE:
        if worked is None:
            return
        now_ms, produced = call.now_ms, None
    else:
        now_ms, produced = call.seen_ms, account.produce
        if not request.acks:
            worked = None  # Producers that get no response have no limit on work, as in Kafka.
    if produced is not None and (throttle_ms := produced.add(size_bytes, now_ms)):
        call.throttle_ms = max(throttle_ms, call.throttle_ms)
    if worked is not None:
        if now_ms < worked.ample_until_ms:
            worked.pending_ms = now_ms  # `charge_sending` counts the work.
        elif throttle_ms := worked.add(metering.take_work_ns() * PERCENT_PER_NS, now_ms):
            call.throttle_ms = max(throttle_ms, call.throttle_ms)


def charge_failure(quotas: ClientQuotas, route: Route, call: Call) -> None:
    """Count the work for a request whose handler has failed, but none of its bytes."""
    if route.key == _WRITE_TXN_MARKERS or not call.client.is_authenticated:
        call.metering.began_ns = 0
        return
    throttle_ms = call.account_of(quotas).worked(call.metering.take_work_ns(), call.now_ms)
    call.throttle_ms = max(throttle_ms, call.throttle_ms)


def charge_sending(call: Call) -> None:
    """Count the work since the last time that it was counted, up to the sending of responses.

    The requests of one read are counted here together if the client's rate had ample room.
    """
    metering = call.metering
    account = metering.account
    if account is not None and (rate := account.request) is not None:
        worked_ns = metering.worked_ns + metering.work_ns() - metering.began_ns
        pending = rate.pending = rate.pending + worked_ns * PERCENT_PER_NS
        if pending > rate.ample:
            rate.ample_until_ms = 0
    metering.began_ns = metering.worked_ns = 0
