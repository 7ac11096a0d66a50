"""What the console and the metrics cost: `python -m benchmarks.console [PART …]`.

A broker on default settings has 2,000 partitions with records, and 500 groups with 20 offsets each.

- pages: each page of the console, 15 visits: ms of the clock until its last byte, CPU ms of the
  broker.
- live: the same pages, while five visitors refresh theirs and two more follow topics live.
- memory: MiB of a broker with a console, beyond those of one without, and of one that is asked the
  same by a console outside of it: started, with partitions and groups, after visits of all pages.
- scrape: CPU ms of a broker for one GET /metrics: while nothing changes, and with new records in
  every partition each time.
- requests: CPU µs of a broker for an unbatched Produce request, without and with `--metrics`, in
  turns. There are two without, for the noise.

CPU is that of the broker's process by its own clock, which other work on the machine touches less.
Needs Linux.
"""

from __future__ import annotations

import argparse
import http.client
import statistics
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from urllib.parse import urlencode

from benchmarks.driver import Connection, Pipeline, batch_of, check_produced, create_topic
from benchmarks.driver import produce_frame as frame_of
from benchmarks.peers import Target, Wirekafka
from tests.ports import free_ports
from wirekafka.config.address import Address
from wirekafka.console.app import SECTIONS
from wirekafka.console.pages.page import Page
from wirekafka.console.sampler import Sampler
from wirekafka.console.service import console_server
from wirekafka.console.settings import ConsoleSettings
from wirekafka.protocol.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from wirekafka.protocol.offset_commit import OffsetCommitRequest, OffsetCommitResponse

LARGE, PARTITIONS = "large", 1500
SMALL, EACH = 100, 5
GROUPS, OFFSETS = 500, 20
VISITS, SCRAPES, TURNS = 15, 20, 9
GOAL_PAGE_MS, GOAL_MIB, GOAL_SCRAPE_MS = 200, 15, 20
COMMIT_VERSION = 7
REFRESH_S = 10
REFRESHED = ("/", "/topics", f"/topics/{LARGE}", "/groups", "/group?name=group-7")
FOLLOWED = ",".join(str(index) for index in range(50))

QUERIES = {
    "/group": {"name": "group-7"},
    "/group/reset": {"name": "group-7", "topic": LARGE, "to": "earliest"},
    "/group/delete": {"name": "group-7"},
    "/user": None,
    "/user/password": None,
    "/user/remove": None,
    "/acls/remove": None,
    "/quotas/remove": None,
    "/config": {"kind": "topic", "name": LARGE, "all": "1"},
    "/transaction": None,
    "/wire/watch": {"client": "somebody"},
    "/topics/{topic}/messages/export": {"format": "csv", "plain": "yes"},
    "/topics/{topic}/search/export": {"format": "csv", "plain": "yes", "text": "x"},
    "/topics/{topic}/messages/{partition}/{offset}/{part}": None,
}
"""Of the pages that need one; None for those that have nothing to show here."""


def pages() -> list[str]:
    """The address of every page."""
    found = []
    for entry in (entry for section in SECTIONS for entry in section.ENTRIES):
        query = QUERIES.get(entry.path, {})
        if isinstance(entry, Page) and query is not None:
            path = entry.path.format(topic=LARGE, partition=7, offset=0)
            found.append(path + (f"?{urlencode(query)}" if query else ""))
    return found


class Site:
    """One visitor, who keeps the connection and the cookie."""

    def __init__(self, port: int):
        """Waits until the port is served: later than clients are."""
        self._connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
        deadline = time.monotonic() + 30
        while self._connection.sock is None:
            try:
                self._connection.connect()
            except ConnectionRefusedError:
                assert time.monotonic() < deadline, "the port is not served"
                time.sleep(0.01)
        self._headers: dict[str, str] = {}

    @property
    def has_wire(self) -> bool:
        """Whether the pages of the wire work: in a broker's own console."""
        self._connection.request("GET", "/wire/watch?client=a", headers=self._headers)
        response = self._connection.getresponse()
        response.read()
        return response.status == 200

    def get(self, path: str, **headers: str) -> bytes:
        """The body of a page."""
        self._connection.request("GET", path, headers={**self._headers, **headers})
        response = self._connection.getresponse()
        cookie = response.headers["Set-Cookie"]
        if cookie:
            self._headers["Cookie"] = cookie.partition(";")[0]
        body = response.read()
        assert response.status == 200, f"{path}: {response.status}"
        return body


