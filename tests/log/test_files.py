"""The operating system's files: all-or-nothing appends, bounded descriptors, Kafka's lock."""

from __future__ import annotations

import errno
import os
import shutil
import subprocess
import sys
from pathlib import Path
from random import Random

import pytest

from wirekafka.log.files import DirectoryLocked, RealDisk, RealFile


@pytest.fixture
def disk() -> RealDisk:
    return RealDisk(open_files_limit=8)


def new_file(disk: RealDisk, tmp_path: Path, name: str = "file") -> RealFile:
    return disk.create(str(tmp_path / name))


def append(file: RealFile, *buffers: bytes) -> None:
    file.append(buffers, sum(map(len, buffers)))


def test_buffers_are_written_in_a_row(disk: RealDisk, tmp_path: Path) -> None:
    file = new_file(disk, tmp_path)
    append(file, b"abc", memoryview(b"defg")[1:], bytearray(b"h"))
    append(file, b"ij")
    assert (tmp_path / "file").read_bytes() == b"abcefghij"
    assert file.size_bytes == 9
    assert file.pread(4, 7) == b"ij"


def test_more_buffers_than_one_call_takes_are_written_too(disk: RealDisk, tmp_path: Path) -> None:
    file = new_file(disk, tmp_path)
    buffers = [b"%d" % (number % 10) for number in range(1000)]
    append(file, *buffers)
    assert (tmp_path / "file").read_bytes() == b"".join(buffers)


