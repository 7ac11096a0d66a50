"""DescribeClientQuotas: filters of entities."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from wirekafka.conformance.case import Book, ConformanceLevel
from wirekafka.conformance.cases.admin.quotas import (
    ANY,
    CLIENT_ID,
    DEFAULT,
    EXACT,
    IP,
    USER,
    QuotaParts,
    address,
    alter,
    describe,
    quotas_of,
)
from wirekafka.conformance.stage import Stage
from wirekafka.protocol.describe_client_quotas import (
    DescribeClientQuotasRequest,
    DescribeClientQuotasResponse,
)

BOOK = Book(DescribeClientQuotasRequest, "administration", ConformanceLevel.ADMIN, "KIP-546")

_RATE = "producer_byte_rate"


def _set(stage: Stage) -> None:
    """Quotas of two users and a client id, alone and together."""
    user, other, client = stage.name("u"), stage.name("v"), stage.name("c")
    entities: tuple[QuotaParts, ...] = (
        [(USER, user)],
        [(USER, other)],
        [(CLIENT_ID, client)],
        [(USER, user), (CLIENT_ID, client)],
        [(USER, user), (CLIENT_ID, None)],
        [(USER, None), (CLIENT_ID, client)],
    )
    for number, parts in enumerate(entities):
        stage.do(alter(parts, (_RATE, 1000.0 + number)), 1)
        stage.until(lambda p=parts: quotas_of(stage, p), f"quotas of {parts}")


def _keep_own(stage: Stage, answer: Any) -> None:
    """Leave out the entities of others."""
    if not isinstance(answer, DescribeClientQuotasResponse) or answer.entries is None:
        return
    names = {stage.name(each) for each in "uvc"}
    answer.entries = [
        each
        for each in answer.entries
        if any(part.entity_name in names or not part.entity_type for part in each.entity)
    ]


_Filter = Callable[[str, str], DescribeClientQuotasRequest]
_FILTERS: dict[str, _Filter] = {
    "a user": lambda u, c: describe((USER, EXACT, u)),
    "a user strictly": lambda u, c: describe((USER, EXACT, u), strict=True),
    "a client id": lambda u, c: describe((CLIENT_ID, EXACT, c)),
    "a client id strictly": lambda u, c: describe((CLIENT_ID, EXACT, c), strict=True),
    "a user with a client id": lambda u, c: describe((USER, EXACT, u), (CLIENT_ID, EXACT, c)),
    "a user with a client id strictly": lambda u, c: describe(
        (USER, EXACT, u), (CLIENT_ID, EXACT, c), strict=True
    ),
    "a user with the default of client ids": lambda u, c: describe(
        (USER, EXACT, u), (CLIENT_ID, DEFAULT, None)
    ),
    "the default of users with a client id": lambda u, c: describe(
        (USER, DEFAULT, None), (CLIENT_ID, EXACT, c)
    ),
    "a user with any client id": lambda u, c: describe((USER, EXACT, u), (CLIENT_ID, ANY, None)),
    "any user with a client id": lambda u, c: describe((USER, ANY, None), (CLIENT_ID, EXACT, c)),
    "any user": lambda u, c: describe((USER, ANY, None)),
    "any user strictly": lambda u, c: describe((USER, ANY, None), strict=True),
    "any client id": lambda u, c: describe((CLIENT_ID, ANY, None)),
    "any user with any client id strictly": lambda u, c: describe(
        (USER, ANY, None), (CLIENT_ID, ANY, None), strict=True
    ),
    "the default of users": lambda u, c: describe((USER, DEFAULT, None)),
    "the default of client ids": lambda u, c: describe((CLIENT_ID, DEFAULT, None)),
    "all": lambda u, c: describe(),
    "any address": lambda u, c: describe((IP, ANY, None)),
    "a user in capitals": lambda u, c: describe((USER, EXACT, u.upper())),
}
for _what, _filter in _FILTERS.items():

    @BOOK.play(_what)
    def _described(stage: Stage, make: _Filter = _filter) -> None:
        """Two users and a client id have quotas, alone and together."""
        _set(stage)
        _keep_own(stage, stage.ask(make(stage.name("u"), stage.name("c"))))


@BOOK.play("all strictly")
def _all_strictly(stage: Stage) -> None:
    """A strict filter without components matches nothing."""
    _set(stage)
    stage.ask(describe(strict=True))


@BOOK.play("an address", source="KIP-612")
def _address(stage: Stage) -> None:
    parts = [(IP, address(stage))]
    stage.do(alter(parts, ("connection_creation_rate", 5.0)), 1)
    stage.until(lambda: quotas_of(stage, parts), "a quota")
    stage.ask(describe((IP, EXACT, parts[0][1])))
    stage.do(alter(parts, ("connection_creation_rate", None)), 1)
    stage.until(lambda: not quotas_of(stage, parts), "no quota")


_REFUSED: dict[str, _Filter] = {
    "a user without quotas": lambda u, c: describe((USER, EXACT, u)),
    "an unknown type": lambda u, c: describe(("team", EXACT, u)),
    "an empty type": lambda u, c: describe(("", EXACT, u)),
    "a type twice": lambda u, c: describe((USER, EXACT, u), (USER, EXACT, c)),
    "a type twice in two ways": lambda u, c: describe((USER, EXACT, u), (USER, ANY, None)),
    "a user and an address": lambda u, c: describe((USER, EXACT, u), (IP, EXACT, "192.0.2.1")),
    "any user and any address": lambda u, c: describe((USER, ANY, None), (IP, ANY, None)),
    "an unknown way to match": lambda u, c: describe((USER, 9, u)),
    "a negative way to match": lambda u, c: describe((USER, -1, u)),
    "an exact match of null": lambda u, c: describe((USER, EXACT, None)),
    "an exact match of an empty name": lambda u, c: describe((USER, EXACT, "")),
    "a default with a name": lambda u, c: describe((USER, DEFAULT, u)),
    "any with a name": lambda u, c: describe((USER, ANY, u)),
    "no address": lambda u, c: describe((IP, EXACT, "1.2.3.4.5")),
}
for _what, _filter in _REFUSED.items():
    BOOK.ask(_what, lambda s, make=_filter: make(s.name("u"), s.name("c")))
