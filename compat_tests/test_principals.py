"""Names of certificates and their mapping rules, against Java and Kafka's own classes."""

from __future__ import annotations

import base64
import random
from collections.abc import Iterator
from pathlib import Path

import pytest

from compat_tests.java_lines import JavaLines
from wirekafka.security.distinguished_name import rfc2253
from wirekafka.security.principal_rules import NoMatchingRule, PrincipalRules

_SOURCE = Path(__file__).with_name("java") / "Principals.java"
_CASES = 2_000

_TYPES = (
    *(b"\x55\x04" + bytes([last]) for last in (3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 42, 46)),
    bytes.fromhex("0992268993f22c640119"),
    bytes.fromhex("0992268993f22c640101"),
    bytes.fromhex("2a864886f70d010901"),
    bytes.fromhex("2b0601040182371c"),
    bytes.fromhex("883703"),
)
_STRINGS = ((0x0C, "utf-8"), (0x13, "latin-1"), (0x16, "ascii"), (0x14, "latin-1"))
_CHARACTERS = " \r,=+<>#;\"\\\0ab'/:()?-._*@!ÄßΩ日😀\t\n\x7f"

_RULES = (
    "DEFAULT",
    "",
    " , DEFAULT",
    "RULE:^CN=(.*?),OU=(.*?),.*$/$1@$2/L",
    "RULE:^CN=(.*?),.*$/$1/U , DEFAULT",
    "RULE:CN=(\\w+).*/$1/",
    "RULE:.*/x/, DEFAULT",
    "RULE:CN=(?<name>[^,]+).*/user-${name}/L",
    "RULE:(a|b|C|N|=|,|O)*?/$1$2$10/",
    "RULE:(.)*/\\$1-$1-\\\\/",
    "RULE:CN=(.*),O\\=(.*)/$2\\/$1/",
    "RULE:[^/]*/a/",
    "RULE:CN=(.*?),OU=ServiceUsers.*/$1/, RULE:CN=(.*?),OU=(.*?),O=(.*?)$/$1@$2/L, DEFAULT",
    "RULE:(.*)/$1/LU",
    "default",
    "RULE:x",
    "RULE:a/b",
    "DEFAULT DEFAULT",
)
_NAMES = (
    "CN=alice,OU=Sales,O=Example,C=DE",
    "CN=Duke,OU=ServiceUsers,O=Org,C=US",
    "CN=x",
    "",
    "OU=only",
    "CN=slash/es,O=back\\\\slash",
    "1.2.840.113549.1.9.1=#16036140 ,CN=kafka1.example.com,O=Ünïcode",
)


class Java(JavaLines):
    """A JVM that names certificates and applies rules."""

    def name(self, der: bytes) -> str | None:
        return self._answer(f"name {der.hex()}")

    def user_name(self, rules: str, name: str) -> str | None:
        return self._answer(f"rule {_encoded(rules)} {_encoded(name)}")

    def _answer(self, line: str) -> str | None:
        self.send(line + "\n")
        answer = self.next_line()
        if answer.startswith("!"):
            return None
        return base64.b64decode(answer[2:]).decode()


@pytest.fixture(scope="module")
def java() -> Iterator[Java]:
    with Java.running(_SOURCE) as java:
        yield java


def test_certificates_are_named_as_java_names_them(java: Java) -> None:
    chance = random.Random(1)
    for _ in range(_CASES):
        der = _random_name(chance)
        assert rfc2253(der) == java.name(der), der.hex()


def test_rules_apply_as_kafka_applies_them(java: Java) -> None:
    chance = random.Random(2)
    cases = [(rules, name) for rules in _RULES for name in _NAMES]
    cases += [(_random_rules(chance), chance.choice(_NAMES)) for _ in range(_CASES)]
    for rules, name in cases:
        assert _ours(rules, name) == java.user_name(rules, name), (rules, name)


def _ours(rules: str, name: str) -> str | None:
    try:
        return PrincipalRules(rules).user_name(name)
    except (ValueError, NoMatchingRule):
        return None


def _random_rules(chance: random.Random) -> str:
    """Rules made of parts that fit together, and sometimes do not."""
    parts = []
    for _ in range(chance.randint(1, 3)):
        pattern = "".join(
            chance.choice(("CN=", "(.*?)", "(.*)", ",", "OU=", "O=", "([^,]+)", ".*", "$", "^"))
            for _ in range(chance.randint(1, 7))
        )
        replacement = "".join(chance.choice(("$1", "x", "@", "\\$", "-", "\\/")) for _ in range(3))
        # Once only: Kafka fails where a replacement names two groups that do not exist.
        replacement += chance.choice(("", "$2", "$12", "$0"))
        rule = f"RULE:{pattern}/{replacement}/{chance.choice(('', '', 'L', 'U'))}"
        parts.append(chance.choice((rule, rule, rule, "DEFAULT", "")))
    return chance.choice((",", ", ", " ,")).join(parts)


def _random_name(chance: random.Random) -> bytes:
    relative = [
        _der(0x31, b"".join(_random_attribute(chance) for _ in range(chance.choice((1, 1, 1, 2)))))
        for _ in range(chance.randint(0, 5))
    ]
    return _der(0x30, b"".join(relative))


def _random_attribute(chance: random.Random) -> bytes:
    text = "".join(chance.choice(_CHARACTERS) for _ in range(chance.randint(0, 8)))
    tag, encoding = chance.choice(_STRINGS)
    value = text.encode(encoding, "ignore")
    if chance.random() < 0.1:
        tag, value = 0x04, value  # An octet string, which is shown as hexadecimal digits.
    return _der(0x30, _der(0x06, chance.choice(_TYPES)) + _der(tag, value))


def _der(tag: int, content: bytes) -> bytes:
    size = len(content)
    if size < 128:
        return bytes([tag, size]) + content
    digits = size.to_bytes((size.bit_length() + 7) // 8, "big")
    return bytes([tag, 0x80 | len(digits)]) + digits + content


def _encoded(text: str) -> str:
    return base64.b64encode(text.encode()).decode()
