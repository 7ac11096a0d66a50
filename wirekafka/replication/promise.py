"""One value that may arrive later; when it is already there, awaiting it costs no future."""

from __future__ import annotations

import asyncio
from collections.abc import Generator
from typing import Any

_PENDING = object()


class Promise:
    """Set once, awaited by one. A `BaseException` as value is raised at the one who awaits."""

    __slots__ = ("_future", "_value")

    def __init__(self) -> None:
        self._value: Any = _PENDING
        self._future: asyncio.Future[None] | None = None

    @property
    def done(self) -> bool:
        """Whether the value has arrived."""
        return self._value is not _PENDING

    def set(self, value: Any) -> None:
        """Deliver the value. A second one is ignored: whoever came first has answered."""
        if self._value is not _PENDING:
            return
        self._value = value
        if self._future is not None and not self._future.done():
            self._future.set_result(None)

    def result(self) -> Any:
        """The value that arrived; raised if it is an exception."""
        assert self.done, "asked for a value that has not arrived"
        if isinstance(self._value, BaseException):
            raise self._value
        return self._value

    def __await__(self) -> Generator[Any, None, Any]:
        if self._value is _PENDING:
            self._future = asyncio.get_running_loop().create_future()
            yield from self._future
        return self.result()
