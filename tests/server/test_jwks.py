"""Identity providers' keys while a provider fails: the present ones stay, and it is asked again."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from pathlib import Path
from urllib.parse import quote

import pytest
from joserfc.jwk import ECKey

from tests.config.test_small_file import hostile_paths
from tests.eventually import eventually_async
from tests.manual_clock import ManualClock
from wirekafka.config.option import ConfigError
from wirekafka.config.reference import Resolved
from wirekafka.security.sasl.mechanisms import KeySource
from wirekafka.server.connections.jwks import KeyCache

_REFRESH_MS, _RETRY_MS, _LONGEST_RETRY_MS = 3_600_000, 100, 300


class Provider:
    """Answers each HTTP request with the current bytes, and counts the requests."""

    def __init__(self) -> None:
        self.requests = 0
        self.answer = b""
        self.url = ""
        self.publish("first")

    def publish(self, key_id: str) -> None:
        key = ECKey.generate_key(private=False, parameters={"kid": key_id})
        body = json.dumps({"keys": [key.as_dict(private=False)]}).encode()
        self.answer = b"HTTP/1.0 200 OK\r\nContent-Length: %d\r\n\r\n%s" % (len(body), body)

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        self.requests += 1
        writer.write(self.answer)
        await writer.drain()
        writer.close()


def with_provider(scenario: Callable[[Provider, KeyCache, ManualClock], Awaitable[None]]) -> None:
    async def run() -> None:
        provider, clock = Provider(), ManualClock()
        cache = KeyCache(clock)
        server = await asyncio.start_server(provider.serve, "127.0.0.1", 0)
        provider.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/keys"
        try:
            await scenario(provider, cache, clock)
        finally:
            cache.stop()
            server.close()

    asyncio.run(run())


def source(provider: Provider) -> KeySource:
    return KeySource(provider.url, _REFRESH_MS, _RETRY_MS, _LONGEST_RETRY_MS)


@pytest.mark.parametrize("broken", [b"nonsense\r\n\r\n", b"HTTP/1.0 500 no\r\n\r\n", b""])
def test_a_failing_provider_is_asked_again_and_its_last_keys_stay(
    broken: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    async def scenario(provider: Provider, cache: KeyCache, clock: ManualClock) -> None:
        lookup = cache.lookup(source(provider))
        await cache.start()
        provider.answer = broken
        clock.advance(_REFRESH_MS)
        await eventually_async(lambda: "cannot be read" in caplog.text)
        assert [key.kid for key in lookup(None)] == ["first"]
        provider.publish("second")
        clock.advance(_RETRY_MS)
        await eventually_async(lambda: [key.kid for key in lookup(None)] == ["second"])
        assert provider.requests == 3

    with_provider(scenario)


def test_no_listener_starts_without_keys() -> None:
    async def scenario(provider: Provider, cache: KeyCache, clock: ManualClock) -> None:
        cache.lookup(source(provider))
        provider.answer = b"nonsense\r\n\r\n"
        with pytest.raises(ConfigError, match="cannot be read: nonsense"):
            await cache.start()

    with_provider(scenario)


def test_files_that_are_no_key_sets_are_refused_at_once(tmp_path: Path) -> None:
    async def scenario() -> None:
        for path in hostile_paths(tmp_path).values():
            if not path:
                continue
            cache = KeyCache(ManualClock())
            url = "file://" + quote(path)
            cache.lookup(KeySource(url, _REFRESH_MS, _RETRY_MS, _LONGEST_RETRY_MS))
            with pytest.raises(ConfigError, match="cannot be read"):
                async with asyncio.timeout(5):
                    await cache.start()

    asyncio.run(scenario())


def test_a_url_that_a_config_provider_has_is_in_no_message(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def scenario() -> None:
        for url in ("file:///planted-secret", "http://planted-secret:x/", "http://planted secret/"):
            cache = KeyCache(ManualClock())
            source = KeySource(Resolved(url), _REFRESH_MS, _RETRY_MS, _LONGEST_RETRY_MS)
            cache.lookup(source)
            with pytest.raises(ConfigError) as refused:
                await cache.start()
            assert "planted" not in str(refused.value) + repr(refused.value) + repr(source)

    asyncio.run(scenario())
    assert "planted" not in caplog.text
