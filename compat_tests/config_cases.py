"""Generated settings: every option at its bounds and just beyond them, and several at a time."""

from __future__ import annotations

import random
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

NUMERIC = ("INT", "LONG", "SHORT", "DOUBLE")
_NUMBERS = (
    *("-2147483649", "-2147483648", "-3", "-2", "-1", "0", "1", "2", "2147483647", "2147483648"),
    *("9223372036854775807", "9223372036854775808", "32767", "32768", "1.5", "-0.1"),
    *("NaN", " 7 ", "", "x", "1e3", "+5", "07"),
)
_WORDS = ("", "x", " ", "a,,b", "a,b", ",", "a,a", "a:b", "a:1", "true", "TRUE", "yes", "1", "*")
_SAFE = 1 << 62
"""Neighbours of larger numbers are not of interest."""


@dataclass(frozen=True)
class Described:
    """An option as Kafka describes it."""

    name: str
    type: str
    default: str | None
    validator: str

    @property
    def numbers(self) -> list[int]:
        """The numbers in the option's default and in its bounds."""
        words = [self.default or "", *re.findall(r"-?\d+", self.validator)]
        return [int(word) for word in words if re.fullmatch(r"-?\d+", word)]

    def values(self, numbers: Sequence[int]) -> list[str]:
        """Values to set, among them these numbers where the option is one."""
        if self.type in NUMERIC:
            values = [*_NUMBERS, *map(str, numbers)]
        else:
            words = re.findall(r"\w+", self.validator)[:12]
            values = [
                *_WORDS,
                *words,
                *(word.upper() for word in words),
                *(f"{words[0]},{word}" for word in words),
            ]
            if self.default:
                values += [self.default, f"{self.default},{self.default}"]
        return list(dict.fromkeys(values))


def near(numbers: Sequence[int]) -> list[int]:
    """These numbers and their neighbours."""
    return sorted({n + step for n in numbers if abs(n) < _SAFE for step in (-1, 0, 1)})


def family(name: str) -> str:
    """The first words of an option's name; options that constrain each other share them."""
    return ".".join(name.split(".")[:2])


def singles(options: Sequence[Described], *, wide: bool) -> Iterator[dict[str, str]]:
    """Yield one option at a time: numbers at all bounds and defaults of its family, or of all."""
    for option in options:
        relatives = (
            options if wide else [o for o in options if family(o.name) == family(option.name)]
        )
        numbers = near([number for each in relatives for number in each.numbers])
        for value in option.values(numbers):
            yield {option.name: value}


def several(options: Sequence[Described], count: int, seed: int) -> Iterator[dict[str, str]]:
    """Yield `count` random settings of two to four related numbers."""
    chance = random.Random(seed)
    numeric = [option for option in options if option.type in NUMERIC]
    families: dict[str, list[Described]] = {}
    for option in numeric:
        families.setdefault(family(option.name), []).append(option)
        families.setdefault(option.name.split(".")[0], []).append(option)
    large = [members for members in families.values() if len(members) > 1]
    if not large:
        return
    large = [members for members in families.values() if len(members) > 1]
    for _ in range(count):
        members = chance.choice(large)
        pool = near([number for each in members for number in each.numbers]) or [0]
        chosen = chance.sample(members, min(len(members), chance.randint(2, 4)))
        yield {option.name: str(chance.choice(pool)) for option in chosen}


def combinations(
    choices: Mapping[str, Sequence[str | None]], count: int, seed: int
) -> Iterator[dict[str, str]]:
    """Yield `count` random settings of options that each have these values, None for not set."""
    chance = random.Random(seed)
    for _ in range(count):
        picked = {name: chance.choice(values) for name, values in choices.items()}
        yield {name: value for name, value in picked.items() if value is not None}
