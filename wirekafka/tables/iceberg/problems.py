"""What can go wrong with a table: passing problems, and problems that somebody has to mend."""

from collections.abc import Iterator
from contextlib import contextmanager

from pyiceberg.exceptions import (
    AuthorizationExpiredError,
    BadRequestError,
    CommitFailedException,
    CommitStateUnknownException,
    ForbiddenError,
    OAuthError,
    RESTError,
    ServiceUnavailableError,
    UnauthorizedError,
)
from requests import RequestException
from sqlalchemy.exc import SQLAlchemyError

_PASSING = (
    AuthorizationExpiredError,
    CommitFailedException,
    CommitStateUnknownException,
    ForbiddenError,
    OAuthError,
    OSError,
    RESTError,
    RequestException,
    SQLAlchemyError,
    ServiceUnavailableError,
    UnauthorizedError,
)
"""A locked catalog, the network, the object store, a right that is not there yet: tried again."""

_PERMANENT = (BadRequestError, FileNotFoundError)
"""Kinds of those above that no repetition heals."""

_LOCKED = "database is locked"
_SPARK_HINT = " (by a Spark session without jdbc.init-catalog-tables=false, while it lives?)"


class CatalogProblem(Exception):
    """The catalog or the store does not answer as it should now: the same call may work later."""


class WrongTable(Exception):
    """The table of this name is not of this topic, or cannot be read or written: for people."""


class TableGone(WrongTable):
    """The table was dropped, renamed or replaced since it was opened: open it again."""


class BadSpec(ValueError):
    """The partition spec cannot be parsed, or names what the table does not have."""


class BadEvolution(ValueError):
    """The columns of the table cannot become the given ones: rows would lose their meaning."""


class MarksMoved(Exception):
    """The newest marks do not end where the rows to append begin: somebody else appended them."""


class TooManyParts(Exception):
    """Rows to append are in so many partitions of the table that a commit would take minutes.

    Each partition is a file. Nothing is written: append fewer rows.
    """


@contextmanager
def passing_problems(subject: str) -> Iterator[None]:
    """Raise CatalogProblem, with the cause and what it happened to, for errors that may pass."""
    try:
        yield
    except FileNotFoundError as error:
        raise WrongTable(
            f"{subject}: {cause_of(error)}: a file of the table is missing; restore it, or drop"
            " the table, which is then written again from the log"
        ) from error
    except BadRequestError as error:
        raise WrongTable(f"{subject}: the catalog refuses: {cause_of(error)}") from error
    except _PASSING as error:
        raise CatalogProblem(f"{subject}: {cause_of(error)}") from error


def may_pass(error: BaseException | None) -> bool:
    """Whether the same call may succeed later."""
    return isinstance(error, _PASSING) and not isinstance(error, _PERMANENT)


def cause_of(error: BaseException | None) -> str:
    """An error's kind and the first line of its text."""
    lines = str(getattr(error, "orig", None) or error).strip().splitlines()
    kind = type(error).__name__
    hint = _SPARK_HINT if _LOCKED in lines[:1] else ""
    return f"{kind}: {lines[0]}{hint}" if lines else kind
