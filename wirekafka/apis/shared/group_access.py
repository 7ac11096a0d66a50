"""The ids of groups in requests: what all brokers refuse, and the order of several."""

from __future__ import annotations

from collections.abc import Iterable

from wirekafka.apis.shared.call import Call
from wirekafka.apis.shared.turns import Turns
from wirekafka.errors import Error, KafkaError
from wirekafka.security.acl import DESCRIBE, GROUP


def check_group_id(group_id: str) -> None:
    """Raise KafkaError for the empty id, which a broker refuses before it looks for the group."""
    if not group_id:
        raise KafkaError(Error.INVALID_GROUP_ID)


async def describable(
    group_ids: Iterable[str], call: Call, turns: Turns
) -> tuple[list[str], list[str]]:
    """The groups that the client may not describe, which come first, and all others by shard."""
    refused, allowed = list[str](), list[str]()
    for group_id in group_ids:
        (allowed if call.is_authorized(DESCRIBE, GROUP, group_id) else refused).append(group_id)
        await turns.step()
    by_shard = call.broker.groups.by_shard(allowed)
    return refused, [group_id for ids in by_shard for group_id in ids]
