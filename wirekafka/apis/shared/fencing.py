"""PRODUCER_FENCED under the name that the version of a transaction's request knows (KIP-588)."""

from __future__ import annotations

from wirekafka.errors import Error


def fencing_error(error: Error, version: int, *, fenced_since: int) -> Error:
    """The error to report: older versions know a fenced producer as INVALID_PRODUCER_EPOCH.

    Any error but PRODUCER_FENCED is returned as it is.
    """
    if error is Error.PRODUCER_FENCED and version < fenced_since:
        return Error.INVALID_PRODUCER_EPOCH
    return error
