"""The lag of groups from both sources: the broker's own where it has it, else the samples."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from wirekafka.console.source import GroupLag, Known, Source, Unknown


def group_lags(source: Source, listed: Iterable[str] = ()) -> Known[Mapping[str, GroupLag]]:
    """The lag of each group that the visitor may see, by name.

    These are the groups that were sampled with the visitor's rights, and the `listed` groups.
    """
    snapshot = source.snapshot()
    if isinstance(snapshot, Unknown):
        return snapshot
    if isinstance(snapshot.groups, Unknown):
        return snapshot.groups
    lags = {each.name: each for each in snapshot.groups}
    insight = source.insight()
    if not isinstance(insight, Unknown):
        for name in {*lags, *listed} & insight.groups.keys():
            exact = insight.groups[name]
            sampled = lags.get(name)
            if sampled is not None:
                exact = exact._replace(kind=sampled.kind, state=sampled.state)
            lags[name] = exact
    return lags
