"""Reports of invented results: text, JSON, JUnit and HTML, with hostile answers too."""

from __future__ import annotations

import json
import xml.etree.ElementTree as ElementTree

import pytest
from bs4 import BeautifulSoup

from tests.conformance.invented import (
    HOSTILE,
    case,
    different,
    failed,
    report,
    same,
    unsupported,
    various,
)
from wirekafka.conformance.case import ConformanceLevel, Need
from wirekafka.conformance.expectation import ABSENT
from wirekafka.conformance.reports.findings import OutcomeCounts, in_order, reason_of
from wirekafka.conformance.reports.hex_dump import hex_lines
from wirekafka.conformance.reports.json_document import as_json
from wirekafka.conformance.reports.junit import as_junit
from wirekafka.conformance.reports.outline import outline
from wirekafka.conformance.reports.page import as_html
from wirekafka.conformance.reports.remarks import cases_left_out, versions_that_differ
from wirekafka.conformance.reports.text import as_text
from wirekafka.conformance.target import ClusterUnderTest


def test_equal_differences_of_several_versions_are_one() -> None:
    lines = as_text(report(different(case("no topics"), versions=(3, 4, 5, 9)))).splitlines()
    at = lines.index("metadata/no-topics (KIP-1)")
    assert lines[at + 1 : at + 5] == [
        "  > Metadata v3 {topics: [{name: P-t}]}",
        "  v3-5,9 1 Metadata.topics[0].error_code",
        "    - expected NONE",
        "    + got      UNKNOWN_SERVER_ERROR",
    ]


def test_cases_of_an_api_that_differ_in_the_same_way_are_together() -> None:
    shown = as_text(
        report(
            different(case("a")),
            different(case("b"), path="topics[3].error_code"),
            different(case("c"), got="INVALID_TOPIC_EXCEPTION"),
            different(case("d", api="Fetch")),
        )
    )
    assert shown.count("+ got") == 3
    assert "metadata/a (KIP-1)\n  and in the same way metadata/b\n" in shown


def test_counts_are_by_area_and_api_and_by_level() -> None:
    found = various()
    assert [(area, each.name, each.cases) for area, each in found.apis] == [
        ("metadata", "Metadata", 3),
        ("produce", "Produce", 32),
        ("share groups", "ShareFetch", 2),
        ("ACLs", "CreateAcls", 2),
    ]
    levels = {each.name: (each.cases, each.different) for each in found.levels}
    assert levels["security"] == (2, 1)
    assert levels["complete"] == (39, 5)
    lines = as_text(found).splitlines()
    assert next(each for each in lines if each.startswith("complete ")).split() == [
        *("complete", "39", "32", "5", "2", "82.0", "%")
    ]
    assert "39 cases in 12.3 s: 32 same, 5 different, 2 unsupported" in lines


def test_a_share_is_100_percent_only_if_all_are_the_same() -> None:
    assert OutcomeCounts("", same=9999, different=1, unsupported=0).percent == "99.9 %"
    assert OutcomeCounts("", same=3, different=0, unsupported=0).percent == "100.0 %"
    assert OutcomeCounts("", same=0, different=0, unsupported=0).percent == "-"


def test_fields_that_are_left_out_have_their_default() -> None:
    shown = as_text(
        report(
            different(case("a"), got=ABSENT),
            different(case("b"), got=ABSENT, path="topics[0].offset", expected=3),
        )
    )
    assert "    + got      NONE" in shown
    assert "    - expected 3\n    + got      the default" in shown


def test_many_differences_of_a_case_are_cut_short() -> None:
    first = different(case("a"), versions=(1,))
    (played,) = first.played
    played.differences = [
        each._replace(path=f"1 Metadata.topics[{number}]")
        for number in range(20)
        for each in played.differences[:1]
    ]
    shown = as_text(report(first))
    assert shown.count("+ got") == 8
    assert "  12 more differences: --explain metadata/a" in shown


def test_stories_are_on_one_line() -> None:
    assert "metadata/no-topics (KIP-1): No topic is named.\n" in as_text(various())


def test_a_case_that_ends_early_says_why() -> None:
    result = failed(case("a"), "IndexError: list index out of range")
    assert result.outcome == "different"
    assert reason_of(result) == "IndexError: list index out of range"
    assert "  v0-1: cannot be played to its end: IndexError: list" in as_text(report(result))


def test_what_is_not_supported_says_what_is_missing() -> None:
    shown = as_text(report(unsupported(case("a")), unsupported(case("b"))))
    assert "  Metadata: 2 cases: ShareFetch v1 is not advertised (none)" in shown


def test_bytes_are_shown_on_demand() -> None:
    found = report(different(case("a")))
    assert "61 73 6b 65 64" not in as_text(found)
    shown = as_text(found, with_bytes=True)
    assert "00000000  61 73 6b 65 64" in shown and "asked" in shown and "answered" in shown


def test_long_bytes_are_cut_short() -> None:
    lines = list(hex_lines(bytes(range(256)) * 16))
    assert lines[0] == (
        "  00000000  00 01 02 03 04 05 06 07  08 09 0a 0b 0c 0d 0e 0f  ................"
    )
    assert lines[4].endswith("  @ABCDEFGHIJKLMNO")
    assert lines[-1] == "  ... 2048 more bytes"


def test_remarks_and_what_is_left_are_at_the_end() -> None:
    assert as_text(various()).splitlines()[-6:] == [
        "Remarks",
        "  12 cases are left out: they need an authorizer",
        "  remark ",
        "",
        "Left behind",
        "  topics: conformance-1 ",
    ]


