"""The page of mirrored topics: how far each copy is behind, and why some are not copied."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.console.site import Site
from tests.console.test_built_in import Served
from tests.eventually import eventually
from wirekafka import Broker
from wirekafka.config.address import Address
from wirekafka.console.sampler import Sampler
from wirekafka.console.service import console_server
from wirekafka.console.settings import ConsoleSettings
from wirekafka.console.source import Insight, Known, MirrorReport, Unknown

HOSTILE = "<b>x</b>\u202e"


class Reporting:
    """A broker that reports only on its mirror."""

    def __init__(self, rows: list[dict[str, Any]], **summary: Any) -> None:
        whole = {"source": "prod:9092", "state": "copying", "lag": 0, "bytes": 0, "error": None}
        self._report = MirrorReport(whole | summary, rows)

    def insight(self) -> Known[Insight]:
        return Unknown("not here")

    def mirror(self) -> Known[MirrorReport]:
        return self._report


def row(topic: str, partition: int | None, state: str, **known: Any) -> dict[str, Any]:
    names = ("start", "end", "source_start", "source_end", "lag", "skipped", "reason")
    return {"topic": topic, "partition": partition, "state": state, **dict.fromkeys(names), **known}


@contextmanager
def mirror(broker: Broker, inside: Reporting | None, *, mirrors: bool = True) -> Iterator[Site]:
    settings = ConsoleSettings(broker.bootstrap_servers, Address("127.0.0.1", 0), mirrors=mirrors)
    server = console_server(settings, lambda pool: Sampler(pool, inside))
    server.start()
    try:
        yield Site(server.address)
    finally:
        server.stop()


def test_copies_are_listed_with_their_lag_and_with_the_reasons_of_failures(broker):
    rows = [
        row("orders", 0, "copying", end=7, source_end=10, lag=3, skipped=2),
        row("payments", 1, "stopped", end=0, source_end=10, lag=10, reason=HOSTILE),
        row("old", None, "promoted"),
    ]
    with mirror(broker, Reporting(rows, lag=13, bytes=2048)) as site:
        page = site.get("/mirror", sort="-lag")
        shown = page.rows("#partitions")
        assert shown[0][:7] == ["payments", "1", "stopped", "10", "0", "10", "–"]
        assert shown[0][7] == "<b>x</b>\\u202e"
        assert shown[1] == ["orders", "0", "copying", "3", "7", "10", "2", ""]
        assert shown[2][:3] == ["old", "all", "promoted"]
        assert page.words("#lag") == "13 records behind"
        assert page.words("#failing").startswith("1 ")
        assert page.soup.select_one("#page")["data-refresh"] == "10"
        assert [each[0] for each in site.get("/mirror", q="ord").rows("#partitions")] == ["orders"]


def test_a_source_that_does_not_answer_is_named(broker):
    with mirror(broker, Reporting([], state="waiting", lag=None, error="refused")) as site:
        page = site.get("/mirror")
        assert page.words(".problem") == "The source does not answer: refused"
        assert "copy of prod:9092" in page.words("#state")


def test_a_console_without_a_mirror_has_no_such_page(broker):
    with mirror(broker, None, mirrors=False) as site:
        assert site.get("/mirror").status == 404
        assert site.get("/").soup.select_one("nav a[href='/mirror']") is None
    with mirror(broker, None) as site:
        assert "Only a wirekafka broker knows this" in site.get("/mirror").words(".unknown")


def test_a_broker_that_mirrors_shows_its_copies(broker: Broker, tmp_path: Path) -> None:
    broker.produce("mirrored", [b"x"] * 5)
    served = Served(
        tmp_path / "data", "--mirror", broker.bootstrap_servers, "--mirror-topics", "mirrored"
    )
    with served.serving:

        def shown() -> list[list[str]]:
            page = served.site.get("/mirror")
            return [each for each in page.rows("#partitions") if each[3:6] == ["0", "5", "5"]]

        [found] = eventually(shown)
        assert found[:3] == ["mirrored", "0", "copying"]
        assert served.site.get("/").soup.select_one("nav a[href='/mirror']") is not None
