"""Sessions of visitors, who log in as users of the brokers, and their tokens."""

from __future__ import annotations

import hashlib
import hmac
import secrets
import threading
import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from wirekafka.client.client import LoginRefused, MechanismRefused
from wirekafka.client.credentials import mechanisms_to_try, with_credentials
from wirekafka.client.pool import ClientPool
from wirekafka.console.registry_access import registry_of
from wirekafka.console.settings import ConsoleSettings
from wirekafka.console.source import Source

if TYPE_CHECKING:
    from wirekafka.client.schema_registry import SchemaRegistry

CLIENT_ID = "wirekafka-console"
_MOST_SESSIONS = 50
_IDLE_S = 8 * 3600
OpenSource = Callable[[ClientPool], Source]
"""Begins to collect a `Source` of a cluster, with the clients of one user."""


@dataclass(slots=True)
class UserAccount:
    """One user of the brokers: its clients, and the source of the cluster with its rights."""

    user: str | None
    pool: ClientPool
    source: Source
    registry: SchemaRegistry | None = None
    """The schema registry with the rights of the user; None if the console has none."""

    def close(self) -> None:
        """End its connections."""
        if self.registry is not None:
            self.registry.close()
        self.source.close()
        self.pool.close()


class SessionAccounts:
    """The account of each session; one for all visitors where nobody logs in.

    A session ends after eight hours without a request, or when it is the longest idle of 50.
    """

    def __init__(self, settings: ConsoleSettings, open_source: OpenSource) -> None:
        self._settings, self._open_source = settings, open_source
        self._lock = threading.Lock()
        self._sessions: OrderedDict[str, tuple[UserAccount, float]] = OrderedDict()
        self._shared: UserAccount | None = None
        if not settings.asks_for_login:
            pool = ClientPool(settings.bootstrap, settings.config, CLIENT_ID)
            registry = registry_of(settings)
            self._shared = UserAccount(None, pool, open_source(pool), registry)

    def of(self, session: str) -> UserAccount | None:
        """The account of a session, None if the visitor has to log in."""
        found = self.of_open_page(session)
        with self._lock:
            if found is not None and session in self._sessions:
                self._sessions[session] = (found, time.monotonic())
                self._sessions.move_to_end(session)
        return found

    def of_open_page(self, session: str) -> UserAccount | None:
        """As `of`, for a page that refreshes itself: the request does not prolong the session."""
        if self._shared is not None:
            return self._shared
        with self._lock:
            ended = self._drop_idle(time.monotonic())
            found = self._sessions.get(session)
        for account in ended:
            account.close()
        return None if found is None else found[0]

    def log_in(self, user: str, password: str) -> str:
        """Begin a session of a user; returns its name.

        Raises LoginRefused, the same for every name that the brokers refuse; ConnectionFailure;
        CliError for settings that take no password, or a name that no login can have.
        """
        if not user or not password:
            raise LoginRefused("Enter a name and a password.")
        registry = registry_of(self._settings, user, password)
        pool = self._logged_in(user, password)
        account = UserAccount(user, pool, self._open_source(pool), registry)
        session = secrets.token_urlsafe(32)
        with self._lock:
            self._sessions[session] = (account, time.monotonic())
            ended = self._drop_idle(time.monotonic())
        for each in ended:
            each.close()
        return session

    def log_out(self, session: str) -> None:
        """End a session."""
        with self._lock:
            found = self._sessions.pop(session, None)
        if found is not None:
            found[0].close()

    def token(self, session: str) -> str:
        """The token that the forms of a session carry, so that no other site can submit them."""
        return hmac.new(self._settings.secret, session.encode(), hashlib.sha256).hexdigest()

    def close(self) -> None:
        """End all sessions."""
        with self._lock:
            accounts = [account for account, _ in self._sessions.values()]
            self._sessions.clear()
        for account in [*accounts, *([self._shared] if self._shared else [])]:
            account.close()

    def _logged_in(self, user: str, password: str) -> ClientPool:
        """Clients by the strongest mechanism that the brokers offer and the user has.

        Each mechanism is tried once, and none is left out for a name that is refused: what a
        visitor learns does not depend on it.
        """
        settings = self._settings
        assert settings.config is not None, "visitors log in"
        missing, refused = [], []
        for mechanism in mechanisms_to_try(settings.config):
            source = "the login page"
            config = with_credentials(settings.config, user, password, source, mechanism)
            pool = ClientPool(settings.bootstrap, config, CLIENT_ID)
            try:
                with pool.client() as client:
                    client.any()
            except MechanismRefused as error:
                missing.append(str(error))
            except LoginRefused:
                refused.append(mechanism)
            else:
                return pool
        if not refused:
            hint = "PLAIN is tried over TLS only, or if sasl.mechanism is PLAIN."
            raise LoginRefused(f"{missing[-1]}. {hint}")
        tried = ", ".join(refused)
        reason = f"the brokers do not accept this name with this password, by {tried}"
        raise LoginRefused(f"Authentication failed: {reason}.")

    def _drop_idle(self, now_s: float) -> list[UserAccount]:
        ended = []
        while self._sessions:
            session, (account, used_s) = next(iter(self._sessions.items()))
            if len(self._sessions) <= _MOST_SESSIONS and now_s - used_s < _IDLE_S:
                break
            del self._sessions[session]
            ended.append(account)
        return ended
