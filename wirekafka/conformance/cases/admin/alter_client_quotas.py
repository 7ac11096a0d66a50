"""AlterClientQuotas: quotas of users, clients and addresses."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from wirekafka.conformance.case import Book, ConformanceLevel
from wirekafka.conformance.cases.admin.quotas import (
    CLIENT_ID,
    IP,
    USER,
    QuotaParts,
    address,
    alter,
    entry_of,
    note_quotas,
    quotas_of,
)
from wirekafka.conformance.stage import Stage
from wirekafka.protocol.alter_client_quotas import AlterClientQuotasRequest

BOOK = Book(AlterClientQuotasRequest, "administration", ConformanceLevel.ADMIN, "KIP-546")

_RATE = "producer_byte_rate"
_ASKED: dict[str, Callable[[str], Any]] = {
    "an unknown key": lambda n: alter([(USER, n)], ("no_such_rate", 1.0)),
    "an empty key": lambda n: alter([(USER, n)], ("", 1.0)),
    "no keys": lambda n: alter([(USER, n)]),
    "a rate of 0": lambda n: alter([(USER, n)], (_RATE, 0.0), validate_only=True),
    "a rate below 0": lambda n: alter([(USER, n)], (_RATE, -1.0), validate_only=True),
    "a rate with a fraction": lambda n: alter([(USER, n)], (_RATE, 1.5), validate_only=True),
    "a rate almost whole": lambda n: alter([(USER, n)], (_RATE, 2.0000001), validate_only=True),
    "a rate that is too high": lambda n: alter([(USER, n)], (_RATE, 1e19), validate_only=True),
    "a rate that is no number": lambda n: alter([(USER, n)], (_RATE, math.nan), validate_only=True),
    "an endless rate": lambda n: alter([(USER, n)], (_RATE, math.inf), validate_only=True),
    "a percentage with a fraction": lambda n: alter(
        [(USER, n)], ("request_percentage", 0.5), validate_only=True
    ),
    "a percentage above 100": lambda n: alter(
        [(USER, n)], ("request_percentage", 250.0), validate_only=True
    ),
    "a mutation rate with a fraction": lambda n: alter(
        [(USER, n)], ("controller_mutation_rate", 0.5), validate_only=True
    ),
    "connections of a user": lambda n: alter(
        [(USER, n)], ("connection_creation_rate", 5.0), validate_only=True
    ),
    "bytes of an address": lambda n: alter([(IP, "192.0.2.1")], (_RATE, 5.0), validate_only=True),
    "connections of an address": lambda n: alter(
        [(IP, "192.0.2.1")], ("connection_creation_rate", 5.0), validate_only=True
    ),
    "connections of an IPv6 address": lambda n: alter(
        [(IP, "2001:db8::1")], ("connection_creation_rate", 5.0), validate_only=True
    ),
    "connections of no address": lambda n: alter(
        [(IP, "1.2.3.4.5")], ("connection_creation_rate", 5.0), validate_only=True
    ),
    "a fraction of a connection": lambda n: alter(
        [(IP, "192.0.2.1")], ("connection_creation_rate", 0.5), validate_only=True
    ),
    "a rate too high for connections": lambda n: alter(
        [(IP, "192.0.2.1")], ("connection_creation_rate", 1e10), validate_only=True
    ),
    "an address and a user": lambda n: alter(
        [(IP, "192.0.2.1"), (USER, n)], ("connection_creation_rate", 5.0), validate_only=True
    ),
    "an empty address": lambda n: alter(
        [(IP, "")], ("connection_creation_rate", 5.0), validate_only=True
    ),
    "an empty user": lambda n: alter([(USER, "")], (_RATE, 5.0), validate_only=True),
    "an empty client id": lambda n: alter([(CLIENT_ID, "")], (_RATE, 5.0), validate_only=True),
    "an unknown type": lambda n: alter([("team", n)], (_RATE, 5.0), validate_only=True),
    "a type in capitals": lambda n: alter([("USER", n)], (_RATE, 5.0), validate_only=True),
    "an empty type": lambda n: alter([("", n)], (_RATE, 5.0), validate_only=True),
    "an entity without parts": lambda n: alter([], (_RATE, 5.0), validate_only=True),
    "two users in an entity": lambda n: alter(
        [(USER, n), (USER, f"{n}-2")], (_RATE, 5.0), validate_only=True
    ),
    "one user twice in an entity": lambda n: alter(
        [(USER, n), (USER, n)], (_RATE, 5.0), validate_only=True
    ),
    "a user and an unknown type": lambda n: alter(
        [(USER, n), ("team", n)], (_RATE, 5.0), validate_only=True
    ),
    "all users": lambda n: alter([(USER, None)], (_RATE, 5.0), validate_only=True),
    "a removal of an unknown key": lambda n: alter([(USER, n)], ("no_such_rate", None)),
    "a removal of what is not set": lambda n: alter([(USER, n)], (_RATE, None)),
    "a removal of a key for addresses": lambda n: alter(
        [(USER, n)], ("connection_creation_rate", None)
    ),
    "a user with signs that are escaped": lambda n: alter(
        [(USER, f"{n}:/%ü,=")], (_RATE, 5.0), validate_only=True
    ),
    "no entries": lambda n: AlterClientQuotasRequest(entries=[], validate_only=False),
}
for _what, _make in _ASKED.items():
    BOOK.ask(_what, lambda s, make=_make: make(s.name("u")))

_Make = Callable[[Stage], QuotaParts]
_ENTITIES: dict[str, _Make] = {
    "a user": lambda s: [(USER, s.name("u"))],
    "a client id": lambda s: [(CLIENT_ID, s.name("c"))],
    "a user with a client id": lambda s: [(USER, s.name("u")), (CLIENT_ID, s.name("c"))],
    "a client id with a user": lambda s: [(CLIENT_ID, s.name("c")), (USER, s.name("u"))],
    "a user with all client ids": lambda s: [(USER, s.name("u")), (CLIENT_ID, None)],
    "a client id with all users": lambda s: [(USER, None), (CLIENT_ID, s.name("c"))],
    "a user with signs in the name": lambda s: [(USER, s.name("a:/%ü ,=*"))],
}
for _what, _entity in _ENTITIES.items():

    @BOOK.play(f"quotas of {_what}")
    def _changed(stage: Stage, entity: _Make = _entity) -> None:
        """Quotas are set, changed and removed, each by its name."""
        parts = entity(stage)
        stage.ask(alter(parts, (_RATE, 1000.0), ("consumer_byte_rate", 2000.0)))
        stage.ask(alter(parts, (_RATE, 3000.0), ("controller_mutation_rate", 0.5)))
        stage.ask(alter(parts, ("consumer_byte_rate", None)))
        note_quotas(stage, parts)


@BOOK.play("quotas of an address", source="KIP-612")
def _of_an_address(stage: Stage) -> None:
    """Addresses have a rate of connections, which is set and removed."""
    parts = [(IP, address(stage))]
    stage.ask(alter(parts, ("connection_creation_rate", 7.0)))
    stage.until(lambda: quotas_of(stage, parts), "a quota")
    stage.note("quotas", quotas_of(stage, parts))
    stage.ask(alter(parts, ("connection_creation_rate", None)))
    stage.until(lambda: not quotas_of(stage, parts), "no quota")


@BOOK.play("quotas that are validated")
def _validated(stage: Stage) -> None:
    """Validation changes nothing."""
    parts = [(USER, stage.name("u"))]
    stage.ask(alter(parts, (_RATE, 1000.0)))
    stage.ask(alter(parts, (_RATE, 5.0), ("consumer_byte_rate", 5.0), validate_only=True))
    note_quotas(stage, parts)


@BOOK.play("a good and a bad quota of one user")
def _bad_key(stage: Stage) -> None:
    """A bad key refuses the whole entry."""
    parts = [(USER, stage.name("u"))]
    stage.ask(alter(parts, (_RATE, 1000.0), ("no_such_rate", 1.0)))
    note_quotas(stage, parts)


@BOOK.play("a good and a bad entry")
def _bad_entry(stage: Stage) -> None:
    """Each entry has an answer of its own."""
    good, bad = [(USER, stage.name("good"))], [(USER, stage.name("bad"))]
    entries = [
        entry_of(bad, [("no_such_rate", 1.0)]),
        entry_of(good, [(_RATE, 1000.0)]),
        entry_of([("team", "x")], [(_RATE, 1.0)]),
    ]
    stage.ask(AlterClientQuotasRequest(entries=entries))
    note_quotas(stage, good)
    note_quotas(stage, bad)


@BOOK.play("one quota twice in an entry")
def _key_twice(stage: Stage) -> None:
    """The last of two values is set."""
    parts = [(USER, stage.name("u"))]
    stage.ask(alter(parts, (_RATE, 1000.0), (_RATE, 2000.0)))
    note_quotas(stage, parts)


@BOOK.play("a quota set and removed in an entry")
def _set_and_removed(stage: Stage) -> None:
    parts = [(USER, stage.name("u"))]
    stage.ask(alter(parts, (_RATE, 1000.0), (_RATE, None)))
    note_quotas(stage, parts)


@BOOK.play("one entity twice in a request")
def _entity_twice(stage: Stage) -> None:
    parts = [(USER, stage.name("u"))]
    entries = [entry_of(parts, [(_RATE, 1000.0)]), entry_of(parts, [(_RATE, 2000.0)])]
    stage.ask(AlterClientQuotasRequest(entries=entries))
    note_quotas(stage, parts)