def cpu_ms(target: Target) -> float:
    """CPU time of the broker's process, in nanoseconds' resolution."""
    assert target.process is not None
    return time.clock_gettime(~target.process.pid << 3 | 2) * 1000


TOPICS = {LARGE: PARTITIONS} | {f"topic-{number}": EACH for number in range(SMALL)}
"""Partitions by topic."""


def create_topics(target: Target) -> None:
    """Create the topics, with a record in each partition."""
    for name, count in TOPICS.items():
        create_topic(target.host, target.port, name, count)
    append(target)


def commit_offsets(target: Target) -> None:
    """Commit offsets for the groups."""
    keys = [(name, index) for name, count in TOPICS.items() for index in range(count)]
    with closing(Connection(target.host, target.port)) as connection:
        for number in range(GROUPS):
            of_group = [keys[(number * 7 + at * 97) % len(keys)] for at in range(OFFSETS)]
            commit(connection, f"group-{number}", of_group)


def append(target: Target) -> None:
    """Write a record to every partition."""
    batch = batch_of(1, 200)
    with closing(Connection(target.host, target.port)) as connection:
        for name, count in TOPICS.items():
            for index in range(count):
                check_produced(connection, frame_of(name, batch, 1, index))


def commit(connection: Connection, group: str, keys: Sequence[tuple[str, int]]) -> None:
    """Commit the offset 0 for a group without members."""
    kind = OffsetCommitRequest.Topic
    request = OffsetCommitRequest(
        group_id=group,
        generation_id_or_member_epoch=-1,
        topics=[
            kind(name=name, partitions=[kind.Partition(partition_index=index, committed_offset=0)])
            for name, index in keys
        ],
    )
    deadline = time.monotonic() + 30
    while True:
        connection.ask(FindCoordinatorRequest(key=group), FindCoordinatorResponse, 2)
        response = connection.ask(request, OffsetCommitResponse, COMMIT_VERSION)
        if not any(each.partitions[0].error_code for each in response.topics):
            return
        assert time.monotonic() < deadline, "offsets could not be committed"
        time.sleep(0.05)


@contextmanager
def broker(*arguments: str) -> Iterator[Target]:
    """A fresh broker with further arguments of `serve`."""
    with (
        tempfile.TemporaryDirectory() as scratch,
        Wirekafka(*arguments).start(Path(scratch)) as target,
    ):
        yield target


def measure_pages() -> None:
    with _filled() as (target, port):
        _visits(target, port)


def measure_live() -> None:
    with _filled() as (target, port), _visitors(port):
        _visits(target, port)


@contextmanager
def _filled() -> Iterator[tuple[Target, int]]:
    """A broker with partitions and groups that have been sampled, and the port of its console."""
    port = free_ports(1)[0]
    with broker("--console", str(port)) as target:
        Site(port).get("/")  # Samples are taken every ten seconds from the first visit on.
        create_topics(target)
        commit_offsets(target)
        time.sleep(15)
        yield target, port


def _visits(target: Target, port: int) -> None:
    site = Site(port)
    print(f"{'page':52} {'KiB':>6} {'median':>7} {'worst':>7} {'CPU':>7} ms", flush=True)
    for path in pages():
        size = len(site.get(path)) / 1024
        taken, before = [], cpu_ms(target)
        for _ in range(VISITS):
            start = time.perf_counter()
            site.get(path)
            taken.append((time.perf_counter() - start) * 1000)
        mean = (cpu_ms(target) - before) / VISITS
        median = statistics.median(taken)
        missed = "  missed" if median > GOAL_PAGE_MS else ""
        times = f"{median:7.1f} {max(taken):7.1f} {mean:7.1f}{missed}"
        print(f"{path:52} {size:6.1f} {times}", flush=True)


@contextmanager
def _visitors(port: int) -> Iterator[None]:
    """Visitors whose pages are open: refreshed every ten seconds, or with live records."""
    stop = threading.Event()

    def refresh(path: str) -> None:
        site = Site(port)
        while not stop.wait(REFRESH_S):
            site.get(path)

    def follow() -> None:
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
        connection.request("GET", f"/topics/{LARGE}/live/events?partition={FOLLOWED}")
        response = connection.getresponse()
        while not stop.is_set():
            response.readline()
        connection.close()

    opened = [threading.Thread(target=refresh, args=(path,)) for path in REFRESHED]
    opened += [threading.Thread(target=follow) for _ in range(2)]
    for thread in opened:
        thread.start()
    try:
        yield
    finally:
        stop.set()
        for thread in opened:
            thread.join()


