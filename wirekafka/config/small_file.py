"""Reads files that a configuration names, which a hostile client may have chosen."""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path

MOST_BYTES = 1 << 20
"""Larger files are no keys, certificates or secrets."""


def read_small_file(path: str | Path) -> bytes:
    """The content of a regular file of at most 1 MiB. Raises OSError, also for any other file.

    A device without an end is not read, and a pipe that nobody writes to does not block; a file on
    a network may, so that a node that serves clients calls this in a thread.
    """
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY)
    except ValueError as error:  # A path with a zero byte.
        raise OSError(errno.EINVAL, str(error)) from None
    try:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode):
            raise OSError(errno.EINVAL, "not a regular file")
        if status.st_size > MOST_BYTES:
            raise OSError(errno.EFBIG, f"larger than {MOST_BYTES} bytes")
        with open(descriptor, "rb", closefd=False) as file:
            content = file.read(MOST_BYTES + 1)
    finally:
        os.close(descriptor)
    if len(content) > MOST_BYTES:  # Files of /proc say that they are empty.
        raise OSError(errno.EFBIG, f"larger than {MOST_BYTES} bytes")
    return content