def test_short_writes_are_continued(
    disk: RealDisk, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    random = Random(1)
    write = os.write
    file = new_file(disk, tmp_path)

    def short(descriptor: int, buffers: list[bytes]) -> int:
        data = b"".join(buffers)
        return write(descriptor, data[: random.randint(1, len(data))])

    monkeypatch.setattr(os, "writev", short)
    append(file, b"0123456789" * 5, b"", b"abc" * 30)
    assert (tmp_path / "file").read_bytes() == b"0123456789" * 5 + b"abc" * 30


def test_a_failed_append_leaves_nothing_behind(
    disk: RealDisk, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = new_file(disk, tmp_path)
    append(file, b"before")
    calls = []

    def failing(descriptor: int, buffers: list[bytes]) -> int:
        calls.append(1)
        if len(calls) == 1:
            return os.write(descriptor, b"".join(buffers)[:3])
        raise OSError(errno.ENOSPC, "full")

    with monkeypatch.context() as patched:
        patched.setattr(os, "writev", failing)
        with pytest.raises(OSError, match="full"):
            append(file, b"abcdef")
    assert (tmp_path / "file").read_bytes() == b"before"
    append(file, b" after")
    assert (tmp_path / "file").read_bytes() == b"before after"


def test_appends_are_refused_after_garbage_that_could_not_be_truncated(
    disk: RealDisk, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = new_file(disk, tmp_path)
    append(file, b"before")

    def half(descriptor: int, buffers: list[bytes]) -> int:
        os.write(descriptor, b"gar")
        raise OSError(errno.EIO, "broken")

    def stuck(descriptor: int, size_bytes: int) -> None:
        raise OSError(errno.EIO, "stuck")

    with monkeypatch.context() as patched:
        patched.setattr(os, "ftruncate", stuck)
        patched.setattr(os, "writev", half)
        with pytest.raises(OSError):
            append(file, b"abc")
        with pytest.raises(OSError, match="stuck"):
            append(file, b"abc")
    append(file, b" after")
    assert (tmp_path / "file").read_bytes() == b"before after"


def test_few_descriptors_serve_many_files(disk: RealDisk, tmp_path: Path) -> None:
    files = [new_file(disk, tmp_path, str(number)) for number in range(50)]
    for _ in range(3):
        for number, file in enumerate(files):
            append(file, b"%02d" % number)
    assert len(disk._opened) <= 8
    for number, file in enumerate(files):
        assert file.pread(100, 0) == b"%02d" % number * 3
    assert len(disk._opened) <= 8


def test_a_busy_file_stays_open_while_others_come_and_go(disk: RealDisk, tmp_path: Path) -> None:
    busy = new_file(disk, tmp_path, "busy")
    descriptor = busy.fileno()
    for number in range(100):
        append(busy, b"x")
        append(new_file(disk, tmp_path, str(number)), b"y")
        assert busy.fileno() == descriptor


def test_a_renamed_file_is_read_and_appended_to_under_its_new_name(
    disk: RealDisk, tmp_path: Path
) -> None:
    file = new_file(disk, tmp_path)
    append(file, b"abc")
    file.rename(str(tmp_path / "other"))
    file.close()
    append(file, b"d")
    assert (tmp_path / "other").read_bytes() == file.pread(10, 0) == b"abcd"


def test_a_deleted_file_can_be_read_while_it_is_held(disk: RealDisk, tmp_path: Path) -> None:
    file = new_file(disk, tmp_path)
    append(file, b"abc")
    file.close()
    file.delete()
    for number in range(20):
        append(new_file(disk, tmp_path, str(number)), b"y")
    assert not (tmp_path / "file").exists()
    assert file.pread(10, 0) == b"abc"


def test_a_file_that_is_no_longer_held_gives_its_descriptor_back(
    disk: RealDisk, tmp_path: Path
) -> None:
    file = new_file(disk, tmp_path)
    descriptor = file.fileno()
    file.delete()
    del file
    with pytest.raises(OSError):
        os.fstat(descriptor)


@pytest.mark.parametrize("write", ["write", "write_atomic"])
def test_a_small_file_is_replaced_atomically(disk: RealDisk, tmp_path: Path, write: str) -> None:
    path = str(tmp_path / "small")
    getattr(disk, write)(path, b"a longer text")
    getattr(disk, write)(path, b"short")
    assert disk.read(path) == b"short"
    assert [entry.name for entry in disk.list_directory(str(tmp_path))] == ["small"]


def test_creating_an_existing_file_is_refused(disk: RealDisk, tmp_path: Path) -> None:
    new_file(disk, tmp_path)
    with pytest.raises(FileExistsError):
        new_file(disk, tmp_path)
    disk.make_directory(str(tmp_path / "a/b"))
    with pytest.raises(FileExistsError):
        disk.make_directory(str(tmp_path / "a/b"))
    disk.remove_tree(str(tmp_path / "a"))
    disk.remove_tree(str(tmp_path / "a"))
    assert not disk.exists(str(tmp_path / "a"))


def test_the_lock_keeps_out_other_brokers_of_this_process(disk: RealDisk, tmp_path: Path) -> None:
    path = str(tmp_path / ".lock")
    lock = disk.lock(path)
    with pytest.raises(DirectoryLocked, match="in this process"):
        RealDisk().lock(path)
    lock.release()
    assert not disk.exists(path)
    disk.lock(path).release()


def test_the_lock_keeps_out_other_processes(disk: RealDisk, tmp_path: Path) -> None:
    path = str(tmp_path / ".lock")
    script = (
        "import sys; from wirekafka.log.files import RealDisk, DirectoryLocked\n"
        "try: RealDisk().lock(sys.argv[1])\n"
        "except DirectoryLocked as error: print(error)\n"
    )
    lock = disk.lock(path)
    command = [sys.executable, "-c", script, path]
    refused = subprocess.run(command, capture_output=True, text=True, check=True)
    assert refused.stdout == f"{path} is held by another process\n"
    lock.release()
    allowed = subprocess.run(command, capture_output=True, text=True, check=True)
    assert allowed.stdout == ""


def test_a_new_small_file_is_written_but_none_is_replaced(disk: RealDisk, tmp_path: Path) -> None:
    disk.write_new(str(tmp_path / "small"), b"abc")
    with pytest.raises(FileExistsError):
        disk.write_new(str(tmp_path / "small"), b"def")
    assert (tmp_path / "small").read_bytes() == b"abc"


def test_a_directory_is_removed_in_steps_and_with_its_last_file(
    disk: RealDisk, tmp_path: Path
) -> None:
    path = tmp_path / "log"
    path.mkdir()
    for name in "abcde":
        (path / name).write_bytes(b"x")
    assert disk.remove_files(str(path), 2) == 2
    assert len(list(path.iterdir())) == 3
    assert disk.remove_files(str(path), 4) == 3
    assert not path.exists()
    assert disk.remove_files(str(path), 4) == 0


def test_a_directory_with_a_subdirectory_is_removed_completely(
    disk: RealDisk, tmp_path: Path
) -> None:
    (tmp_path / "log" / "inner").mkdir(parents=True)
    (tmp_path / "log" / "inner" / "file").write_bytes(b"x")
    disk.remove_files(str(tmp_path / "log"), 10)
    assert not (tmp_path / "log").exists()


def test_nothing_behind_a_symbolic_link_is_removed(disk: RealDisk, tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / "file").write_bytes(b"x")
    (tmp_path / "link").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(OSError):
        disk.remove_files(str(tmp_path / "link"), 10)
    assert (tmp_path / "elsewhere" / "file").exists()


def test_a_directory_is_not_renamed_over_one_that_holds_files(
    disk: RealDisk, tmp_path: Path
) -> None:
    for name in ("old", "new"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "file").write_bytes(name.encode())
    with pytest.raises(OSError):
        disk.rename(str(tmp_path / "old"), str(tmp_path / "new"))
    assert (tmp_path / "new" / "file").read_bytes() == b"new"


def test_a_lock_is_released_when_its_directory_was_removed(disk: RealDisk, tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    path = str(tmp_path / "data" / ".lock")
    lock = disk.lock(path)
    shutil.rmtree(tmp_path / "data")
    lock.release()
    (tmp_path / "data").mkdir()
    disk.lock(path).release()


def space_bytes(path: Path) -> int:
    return path.stat().st_blocks * 512


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux reserves space beyond the end")
def test_reserved_space_does_not_change_the_size_and_is_freed_by_a_truncation(
    disk: RealDisk, tmp_path: Path
) -> None:
    file = new_file(disk, tmp_path)
    path = Path(file.path)
    file.preallocate(1 << 20)
    if not space_bytes(path):
        pytest.skip("this file system reserves nothing")
    append(file, b"abc")
    assert (path.stat().st_size, file.size_bytes) == (3, 3)
    assert space_bytes(path) >= 1 << 20
    file.truncate(3)
    assert space_bytes(path) < 1 << 16
    append(file, b"def")
    assert path.read_bytes() == b"abcdef"


def test_space_that_cannot_be_reserved_is_no_error(disk: RealDisk, tmp_path: Path) -> None:
    file = new_file(disk, tmp_path)
    file.preallocate(1 << 60)
    append(file, b"abc")
    assert (tmp_path / "file").read_bytes() == b"abc"


def test_an_append_to_a_linked_file_leaves_the_other_name_alone(
    disk: RealDisk, tmp_path: Path
) -> None:
    file = new_file(disk, tmp_path)
    append(file, b"before")
    disk.link(file.path, str(tmp_path / "snapshot"))
    reopened = disk.open(file.path, 6)
    assert reopened.pread(6, 0) == b"before"  # Its descriptor is that of the shared file.
    append(reopened, b" and after")
    assert (tmp_path / "snapshot").read_bytes() == b"before"
    assert (tmp_path / "file").read_bytes() == b"before and after"
    assert reopened.pread(16, 0) == b"before and after"
    assert os.stat(file.path).st_nlink == 1


def test_a_truncation_of_a_linked_file_leaves_the_other_name_alone(
    disk: RealDisk, tmp_path: Path
) -> None:
    file = new_file(disk, tmp_path)
    append(file, b"before")
    disk.link(file.path, str(tmp_path / "snapshot"))
    file.truncate(3)
    append(file, b"k")
    assert (tmp_path / "snapshot").read_bytes() == b"before"
    assert (tmp_path / "file").read_bytes() == b"befk"


def test_a_copy_has_the_first_bytes_and_a_shorter_file_is_an_error(
    disk: RealDisk, tmp_path: Path
) -> None:
    file = new_file(disk, tmp_path)
    append(file, b"0123456789")
    for size_bytes in (0, 4, 10):
        disk.copy_file(file.path, str(tmp_path / f"{size_bytes}"), size_bytes)
        assert (tmp_path / f"{size_bytes}").read_bytes() == b"0123456789"[:size_bytes]
    with pytest.raises(OSError, match="ends at 10"):
        disk.copy_file(file.path, str(tmp_path / "longer"), 11)
    disk.sync_all(str(tmp_path))
