"""What several runs of Apache Kafka leave open, and where other answers differ."""

from __future__ import annotations

from wirekafka.conformance.expectation import (
    ANYTHING,
    Deviation,
    compact,
    differences,
    joined,
    merged,
    said,
)


def test_equal_runs_leave_nothing_open() -> None:
    run = {"1 Fetch": {"error_code": "NONE", "sizes": [1, 2]}}
    assert joined([run, dict(run), dict(run)]) == run


def test_runs_that_differ_leave_a_choice_where_they_do() -> None:
    first, second = {"1 Fetch": {"a": 1, "b": [1, 2]}}, {"1 Fetch": {"a": 1, "b": [1, 3]}}
    assert joined([first, second]) == {"1 Fetch": {"a": 1, "b": [1, {"one of": [2, 3]}]}}


def test_more_than_three_answers_are_anything() -> None:
    assert merged(1, 2) == {"one of": [1, 2]}
    assert joined([{"1 a": number} for number in range(3)]) == {"1 a": {"one of": [0, 1, 2]}}
    assert joined([{"1 a": number} for number in range(4)]) == {"1 a": ANYTHING}
    assert merged(ANYTHING, 5) == ANYTHING


def test_lists_of_different_lengths_are_a_choice_of_lists() -> None:
    assert merged({"a": [1]}, {"a": []}) == {"a": {"one of": [[1], []]}}
    assert merged({"a": 1}, {"b": 1}) == {"one of": [{"a": 1}, {"b": 1}]}


def test_any_of_the_choices_is_as_expected() -> None:
    expected = {"1 a": {"x": {"one of": [1, {"y": ANYTHING}]}}}
    assert list(differences(expected, {"1 a": {"x": 1}})) == []
    assert list(differences(expected, {"1 a": {"x": {"y": "whatever"}}})) == []
    (found,) = differences(expected, {"1 a": {"x": 2}})
    assert found == Deviation("1 a.x", {"one of": [1, {"y": "*"}]}, 2)
    assert str(found) == "1 a.x: expected 1 or {y: *}, got 2"


def test_a_difference_names_its_place() -> None:
    expected = {"1 Fetch": {"topics": [{"name": "P", "error_code": "NONE"}]}}
    got = {"1 Fetch": {"topics": [{"name": "P", "error_code": "NOT_LEADER_OR_FOLLOWER"}]}}
    (found,) = differences(expected, got)
    assert found == Deviation("1 Fetch.topics[0].error_code", "NONE", "NOT_LEADER_OR_FOLLOWER")


def test_what_one_side_lacks_has_its_default() -> None:
    found = list(differences({"1 a": {"x": 1}}, {"1 a": {"y": 2}, "2 b": 3}))
    assert [(each.path, said(each.expected), said(each.got)) for each in found] == [
        ("1 a.x", "1", "the default"),
        ("1 a.y", "the default", "2"),
        ("2 b", "the default", "3"),
    ]


def test_a_list_of_another_length_is_one_difference() -> None:
    (found,) = differences({"1 a": {"x": [1, 2]}}, {"1 a": {"x": [1]}})
    assert found == Deviation("1 a.x", [1, 2], [1])


def test_words_of_messages_are_compared_on_demand() -> None:
    expected = {"1 a": {"error_code": "X", "error_message": "No."}}
    got = {"1 a": {"error_code": "X", "error_message": "No, no."}}
    assert list(differences(expected, got)) == []
    (found,) = differences(expected, got, with_messages=True)
    assert found.path == "1 a.error_message"


def test_numbers_beside_an_error_are_compared_on_demand() -> None:
    expected = {"1 a": {"error_code": "X", "offset": -1, "topic": "t"}}
    got = {"1 a": {"error_code": "X", "offset": 7, "topic": "t"}}
    assert list(differences(expected, got)) == []
    assert [each.path for each in differences(expected, got, with_messages=True)] == ["1 a.offset"]
    (found,) = differences({"1 a": {"offset": 1}}, {"1 a": {"offset": 2}})
    assert found.path == "1 a.offset"


def test_only_the_error_differs_where_one_side_has_none() -> None:
    found = list(differences({"1 a": {"error_code": "X"}}, {"1 a": {"offset": 7, "topic": "t"}}))
    assert [each.path for each in found] == ["1 a.error_code"]


def test_any_error_will_do_where_apache_kafka_fails_itself() -> None:
    expected = {"1 a": {"error_code": "UNKNOWN_SERVER_ERROR"}}
    assert list(differences(expected, {"1 a": {"error_code": "INVALID_REQUEST"}})) == []
    assert len(list(differences(expected, {"1 a": {}}))) == 1


def test_values_are_read_on_one_line() -> None:
    value = {"a": [1, None, True, False], "b": {"c": "text"}}
    assert compact(value) == "{a: [1, null, true, false], b: {c: text}}"
