"""Every command of a coordinator's machine is decided on by the machine's table."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, get_args

import pytest

from wirekafka.coordinator.groups.commands import GroupCommand, Heartbeat
from wirekafka.coordinator.groups.config import GroupConfig
from wirekafka.coordinator.groups.shard import GroupShard
from wirekafka.coordinator.share_state.commands import ShareCommand
from wirekafka.coordinator.share_state.shard import ShareCoordinatorConfig, ShareShard
from wirekafka.coordinator.transactions.commands import TransactionCommand
from wirekafka.coordinator.transactions.shard import TransactionConfig, TransactionShard
from wirekafka.runtime.machine import Command

UNUSED: Any = None
TABLES: dict[str, tuple[Any, Mapping[type[Command[Any]], Any]]] = {
    "groups": (GroupCommand, GroupShard(GroupConfig())._commands),
    "transactions": (TransactionCommand, TransactionShard(TransactionConfig(), UNUSED)._deciders),
    "share states": (ShareCommand, ShareShard(ShareCoordinatorConfig(), UNUSED)._deciders),
}


@pytest.mark.parametrize("name", TABLES)
def test_every_command_has_a_row(name: str) -> None:
    declared, table = TABLES[name]
    assert set(table) == set(get_args(declared))
    assert all(issubclass(command, Command) for command in table)


def test_commands_are_compared_by_their_fields_and_can_be_keys() -> None:
    one, same = (Heartbeat("g", 3, "m") for _ in range(2))
    assert {one: 1}[same] == 1 and one != Heartbeat("g", 4, "m")
    assert not hasattr(one, "__dict__"), "commands have slots"
