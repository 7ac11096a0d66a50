"""The timer keys of consumer groups.

Each key has a distinct `what` field, since named tuples are equal whatever their class.
"""

from __future__ import annotations

from typing import NamedTuple


class ConsumerSessionKey(NamedTuple):
    """The timer of a member's session."""

    group_id: str
    member_id: str
    what: str = "session"


class ConsumerRebalanceKey(NamedTuple):
    """The timer of a member that must revoke partitions."""

    group_id: str
    member_id: str
    what: str = "rebalance"


class ConsumerJoinKey(NamedTuple):
    """The timer of a classic-protocol member that must rejoin."""

    group_id: str
    member_id: str
    what: str = "join"


class ConsumerSyncKey(NamedTuple):
    """The timer of a classic-protocol member that must send SyncGroup."""

    group_id: str
    member_id: str
    what: str = "sync"


class ConsumerRegexKey(NamedTuple):
    """The timer that starts the lookup of a group's regular expressions."""

    group_id: str
    what: str = "regex"
