"""Free TCP ports for servers that start later, or that start again at the same port."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from pathlib import Path

_OUTGOING = Path("/proc/sys/net/ipv4/ip_local_port_range")
_FIRST = 10_000
_END = 32_768
"""Where Linux begins with the ports of outgoing connections; other systems begin later."""
_BLOCK = 500


def free_ports(count: int) -> list[int]:
    """Consecutive ports that no other process gets, nor this one a second time.

    They lie below the ports of outgoing connections. One of those may be taken at any time: by
    whoever connects to anything, and by a client that retries while its server is down.
    """
    found: list[int] = []
    while len(found) < count:
        port = next(_ports)
        if found and port != found[-1] + 1:
            found.clear()
        found.append(port)
    return found


def _all_ports() -> Iterator[int]:
    """Free ports from blocks that are reserved for this process as long as it lives."""
    for start in range(_FIRST, _end() - _BLOCK + 1, _BLOCK):
        reservation = socket.socket()
        if not _is_bound(reservation, start):
            reservation.close()
            continue
        _reservations.append(reservation)
        for port in range(start + 1, start + _BLOCK):
            with socket.socket() as attempt:
                # As servers do: connections that were closed lately do not count.
                attempt.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                is_free = _is_bound(attempt, port)
            if is_free:
                yield port
    raise OSError(f"no free port from {_FIRST} to {_end()}")


def _is_bound(attempt: socket.socket, port: int) -> bool:
    try:
        attempt.bind(("", port))
    except OSError:
        return False
    return True


def _end() -> int:
    if not _OUTGOING.exists():
        return _END
    first_outgoing = int(_OUTGOING.read_text().split()[0])
    return first_outgoing if first_outgoing > _FIRST + _BLOCK else _END


_reservations: list[socket.socket] = []
_ports = _all_ports()
