"""Names in certificates become user names by rules, in time that is linear in a name."""

import time

import pytest

from wirekafka.security.principal_rules import NoMatchingRule, PrincipalRules
from wirekafka.security.sasl.kerberos_names import NameRules


@pytest.mark.parametrize(
    ("rules", "expected"),
    [
        ("RULE:^CN=(.*?),.*$/$1/", "Älice"),
        ("RULE:^CN=(?<name>[^,]*),.*$/${name}-x/U", "ÄLICE-X"),
        ("RULE:^X=.*$/x/,RULE:(CN)=(.*)/$2$9\\$/L,DEFAULT", "älice,o=example$9$"),
        ("DEFAULT", "CN=Älice,O=Example"),
    ],
)
def test_the_first_rule_that_matches_makes_the_name(rules: str, expected: str) -> None:
    assert PrincipalRules(rules).user_name("CN=Älice,O=Example") == expected


@pytest.mark.parametrize("pattern", ["(?=a)b", r"(a)\1", "a++", "(", "a{1001}"])
def test_a_pattern_whose_time_is_not_linear_is_refused(pattern: str) -> None:
    with pytest.raises(ValueError, match="Invalid pattern"):
        PrincipalRules(f"RULE:{pattern}/x/")
    with pytest.raises(ValueError):
        NameRules([f"RULE:[1:$1]s/{pattern}/x/"], "REALM")


def test_a_long_name_takes_little_time() -> None:
    before_s = time.process_time()
    with pytest.raises(NoMatchingRule):
        PrincipalRules("RULE:(.|.)*!/x/").user_name("CN=" + "a" * 200)
    rules = NameRules(["RULE:[1:$1]s/(.|.)*!/x/"], "REALM")
    assert rules.short_name("a" * 200 + "@OTHER") == "a" * 200
    assert time.process_time() - before_s < 0.5
