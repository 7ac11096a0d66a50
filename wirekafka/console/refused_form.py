"""A form that was refused: what was entered in it, to be shown again beside the reason."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

_HIDDEN = "password"
"""The start of the names of fields whose values are never sent back."""


@dataclass(frozen=True, slots=True)
class RefusedForm:
    """The fields of a refused form, by the path of its route; of no form if nothing was refused."""

    path: str = ""
    fields: Mapping[str, str] = field(default_factory=dict, repr=False)
    message: str = ""

    def of(self, path: str) -> str:
        """Why the form with this path was refused; empty if it was not."""
        return self.message if path == self.path else ""

    def entered(self, path: str, name: str, otherwise: object = "") -> str:
        """The value that a field is shown with: as entered if its form was refused."""
        if path != self.path or name.startswith(_HIDDEN):
            return str(otherwise)
        # A browser leaves boxes out that are not checked: what was not sent was empty.
        return self.fields.get(name, "")
