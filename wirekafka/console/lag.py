"""The lag of groups from both sources: the broker's own where it has it, else the samples."""

from __future__ import annotations

from collections.abc import Mapping

from wirekafka.console.source import GroupLag, Known, Source, Unknown


def group_lags(source: Source) -> Known[Mapping[str, GroupLag]]:
    """The lag of each group that the visitor may see, by name."""
    snapshot = source.snapshot()
    if isinstance(snapshot, Unknown):
        return snapshot
    if isinstance(snapshot.groups, Unknown):
        return snapshot.groups
    lags = {each.name: each for each in snapshot.groups}
    insight = source.insight()
    if not isinstance(insight, Unknown):
        # Only groups that the visitor's own requests have listed.
        for name, exact in insight.groups.items():
            if name in lags:
                lags[name] = exact._replace(kind=lags[name].kind, state=lags[name].state)
    return lags