def test_json_has_every_case() -> None:
    document = json.loads(as_json(various()))
    assert document["seconds"] == 12.346 and document["kafka"] == "4.4"
    assert document["target"] == "broker:9092 (1 broker)"
    cases = {each["name"]: each for each in document["cases"]}
    assert len(cases) == 39
    assert cases["metadata/a-missing-topic"] == {
        "name": "metadata/a-missing-topic",
        "area": "metadata",
        "api": "Metadata",
        "level": "core client",
        "source": "KIP-1",
        "outcome": "different",
        "seconds": 1.5,
        "versions": [3],
        "differences": [
            {
                "version": 3,
                "step": "1 Metadata",
                "path": "topics[0].error_code",
                "expected": "NONE",
                "got": "UNKNOWN_SERVER_ERROR",
            }
        ],
        "reason": "",
    }
    assert cases["share-fetch/a-session"]["outcome"] == "unsupported"
    assert cases["share-fetch/a-session"]["versions"] == []
    assert cases["share-fetch/a-session"]["reason"].startswith("ShareFetch v1 is not advertised")
    assert {each["outcome"] for each in document["cases"]} == {"same", "different", "unsupported"}


def test_junit_has_a_suite_for_each_api() -> None:
    root = ElementTree.fromstring(as_junit(various()))
    assert root.attrib["tests"] == "39" and root.attrib["failures"] == "5"
    assert [suite.attrib["name"] for suite in root] == [
        *("Metadata", "Produce", "ShareFetch", "CreateAcls")
    ]
    assert len(root.findall(".//skipped")) == 2
    failures = root.findall(".//failure")
    assert len(failures) == 5
    assert failures[0].attrib["message"] == (
        "v3-5 1 Metadata.topics[0].error_code: expected NONE, got UNKNOWN_SERVER_ERROR"
    )


@pytest.mark.parametrize("hostile", ["", HOSTILE], ids=["plain", "hostile"])
def test_the_page_shows_all_and_runs_nothing(hostile: str) -> None:
    html = as_html(various(hostile))
    html.encode()
    page = BeautifulSoup(html, "html.parser")
    assert page.find_all(["script", "link", "img", "iframe"]) == []
    assert not [each for each in page.find_all() if any(key.startswith("on") for key in each.attrs)]
    assert "http" not in html and "url(" not in html
    assert len(page.find_all("details")) == 6
    assert len(page.find_all("svg", class_="bar")) == 4 + 4
    assert "UNKNOWN_SERVER_ERROR" in page.get_text()


def test_hostile_answers_are_escaped_everywhere() -> None:
    found = various(HOSTILE)
    text = as_text(found, with_bytes=True)
    assert all(line.isprintable() for line in text.splitlines())
    assert all(each.isprintable() or each in "\n\t" for each in as_html(found))
    assert as_json(found).isprintable()
    junit = as_junit(found)
    junit.encode()
    failure = ElementTree.fromstring(junit).findall(".//failure")[-1]
    assert '<script>alert("1")</script>\\u001b[2J' in failure.attrib["message"]


def test_junit_has_no_character_that_xml_has_not() -> None:
    hostile = "".join(map(chr, range(0x300))) + "\ufffe\uffff\U0001fffe\U0010ffff\udfff"
    found = as_junit(report(failed(case("a"), hostile), unsupported(case("b"), hostile)))
    (failure,) = ElementTree.fromstring(found.encode()).findall(".//failure")
    assert "\\u0000\\u0001" in failure.attrib["message"]


def test_a_report_without_differences_is_a_page_too() -> None:
    page = BeautifulSoup(as_html(report(same(case("a")))), "html.parser")
    assert "Nothing is different." in page.get_text()
    assert page.find_all("details") == []


def test_results_are_in_the_order_of_areas_apis_and_cases() -> None:
    results = [
        same(case("b", area="x")),
        same(case("a", area="x")),
        same(case("z", api="Fetch", area="a")),
    ]
    order = {"metadata/b": 0, "metadata/a": 1, "fetch/z": 2}
    found = in_order(results, order.__getitem__)
    assert [each.case.name for each in found] == ["fetch/z", "metadata/b", "metadata/a"]


def test_cases_that_are_left_out_are_counted_by_what_they_need() -> None:
    cases = [
        case("a", needs=frozenset({Need.AUTHORIZER})),
        case("b", needs=frozenset({Need.AUTHORIZER})),
        case("c", needs=frozenset({Need.THREE_BROKERS, Need.LOGIN})),
        case("d"),
    ]
    target = ClusterUnderTest([], facts={Need.LOGIN})
    assert cases_left_out(cases, target) == [
        "2 cases are left out: they need an authorizer",
        "1 cases are left out: they need three brokers",
    ]


def test_versions_that_only_one_side_advertises_are_named() -> None:
    target = ClusterUnderTest([], versions={0: (0, 11), 1: (4, 19), 4242: (0, 30_000)})
    missing, more = versions_that_differ(target, "4.4")
    assert missing.startswith("Kafka 4.4 advertises, the cluster does not: Produce 12-13, ListOff")
    assert more == (
        "the cluster advertises, Kafka 4.4 does not: Fetch 19, the API with key 4242 0-100"
    )


def test_long_answers_are_indented_by_level() -> None:
    long = {"topics": [{"name": "x" * 60, "partitions": [{"id": 1}, {"id": 2}]}], "a": None}
    assert list(outline("1 Metadata", long, 2)) == [
        "  1 Metadata:",
        "    topics[0]:",
        f"      name: {'x' * 60}",
        "      partitions: [{id: 1}, {id: 2}]",
        "    a: null",
    ]
    assert list(outline("1 Metadata", {"one of": [1, 2]})) == ["1 Metadata: 1 or 2"]


def test_levels_are_in_their_order() -> None:
    assert [each.name for each in various().levels] == list(map(str, ConformanceLevel))
