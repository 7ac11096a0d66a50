"""Refuses directories and files of secrets that other users of this machine made or can reach."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable
from pathlib import Path

from wirekafka.config.option import ConfigError

_OPTION = "--secure"
_WRITE_BY_OTHERS = stat.S_IWGRP | stat.S_IWOTH
_ANY_BY_OTHERS = stat.S_IRWXG | stat.S_IRWXO
_PRIVATE_DIRECTORY, _PRIVATE_FILE = 0o700, 0o600
_OF_THE_FILE_SYSTEM = frozenset({"lost+found"})


def keep_new_files_private() -> None:
    """Let every file that this process and its children create be accessible to its user only."""
    os.umask(_ANY_BY_OTHERS)


def check_data(path: Path) -> None:
    """Refuse a data directory that other users can access, since it has users' keys.

    An empty directory becomes private; a missing directory is created later. Raises ConfigError.
    """
    if not path.exists():
        return
    _check_owner(path)
    exposed = path.stat().st_mode & _ANY_BY_OTHERS
    if exposed and {entry.name for entry in path.iterdir()} <= _OF_THE_FILE_SYSTEM:
        path.chmod(_PRIVATE_DIRECTORY)
        return
    _check_mode(path, _ANY_BY_OTHERS, _PRIVATE_DIRECTORY)


def check_secrets(directory: Path, public: Iterable[str]) -> None:
    """Refuse a directory of secrets that other users can change, or whose files they can access.

    Files named in `public`, such as certificates, may be readable. Raises ConfigError.
    """
    above = directory.parent
    if above.exists():
        mode = above.stat().st_mode
        if mode & stat.S_IWOTH and not mode & stat.S_ISVTX:
            raise _refused(above, f"every user can replace {directory.name} there: chmod o-w")
    if not os.path.lexists(directory):
        return
    _check_owner(directory)
    if not directory.is_dir():
        raise _refused(directory, "it is not a directory")
    _check_mode(directory, _WRITE_BY_OTHERS, _PRIVATE_DIRECTORY)
    for path in sorted(directory.iterdir()):
        _check_owner(path)
        forbidden = _WRITE_BY_OTHERS if path.name in public else _ANY_BY_OTHERS
        _check_mode(path, forbidden, _PRIVATE_DIRECTORY if path.is_dir() else _PRIVATE_FILE)


def _check_owner(path: Path) -> None:
    """Both a symbolic link and its target must belong to the user of this process."""
    own = os.geteuid()
    for status in (path.lstat(), path.stat()):
        if status.st_uid != own:
            raise _refused(
                path, f"it belongs to {_user(status.st_uid)}, and this process runs as {_user(own)}"
            )


def _check_mode(path: Path, forbidden: int, right: int) -> None:
    mode = stat.S_IMODE(path.stat().st_mode)
    exposed = mode & forbidden
    if exposed:
        change = "change" if exposed & _WRITE_BY_OTHERS else "access"
        reason = f"other users can {change} it (mode {mode:04o}): chmod {right:o} {path}"
        raise _refused(path, reason)


def _user(number: int) -> str:
    import pwd

    try:
        return f"user {pwd.getpwuid(number).pw_name}"
    except KeyError:
        return f"user {number}"


def _refused(path: Path, reason: str) -> ConfigError:
    return ConfigError(_OPTION, str(path), reason, f"{_OPTION}: {path}: {reason}")
