"""DescribeAcls: which ACLs a filter selects."""

from __future__ import annotations

from wirekafka.conformance.case import Book, ConformanceLevel, Need
from wirekafka.conformance.cases.security.acls import FILTERS, anna, some_acls
from wirekafka.conformance.cases.security.users import acl_filter, add_acls
from wirekafka.conformance.stage import Stage
from wirekafka.protocol.describe_acls import DescribeAclsRequest

BOOK = Book(DescribeAclsRequest, "security", ConformanceLevel.SECURITY, "KIP-140")
_AUTHORIZER = frozenset({Need.AUTHORIZER})

for _title in FILTERS:

    @BOOK.play(f"ACLs {_title}", versions="1-3", source="KIP-290", needs=_AUTHORIZER)
    def _select(stage: Stage, title: str = _title) -> None:
        add_acls(stage, some_acls(stage))
        stage.ask(acl_filter(**{"principal": anna(stage), **FILTERS[title](stage)}))


@BOOK.play("without an authorizer", needs={Need.NO_AUTHORIZER})
def _disabled(stage: Stage) -> None:
    stage.ask(acl_filter(principal=anna(stage)))
    stage.ask(acl_filter(principal=anna(stage), kind=0))
