"""The types in requests about ACLs: resource, pattern, operation and permission."""

from __future__ import annotations

from wirekafka.errors import MalformedRequest


def require_types(*codes: int) -> None:
    """Raise MalformedRequest for the code 0, which stands for no type.

    Codes of a later Kafka are accepted here: they are refused after authorization.
    """
    if 0 in codes:
        raise MalformedRequest("the type 0 in an ACL or a filter")
