"""Kerberos names become user names by Kafka's rules."""

import pytest

from wirekafka.security.sasl.kerberos_names import NameRules, NoShortName

REALM = "REALM.COM"


@pytest.mark.parametrize(
    ("rules", "name", "expected"),
    [
        (["DEFAULT"], "user@REALM.COM", "user"),
        (["DEFAULT"], "kafka/host@REALM.COM", "kafka"),
        (["DEFAULT"], "user", "user"),
        (["RULE:[1:$1](App\\..*)s/App\\.(.*)/$1/g", "DEFAULT"], "App.service@REALM.COM", "service"),
        (["RULE:[2:$1](admin)s/admin/ADMIN/"], "admin/host@X.COM", "ADMIN"),
        (["RULE:[1:$1]/L"], "User@X.COM", "user"),
        (["RULE:[1:$1]/U"], "User@X.COM", "USER"),
        (["RULE:[2:$1-$2]/L"], "Kafka/Host@X.COM", "kafka-host"),
        (["RULE:[1:$1@$0](.*@OTHER)s/@.*//", "DEFAULT"], "user@OTHER", "user"),
    ],
)
def test_the_first_rule_that_applies_names_the_user(
    rules: list[str], name: str, expected: str
) -> None:
    assert NameRules(rules, REALM).short_name(name) == expected


@pytest.mark.parametrize("name", ["user@OTHER.COM", "a/b/c@REALM.COM", "@REALM.COM", ""])
def test_a_name_without_a_rule_is_refused(name: str) -> None:
    with pytest.raises(NoShortName):
        NameRules(["DEFAULT"], REALM).short_name(name)


def test_a_result_that_is_no_simple_name_is_refused() -> None:
    with pytest.raises(NoShortName):
        NameRules(["RULE:[1:$1@$0]"], REALM).short_name("user@REALM.COM")


def test_a_text_that_is_no_rule_is_refused() -> None:
    with pytest.raises(ValueError, match="invalid rule"):
        NameRules(["RULE:nonsense"], REALM)
