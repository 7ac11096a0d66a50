"""What hostile clients send in place of a TLS handshake."""

from __future__ import annotations

import random
import ssl
from contextlib import suppress


def client_hello(context: ssl.SSLContext) -> bytes:
    """The first message of an honest client."""
    outgoing = ssl.MemoryBIO()
    tls = context.wrap_bio(ssl.MemoryBIO(), outgoing, server_hostname="127.0.0.1")
    with suppress(ssl.SSLWantReadError):
        tls.do_handshake()
    return outgoing.read()


def garbage(chance: random.Random, hello: bytes) -> bytes:
    """Bytes that are no handshake, or look like the beginning of one."""
    match chance.randrange(4):
        case 0:
            return chance.randbytes(chance.randint(1, 2000))
        case 1:
            return b"\x16\x03\x01" + chance.randbytes(chance.randint(1, 2000))
        case 2:
            damaged = bytearray(hello)
            for _ in range(chance.randint(1, 10)):
                damaged[chance.randrange(len(damaged))] = chance.randrange(256)
            return bytes(damaged)
        case _:
            return hello + b"\x17\x03\x03" + chance.randbytes(chance.randint(1, 200))