def measure_memory() -> None:
    port = free_ports(1)[0]
    with (
        broker() as quiet,
        broker() as asked,
        broker("--console", str(port)) as target,
        _console_outside(asked) as outside,
    ):
        others = quiet, asked
        _added("started", target, *others)
        for each in (port, outside):
            Site(each).get("/")
        _added("one page visited", target, *others)
        for broker_ in (target, *others):
            create_topics(broker_)
            commit_offsets(broker_)
        time.sleep(25)  # The samplers have run a few times.
        _added("with partitions and groups", target, *others)
        for site in (Site(port), Site(outside)):
            for _ in range(3):
                for path in pages():
                    if site.has_wire or not path.startswith("/wire"):
                        site.get(path)
        _added("all pages visited three times", target, *others)


@contextmanager
def _console_outside(asked: Target) -> Iterator[int]:
    """A console of a broker in this process; yields its port."""
    settings = ConsoleSettings(asked.bootstrap, Address("127.0.0.1", 0))
    server = console_server(settings, Sampler)
    server.start()
    try:
        yield server.address.port
    finally:
        server.stop()


def _added(when: str, target: Target, quiet: Target, asked: Target) -> None:
    most = target.resident_mib()
    over_quiet, over_asked = most - quiet.resident_mib(), most - asked.resident_mib()
    missed = "  missed" if over_asked > GOAL_MIB else ""
    added = (
        f"{over_quiet:+6.1f} MiB over a broker without, {over_asked:+6.1f} over one asked as much"
    )
    print(f"{when:32} {added}{missed}", flush=True)


def measure_scrape() -> None:
    port = free_ports(1)[0]
    with broker("--metrics", str(port)) as target:
        create_topics(target)
        _scrapes("partitions, idle", target, port, None)
        _scrapes("all appended to", target, port, append)
        commit_offsets(target)
        _scrapes("groups too, idle", target, port, None)


def _scrapes(name: str, target: Target, port: int, change: Callable[[Target], None] | None) -> None:
    for encoding in ("gzip", "identity"):
        taken, size = [], 0
        for _ in range(SCRAPES + 1):
            if change is not None:
                change(target)
            start = cpu_ms(target)
            size = len(Site(port).get("/metrics", **{"Accept-Encoding": encoding}))
            taken.append(cpu_ms(target) - start)
        median, worst = statistics.median(taken[1:]), max(taken[1:])
        missed = "  missed" if median > GOAL_SCRAPE_MS else ""
        print(f"{name:18} {encoding:8} {size:8} bytes {median:6.1f} ms, worst {worst:.1f}{missed}")


def measure_requests() -> None:
    kinds = {"without": (), "without, again": (), "with metrics": ("--metrics", "0")}
    taken: dict[str, list[float]] = {kind: [] for kind in kinds}
    with ExitStack() as stack:
        driven = {}
        for kind, arguments in kinds.items():
            target = stack.enter_context(broker(*arguments))
            create_topic(target.host, target.port, "one")
            frame = frame_of("one", batch_of(1, 200), 1)
            opened = [Connection(target.host, target.port) for _ in range(50)]
            check_produced(opened[0], frame)
            driven[kind] = target, Pipeline(opened, frame, 1)
        for turn in range(TURNS + 1):
            for kind, (target, pipeline) in driven.items():
                before = cpu_ms(target)
                done = pipeline.run(1.0)
                if turn:  # The first is a warm-up.
                    taken[kind].append((cpu_ms(target) - before) * 1000 / done)
        for _, pipeline in driven.values():
            pipeline.finish()
    base = statistics.median(taken["without"])
    for kind, each in taken.items():
        median = statistics.median(each)
        spread = f"({min(each):.2f} to {max(each):.2f})"
        print(f"{kind:16} {median:6.2f} us a request {spread}, x{median / base:.3f}", flush=True)


PARTS: dict[str, Callable[[], None]] = {
    "pages": measure_pages,
    "live": measure_live,
    "memory": measure_memory,
    "scrape": measure_scrape,
    "requests": measure_requests,
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("parts", nargs="*", metavar="PART", help=", ".join(PARTS))
    for part in parser.parse_args().parts or PARTS:
        print(f"-- {part}", flush=True)
        PARTS[part]()


if __name__ == "__main__":
    main()
