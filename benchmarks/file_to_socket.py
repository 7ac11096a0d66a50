"""Measures the CPU cost of sending a file to a socket: `python -m benchmarks.file_to_socket`."""

from __future__ import annotations

import os
import socket
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

_FILE_BYTES = 64 << 20
_WRITE_BYTES = 1 << 14
_SENT_BYTES = 256 << 20
_SIZES = (1 << 14, 1 << 16, 1 << 18, 1 << 20)

Send = Callable[[socket.socket, int, int, int], None]


def main() -> None:
    print("CPU ms/MB of the sender, loopback, file in the page cache")
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory) / "data"
        with path.open("ab", buffering=0) as file:
            # In small writes, as a log grows: the page cache keeps their data in small pieces.
            for _ in range(_FILE_BYTES // _WRITE_BYTES):
                file.write(os.urandom(_WRITE_BYTES))
        for size_bytes in _SIZES:
            pread, sendfile = (
                min(_cost(send, path, size_bytes) for _ in range(3)) for send in (_pread, _sendfile)
            )
            print(f"{size_bytes >> 10:5} KiB: pread {pread:.3f}, sendfile {sendfile:.3f}")


def _pread(sender: socket.socket, descriptor: int, position: int, size_bytes: int) -> None:
    sender.sendall(os.pread(descriptor, size_bytes, position))


def _sendfile(sender: socket.socket, descriptor: int, position: int, size_bytes: int) -> None:
    end = position + size_bytes
    while position < end:
        position += os.sendfile(sender.fileno(), descriptor, position, end - position)


def _cost(send: Send, path: Path, size_bytes: int) -> float:
    with socket.create_server(("127.0.0.1", 0)) as server:
        reader = os.fork()
        if not reader:
            _read_all(server.getsockname())
            os._exit(0)
        sender, _ = server.accept()
        descriptor = os.open(path, os.O_RDONLY)
        start = time.process_time()
        for at in range(0, _SENT_BYTES, size_bytes):
            send(sender, descriptor, at % _FILE_BYTES, size_bytes)
        cpu_s = time.process_time() - start
        sender.close()
        os.close(descriptor)
        os.waitpid(reader, 0)
    return cpu_s * 1e3 / (_SENT_BYTES / 1e6)


def _read_all(address: tuple[str, int]) -> None:
    buffer = bytearray(1 << 20)
    with socket.create_connection(address) as connected:
        while connected.recv_into(buffer):
            pass


if __name__ == "__main__":
    main()
