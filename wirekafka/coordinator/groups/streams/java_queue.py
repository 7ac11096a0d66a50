"""A priority queue that breaks ties as Java's does."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Generic, TypeVar

T = TypeVar("T")


class JavaQueue(Generic[T]):
    """A binary heap with the moves of `java.util.PriorityQueue`.

    Among equal items, the moves decide which comes first: Kafka's assignor depends on it.
    """

    def __init__(self, items: Iterable[T], load_of: Callable[[T], float]):
        self._heap: list[T] = []
        self._load_of = load_of
        for item in items:
            self.add(item)

    def __bool__(self) -> bool:
        return bool(self._heap)

    def add(self, item: T) -> None:
        """Insert an item."""
        heap = self._heap
        load = self._load_of(item)
        heap.append(item)
        at = len(heap) - 1
        while at > 0:
            parent = (at - 1) >> 1
            if load >= self._load_of(heap[parent]):
                break
            heap[at] = heap[parent]
            at = parent
        heap[at] = item

    def poll(self) -> T:
        """Remove the item with the least load; raises IndexError if there is none."""
        heap = self._heap
        last = heap.pop()
        if not heap:
            return last
        first = heap[0]
        load = self._load_of(last)
        at = 0
        while (child := 2 * at + 1) < len(heap):
            right = child + 1
            if right < len(heap) and self._load_of(heap[child]) > self._load_of(heap[right]):
                child = right
            if load <= self._load_of(heap[child]):
                break
            heap[at] = heap[child]
            at = child
        heap[at] = last
        return first
