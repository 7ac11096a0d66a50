"""Topics that a subscription matches are looked up in steps, whatever the expression costs."""

from wirekafka.coordinator.groups.consumer.regex import matching_topics
from wirekafka.coordinator.groups.steps import finish


def test_an_ordinary_lookup_is_a_few_steps() -> None:
    steps = matching_topics(["t1.*"], [f"t{index}" for index in range(100)], set)
    assert sum(1 for _ in steps) < 50


def test_a_costly_expression_is_matched_in_many_steps() -> None:
    names = ["a" * 249, "-" * 249]
    regex = r"(?:\w?b?c?){600}"
    # Each is to take about 10 µs; without pauses this took 2 s for 1,000 topics.
    assert sum(1 for _ in matching_topics([regex], names, set)) > 500
    assert finish(matching_topics([regex], names, set)) == {regex: {names[0]}}


def test_only_visible_topics_are_found_and_an_invalid_expression_finds_none() -> None:
    found = finish(matching_topics(["a.*", "("], ["a1", "a2", "b"], lambda names: {"a2", "b"}))
    assert found == {"a.*": {"a2"}, "(": frozenset()}
