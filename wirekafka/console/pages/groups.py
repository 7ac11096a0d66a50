"""The pages of groups: all groups by lag, one group, and the change of its offsets."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import NamedTuple
from urllib.parse import urlencode

from wirekafka.client.admin.groups import delete_group
from wirekafka.client.group_types import TYPES, Offset, ReportedGroup
from wirekafka.client.membership import TopicPartition
from wirekafka.client.offset_reset import plan_reset
from wirekafka.console.offsets import LATEST, GroupListing, list_groups, offsets_at
from wirekafka.console.pages.lag import group_lags
from wirekafka.console.pages.page import Change, Page, PageError, PageView, Redirect, Visit
from wirekafka.console.pages.tables import table
from wirekafka.console.source import GroupLag, Unknown

LINK = ("Groups", "/groups", "u")


class GroupPosition(NamedTuple):
    """Where a group is in one partition; None is not known."""

    topic: str
    partition: int
    committed: int | None
    end: int | None
    lag: int | None
    member: str
    host: str


class Line(NamedTuple):
    """A group in the list; `lag` is None until it has been sampled."""

    name: str
    type: str
    state: str
    protocol: str
    coordinator: int
    lag: GroupLag | None


def show(visit: Visit) -> PageView:
    """The list of groups."""
    brokers = [each.node_id for each in visit.client.metadata([]).brokers]
    listed, problems = list_groups(visit.client, brokers)
    kind, state = visit.query.get("type", ""), visit.query.get("state", "")
    sampled = group_lags(visit.source, [each.name for each in listed])
    lags = {} if isinstance(sampled, Unknown) else sampled
    lines = [
        Line(*each, lags.get(each.name))
        for each in listed
        if kind in ("", each.type) and state in ("", each.state)
    ]
    values = {
        "title": "Groups",
        "types": sorted({each.type for each in listed}),
        "states": sorted({each.state for each in listed if each.state}),
        "kind": kind,
        "state": state,
        "problems": problems,
        "sampled": sampled,
        "groups": table(lines, visit.query, name=_name, sorts=_SORTS, default="-lag"),
    }
    return PageView("groups.html", values)


def one(visit: Visit) -> PageView:
    """One group: its members, positions and lag."""
    listed = _listed(visit)
    group, offsets = _described(visit, listed)
    lags = group_lags(visit.source, [listed.name])
    history = None if isinstance(lags, Unknown) else lags.get(group.name)
    samples = () if history is None else history.history
    positions = _positions(visit, group, offsets)
    values = {
        "title": f"Group {group.name}",
        "group": group,
        "listed": listed,
        "positions": table(
            positions, visit.query, name=lambda row: row.topic, sorts=_POSITION_SORTS
        ),
        "lag": sum(row.lag or 0 for row in positions),
        "history": history,
        "samples": samples,
        "knows_behind": any(each.behind_ms >= 0 for each in samples),
        "topics": sorted({row.topic for row in positions}),
        "roles": sorted({role for member in group.members for role in member.tasks}),
        "plan": None,
        "to": "",
        "topic": "",
    }
    return PageView("group.html", values)


def preview(visit: Visit) -> PageView:
    """One group again, with a preview of a change of its offsets."""
    view = one(visit)
    topic, to = visit.query.get("topic", "").strip(), visit.query.get("to", "").strip()
    if not topic or not to:
        raise PageError(400, "Name a topic, and where to: earliest, latest, an offset or a time.")
    plan = plan_reset(visit.client, view.values["group"].name, [topic], to)
    rows = [(*key, plan.before.get(key), after) for key, after in sorted(plan.after.items())]
    return PageView("group.html", {**view.values, "plan": rows, "topic": topic, "to": to})


def reset(visit: Visit) -> Redirect:
    """Change the offsets of a group to the offsets in the preview."""
    name, topic = visit.form.get("name", ""), visit.form.get("topic", "")
    partitions = visit.form.get("partitions", "").split()
    offsets = visit.form.get("offsets", "").split()
    if not partitions or len(partitions) != len(offsets):
        raise PageError(400, "The form names no offsets: begin with the preview.")
    try:
        wanted = {(topic, int(p)): int(at) for p, at in zip(partitions, offsets, strict=True)}
    except ValueError:
        raise PageError(400, "Partitions and offsets must be numbers.") from None
    listed = ",".join(partitions)
    # Planned again: the group may have got members since, and the log other bounds.
    plan = plan_reset(visit.client, name, [f"{topic.partition(':')[0]}:{listed}"], "earliest")
    exact = {(topic.partition(":")[0], index): offset for (_, index), offset in wanted.items()}
    plan._replace(after=exact).apply(visit.client)
    return Redirect(f"/group?{urlencode({'name': name})}")


def delete(visit: Visit) -> Redirect:
    """Delete a group, whose name was entered once more, and its offsets."""
    name = visit.form.get("name", "")
    if not name or visit.form.get("confirmed", "") != name:
        raise PageError(400, f"Nothing was deleted: enter {name} to delete this group.")
    delete_group(visit.client, name)
    return Redirect("/groups")


def _again(visit: Visit) -> PageView:
    """The group again, with the form of the change that was refused, without its preview."""
    entered = visit.form or visit.query
    name = entered.get("name", "")
    view = one(replace(visit, query={"name": name}))
    topic = entered.get("wanted", entered.get("topic", ""))
    values = {"topic": topic, "to": entered.get("to", ""), "query": {"name": name}}
    return replace(view, values={**view.values, **values})


def _listed(visit: Visit) -> GroupListing:
    name = visit.query.get("name", "")
    brokers = [each.node_id for each in visit.client.metadata([]).brokers]
    listed, problems = list_groups(visit.client, brokers)
    found = next((each for each in listed if each.name == name), None)
    if found is None:
        raise PageError(404, " ".join([f"There is no group {name!r}.", *problems]))
    return found


def _described(
    visit: Visit, listed: GroupListing
) -> tuple[ReportedGroup, Mapping[TopicPartition, Offset]]:
    kind = TYPES.get(listed.type)
    if kind is None:
        raise PageError(501, f"Groups of type {listed.type} are not supported.")
    return kind.describe(visit.client, listed.name), kind.offsets(visit.client, listed.name)


def _positions(
    visit: Visit, group: ReportedGroup, offsets: Mapping[TopicPartition, Offset]
) -> list[GroupPosition]:
    owners = {key: member for member in group.members for key in member.partitions}
    known = sorted(offsets.keys() | owners.keys())
    topics = visit.client.metadata({topic for topic, _ in known}).topics if known else []
    ends = offsets_at(visit.client, topics, LATEST, known)
    rows = []
    for key in known:
        offset, end, member = offsets.get(key), ends.get(key), owners.get(key)
        lag = None if offset is None else offset.lag
        if lag is None and offset is not None and end is not None:
            lag = max(end - offset.offset, 0)
        rows.append(
            GroupPosition(
                *key,
                None if offset is None else offset.offset,
                end,
                lag,
                "" if member is None else member.member_id,
                "" if member is None else member.host,
            )
        )
    return rows


def _name(line: Line) -> str:
    return line.name


_SORTS = {
    "name": _name,
    "type": lambda line: (line.type, line.name),
    "state": lambda line: (line.state, line.name),
    "lag": lambda line: None if line.lag is None else line.lag.lag,
    "behind": lambda line: None if line.lag is None else line.lag.behind_ms,
}
_POSITION_SORTS = {
    "partition": lambda row: (row.topic, row.partition),
    "lag": lambda row: row.lag,
    "member": lambda row: row.member,
}

ENTRIES = (
    Page("/groups", show),
    Page("/group", one),
    Page("/group/reset", preview, _again),
    Change("/group/reset", reset, _again),
    Change("/group/delete", delete, _again),
    Page("/group/delete", one),
)
