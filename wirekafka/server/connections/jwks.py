"""Fetches identity providers' keys from files and URLs, off the event loop (KIP-768)."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from wirekafka.clock import Clock, Timer
from wirekafka.config.option import ConfigError
from wirekafka.config.reference import reason_about
from wirekafka.config.small_file import MOST_BYTES, read_small_file
from wirekafka.runtime.backoff import Backoff
from wirekafka.security.sasl.mechanisms import KeySource

if TYPE_CHECKING:
    from joserfc.jwk import Key

logger = logging.getLogger(__name__)

_TIMEOUT_S = 10.0
_EXPEDITED_AFTER_MS = 10_000
"""How long after a fetch an unknown key id causes the next fetch."""
_OPTION = "sasl.oauthbearer.jwks.endpoint.url"


class KeyCache:
    """The keys of all providers of a listener, refreshed while the broker runs."""

    def __init__(self, clock: Clock):
        self._clock = clock
        self._providers: dict[KeySource, _Provider] = {}
        self._is_started = False

    def lookup(self, source: KeySource) -> Callable[[str | None], Sequence[Key]]:
        """The function that finds a provider's keys by key id. Raises ConfigError for its URL."""
        provider = self._providers.get(source)
        if provider is None:
            provider = self._providers[source] = _Provider(source, self._clock)
            if self._is_started:
                provider.refresh()
        return provider.keys

    async def start(self) -> None:
        """Fetch the keys of every provider. Raises ConfigError if one cannot be fetched."""
        self._is_started = True
        for provider in self._providers.values():
            await provider.start()

    def stop(self) -> None:
        """Fetch no more."""
        for provider in self._providers.values():
            provider.stop()


class _Provider:
    def __init__(self, source: KeySource, clock: Clock):
        if urlsplit(source.url).scheme.lower() not in ("file", "https", "http"):
            raise ConfigError(_OPTION, source.url, "must be a file, https or http URL")
        self._source = source
        self._backoff = Backoff(source.retry_backoff_ms, source.retry_backoff_max_ms)
        self._clock = clock
        self._keys: Sequence[Key] = ()
        self._fetched_ms = 0
        self._failures = 0
        self._timer: Timer | None = None
        self._task: asyncio.Task[None] | None = None

    def keys(self, key_id: str | None) -> Sequence[Key]:
        """The keys of this id, or all; an unknown id is looked for in the background."""
        if key_id is None:
            return self._keys
        found = [key for key in self._keys if key.kid == key_id]
        if not found and self._clock.now_ms() - self._fetched_ms >= _EXPEDITED_AFTER_MS:
            self.refresh()
        return found

    async def start(self) -> None:
        try:
            await self._fetch()
        except (OSError, ValueError) as error:
            reason = reason_about(self._source.url, f"cannot be read: {error}")
            raise ConfigError(_OPTION, self._source.url, reason) from None
        self._schedule(self._source.refresh_ms)

    def refresh(self) -> None:
        """Fetch the keys again in the background, unless a fetch is in progress."""
        if self._task is None:
            if self._timer is not None:
                self._timer.cancel()
            self._task = asyncio.get_running_loop().create_task(self._refresh())

    def stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        if self._task is not None:
            self._task.cancel()

    async def _refresh(self) -> None:
        delay_ms: float = self._source.refresh_ms
        try:
            await self._fetch()
            self._failures = 0
        except (OSError, ValueError) as error:
            # The present keys stay: an outage of the provider must not lock clients out.
            delay_ms = self._backoff.delay_ms(self._failures)
            self._failures += 1
            url = self._source.url
            logger.warning("The keys at %s cannot be read: %s", url, reason_about(url, str(error)))
        finally:
            self._task = None
        self._schedule(delay_ms)

    def _schedule(self, delay_ms: float) -> None:
        self._timer = self._clock.call_later(delay_ms, self.refresh)

    async def _fetch(self) -> None:
        self._fetched_ms = self._clock.now_ms()
        self._keys = await asyncio.to_thread(_read, self._source.url)


def _read(url: str) -> Sequence[Key]:
    """Read and parse a key set. Raises OSError, or ValueError for a document of another form."""
    from wirekafka.security.sasl.jwt import read_keys

    document = _document(url)
    if len(document) > MOST_BYTES:
        raise ValueError(f"larger than {MOST_BYTES} bytes")
    return read_keys(document)


def _document(url: str) -> bytes:
    """The first bytes of a document, one more than are allowed. Raises OSError."""
    from http.client import HTTPException
    from urllib.request import url2pathname, urlopen

    parts = urlsplit(url)
    if parts.scheme.lower() == "file":
        return read_small_file(url2pathname(parts.path))
    try:
        # Other schemes than http and https were refused when the URL was configured.
        with urlopen(url, timeout=_TIMEOUT_S) as response:  # noqa: S310
            found: bytes = response.read(MOST_BYTES + 1)
    except HTTPException as error:
        raise OSError(str(error) or type(error).__name__) from error
    return found
