"""Content types of the API: what a request may have, and what its answer gets."""

from __future__ import annotations

from collections.abc import Sequence

from wirekafka.registry import errors

JSON = "application/json"
V1 = "application/vnd.schemaregistry.v1+json"
_PRODUCED = (V1, "application/vnd.schemaregistry+json", JSON)
_CONSUMED = (*_PRODUCED, "application/octet-stream")


def answer_type(accept: str | None) -> str:
    """The type that suits a client best. Raises RegistryError 406 if none does."""
    ranges = [_Range(each) for each in (accept or "*/*").split(",") if each.strip()]
    best = max(_PRODUCED, key=lambda each: (*_rank(ranges, each), -_PRODUCED.index(each)))
    if ranges and _rank(ranges, best)[0] <= 0:
        raise errors.of_http(406, "Not Acceptable")
    return best


def require_json(content_type: str | None) -> None:
    """Raise RegistryError 415 for a body of another type."""
    if content_type is None:
        return
    name = content_type.partition(";")[0].strip().lower()
    if name not in _CONSUMED:
        raise errors.of_http(415, "Unsupported Media Type")


class _Range:
    """A media type, or several by `*`, and how much a client wants it."""

    def __init__(self, text: str) -> None:
        name, *parameters = (part.strip() for part in text.split(";"))
        self.type, _, self.subtype = name.lower().partition("/")
        self.quality = 1.0
        for each in parameters:
            if each.startswith("q="):
                try:
                    self.quality = float(each[2:])
                except ValueError:
                    self.quality = 0.0

    def specificity(self, media_type: str) -> int | None:
        """How exactly it names a type; None if it does not."""
        type, _, subtype = media_type.partition("/")
        if (self.type, self.subtype) == (type, subtype):
            return 2
        if (self.type, self.subtype) == (type, "*"):
            return 1
        return 0 if (self.type, self.subtype) == ("*", "*") else None


def _rank(ranges: Sequence[_Range], media_type: str) -> tuple[float, int]:
    """How much a client wants a type, and how exactly it says so."""
    found = [
        (specificity, each.quality)
        for each in ranges
        if (specificity := each.specificity(media_type)) is not None
    ]
    specificity, quality = max(found, default=(0, 0.0))
    return quality, specificity
