"""The levels of conformance by the words with which options name them."""

from __future__ import annotations

from dataclasses import dataclass

from wirekafka.client.client import CliError
from wirekafka.conformance.case import Case, ConformanceLevel, slug


@dataclass(frozen=True, slots=True)
class WantedLevel:
    """A level as a person chooses it: COMPLETE means all cases."""

    level: ConformanceLevel

    def has(self, case: Case) -> bool:
        """Whether the case belongs to the level."""
        return self.level in (ConformanceLevel.COMPLETE, case.level)


def level_of(text: str) -> WantedLevel:
    """The level whose name begins like this, such as "core" or "groups-of-kafka-4".

    Raises CliError.
    """
    wanted = slug(text)
    found = [each for each in ConformanceLevel if wanted and slug(each).startswith(wanted)]
    if len(found) != 1:
        names = ", ".join(ConformanceLevel)
        raise CliError(f"no level {text!r}: expected one of {names}")
    return WantedLevel(found[0])
