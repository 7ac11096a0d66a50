"""Faults that are planted in the log directories of a stopped node of either engine.

A node has two directories, and a topic `kept` with records in its partition 0.
"""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path

from tests.doctor.planted import Planted
from wirekafka.log.checkpoints import partition_metadata_text
from wirekafka.log.directories.log_directory import METADATA_LOG

KEPT = "kept-0"
_MARK = f"{KEPT}.{'0a' * 16}"


def no_meta_properties(paths: Sequence[Path]) -> Planted:
    (paths[0] / "meta.properties").unlink()
    return Planted("no-identity", str(paths[0]), "Write meta.properties again")


def another_cluster(paths: Sequence[Path]) -> Planted:
    _substitute(paths[1], rb"cluster\.id=.*", b"cluster.id=b1R0aGVyIG9yYWNsZSEhIQ")
    return Planted("directories-of-several-nodes", "meta.properties", "only directories of one")


def another_node(paths: Sequence[Path]) -> Planted:
    _substitute(paths[1], rb"node\.id=.*", b"node.id=77")
    return Planted("directories-of-several-nodes", "meta.properties", "only directories of one")


def copied_directory(paths: Sequence[Path]) -> Planted:
    shutil.copy(paths[0] / "meta.properties", paths[1] / "meta.properties")
    return Planted("same-directory-id", str(paths[0]), "directory.id")


def no_metadata_log(paths: Sequence[Path]) -> Planted:
    shutil.rmtree(paths[0] / METADATA_LOG)
    return Planted("no-metadata-log", str(paths[0]), "metadata.log.dir")


def killed_node(paths: Sequence[Path]) -> Planted:
    (paths[0] / ".kafka_cleanshutdown").unlink()
    return Planted("unclean-stop", str(paths[0]), "let it recover")


def another_topic_id(paths: Sequence[Path]) -> Planted:
    (_log(paths) / "partition.metadata").write_bytes(partition_metadata_text(b"0123456789abcdef"))
    return Planted("topic-id-mismatch", KEPT, "wirekafka export")


def no_topic_id(paths: Sequence[Path]) -> Planted:
    (_log(paths) / "partition.metadata").write_bytes(b"")
    return Planted("no-topic-id", KEPT, "topic_id: ID")


def unknown_topic(paths: Sequence[Path]) -> Planted:
    shutil.copytree(_log(paths), paths[0] / "forgotten-3")
    return Planted("stray-log", "forgotten-3", "next start sets it aside")


def log_in_both(paths: Sequence[Path]) -> Planted:
    log = _log(paths)
    other = paths[1] if log.parent == paths[0] else paths[0]
    shutil.copytree(log, other / KEPT)
    return Planted("log-twice", KEPT, "move the older one away")


def stray_directory(paths: Sequence[Path]) -> Planted:
    shutil.copytree(_log(paths), paths[0] / f"{_MARK}-stray")
    return Planted("stray-directory", "-stray", "Delete it")


def deleted_leftover(paths: Sequence[Path]) -> Planted:
    shutil.copytree(_log(paths), paths[0] / f"{_MARK}-delete")
    return Planted("deleted-leftover", "-delete", "next start removes it")


def interrupted_move(paths: Sequence[Path]) -> Planted:
    shutil.copytree(_log(paths), paths[0] / f"{_MARK}-future")
    return Planted("interrupted-move", "-future", "continues or discards")


def foreign_directory(paths: Sequence[Path]) -> Planted:
    (paths[1] / "lost+found").mkdir()
    return Planted("foreign-directory", "lost+found", "Move it away")


def bad_checkpoint(paths: Sequence[Path]) -> Planted:
    (paths[0] / "recovery-point-offset-checkpoint").write_text("0\n5\nkept 0 1\n")
    return Planted("bad-checkpoint", "recovery-point-offset-checkpoint", "Move the file away")


def read_only_file(paths: Sequence[Path]) -> Planted:
    (_log(paths) / f"{0:020d}.log").chmod(0o444)
    return Planted("read-only-file", f"{KEPT}/{0:020d}.log", "chmod")


def linked_log(paths: Sequence[Path]) -> Planted:
    log = _log(paths)
    elsewhere = log.rename(log.parent.with_name(f"{log.parent.name}-elsewhere"))
    log.symlink_to(elsewhere)
    return Planted("symbolic-link", KEPT, "kafka-reassign-partitions.sh")


def other_owner(paths: Sequence[Path]) -> Planted:
    """Only root can plant this one."""
    os.chown(_log(paths) / f"{0:020d}.log", 65_533, -1)
    return Planted("other-owner", f"{KEPT}/{0:020d}.log", "chown")


def corrupt_batch(paths: Sequence[Path]) -> Planted:
    """Found by --deep alone; whole batches follow."""
    file = _log(paths) / f"{0:020d}.log"
    content = bytearray(file.read_bytes())
    content[65] ^= 1
    file.write_bytes(content)
    return Planted("corrupt-batch", KEPT, "wirekafka repair")


def torn_tail(paths: Sequence[Path]) -> Planted:
    """Found by --deep alone."""
    file = _log(paths) / f"{0:020d}.log"
    file.write_bytes(file.read_bytes()[:-3])
    return Planted("torn-tail", KEPT, "next start cuts")


IN_DIRECTORIES: tuple[Callable[[Sequence[Path]], Planted], ...] = (
    no_meta_properties,
    another_cluster,
    another_node,
    copied_directory,
    no_metadata_log,
    killed_node,
    another_topic_id,
    no_topic_id,
    unknown_topic,
    log_in_both,
    stray_directory,
    deleted_leftover,
    interrupted_move,
    foreign_directory,
    bad_checkpoint,
    read_only_file,
    linked_log,
    corrupt_batch,
    torn_tail,
    *((other_owner,) if os.getuid() == 0 else ()),
)


def _log(paths: Sequence[Path]) -> Path:
    return next(path / KEPT for path in paths if (path / KEPT).exists())


def _substitute(path: Path, pattern: bytes, text: bytes) -> None:
    file = path / "meta.properties"
    file.write_bytes(re.sub(pattern, text, file.read_bytes()))
