"""A configured text that refers to config providers, and their values, which are never shown."""

from __future__ import annotations

from typing import Any

PLACEHOLDER = "[hidden]"


class Resolved(str):
    """A value that a config provider has found; formatted, it is a placeholder.

    It may be a password, or any line of any file that a client has named. Code that uses the value
    takes it as any other string: files are opened by it, keys are parsed from it.
    """

    __slots__ = ()

    def __repr__(self) -> str:
        return PLACEHOLDER

    def __str__(self) -> str:
        return PLACEHOLDER

    def __format__(self, specification: str) -> str:
        return PLACEHOLDER

    def __add__(self, other: str) -> Resolved:
        return Resolved(str.__add__(self, other))

    def __radd__(self, other: str) -> Resolved:
        return Resolved(str.__add__(other, self.reveal()))

    def reveal(self) -> str:
        """The value as a plain string, for code that needs it and shows it to nobody."""
        return str.__str__(self)


class Reference(str):
    """A text with references to config providers, as it was written; `value` is for its user."""

    value: Resolved

    def __new__(cls, text: str, value: str = "") -> Reference:
        """`value` is the text with its references replaced by their values."""
        made = super().__new__(cls, text)
        made.value = Resolved(value)
        return made


def value_of(text: str) -> str:
    """The value of a configured text, as a plain string that must not be shown."""
    return text.value.reveal() if isinstance(text, Reference) else text


def hidden(value: Any) -> Any:
    """A parsed value whose strings, or whose items, show a placeholder."""
    if isinstance(value, tuple):
        return tuple(Resolved(each) for each in value)
    return Resolved(value) if isinstance(value, str) else value


def reason_about(value: object, reason: str) -> str:
    """The reason why a value is refused, without details that could quote a provider's value."""
    values = value if isinstance(value, tuple) else (value,)
    if any(isinstance(each, Resolved) for each in values):
        return "the value that a config provider found cannot be used"
    return reason


def revealed(text: str) -> str:
    """A string that can be formatted, for code that decodes it and shows it to nobody."""
    return text.reveal() if isinstance(text, Resolved) else text
