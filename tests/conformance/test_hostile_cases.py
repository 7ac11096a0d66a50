"""Hostile cases name only what is of their run, change nothing, and are as the tables say."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from wirekafka.codec.frame import encode_frame, encode_request
from wirekafka.codec.message import Request
from wirekafka.conformance.cases.hostile.left_out import INDIFFERENT, LEFT_OUT
from wirekafka.conformance.cases.hostile.requests import REQUESTS, versions_of
from wirekafka.conformance.cases.hostile.values import BOOKS, chosen, of_run, two_numbers
from wirekafka.conformance.hostile import frame, variants
from wirekafka.conformance.stage import UNKNOWN_ID

_WORDS = frozenset(
    {
        *("", "user", "consumer", "retention.ms", "1000", "producer_byte_rate", "/nowhere"),
        *("6ZGGfVUxQGmvg2Hc4gKGXw", "t-missing"),
    }
)
"""Texts of requests that name nothing, and defaults of fields that are not sent."""


class NamesOfARun:
    """What a case has of a stage for the names in its requests."""

    topic = "P-shared"

    def name(self, text: str = "") -> str:
        return f"P-1-{text}"

    def id_of(self, name: str) -> bytes:
        return name.encode().ljust(16)

    def call(self, value: str, name: str) -> None:
        assert value.startswith("P-1-"), name


def api_of(request: Request) -> str:
    return type(request).__name__.removesuffix("Request")


def labels(request: Request) -> list[str]:
    return [each.label for each in variants(request, type(request).versions.last, two_numbers)]


def texts(value: Any) -> Iterator[str]:
    """All texts of a request."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, list):
        for each in value:
            yield from texts(each)
    elif hasattr(value, "fields"):
        for field in value.fields:
            yield from texts(getattr(value, field.name))


def is_validated(request: Any) -> bool:
    return bool(request.validate_only)


@pytest.mark.parametrize("request_", REQUESTS, ids=api_of)
def test_hostile_requests_name_only_what_is_of_the_run(request_: Request) -> None:
    for variant in chosen(request_):
        found = set(texts(of_run(variant.request, NamesOfARun())))
        assert {each for each in found - _WORDS if not each.startswith("P-")} == set(), variant


def test_requests_that_can_be_validated_only_change_nothing() -> None:
    validated = [each for each in REQUESTS if hasattr(each, "validate_only")]
    assert len(validated) == 5
    for request in validated:
        changing = [each.label for each in chosen(request) if not is_validated(each.request)]
        assert changing == []


def test_no_hostile_request_means_everything_by_null() -> None:
    sent = {f"{book.api} {case.title}" for book in BOOKS for case in book.cases}
    assert "ElectLeaders topic_partitions null" not in sent
    assert "Metadata topics null" not in sent
    assert "DescribeConfigs resources null" in sent


@pytest.mark.parametrize("api", [api for api in LEFT_OUT if api])
def test_every_pattern_leaves_something_out(api: str) -> None:
    (request,) = [each for each in REQUESTS if api_of(each) == api]
    for pattern in LEFT_OUT[api]:
        assert [each for each in labels(request) if pattern.fullmatch(each)], pattern


@pytest.mark.parametrize("api", INDIFFERENT)
def test_every_field_that_is_indifferent_is_there(api: str) -> None:
    (request,) = [each for each in REQUESTS if api_of(each) == api]
    fields = {each.split(" ")[0] for each in labels(request)}
    assert set(INDIFFERENT[api].split()) <= fields


@pytest.mark.parametrize("request_", REQUESTS, ids=api_of)
def test_bytes_of_a_request_are_the_codecs_where_the_codec_can_write_it(request_: Request) -> None:
    for version in map(int, versions_of(type(request_)).split(",")):
        expected = encode_request(1, "wire", request_, version)
        assert encode_frame([frame(request_, version)]) == bytes(expected)


def test_every_api_has_hostile_cases_once() -> None:
    assert len({book.api for book in BOOKS}) == len(BOOKS) == len(REQUESTS)
    assert all(book.cases for book in BOOKS)
    assert sum(len(book.cases) for book in BOOKS) > 500


def test_ids_of_requests_are_of_the_shared_topic_or_of_none() -> None:
    found = {
        topic.topic_id
        for request in REQUESTS
        for topic in getattr(request, "topics", None) or ()
        if hasattr(topic, "topic_id")
    }
    assert found <= {b"t" * 16, UNKNOWN_ID, bytes(16)}
