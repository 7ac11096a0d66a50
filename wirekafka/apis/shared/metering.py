"""What is counted of a connection's requests: work and bytes for quotas, traffic for metrics."""

from __future__ import annotations

from typing import TYPE_CHECKING

from wirekafka.clock import Clock

if TYPE_CHECKING:
    from wirekafka.metrics.requests import ClientTraffic
    from wirekafka.quotas.client_quotas import Account, ClientQuotas

_NEVER = -2


class Metering:
    """The account and the work of one connection's current request.

    All but `traffic` is only used while quotas are stored.
    """

    __slots__ = (
        "account",
        "began_ns",
        "counted_client_id",
        "is_limited",
        "request_bytes",
        "revision",
        "traffic",
        "unmeasured_revision",
        "work_ns",
        "worked_ns",
    )

    def __init__(self, clock: Clock):
        self.account: Account | None = None
        """The quotas that the last request was counted against. Use `Call.account_of`."""
        self.counted_client_id: str | None = None
        self.revision = -1
        """The client id and the state of the quotas with which `account` was found."""
        self.is_limited = False
        self.unmeasured_revision = -1
        """The `ClientQuotas.work_revision` since which no account has a `request_percentage`."""
        self.request_bytes = 0
        """The size of a request that waits."""
        self.work_ns = clock.work_ns
        self.began_ns = 0
        """When the work began that is not counted yet; 0 if none is measured. The next request in
        the same buffer begins where the one before ended."""
        self.worked_ns = 0
        """How long the work had taken before the last wait."""
        self.traffic: ClientTraffic | None = None
        """The counters of clients with the same software; None while there are no metrics."""

    def forget_account(self) -> None:
        """Find the account again for the next request: the client has another identity."""
        self.account = None
        self.revision = self.unmeasured_revision = -1

    def knows_account(self, client_id: str | None, quotas: ClientQuotas) -> bool:
        """Whether the account still belongs to the client."""
        return self.revision == quotas.revision and client_id == self.counted_client_id

    def use_account(self, account: Account, quotas: ClientQuotas) -> None:
        """Count the current request against an account."""
        if account.request is not None:
            self.unmeasured_revision = _NEVER
        elif self.revision != quotas.revision:
            self.unmeasured_revision = quotas.work_revision
        self.account, self.revision = account, quotas.revision
        self.is_limited = account.is_limited
        self.counted_client_id = account.client_id

    def begin_work(self, quotas: ClientQuotas) -> None:
        """Measure the work for a request, if it is counted and not measured already."""
        if self.unmeasured_revision != quotas.work_revision and not self.began_ns:
            self.began_ns = self.work_ns()

    def pause_work(self, request_bytes: int) -> None:
        """Exclude the time until `resume_work` from the work for a request of this size."""
        self.request_bytes = request_bytes
        if self.began_ns:
            self.worked_ns += self.work_ns() - self.began_ns
            self.began_ns = 0

    def resume_work(self) -> None:
        """Measure the work for the request again, after a wait."""
        self.began_ns = self.work_ns()

    def take_work_ns(self) -> int:
        """Return the duration of the work for the request so far, and measure from 0 again."""
        now_ns = self.work_ns()
        worked_ns = self.worked_ns + now_ns - (self.began_ns or now_ns)
        self.began_ns, self.worked_ns = now_ns, 0
        return worked_ns
