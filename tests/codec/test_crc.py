"""CRC-32C, and what importing it must not cost a broker's start."""

from __future__ import annotations

import subprocess
import sys

import pytest

from wirekafka.codec.crc import crc32c

_SLOW = ("cramjam", "crc32c", "csv", "email.message", "importlib.metadata", "lz4", "zstandard")


def test_the_checksum_is_castagnoli_s() -> None:
    assert crc32c(b"123456789") == 0xE3069283
    assert crc32c(b"6789", crc32c(b"12345")) == 0xE3069283


def test_the_library_finds_the_same_extension_later() -> None:
    import crc32c as library

    assert library.crc32c is crc32c


@pytest.mark.long
def test_a_start_imports_no_library_that_only_some_brokers_need() -> None:
    program = (
        "import sys, wirekafka.cli.serve, wirekafka.server.run;"
        f"print([name for name in {_SLOW} if name in sys.modules])"
    )
    command = [sys.executable, "-c", program]
    ended = subprocess.run(command, check=True, capture_output=True, text=True)
    assert ended.stdout.strip() == "[]"
