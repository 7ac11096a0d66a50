"""Files that clients may have named: only small regular ones are read."""

import os
import time
from pathlib import Path

import pytest

from wirekafka.config.small_file import MOST_BYTES, read_small_file


def unreadable(directory: Path) -> Path:
    """A regular file that cannot be read, even by root."""
    memory = Path("/proc/self/mem")
    if memory.exists():
        return memory
    path = directory / "unreadable"
    path.write_text("x")
    path.chmod(0)
    return path


def hostile_paths(directory: Path) -> dict[str, str]:
    """Paths that a client may name, and from which nothing is read."""
    os.mkfifo(directory / "pipe")
    (directory / "large").write_bytes(bytes(2 << 20))
    (directory / "directory").mkdir()
    return {
        "a device without an end": "/dev/zero",
        "a pipe that nobody writes to": str(directory / "pipe"),
        "a directory": str(directory / "directory"),
        "a missing file": str(directory / "missing"),
        "an unreadable file": str(unreadable(directory)),
        "a large file": str(directory / "large"),
        "a zero byte": f"{directory}/a\0b",
        "a long name": f"{directory}/{'x' * 5000}",
        "an empty name": "",
    }


def test_small_regular_files_are_read(tmp_path: Path) -> None:
    for content in (b"", b"content", bytes(MOST_BYTES)):
        (tmp_path / "file").write_bytes(content)
        assert read_small_file(str(tmp_path / "file")) == content
    (tmp_path / "link").symlink_to(tmp_path / "file")
    assert read_small_file(tmp_path / "link") == bytes(MOST_BYTES), "as Kubernetes mounts secrets"


def test_nothing_else_is_read(tmp_path: Path) -> None:
    descriptors = len(os.listdir("/dev/fd"))
    for kind, path in hostile_paths(tmp_path).items():
        start = time.monotonic()
        with pytest.raises(OSError):
            read_small_file(path)
        assert time.monotonic() - start < 1, kind
    assert len(os.listdir("/dev/fd")) == descriptors


def test_a_file_that_says_it_is_empty_is_read_up_to_the_limit(tmp_path: Path) -> None:
    endless = Path("/proc/kallsyms")  # Several megabytes, of which its status says none.
    if not endless.exists() or endless.stat().st_size:
        pytest.skip("no such file here")
    with pytest.raises(OSError, match="larger than"):
        read_small_file(endless)
