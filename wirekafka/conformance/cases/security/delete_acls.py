"""DeleteAcls: which ACLs filters delete, and what is refused."""

from __future__ import annotations

from wirekafka.conformance.case import Book, ConformanceLevel, Need
from wirekafka.conformance.cases.security.acls import FILTERS, anna, deletion_filter, some_acls
from wirekafka.conformance.cases.security.users import acl_filter, add_acls, await_acls
from wirekafka.conformance.stage import Stage
from wirekafka.protocol.delete_acls import DeleteAclsRequest

BOOK = Book(DeleteAclsRequest, "security", ConformanceLevel.SECURITY, "KIP-140")
_AUTHORIZER = frozenset({Need.AUTHORIZER})


for _title in FILTERS:

    @BOOK.play(f"ACLs {_title}", versions="1,3", source="KIP-290", needs=_AUTHORIZER)
    def _select(stage: Stage, title: str = _title) -> None:
        add_acls(stage, some_acls(stage))
        fields = {"principal": anna(stage), **FILTERS[title](stage)}
        stage.ask(DeleteAclsRequest(filters=[deletion_filter(**fields)]))


@BOOK.play("what is left", versions="3", needs=_AUTHORIZER)
def _left(stage: Stage) -> None:
    """ACLs that no filter selects stay; selected ACLs are gone, and found no more."""
    add_acls(stage, some_acls(stage))
    who = anna(stage)
    request = DeleteAclsRequest(filters=[deletion_filter(principal=who, name=stage.name("t"))])
    stage.ask(request)
    await_acls(stage, who, len(some_acls(stage)) - 3)
    stage.ask(acl_filter(principal=who), 3)
    stage.ask(request)


@BOOK.play("two filters that select the same", versions="1-3", needs=_AUTHORIZER)
def _same(stage: Stage) -> None:
    add_acls(stage, some_acls(stage))
    both = [
        deletion_filter(principal=anna(stage), name=stage.name("t")),
        deletion_filter(principal=anna(stage)),
    ]
    stage.ask(DeleteAclsRequest(filters=both))


@BOOK.play("a filter that is wrong beside one that is right", versions="1-3", needs=_AUTHORIZER)
def _beside(stage: Stage) -> None:
    add_acls(stage, some_acls(stage))
    both = [
        deletion_filter(principal=anna(stage), operation=0),
        deletion_filter(principal=anna(stage)),
    ]
    stage.ask(DeleteAclsRequest(filters=both))


@BOOK.play("no filters", needs=_AUTHORIZER)
def _none(stage: Stage) -> None:
    stage.ask(DeleteAclsRequest(filters=[]))


@BOOK.play("without an authorizer", needs={Need.NO_AUTHORIZER})
def _disabled(stage: Stage) -> None:
    one = deletion_filter(principal=anna(stage))
    stage.ask(DeleteAclsRequest(filters=[one]))
    stage.ask(DeleteAclsRequest(filters=[one, deletion_filter(principal=anna(stage), kind=0)]))
    stage.ask(DeleteAclsRequest(filters=[]))
