"""Classifies errors of a disk: whether its medium is in doubt, and the text for clients."""

from __future__ import annotations

import errno

from wirekafka.errors import Error, KafkaError

_PASSING = frozenset(
    {
        errno.ENOSPC,
        errno.EDQUOT,
        errno.EMFILE,
        errno.ENFILE,
        errno.ENOMEM,
        errno.EINTR,
        errno.EAGAIN,
        errno.EEXIST,
    }
)
OUT_OF_SPACE = frozenset({errno.ENOSPC, errno.EDQUOT})
"""The file system, or the quota of the user, has no room."""
OUT_OF_DESCRIPTORS = frozenset({errno.EMFILE, errno.ENFILE})
"""The process, or the whole system, has as many open files as it may have."""


class InDoubt(OSError):
    """An error after which the content of files is unknown: its directory fails."""

    @classmethod
    def because_of(cls, error: OSError) -> InDoubt:
        """The same error, of an operation that was half done."""
        return cls(error.errno, error.strerror, error.filename)


class SyncFailed(InDoubt):
    """A failed fsync: the content of the medium is unknown.

    An fsync can fail with ENOSPC and EDQUOT too: file systems that allocate late report them only
    when data is written back. A second fsync would report success without having written anything.
    """


def is_passing(error: BaseException | None) -> bool:
    """Whether the operation can be tried again: nothing was lost, a resource is merely used up.

    A KafkaError is judged by the error of the disk that caused it.
    """
    if isinstance(error, KafkaError):
        error = error.__cause__
    if not isinstance(error, OSError) or isinstance(error, InDoubt):
        return False
    return error.errno in _PASSING


def reason_of(error: BaseException) -> str:
    """The system's reason for a failed operation, without the path that `str(error)` has."""
    if isinstance(error, OSError) and error.strerror:
        return error.strerror
    return type(error).__name__


def storage_error(error: BaseException) -> KafkaError:
    """The KAFKA_STORAGE_ERROR of a failed operation; raise it from the error.

    Its message may be sent to clients, so that it has no path of this machine.
    """
    found = KafkaError(Error.KAFKA_STORAGE_ERROR, reason_of(error))
    found.__cause__ = error
    return found
