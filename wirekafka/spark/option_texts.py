"""The options of a query as texts: taken by name, parsed, and refused where nothing takes them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TypeVar

from wirekafka.config.client_config import ClientConfig
from wirekafka.config.option import ConfigError
from wirekafka.config.options import rows

T = TypeVar("T")


class OptionError(ValueError):
    """An option that is unknown, malformed, missing or contradicts another one."""


class OptionTexts:
    """Options as they were given, each of which has to be taken, whatever the case of its name."""

    def __init__(self, given: Mapping[str, str]) -> None:
        self._given = {name.lower(): (name, text) for name, text in given.items()}

    def take(self, name: str, parse: Callable[[str], T]) -> T | None:
        """Parse an option; None if it was not given."""
        _, text = self._given.pop(name.lower(), (name, None))
        return parsed(name, parse, text)

    def one_of(self, *names: str) -> str | None:
        """The name that was given of several; OptionError if two were."""
        given = [name for name in names if name.lower() in self._given]
        if len(given) > 1:
            raise OptionError(f"{given[1]} contradicts {given[0]}: give one of them")
        return given[0] if given else None

    def refuse(self, reason: str, *names: str) -> None:
        for name in names:
            if name.lower() in self._given:
                raise OptionError(f"{name} {reason}")

    def client(self) -> dict[str, str]:
        """Take the options that begin with `kafka.`, without this prefix."""
        names = [name for name in self._given if name.startswith("kafka.")]
        return {name.removeprefix("kafka."): self._given.pop(name)[1] for name in names}

    def refuse_others(self) -> None:
        for name, _ in self._given.values():
            raise OptionError(f"{name} is no option of this format")


def check_client(client: Mapping[str, str]) -> None:
    """Check the options of connections, which have no prefix here. Raises OptionError."""
    known = {*rows(ClientConfig), "client.id"}
    for name in client:
        if name not in known:
            raise OptionError(f"kafka.{name} is no option of this client")
    try:
        ClientConfig(client)
    except ConfigError as error:
        raise OptionError(f"kafka.{error.name}: {error.reason}") from None


def parsed(name: str, parse: Callable[[str], T], text: str | None) -> T | None:
    """Parse an option; None if it was not given. Raises OptionError."""
    try:
        return None if text is None else parse(text)
    except ValueError as error:
        raise OptionError(f"{name}: {error}") from None


def positive(text: str) -> int:
    """A number of 1 or more. Raises ValueError."""
    if not text.strip().isdigit() or int(text) < 1:
        raise ValueError(f"{text!r} is not a positive number")
    return int(text)


def boolean(text: str) -> bool:
    """True or false. Raises ValueError."""
    match text.strip().lower():
        case "true":
            return True
        case "false":
            return False
    raise ValueError(f"{text!r} is not true or false")


def nonempty(text: str) -> str:
    """The text itself. Raises ValueError if it is empty."""
    if not text.strip():
        raise ValueError("empty")
    return text
