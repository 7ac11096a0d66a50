"""What the console computes from samples, and how it writes numbers."""

import pytest

from wirekafka.console import render
from wirekafka.console.offsets import GroupListing
from wirekafka.console.pages.tables import ROWS, table
from wirekafka.console.sampler import GroupSamples
from wirekafka.console.source import GroupLag
from wirekafka.console.topic_samples import TopicSamples


def test_the_rate_of_a_topic_is_that_between_two_samples():
    samples = TopicSamples()
    assert samples.sample(0, {"orders": 100})[0].records_per_s is None
    [rate] = samples.sample(10_000, {"orders": 350})
    assert rate.records_per_s == 25
    assert rate.history == [(10_000, 25.0)]


def test_a_topic_that_was_created_again_has_no_negative_rate():
    samples = TopicSamples()
    samples.sample(0, {"orders": 100})
    assert samples.sample(10_000, {"orders": 0})[0].records_per_s == 0


def test_an_idle_topic_keeps_three_samples():
    samples = TopicSamples()
    for beat in range(100):
        [rate] = samples.sample(beat * 10_000, {"orders": 7})
    assert [at_ms for at_ms, _ in rate.history] == [10_000, 990_000]


def test_seconds_behind_are_known_once_the_end_was_seen_to_pass_the_offset():
    samples = GroupSamples()
    group = GroupListing("billing", "classic", "Empty", "consumer", 1)
    key = ("orders", 0)

    def lag(at_ms, position, end):
        [found] = samples.sample(at_ms, [group], {"billing": {key: position}}, {key: end})
        return found.lag, found.behind_ms

    assert lag(0, 5, 10) == (5, None)
    assert lag(10_000, 10, 20) == (10, 9_000)
    assert lag(20_000, 20, 20) == (0, 0)
    assert lag(30_000, 25, 20) == (0, 0), "never negative"


@pytest.mark.parametrize(
    ("shown", "text"),
    [
        (render.number(1234567), "1\u202f234\u202f567"),
        (render.number(None), "–"),
        (render.size(0), "0 B"),
        (render.size(1536), "1.5 KiB"),
        (render.duration(351), "351 ms"),
        (render.duration(89_000), "1 min 29 s"),
        (render.duration(90_061_000), "1 d 1 h"),
        (render.moment(0), "1970-01-01 00:00:00.000"),
        (render.moment(1 << 62), str(1 << 62)),
        (render.rate(0.0421), "0.0421"),
    ],
)
def test_numbers_are_written_for_people(shown, text):
    assert shown == text


def test_a_chart_keeps_the_newest_sample_when_it_is_thinned_out():
    assert render.points([(at * 1000, at) for at in range(100)], 10).endswith("89,99]]")


def test_a_long_table_has_pages_and_what_is_unknown_comes_last():
    rows = [None, *range(250)]
    found = table(rows, {"page": "3", "sort": "-size"}, name=str, sorts={"size": lambda row: row})
    assert (found.total, found.pages, found.page, len(found.rows)) == (251, 3, 3, 251 - 2 * ROWS)
    assert found.rows[0] == 49 and found.rows[-1] is None


def test_a_query_that_was_stopped_stands_below_its_live_successor():
    def reader(name, lag, idle_ms):
        return GroupLag(name, "reader", "", lag, None, 1, None, idle_ms)

    live, slow = reader("live", 10, 1_000), reader("slow", 500, 19_999)
    stopped, ended = reader("stopped", 2_000, 20_000), reader("ended", 9_000, 60_000)
    ordered = sorted([ended, stopped, live, slow], key=lambda each: each.urgency)
    assert ordered == [slow, live, stopped, ended]
    assert [each.is_idle for each in ordered] == [False, False, False, True]
