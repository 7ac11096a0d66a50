"""Other forms of a schema's text: `?format=serialized` and the like."""

from __future__ import annotations

from typing import Protocol, runtime_checkable

from wirekafka.registry.http.call import Call
from wirekafka.registry.records import SchemaRecord


@runtime_checkable
class WithForms(Protocol):
    """A parsed schema whose format has other forms than the canonical text."""

    def in_form(self, form: str) -> str:
        """The schema in a form, the canonical text if there is no such form."""


async def text_in_form(call: Call, record: SchemaRecord) -> str:
    """The text of a version in the form that `?format` names."""
    form = call.text("format")
    if not form:
        return record.content.text
    parse = call.registry.parser.later(call.state, record.subject, record.content)

    def work() -> str:
        parsed = parse()
        return parsed.in_form(form) if isinstance(parsed, WithForms) else record.content.text

    return await call.in_thread(work)
