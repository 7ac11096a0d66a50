"""Subjects that a prefix means: of one context, or of all."""

from __future__ import annotations

from collections.abc import Sequence

from wirekafka.registry.http.call import RegistryCall
from wirekafka.registry.http.routing import in_context
from wirekafka.registry.records import SchemaRecord
from wirekafka.registry.subjects import ALL_CONTEXTS, context_of, qualified


def subjects_of_prefix(call: RegistryCall, prefix: str, *, deleted: bool) -> Sequence[str]:
    """The subjects whose names begin with a prefix, in order.

    `:*:` in front means all contexts, `:.context:` one; without either it is the default one.
    """
    names = call.state.subjects(deleted=deleted)
    if call.context is not None and not prefix.startswith(ALL_CONTEXTS):
        prefix = in_context(call.context, prefix)
    elif prefix.startswith(ALL_CONTEXTS):
        wanted = prefix.removeprefix(ALL_CONTEXTS)
        if not wanted:
            return names
        return [each for each in names if qualified(each).name.startswith(wanted)]
    if prefix.startswith(":.") and ":" not in prefix[1:]:
        return [each for each in names if each.startswith(prefix)]
    target = qualified(prefix)
    return [
        each
        for each in names
        if context_of(each) == target.context and qualified(each).name.startswith(target.name)
    ]


def records_of_prefix(call: RegistryCall, prefix: str, *, deleted: bool) -> Sequence[SchemaRecord]:
    """The versions of these subjects, the oldest first."""
    return [
        record
        for subject in subjects_of_prefix(call, prefix, deleted=deleted)
        for record in call.state.versions(subject, deleted=deleted)
    ]
