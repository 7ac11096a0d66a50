"""TLS below a connection: handshakes off the event loop, then encryption by `ssl` in memory.

`ssl` itself speaks TLS; here are its buffers, its deadlines, and the transport for a connection.
asyncio's and uvloop's own TLS hide why a handshake failed, and keep buffers of half a megabyte for
each connection from the moment it is accepted.
"""

from __future__ import annotations

import asyncio
import os
import ssl
from collections import OrderedDict
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from queue import SimpleQueue
from threading import Thread
from typing import Any, Protocol, cast

from wirekafka.security.tls_context import Secured

INBOX_BYTES = 1 << 16
"""How much ciphertext is read at a time: it is copied once, to where OpenSSL decrypts it."""
_JOINED_BYTES = 1 << 14
"""Buffers of up to a TLS record together are joined into one: each record costs 22 bytes."""
_HANDSHAKE_RECORD = 0x16
_MOST_THREADS = 2

_Done = Callable[[Exception | None], None]
_Step = tuple[Callable[[], None], _Done]


class TlsOwner(Protocol):
    """The listener, as its TLS connections see it."""

    inbox: memoryview
    """The read buffer, which all connections share."""
    handshakes: Handshakes

    def admit(self, link: TlsLink, transport: asyncio.Transport) -> Secured | None:
        """Count a new connection; None if it is refused and must be closed."""

    def begun(self, link: TlsLink) -> None:
        """Note that a handshake has begun, which may close older handshakes."""

    def established(
        self, link: TlsLink, transport: TlsTransport
    ) -> asyncio.BufferedProtocol | None:
        """Return the protocol of a connection whose handshake is complete; None to close it."""

    def failed(self, link: TlsLink, reason: str) -> None:
        """Log why a handshake has failed; `reason` is one of few constant texts."""

    def rejected(self) -> None:
        """Count a handshake in which one side has refused the other."""

    def departed(self, link: TlsLink) -> None:
        """Uncount a connection that was closed before it was established."""


class Handshakes:
    """The threads in which handshakes are computed: signatures take a millisecond or several.

    Few steps are handed over to the threads ahead. Further steps wait here, and are dropped if
    their client leaves: hostile clients come and go much faster than handshakes are computed. The
    threads run as little Python as possible, because the event loop does not run meanwhile. With an
    executor and a future for each step, a hostile handshake took twice the CPU.
    """

    def __init__(self) -> None:
        self._jobs: SimpleQueue[_Step | None] | None = None
        self._waiting: OrderedDict[TlsLink, _Step] = OrderedDict()
        self._threads = 0
        self._handed_over = 0

    def run(self, link: TlsLink, step: Callable[[], None], done: _Done) -> None:
        """Run one step of a handshake in a thread, and then call `done` on the event loop."""
        self._waiting[link] = step, done
        self._hand_over(self._jobs or self._start_threads())

    def cancel(self, link: TlsLink) -> None:
        """Drop a step that has not begun: the client has left."""
        self._waiting.pop(link, None)

    def stop(self) -> None:
        """End the threads; the steps that wait here are dropped."""
        self._waiting.clear()
        if self._jobs is not None:
            for _ in range(self._threads):
                self._jobs.put(None)
            self._jobs = None

    def _start_threads(self) -> SimpleQueue[_Step | None]:
        # The event loop has a processor for itself, if there is more than one.
        self._threads = min(_MOST_THREADS, max(1, (os.cpu_count() or 1) - 1))
        self._handed_over = 0
        self._jobs = jobs = SimpleQueue[_Step | None]()
        work = partial(self._work, jobs, asyncio.get_running_loop())
        for _ in range(self._threads):
            Thread(target=work, name="tls-handshake", daemon=True).start()
        return jobs

    def _hand_over(self, jobs: SimpleQueue[_Step | None]) -> None:
        # One more than there are threads, so that none waits for the event loop between two steps.
        while self._waiting and self._handed_over <= self._threads:
            self._handed_over += 1
            jobs.put(self._waiting.popitem(last=False)[1])

    def _work(self, jobs: SimpleQueue[_Step | None], loop: asyncio.AbstractEventLoop) -> None:
        while (job := jobs.get()) is not None:
            step, done = job
            error = None
            try:
                step()
            except Exception as failure:
                error = failure
            with suppress(RuntimeError):  # The loop is closed.
                loop.call_soon_threadsafe(self._ended, jobs, done, error)
            del job, step, done, error

    def _ended(self, jobs: SimpleQueue[_Step | None], done: _Done, error: Exception | None) -> None:
        if jobs is self._jobs:
            self._handed_over -= 1
            self._hand_over(jobs)
        done(error)


