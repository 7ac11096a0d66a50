"""Which of the stored quotas applies to a client, and which clients share its rate."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

USER, CLIENT_ID, IP = "user", "client-id", "ip"
"""The types of entities that have quotas."""

Entity = tuple[tuple[str, str | None], ...]
"""(type, name) pairs in the order of the types; a name of None is the type's default entity."""


class Applied(NamedTuple):
    """The quota of a client. Clients with the same `user` and `client_id` share one rate."""

    limit: float
    user: str | None
    """None if clients of all users share it."""
    client_id: str | None
    """None if all clients of the user share it."""


def applied(quotas: Mapping[Entity, float], user: str, client_id: str) -> Applied | None:
    """The quota of the most specific entity that a client belongs to, in Kafka's order.

    An entity with both a user and a client id comes before one with only a user, and that before
    one with only a client id; a name comes before the default, and the user decides first. The
    default of a type gives each of its members a rate of its own. A client that sends no client id
    has only the quotas of users.
    """
    if not client_id:
        return _of_user(quotas, user)
    for user_name in (user, None):
        for client_name in (client_id, None):
            limit = quotas.get(((CLIENT_ID, client_name), (USER, user_name)))
            if limit is not None:
                return Applied(limit, user, client_id)
        limit = quotas.get(((USER, user_name),))
        if limit is not None:
            return Applied(limit, user, None)
    for client_name in (client_id, None):
        limit = quotas.get(((CLIENT_ID, client_name),))
        if limit is not None:
            return Applied(limit, None, client_id)
    return None


def _of_user(quotas: Mapping[Entity, float], user: str) -> Applied | None:
    for name in (user, None):
        limit = quotas.get(((USER, name),))
        if limit is not None:
            return Applied(limit, user, None)
    return None
