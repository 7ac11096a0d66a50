"""The ACLs of a cluster, indexed by resource, with a cache of decisions."""

from __future__ import annotations

from bisect import insort
from collections import Counter
from collections.abc import Iterator
from typing import NamedTuple

from wirekafka.bounded_memory import Remembered
from wirekafka.security.acl import WILDCARD, Acl, AclFilter, PatternType, ResourceType

_Pattern = tuple[ResourceType, PatternType, str]

_DECISIONS_BYTES = 8 << 20

DecisionKey = tuple[int, str, str, str]
"""Operation and resource type in one number, the resource's name, the principal, the host."""


class AclVerdict(NamedTuple):
    """A decision, and the text of its reason in the audit log."""

    is_allowed: bool
    reason: str | Acl

    def __str__(self) -> str:
        if isinstance(self.reason, Acl):
            return f"MatchingAcl(acl={self.reason})"
        return self.reason


class AclIndex:
    """A multimap of ACLs by pattern: the time of a look-up is independent of their number.

    Prefixed ACLs are found with one look-up for each length that a prefix has.
    """

    def __init__(self) -> None:
        self.is_loaded = False
        """Whether the index has all ACLs committed before the start."""
        self._by_id: dict[bytes, Acl] = {}
        self._by_pattern: dict[_Pattern, list[Acl]] = {}
        self._prefix_lengths: dict[ResourceType, Counter[int]] = {}
        self.decisions = Remembered[DecisionKey, AclVerdict](_DECISIONS_BYTES)
        """Decisions of an authorizer; emptied by every change of the ACLs."""

    def add(self, id: bytes, acl: Acl) -> None:
        """Add an ACL under its id of 16 bytes; one of the same id is replaced."""
        self.remove(id)
        self.decisions.clear()
        self._by_id[id] = acl
        pattern = acl.resource_type, acl.pattern_type, acl.resource_name
        if acl.pattern_type is PatternType.PREFIXED:
            lengths = self._prefix_lengths.setdefault(acl.resource_type, Counter())
            lengths[len(acl.resource_name)] += 1
        # The order in which Kafka reports which of several ACLs was decisive.
        insort(self._by_pattern.setdefault(pattern, []), acl, key=_order)

    def remove(self, id: bytes) -> None:
        """Remove the ACL with this id, if there is one."""
        acl = self._by_id.pop(id, None)
        if acl is None:
            return
        self.decisions.clear()
        pattern = acl.resource_type, acl.pattern_type, acl.resource_name
        self._by_pattern[pattern].remove(acl)
        if not self._by_pattern[pattern]:
            del self._by_pattern[pattern]
        if acl.pattern_type is PatternType.PREFIXED:
            lengths = self._prefix_lengths[acl.resource_type]
            lengths[len(acl.resource_name)] -= 1
            if not lengths[len(acl.resource_name)]:
                del lengths[len(acl.resource_name)]

    def __len__(self) -> int:
        return len(self._by_id)

    def __contains__(self, acl: Acl) -> bool:
        pattern = acl.resource_type, acl.pattern_type, acl.resource_name
        return acl in self._by_pattern.get(pattern, ())

    def of_resource(self, resource_type: ResourceType, name: str) -> Iterator[Acl]:
        """The ACLs whose pattern matches the resource: literal, prefixed (longest first), `*`."""
        find = self._by_pattern.get
        yield from find((resource_type, PatternType.LITERAL, name), ())
        for length in sorted(self._prefix_lengths.get(resource_type, ()), reverse=True):
            if length <= len(name):
                yield from find((resource_type, PatternType.PREFIXED, name[:length]), ())
        # As in Kafka, whose search takes the literal `*` for a prefix of such a name.
        if not name.startswith(WILDCARD):
            yield from find((resource_type, PatternType.LITERAL, WILDCARD), ())

    def of_type(self, resource_type: ResourceType) -> Iterator[Acl]:
        """The ACLs on any resource of the type."""
        return (acl for acl in self._by_id.values() if acl.resource_type is resource_type)

    def matching(self, wanted: AclFilter) -> Iterator[tuple[bytes, Acl]]:
        """The ACLs that a filter selects, with their ids, oldest first."""
        return ((id, acl) for id, acl in self._by_id.items() if wanted.matches(acl))


def _order(acl: Acl) -> tuple[int, str, str, int]:
    return acl.operation, acl.principal, acl.host, acl.permission