class TlsTransport(asyncio.Transport):
    """Encrypts the bytes that a connection writes; the connection's view of its TLS connection."""

    def __init__(self, link: TlsLink, plain: asyncio.Transport, tls: ssl.SSLObject):
        super().__init__()
        self._extra_info: dict[str, object] = {"ssl_object": tls}
        self._link = link
        self._plain = plain
        self._tls = tls
        self.is_reading_paused = False

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        if name in self._extra_info:
            return self._extra_info[name]
        return self._plain.get_extra_info(name, default)

    def set_extra_info(self, name: str, value: object) -> None:
        """Add something that `get_extra_info` returns."""
        self._extra_info[name] = value

    def write(self, data: bytes | bytearray | memoryview) -> None:
        if data and not self._plain.is_closing():
            self._encrypt(data)
            self._link.flush()

    def writelines(self, list_of_data: Any) -> None:
        if self._plain.is_closing():
            return
        buffers = list(list_of_data)
        if sum(map(len, buffers)) <= _JOINED_BYTES:
            buffers = [b"".join(buffers)]
        for data in buffers:
            if data:
                self._encrypt(data)
        self._link.flush()

    def _encrypt(self, data: bytes | bytearray | memoryview) -> None:
        try:
            sent = self._tls.write(data)
            while sent < len(data):
                sent += self._tls.write(memoryview(data)[sent:])
        except ssl.SSLError:
            self._plain.abort()  # The peer has broken the protocol: nothing can be sent any more.

    def pause_reading(self) -> None:
        self.is_reading_paused = True
        self._plain.pause_reading()

    def resume_reading(self) -> None:
        self.is_reading_paused = False
        self._plain.resume_reading()
        self._link.read_later()

    def close(self) -> None:
        """Send the pending output, then the end of the TLS connection, and close."""
        if self._plain.is_closing():
            return
        with suppress(ssl.SSLError):
            self._tls.unwrap()  # Raises SSLWantReadError: the peer's own end is not awaited.
        self._link.flush()
        self._plain.close()

    def abort(self) -> None:
        self._plain.abort()

    def is_closing(self) -> bool:
        return self._plain.is_closing()

    def get_write_buffer_size(self) -> int:
        return self._plain.get_write_buffer_size()

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        self._plain.set_write_buffer_limits(high=high, low=low)


