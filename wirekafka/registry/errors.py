"""The errors of a schema registry: an HTTP status, a code of five digits and a message."""

from __future__ import annotations


class RegistryError(Exception):
    """A request that a registry refuses, as the body of the answer words it."""

    def __init__(self, status: int, code: int, message: str) -> None:
        super().__init__(message)
        self.status, self.code, self.message = status, code, message

    def body(self) -> dict[str, int | str]:
        """The JSON of the answer."""
        return {"error_code": self.code, "message": self.message}
