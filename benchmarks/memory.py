"""Touches the free memory of the machine, so that no measurement pays for its first use.

In a virtual machine the first touch of a page makes the host find one, which takes two or three
times as long as clearing it. The run that first fills the page cache pays for
that: with 10 GB held, it halved the rate of producing.
"""

from __future__ import annotations

import mmap

import psutil

_SHARE = 0.8
"""The share of available memory to touch; the rest is left to other processes."""


def touch() -> int:
    """Touch free memory and release it; returns the number of bytes."""
    size_bytes = int(psutil.virtual_memory().available * _SHARE) // mmap.PAGESIZE * mmap.PAGESIZE
    flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | mmap.MAP_POPULATE
    mmap.mmap(-1, size_bytes, flags=flags).close()
    return size_bytes