class TlsLink(asyncio.BufferedProtocol):
    """The side of a TLS connection towards the network: its handshake, then decryption.

    Nothing is allocated for a client before its first bytes have arrived.
    """

    def __init__(self, owner: TlsOwner):
        self._owner = owner
        self._shared = owner.inbox
        self._plain: asyncio.Transport | None = None
        self._secured: Secured | None = None
        self._incoming: ssl.MemoryBIO
        self._outgoing: ssl.MemoryBIO
        self._tls: ssl.SSLObject | None = None
        self._transport: TlsTransport | None = None
        self._inner: asyncio.BufferedProtocol | None = None
        self._held = b""
        """Bytes that arrived during a step of the handshake."""
        self._is_stepping = False
        self._has_failed = False
        self._is_read_due = False
        self.since_ms = 0
        """When the connection was accepted; set and used by the listener."""

    # asyncio.BufferedProtocol, called by the event loop.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._plain = cast(asyncio.Transport, transport)
        self._secured = self._owner.admit(self, self._plain)
        if self._secured is None:
            self._plain.abort()

    def get_buffer(self, sizehint: int) -> Any:
        return self._shared

    def buffer_updated(self, nbytes: int) -> None:
        if self._is_stepping:
            assert self._plain is not None
            self._held += self._shared[:nbytes]
            self._plain.pause_reading()
            return
        if self._tls is None and not self._begin(self._shared[0]):
            return
        self._incoming.write(self._shared[:nbytes])
        if self._inner is not None:
            self._read(self._inner)
        else:
            self._step()

    def eof_received(self) -> bool:
        return self._inner is not None and bool(self._inner.eof_received())

    def connection_lost(self, exc: Exception | None) -> None:
        self._plain = None
        inner, tls = self._inner, self._tls
        if self._is_stepping:
            self._owner.handshakes.cancel(self)
        # They refer to each other: OpenSSL's memory must not wait for the garbage collector.
        self._inner = self._transport = self._tls = None
        if inner is not None:
            inner.connection_lost(exc)
            return
        if tls is not None and not self._has_failed:
            self._owner.failed(self, "the client closed the connection")
        if self._secured is not None:
            self._owner.departed(self)

    def pause_writing(self) -> None:
        if self._inner is not None:
            self._inner.pause_writing()

    def resume_writing(self) -> None:
        if self._inner is not None:
            self._inner.resume_writing()

    # For the listener.

    def give_up(self, reason: str) -> None:
        """Close a connection whose handshake is not complete, and log the reason."""
        if self._plain is not None and not self._has_failed:
            self._has_failed = True
            self._owner.failed(self, reason)
            self._plain.abort()

    def abort(self) -> None:
        """Close a connection whose handshake is not complete, without logging it."""
        self._has_failed = True
        if self._plain is not None:
            self._plain.abort()

    # For the transport.

    def flush(self) -> None:
        """Send the bytes that OpenSSL has encrypted."""
        if self._outgoing.pending and self._plain is not None and not self._plain.is_closing():
            self._plain.write(self._outgoing.read())

    def read_later(self) -> None:
        """Decrypt, on the next turn of the loop, the bytes from before reading was paused."""
        if not self._is_read_due:
            self._is_read_due = True
            asyncio.get_running_loop().call_soon(self._read_due)

    def _read_due(self) -> None:
        self._is_read_due = False
        if self._inner is not None and self._plain is not None:
            self._read(self._inner)

    # The handshake.

    def _begin(self, first: int) -> bool:
        if first != _HANDSHAKE_RECORD:
            self._owner.rejected()
            self.give_up("not TLS")
            return False
        assert self._secured is not None
        self._owner.begun(self)
        self._incoming, self._outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._tls = self._secured.context.wrap_bio(self._incoming, self._outgoing, server_side=True)
        return True

    def _step(self) -> None:
        assert self._tls is not None
        self._is_stepping = True
        self._owner.handshakes.run(self, self._tls.do_handshake, self._stepped)

    def _stepped(self, error: Exception | None) -> None:
        self._is_stepping = False
        has_failed = error is not None and not isinstance(error, ssl.SSLWantReadError)
        if self._plain is None or self._plain.is_closing():
            if has_failed and not self._has_failed:
                self._owner.rejected()  # The client has sent an alert, and closed.
            return
        self.flush()  # Including the alert after a failure.
        if error is not None and has_failed:
            self._fail(error)
            return
        if self._held:
            held, self._held = self._held, b""
            self._incoming.write(held)
            self._plain.resume_reading()
        if error is None:
            self._establish()
        elif self._incoming.pending:
            self._step()

    def _fail(self, error: BaseException) -> None:
        assert self._plain is not None
        self._has_failed = True
        self._owner.rejected()
        self._owner.failed(self, _reason(error))
        self._plain.close()

    def _establish(self) -> None:
        assert self._tls is not None and self._plain is not None and self._secured is not None
        cipher = self._tls.cipher()
        if cipher is not None and cipher[1] == "TLSv1.3" and cipher[0] not in self._secured.suites:
            self._owner.rejected()
            self.give_up("a suite that ssl.cipher.suites lacks")
            return
        self._transport = TlsTransport(self, self._plain, self._tls)
        self._inner = self._owner.established(self, self._transport)
        if self._inner is None:
            self._has_failed = True
            self._transport.close()
            return
        self._inner.connection_made(self._transport)
        self._read(self._inner)

    # Decryption.

    def _read(self, inner: asyncio.BufferedProtocol) -> None:
        """Decrypt the received bytes, straight into the connection's buffer."""
        tls, transport, incoming = self._tls, self._transport, self._incoming
        assert tls is not None and transport is not None
        is_more = bool(incoming.pending)
        while is_more and not transport.is_reading_paused and not transport.is_closing():
            buffer = cast(memoryview, inner.get_buffer(-1))
            filled = 0
            room = len(buffer)
            if not room:
                break
            has_ended = has_failed = False
            try:
                while filled < room:
                    count = tls.read(room - filled, buffer[filled:])
                    if not count:
                        has_ended = True
                        break
                    filled += cast(int, count)
                    if not incoming.pending and not tls.pending():
                        break
            except ssl.SSLWantReadError:
                is_more = False
            except ssl.SSLError:
                has_failed = True
            if filled:
                inner.buffer_updated(filled)
            if has_failed or (has_ended and not inner.eof_received()):
                transport.close()
            if has_failed or has_ended:
                return
            is_more = is_more and bool(incoming.pending or tls.pending())
        self.flush()  # OpenSSL's own messages, such as new keys.


def _reason(error: BaseException) -> str:
    """OpenSSL's reason in one of few constant texts."""
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"the client's certificate is refused: {error.verify_message}"
    if isinstance(error, ssl.SSLError) and error.reason:
        return error.reason.lower().replace("_", " ")
    return "the handshake failed"
