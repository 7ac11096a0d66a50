"""Results of cases as no broker has given them, for tests of reports."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from wirekafka.codec.schema import ALWAYS
from wirekafka.conformance.case import Case, ConformanceLevel
from wirekafka.conformance.expectation import Deviation
from wirekafka.conformance.plain import Names
from wirekafka.conformance.reports.findings import ConformanceReport
from wirekafka.conformance.run import CaseResult, Played
from wirekafka.conformance.wire import WireExchange
from wirekafka.protocol.metadata import MetadataRequest

HOSTILE = '<script>alert("1")</script>\x1b[2J\x00\u202e]]>&\ud800'


def case(title: str, api: str = "Metadata", area: str = "metadata", **changed: Any) -> Case:
    """A case that does nothing."""
    fields: dict[str, Any] = {
        "level": ConformanceLevel.CORE,
        "source": "KIP-1",
        "request": MetadataRequest,
        "versions": (ALWAYS,),
        "play": lambda stage: None,
    }
    return Case(api=api, title=title, area=area, **(fields | changed))


def same(played: Case, *versions: int) -> CaseResult:
    return CaseResult(played, 0.25, [Played(each) for each in versions or (0, 1)])


def unsupported(played: Case, reason: str = "ShareFetch v1 is not advertised (none)") -> CaseResult:
    return CaseResult(played, 0.0, [Played(1, unsupported=reason)])


def different(
    played: Case,
    versions: Sequence[int] = (3, 4, 5),
    path: str = "topics[0].error_code",
    expected: Any = "NONE",
    got: Any = "UNKNOWN_SERVER_ERROR",
) -> CaseResult:
    """A case whose first step has one difference, in each of the versions."""
    request = MetadataRequest(topics=[MetadataRequest.Topic(name="P-t")])
    step = "1 Metadata"
    results = []
    for version in versions:
        exchange = WireExchange(f"Metadata v{version}", request, b"asked", b"answered", object())
        results.append(
            Played(
                version,
                answers={step: {"topics": [{"error_code": got}]}},
                exchanges=[(step, exchange)],
                differences=[Deviation(f"{step}.{path}", expected, got)],
                names=Names({}, [], []),
            )
        )
    return CaseResult(played, 1.5, results)


def failed(played: Case, reason: str) -> CaseResult:
    return CaseResult(played, 0.5, [Played(each, failure=reason) for each in (0, 1)])


def report(*results: CaseResult, **changed: Any) -> ConformanceReport:
    fields: dict[str, Any] = {
        "target": "broker:9092 (1 broker)",
        "release": "4.4",
        "started": "2026-01-02T03:04:05Z",
        "seconds": 12.3456,
        "results": results,
    }
    return ConformanceReport(**(fields | changed))


def various(hostile: str = "") -> ConformanceReport:
    """A report with everything that reports have."""
    texts = hostile or "as the broker says"
    level = ConformanceLevel
    produce = {"api": "Produce", "area": "produce"}
    share = {"api": "ShareFetch", "area": "share groups", "level": level.GROUPS}
    return report(
        same(case("all topics")),
        different(case("no topics", story="No topic\n    is named.")),
        different(case("a missing topic"), versions=(3,)),
        different(case("a long answer", **produce), got="x" * 900, expected={"a": [1, None]}),
        failed(case("a case that ends early", **produce), f"IndexError: {texts}"),
        *(same(case(f"batch {number}", **produce)) for number in range(30)),
        unsupported(case("a session", **share), f"ShareFetch v1 is not advertised {hostile}"),
        unsupported(case("a record", **share)),
        same(case("an ACL", api="CreateAcls", area="ACLs", level=level.SECURITY)),
        different(
            case("another ACL", api="CreateAcls", area="ACLs", level=level.SECURITY),
            got=texts,
            path=f"results[0].{hostile}",
        ),
        remarks=["12 cases are left out: they need an authorizer", f"remark {hostile}"],
        left=[f"topics: conformance-1 {hostile}"],
    )
