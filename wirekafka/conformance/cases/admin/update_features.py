"""UpdateFeatures: what is refused, and what is only validated."""

from __future__ import annotations

import re
from typing import Any

from wirekafka.conformance.case import Book, ConformanceLevel
from wirekafka.conformance.stage import Stage
from wirekafka.protocol.update_features import UpdateFeaturesRequest, UpdateFeaturesResponse

BOOK = Book(UpdateFeaturesRequest, "administration", ConformanceLevel.ADMIN, "KIP-584")

_CONTROLLER = re.compile(r"controller [0-9]+")
_UPGRADE, _SAFE_DOWNGRADE, _UNSAFE_DOWNGRADE = 1, 2, 3


def _update(*updates: tuple[str, int], kind: int = _UPGRADE) -> UpdateFeaturesRequest:
    key = UpdateFeaturesRequest.FeatureUpdateKey
    return UpdateFeaturesRequest(
        timeout_ms=20_000,
        feature_updates=[
            key(feature=name, max_version_level=level, upgrade_type=kind) for name, level in updates
        ],
        validate_only=True,
    )


def _case(title: str, request: UpdateFeaturesRequest, **options: Any) -> None:
    @BOOK.play(title, **options)
    def _play(stage: Stage) -> None:
        answer = stage.ask(request)
        if not isinstance(answer, UpdateFeaturesResponse):
            return
        for each in (answer, *answer.results):
            each.error_message = _CONTROLLER.sub("controller N", each.error_message or "") or None


_REFUSED: dict[str, Any] = {
    "an unknown feature": _update(("no.such.feature", 1)),
    "an impossible level": _update(("metadata.version", 999)),
    "a negative level": _update(("metadata.version", -1)),
    "an empty name": _update(("", 1)),
    "a feature and an unknown feature": _update(("no.such.feature", 1), ("nor.this", 1)),
}
for _what, _request in _REFUSED.items():
    _case(_what, _request)

_VALIDATED: dict[str, Any] = {
    "level 0": _update(("group.version", 0)),
    "level 0 by a safe downgrade": _update(("group.version", 0), kind=_SAFE_DOWNGRADE),
    "level 0 of what cannot be without": _update(("metadata.version", 0)),
    "the first level of metadata": _update(("metadata.version", 1)),
    "an earlier level of metadata": _update(("metadata.version", 7)),
    "an earlier level of metadata by a safe downgrade": _update(
        ("metadata.version", 7), kind=_SAFE_DOWNGRADE
    ),
    "an impossible level by a downgrade": _update(
        ("metadata.version", 999), kind=_UNSAFE_DOWNGRADE
    ),
    "an unknown feature by a downgrade": _update(("no.such.feature", 1), kind=_SAFE_DOWNGRADE),
    "an unknown kind of update": _update(("group.version", 1), kind=9),
    "no kind of update": _update(("group.version", 1), kind=0),
    "one feature twice": _update(("group.version", 1), ("group.version", 1)),
    "nothing": _update(),
    "a level that is set": _update(("group.version", 1)),
    "a level that is set by a downgrade": _update(("group.version", 1), kind=_SAFE_DOWNGRADE),
}
for _what, _request in _VALIDATED.items():
    _case(_what, _request, versions="1+", source="KIP-778")
