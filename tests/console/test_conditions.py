"""Conditions on fields of decoded values: what holds, and what is refused."""

import pytest

from wirekafka.console.records.conditions import MOST_CONDITIONS, BadCondition, conditions_of

ORDER = {
    "id": 17,
    "serial": "9007199254740993",
    "name": "Zoë and friends",
    "paid": True,
    "note": None,
    "price": 12.5,
    "customer": {"id": 4, "e.mail": "a@b.example"},
    "tags": ["new", 7],
    "at": "2026-11-27T02:00:00Z",
}


@pytest.mark.parametrize(
    ("text", "holds"),
    [
        ("value.id = 17", True),
        ("value.id=17", True),
        ("value.id = 17.0", True),
        ('value.id = "17"', False),
        ("value.id != 17", False),
        ("value.id != 18", True),
        ("value.absent != 18", False),
        ("value.id >= 17 and value.id < 18", True),
        ("value.id > 17 AND value.id < 18", False),
        ("value.serial = 9007199254740993", True),
        ("value.serial > 9007199254740992", True),
        ("value.serial < 9007199254740992.5", False),
        ("value.name contains and", True),
        ('value.name contains "oë a"', True),
        ('value.name = "Zoë and friends"', True),
        ("value.name contains zoë", False),
        ("value.name < 5", False),
        ("value.paid = true", True),
        ("value.paid = 1", False),
        ("value.paid >= 0", False),
        ("value.note = null", True),
        ("value.note != null", False),
        ("value.price <= 12.5", True),
        ("value.customer.id = 4", True),
        ('value.customer."e.mail" contains @b.', True),
        ('value.customer contains "e.mail"', True),
        ("value.tags contains new", True),
        ("value.tags contains 7", True),
        ("value.tags contains ne", False),
        ("value.tags.1 = 7", True),
        ("value.tags.2 = 7", False),
        ("value.at >= 2026-11-27", True),
        ("value.at < 2026-11-27", False),
        ("value contains tags", True),
    ],
)
def test_a_condition_is_compared_by_the_type_of_its_field(text, holds):
    assert all(each.holds(ORDER) for each in conditions_of(text)) == holds


def test_a_path_of_keys_is_one_of_the_key():
    [key, value] = conditions_of("key = 5 and value.id = 6")
    assert (key.is_key, key.steps, key.holds(5)) == (True, (), True)
    assert (value.is_key, value.steps) == (False, ("id",))


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "begin with the path"),
        ("id = 5", "a path begins with key or value, not 'id'"),
        ("value.id", "expected one of =, !=, <, <=, >, >=, contains after 'value.id'"),
        ("value. = 5", "begin with the path"),
        ("value.id = ", "expected a number, a text or a string in quotes"),
        ('value.id = "\\x"', "is not a string of JSON"),
        ("value.id = 5 or value.id = 6", "expected the end or `and`, not 'or value.id = 6'"),
        (" and ".join(["value.id = 5"] * (MOST_CONDITIONS + 1)), "at most 10 conditions"),
        ("value.id = " + "5" * 3000, "at most 2000 characters"),
    ],
)
def test_other_texts_are_refused_with_a_reason(text, reason):
    with pytest.raises(BadCondition) as refused:
        conditions_of(text)
    assert reason in str(refused.value)
