"""The unstored state of streams groups, lost when another broker takes over."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from wirekafka.coordinator.groups.streams.configure import ConfiguredTopology
from wirekafka.coordinator.groups.streams.tasks import TaskId


class TaskProgress(NamedTuple):
    """The offsets of a member's task changelogs and their ends, as it reported them."""

    offsets: Mapping[TaskId, int] = {}
    end_offsets: Mapping[TaskId, int] = {}


NO_PROGRESS = TaskProgress()


@dataclass(frozen=True, slots=True, kw_only=True)
class SoftState:
    """The soft state of one group.

    `refreshed_epoch` is the group epoch when the topics were checked, None if they have changed
    since. It is above the group's epoch if the heartbeat that began it was refused: the topics are
    then checked again, unless the group has reached the epoch by then. `shutdown_by` is the member
    that asked the application to shut down. Members with another `endpoint_epoch` get all
    endpoints.
    """

    configured: ConfiguredTopology | None = None
    refreshed_epoch: int | None = None
    progress: Mapping[str, TaskProgress] = field(default_factory=dict)
    shutdown_by: str | None = None
    endpoint_epoch: int = 0

    def is_refreshed(self, epoch: int) -> bool:
        """Whether the topics need not be checked again in a group of this epoch."""
        return self.refreshed_epoch is not None and self.refreshed_epoch <= epoch


NO_SOFT_STATE = SoftState()


class SoftStates:
    """The soft state of the groups of a shard.

    Only replay and the effects of outcomes change it.
    """

    def __init__(self) -> None:
        self._states: dict[str, SoftState] = {}
        self._configured: dict[str, tuple[ConfiguredTopology, int]] = {}
        self._writes = 0
        self.delayed: set[str] = set()
        """The groups whose first assignment is delayed."""

    def get(self, group_id: str) -> SoftState:
        """Return the soft state of a group."""
        return self._states.get(group_id, NO_SOFT_STATE)

    def set(self, group_id: str, state: SoftState) -> None:
        """Replace the soft state of a group."""
        if state.configured is not None and state.configured is not self.get(group_id).configured:
            self._configured[group_id] = state.configured, self._writes
        self._states[group_id] = state

    def described(self, group_id: str) -> ConfiguredTopology | None:
        """Return the configured topology as of the last write, which descriptions are based on."""
        configured = self._configured.get(group_id)
        return configured[0] if configured is not None and configured[1] < self._writes else None

    def wrote(self) -> None:
        """Note that a record was replayed."""
        self._writes += 1

    def forget(self, group_id: str) -> None:
        """Forget a group that was deleted."""
        self._states.pop(group_id, None)
        self._configured.pop(group_id, None)
        self.delayed.discard(group_id)

    def forget_topics(self, group_id: str) -> None:
        """Make the next heartbeat check the topics of a group."""
        state = self._states.get(group_id)
        if state is not None:
            self._states[group_id] = replace(state, refreshed_epoch=None)

    def ask_for_shutdown(self, group_id: str, member_id: str) -> None:
        """Note that a member asked for a shutdown; only the first request counts."""
        state = self.get(group_id)
        if state.shutdown_by is None:
            self._states[group_id] = replace(state, shutdown_by=member_id)

    def member_left(self, group_id: str, member_id: str, *, was_last: bool) -> None:
        """Forget a member's reports; after the last member, the request to shut down too."""
        state = self._states.get(group_id)
        if state is None:
            return
        progress = {id: each for id, each in state.progress.items() if id != member_id}
        shutdown_by = None if was_last else state.shutdown_by
        self._states[group_id] = replace(state, progress=progress, shutdown_by=shutdown_by)
