"""A configured text that refers to config providers, and what these found, which is never shown."""

from __future__ import annotations

from typing import Any

PLACEHOLDER = "[hidden]"


class Resolved(str):
    """A value that a config provider has found: whatever formats it gets a placeholder.

    It may be a password, or any line of any file that a client has named. What uses the value
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
        """The value as a plain string, for what needs it and shows it to nobody."""
        return str.__str__(self)


class Reference(str):
    """A text with references to config providers, as it was written; `value` is for its user."""

    value: Resolved

    def __new__(cls, text: str, value: str = "") -> Reference:
        """`value` is the text with what its references stand for in their place."""
        made = super().__new__(cls, text)
        made.value = Resolved(value)
        return made


def value_of(text: str) -> str:
    """What a configured text stands for, as a plain string that must not be shown."""
    return text.value.reveal() if isinstance(text, Reference) else text


def hidden(value: Any) -> Any:
    """A parsed value whose strings, or whose items, show a placeholder."""
    if isinstance(value, tuple):
        return tuple(Resolved(each) for each in value)
    return Resolved(value) if isinstance(value, str) else value


def reason_about(value: object, reason: str) -> str:
    """Why a value is refused, without details if these could quote what a provider has found."""
    values = value if isinstance(value, tuple) else (value,)
    if any(isinstance(each, Resolved) for each in values):
        return "the value that a config provider found cannot be used"
    return reason


def revealed(text: str) -> str:
    """A string whose formats show it, for what decodes it and shows it to nobody."""
    return text.reveal() if isinstance(text, Resolved) else text
