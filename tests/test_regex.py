"""Expressions from outside take little time and memory, whatever they are."""

import time

import pytest

from wirekafka.regex import MAX_CACHED, InvalidRegex, Regex, compile_with_groups, regex_of

VALID = {
    r"(.|.)*!": "a!",
    r"orders-(?:eu|us)-\d{1,3}": "orders-eu-17",
    r"\pL+-\pN*": "straße-12",
    r"(?i)[à-ö]+-.": "ÉÈ-1",
    r"(?<name>a)\Q.\E": "a.",
    r"a{1000}": "a" * 1000,
    r"[a-zA-Z0-9._-]{1,249}": "x" * 249,
    "|".join(f"team-{index}.orders" for index in range(500)): "team-499.orders",
    "(" * 900 + "a" + ")" * 900: "a",
}

INVALID = [
    *(
        "[",
        "(",
        "a++",
        "(?=a)b",
        "(?!a)",
        r"(a)\1",
        r"\C",
        r"\Z",
        r"\p{Nothing}",
        "(?x)a",
        "\ud800",
    ),
    *("a{1001}", "a{2}{3}", "a{99999999999}", "(?P<n>x)(?P<n>y)", "(?<n>x)(?<n>y)"),
]

COSTLY = [
    r"x\pL{440}",
    r"(\pL{30}){30}",
    r"\pL" * 6_000,
    "((a{100}){100}){100}",
    "(" * 15_000 + "a" + ")" * 15_000,
    "(" * 100_000,
    "a{0,1000}" * 28,
    "a{0,1000}" * 9,
    "a?" * 16_000,
    "[a-z]{1,50}?" * 300,
    "(((((x*)*)*)*)*)*" * 1_900,
    ".{0,1000}" * 100,
    "x" * 32_000,
]


@pytest.mark.parametrize(("text", "match"), VALID.items(), ids=range(len(VALID)))
def test_an_ordinary_expression_matches_whole_texts(text: str, match: str) -> None:
    assert Regex(text).matches(match)
    assert not Regex(text).matches(match + "?")


@pytest.mark.parametrize("text", INVALID, ids=ascii)
def test_what_kafka_refuses_is_refused(text: str) -> None:
    for compile in (regex_of, compile_with_groups):
        with pytest.raises(InvalidRegex):
            compile(text)


@pytest.mark.parametrize("text", COSTLY, ids=lambda text: text[:20])
def test_a_costly_expression_is_refused_in_little_time(text: str) -> None:
    before_s = time.process_time()
    with pytest.raises(InvalidRegex):
        Regex(text)
    # Without bounds it is between 0.2 s and half a minute.
    assert time.process_time() - before_s < 0.1


@pytest.mark.parametrize("text", ["(((((x*)*)*)*)*)*" * 150, "(a|b)*" * 600, "(.|.)*!"])
def test_groups_cost_no_time(text: str) -> None:
    """With groups, the first takes minutes."""
    regex = Regex(text)
    before_s = time.process_time()
    assert not regex.matches("a" * 249 + "?")
    assert time.process_time() - before_s < 0.2


def test_nothing_is_kept_beyond_the_cache() -> None:
    import re2

    for index in range(2 * MAX_CACHED):
        regex_of(f"kept-{index}")
    assert regex_of.cache_info().currsize == MAX_CACHED
    assert re2._Regexp._make.cache_info().currsize == 0


def test_a_surrogate_in_a_text_is_matched_or_not() -> None:
    assert not Regex("a.*").matches("\ud800")
