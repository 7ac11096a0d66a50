"""Names and ids that count how often code compares them, on any machine.

The number of comparisons shows a time that grows with the square of a request.
"""

from __future__ import annotations


class Comparisons:
    """The comparisons of the names and ids below since the last `begin`."""

    made = 0

    @classmethod
    def begin(cls) -> None:
        """Count from 0."""
        cls.made = 0


class CountedText(str):
    """A name that counts; it is compared as well where it is put into a set or looked up there."""

    __slots__ = ()

    def __hash__(self) -> int:
        Comparisons.made += 1
        return str.__hash__(self)

    def __eq__(self, other: object) -> bool:
        Comparisons.made += 1
        return str.__eq__(self, other)


class CountedBytes(bytes):
    """An id that counts."""

    __hash__ = bytes.__hash__

    def __eq__(self, other: object) -> bool:
        Comparisons.made += 1
        return bytes.__eq__(self, other)
