"""The timer keys of streams groups.

Each key has a distinct `what` field, since named tuples are equal whatever their class.
"""

from __future__ import annotations

from typing import NamedTuple


class StreamsSessionKey(NamedTuple):
    """The timer of a member's session."""

    group_id: str
    member_id: str
    what: str = "streams session"


class StreamsRebalanceKey(NamedTuple):
    """The timer of a member that must revoke tasks."""

    group_id: str
    member_id: str
    what: str = "streams rebalance"


class StreamsDelayKey(NamedTuple):
    """The timer of the delay before the first assignment of a group that was empty."""

    group_id: str
    what: str = "streams delay"
