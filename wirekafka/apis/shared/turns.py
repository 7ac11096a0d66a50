"""Work on many elements, divided among turns of the event loop.

A client needs no rights to send a million elements in one request. A handler that takes 20 µs for
each would hold all other clients for 20 s.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Container, Generator, Iterable
from itertools import islice
from types import coroutine
from typing import Any, Final, TypeVar

from wirekafka.security.access import Access
from wirekafka.security.acl import Operation, ResourceType

ELEMENTS_PER_TURN: Final = 256
"""At 60 µs for an element, the longest time of any element, this is 15 ms."""
_COUNTED_PER_TURN = 1 << 15

T = TypeVar("T")
R = TypeVar("R")


@coroutine
def next_turn() -> Generator[None, None, None]:
    """Go on in the next turn of the event loop."""
    yield


def release(messages: list[Any]) -> None:
    """Free the elements of messages one by one, so that other threads run in between.

    What elements refer to is left as it is: it may be part of the broker's state.
    """
    arrays: dict[type, list[str]] = {}
    while messages:
        each = messages.pop()
        names = arrays.get(each.__class__)
        if names is None:
            fields = getattr(each, "fields", ())
            names = arrays[each.__class__] = [one.name for one in fields if one.is_array]
        for name in names:
            messages += getattr(each, name) or ()


class Turns:
    """The elements that a request still has in this turn of the event loop, in all its loops.

    The number of elements decides, not a clock: the same request always pauses at the same points,
    and a request of few elements never does.
    """

    __slots__ = ("_left",)

    def __init__(self) -> None:
        self._left = ELEMENTS_PER_TURN

    async def step(self, elements: int = 1) -> None:
        """Count elements, and go on in the next turn after enough elements."""
        self._left -= elements
        if self._left <= 0:
            self._left = ELEMENTS_PER_TURN
            await next_turn()

    async def map(self, function: Callable[[T], R], elements: Iterable[T]) -> list[R]:
        """The result of the function for each element."""
        found = []
        for element in elements:
            found.append(function(element))
            await self.step()
        return found

    async def count(self, elements: Iterable[T]) -> Counter[T]:
        """How often each element occurs."""
        counts = Counter[T]()
        rest = iter(elements)
        while part := list(islice(rest, _COUNTED_PER_TURN)):
            counts.update(part)
            if len(part) == _COUNTED_PER_TURN:
                await next_turn()
        return counts

    async def authorized(
        self, call: Access, operation: Operation, resource_type: ResourceType, names: Iterable[str]
    ) -> Container[str]:
        """As `Access.authorized`, for any number of names."""
        authorizer = call.authorizer
        if authorizer is None:
            return call.authorized(operation, resource_type, ())
        found = set()
        for name, count in (await self.count(names)).items():
            if authorizer.allows(call, operation, (resource_type, name), references=count):
                found.add(name)
            await self.step()
        return found
