"""Errors of the disk in a log directory: what passes, and what takes it out of service."""

from __future__ import annotations

import errno
import os
import resource
from pathlib import Path

import pytest

from tests.crash.failing_disk import FailingDisk, Failure
from tests.log.batches import NOW_MS, append, batch, read_all
from tests.log.test_log_directory import create, opened
from tests.simulation.disk import Outcome
from wirekafka.errors import KafkaError
from wirekafka.log.disk_errors import SyncFailed, is_passing, storage_error
from wirekafka.log.files import RealDisk

_EMFILE = Failure("open", "", errno.EMFILE)


@pytest.mark.parametrize("code", [errno.EIO, errno.ENOSPC, errno.EDQUOT, errno.EMFILE])
def test_a_failed_fsync_never_passes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: int
) -> None:
    def fsync(descriptor: int) -> None:
        raise OSError(code, os.strerror(code))

    disk = RealDisk()
    file = disk.create(str(tmp_path / "file"))
    monkeypatch.setattr(os, "fsync", fsync)
    for sync in (
        file.fsync,
        lambda: disk.fsync(file.path),
        lambda: disk.fsync_directory(str(tmp_path)),
        lambda: disk.write_atomic(file.path, b"new"),
    ):
        with pytest.raises(SyncFailed) as caught:
            sync()
        assert not is_passing(caught.value) and caught.value.errno == code


def test_an_error_before_the_fsync_is_not_one_of_the_fsync(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        RealDisk().fsync(str(tmp_path / "absent"))


def test_open_files_make_room_for_others_when_descriptors_are_used_up(tmp_path: Path) -> None:
    disk = RealDisk(open_files_limit=1000)
    files = [disk.create(str(tmp_path / str(number))) for number in range(40)]
    for file in files[:20]:
        file.append([b"a"], 1)
    highest = files[19].fileno()
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (highest + 1, limits[1]))
    try:
        for file in files[20:]:
            file.append([b"b"], 1)
        disk.create(str(tmp_path / "another"))
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, limits)
    assert [file.pread(1, 0) for file in files] == [b"a"] * 20 + [b"b"] * 20


def test_messages_for_clients_have_no_path() -> None:
    error = OSError(errno.EMFILE, "Too many open files", "/var/lib/data/t-0/0.log")
    assert storage_error(error).message == "Too many open files"
    assert "/var" not in str(storage_error(SyncFailed(errno.EIO, "Input/output error", "/var")))


def test_a_flush_that_was_not_tried_is_repeated_with_all_its_names() -> None:
    disk = FailingDisk()
    directory = opened(disk)
    create(directory)
    log = directory.logs["topic", 0]
    append(log, batch(b"kept"))
    with disk.failing(_EMFILE), pytest.raises(OSError, match="Too many open files"):
        directory.flush()
    assert directory.failure is None and not log.has_failed
    directory.flush()
    assert log.recovery_point == 1
    after = opened(disk.after_crash(Outcome.UNSYNCED_LOST, 0))
    assert read_all(after.logs["topic", 0]) == read_all(log) != []


@pytest.mark.parametrize("code", [errno.EIO, errno.ENOSPC, errno.EDQUOT])
def test_a_directory_fails_with_a_failed_fsync_whatever_its_errno(code: int) -> None:
    disk = FailingDisk()
    directory = opened(disk)
    create(directory)
    append(directory.logs["topic", 0], batch())
    with disk.failing(Failure("sync", "", code)), pytest.raises(OSError):
        directory.flush()
    assert directory.failure is not None and directory.logs["topic", 0].has_failed


def test_a_log_is_created_once_descriptors_are_free() -> None:
    disk = FailingDisk()
    directory = opened(disk)

    def ask(operation: str, path: str) -> None:
        if operation in ("create", "open") and "topic-0" in path:
            raise OSError(errno.EMFILE, os.strerror(errno.EMFILE), path)

    disk.ask = ask  # type: ignore[method-assign]
    for _ in range(3):
        with pytest.raises(KafkaError, match="Too many open files"):
            create(directory)
    assert disk.exists("/data/topic-0")
    disk.ask = lambda operation, path: None  # type: ignore[method-assign]
    create(directory)
    append(directory.logs["topic", 0], batch())
    assert directory.failure is None


@pytest.mark.parametrize("offset", [0, 1, 3])
@pytest.mark.parametrize("operation", ["open", "rename", "sync", "truncate"])
def test_a_log_that_is_half_truncated_fails_its_directory(operation: str, offset: int) -> None:
    disk = FailingDisk()
    directory = opened(disk)
    create(directory)
    log = directory.logs["topic", 0]
    for number in range(4):
        append(log, batch(), epoch=number)
        if number == 1:
            log.roll(NOW_MS)
    with disk.failing(Failure(operation, "", errno.EMFILE)):
        try:
            log.truncate_to(offset, NOW_MS)
        except KafkaError:
            assert directory.failure is not None and log.has_failed
        else:
            assert disk.failed == 0 and directory.failure is None
