"""The traffic of clients and replicas, by topic: plain integers that only grow."""

from __future__ import annotations

from collections.abc import Callable, Iterator


class TopicTraffic:
    """The counters of one topic on this broker, since its start.

    Requests are counted once for each partition that they name, as in Kafka; so are the appends of
    coordinators, as if they were Produce requests.
    """

    __slots__ = (
        "bytes_in",
        "bytes_out",
        "bytes_rejected",
        "conversions",
        "failed_fetches",
        "failed_produces",
        "failed_share_acknowledgements",
        "failed_share_fetches",
        "fetches",
        "messages_in",
        "produces",
        "replication_bytes_in",
        "replication_bytes_out",
        "share_acknowledgements",
        "share_fetches",
    )

    def __init__(self) -> None:
        for name in self.__slots__:
            setattr(self, name, 0)

    def appended(self, size_bytes: int, messages: int) -> None:
        """Count a batch that a client, a coordinator or the end of a transaction has appended."""
        self.produces += 1
        self.bytes_in += size_bytes
        self.messages_in += messages

    def refused(self) -> None:
        """Count a batch that was not appended."""
        self.produces += 1
        self.failed_produces += 1

    def read(self, size_bytes: int, *, is_follower: bool) -> None:
        """Count a read of one partition."""
        self.fetches += 1
        if is_follower:
            self.replication_bytes_out += size_bytes
        else:
            self.bytes_out += size_bytes

    bytes_in: int
    bytes_out: int
    bytes_rejected: int
    conversions: int
    failed_fetches: int
    failed_produces: int
    failed_share_acknowledgements: int
    failed_share_fetches: int
    fetches: int
    messages_in: int
    produces: int
    replication_bytes_in: int
    replication_bytes_out: int
    share_acknowledgements: int
    """ShareFetch and ShareAcknowledge requests that acknowledge records of the topic."""
    share_fetches: int

    def add(self, other: TopicTraffic) -> None:
        """Add the counters of another topic to these."""
        for name in self.__slots__:
            setattr(self, name, getattr(self, name) + getattr(other, name))


class Traffic:
    """The counters of all topics of a broker; deleted topics stay in the total."""

    def __init__(self) -> None:
        self._topics: dict[str, TopicTraffic] = {}
        self.of_others = TopicTraffic()
        """The traffic of deleted topics, and of requests for partitions that this broker lacks."""
        self.last_fetch_is_followers = False
        """Whether the Fetch that was counted last came from a follower."""

    def of(self, topic: str) -> TopicTraffic:
        """The counters of a topic, created if they are new."""
        found = self._topics.get(topic)
        if found is None:
            found = self._topics[topic] = TopicTraffic()
        return found

    def forget(self, is_present: Callable[[str], bool]) -> None:
        """Drop the topics that are not present any more; the total keeps their counts."""
        for topic in [topic for topic in self._topics if not is_present(topic)]:
            self.of_others.add(self._topics.pop(topic))

    def topics(self) -> Iterator[tuple[str, TopicTraffic]]:
        """Each topic with its counters."""
        return iter(list(self._topics.items()))

    def total(self) -> TopicTraffic:
        """The sum over all topics, deleted ones included."""
        total = TopicTraffic()
        total.add(self.of_others)
        for traffic in self._topics.values():
            total.add(traffic)
        return total
