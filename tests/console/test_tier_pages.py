"""The page of a tiered topic: which offsets are where, how large they are, and what they cost."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest

from tests.console.browser import browser, executable
from tests.console.site import Site, console
from tests.console.walk import NARROW, WIDE, Walk
from wirekafka import Broker
from wirekafka.client.client import CliError
from wirekafka.console import topic_tier
from wirekafka.console.offsets import EARLIEST, LATEST
from wirekafka.console.settings import Prices
from wirekafka.testing import Record
from wirekafka.testing.memory_tier import MemoryTier

TIERED = {"remote.storage.enable": True, "segment.bytes": 1 << 20, "local.retention.bytes": 1}


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    """A broker with a topic of two partitions: 0 to 5 are copied, only 6 and 7 are on the disk."""
    with Broker(tier="memory:") as broker:
        broker.create_topic("orders", partitions=2, config=TIERED)
        broker.create_topic("plain")
        broker.produce("plain", ["x"])
        for index in range(2):
            records = [Record(bytes(500_000), partition=index) for _ in range(8)]
            broker.produce("orders", records)
        broker.wait_for(
            lambda: [broker.records("orders", index)[0].offset for index in range(2)] == [6, 6]
        )
        yield broker


@pytest.fixture(scope="module")
def site(broker: Broker) -> Iterator[Site]:
    with console(broker.bootstrap_servers, prices=Prices(disk=200, tier=20)) as site:
        yield site


def test_the_offsets_of_each_partition_are_shown_where_they_are(site: Site) -> None:
    shown = site.get("/topics/orders")
    assert shown.rows("#tier") == [
        [str(index), "", "6", "0", "2", "6", "3", "2.9 MiB"] for index in range(2)
    ]
    [bar, _] = shown.soup.select("svg.where")
    assert bar["aria-label"] == (
        "offsets 0 to 8: 6 in remote storage only, 0 in both, 2 on disk only"
    )
    widths = [each["width"] for each in bar.select("rect")]
    assert widths == ["750.0", "0.0", "250.0"]


def test_the_size_and_the_cost_of_each_tier_are_shown(broker: Broker, site: Site) -> None:
    words = site.get("/topics/orders").words(".tiles")
    tier = broker.tier
    assert isinstance(tier, MemoryTier)
    # Sizes are those of the log files: 2 partitions, 6 records of half a MB each.
    assert "5.7 MiB in remote storage, 0.12 a month" in words
    assert "1.9 MiB on all brokers, 0.40 a month" in words
    with console(broker.bootstrap_servers) as without_prices:
        assert "a month" not in without_prices.get("/topics/orders").words(".tiles")


def test_a_topic_with_nothing_in_remote_storage_has_no_such_part(site: Site) -> None:
    shown = site.get("/topics/plain")
    assert shown.status == 200
    assert "remote storage" not in shown.text


def test_an_untiered_topic_beside_tiered_ones_costs_a_look_at_its_configuration(
    broker: Broker, site: Site
) -> None:
    assert requested(broker, site) == ({EARLIEST, LATEST}, 1)


def test_without_tiered_storage_a_page_costs_no_further_requests() -> None:
    with Broker() as broker:
        broker.create_topic("plain")
        with console(broker.bootstrap_servers) as site:
            assert requested(broker, site) == ({EARLIEST, LATEST}, 0)


def requested(broker: Broker, site: Site) -> tuple[set[int], int]:
    """The kinds of offsets that the page of `plain` requests, and its looks at configurations."""
    broker.requests.clear()
    assert site.get("/topics/plain").status == 200
    offsets = {
        partition.timestamp
        for each in broker.requests.of("ListOffsets", topic="plain")
        for topic in each.request.topics
        for partition in topic.partitions
    }
    return offsets, len(broker.requests.of("DescribeConfigs"))


def test_without_permission_for_its_configuration_a_topic_is_asked_for_offsets_of_the_tier(
    broker: Broker, site: Site
) -> None:
    with broker.fail("DescribeConfigs", "TOPIC_AUTHORIZATION_FAILED") as refused:
        assert site.get("/topics/orders").rows("#tier")[0][2:6] == ["6", "0", "2", "6"]
    assert refused.hits


def test_sizes_that_cannot_be_read_are_said_to_be_unknown(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise CliError("topic __remote_log_metadata: TOPIC_AUTHORIZATION_FAILED")

    monkeypatch.setattr(topic_tier, "TopicReads", refuse)
    shown = site.get("/topics/orders")
    assert "is not known: topic __remote_log_metadata: TOPIC_AUTHORIZATION_FAILED" in shown.words()
    assert shown.rows("#tier")[0][2:] == ["6", "0", "2", "6", "–", "–"]


def test_metadata_that_is_too_large_for_one_page_is_not_read(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(topic_tier, "_MOST_BYTES", -1)
    assert "its metadata has more than" in site.get("/topics/orders").words()


def test_offsets_in_both_tiers_count_once() -> None:
    line = topic_tier.TierLine(0, start=10, local_start=40, tiered_end=70, end=110, remote=None)
    assert (line.remote_only, line.both, line.local_only) == (30, 30, 40)
    assert [line.share(each) for each in (30, 30, 40)] == [300.0, 300.0, 400.0]
    empty = replace(line, start=5, local_start=5, tiered_end=5, end=5)
    assert [empty.share(each) for each in (empty.remote_only, empty.both)] == [0.0, 0.0]


@pytest.mark.skipif(executable() is None, reason="no Chromium is installed")
def test_the_page_fits_narrow_windows_and_is_drawn_in_the_colors_of_the_scheme(site: Site) -> None:
    colors = set()
    with browser() as chromium:
        for scheme in ("light", "dark"):
            for width in (NARROW, WIDE):
                walk = Walk.open(chromium, site.base, width, scheme)
                walk.visit(["/topics/orders"])
                bar = walk.page.locator("svg.where rect.remote").first
                colors.add(bar.evaluate("each => getComputedStyle(each).fill"))
                assert bar.evaluate("each => each.getBoundingClientRect().width") >= 100
                walk.page.close()
    assert len(colors) == 2
