"""DeleteShareGroupOffsets: deletes the stored states of topics from a share group (KIP-932)."""

from __future__ import annotations

from collections.abc import Sequence

from wirekafka.apis.shared.call import Call
from wirekafka.apis.shared.registry import api
from wirekafka.apis.shared.share_version import UNSUPPORTED, check_share_version
from wirekafka.coordinator.groups.share.commands import DeleteShareOffsets
from wirekafka.errors import Error, KafkaError
from wirekafka.protocol.delete_share_group_offsets import (
    DeleteShareGroupOffsetsRequest,
    DeleteShareGroupOffsetsResponse,
)
from wirekafka.security.access import refusal
from wirekafka.security.acl import DELETE, GROUP, READ, TOPIC

_UNKNOWN = KafkaError(
    Error.UNKNOWN_TOPIC_OR_PARTITION, "This server does not host this topic-partition."
)
_NO_STATE = "There is no offset information to delete."


_Topic = DeleteShareGroupOffsetsResponse.Topic


@api(DeleteShareGroupOffsetsRequest, DeleteShareGroupOffsetsResponse)
async def delete_share_group_offsets(
    request: DeleteShareGroupOffsetsRequest, call: Call
) -> DeleteShareGroupOffsetsResponse:
    """Delete the states of a group without members; topics without a state have an error.

    Topics that the client may not read come last in the response.
    """
    check_share_version(call, UNSUPPORTED)
    call.authorize(DELETE, GROUP, request.group_id)
    if not request.group_id:
        raise KafkaError(Error.INVALID_GROUP_ID, "The group id is invalid.")
    names = [topic.topic_name for topic in request.topics]
    readable = call.authorized(READ, TOPIC, names)
    refused = [_failed(name, refusal(TOPIC)) for name in names if name not in readable]
    allowed = [name for name in names if name in readable]
    # Even without any: the group's errors come before errors of topics.
    responses = await _delete(request.group_id, allowed, call)
    return DeleteShareGroupOffsetsResponse(responses=[*responses, *refused])


async def _delete(
    group_id: str, names: Sequence[str], call: Call
) -> list[DeleteShareGroupOffsetsResponse.Topic]:
    """Delete the states of these topics, and report the topics that had states or failed."""
    image = call.broker.image
    known = [image.topics[name] for name in names if name in image.topics]
    deletion = await call.broker.share_groups.delete_offsets(
        DeleteShareOffsets(group_id, {each.id: len(each.partitions) for each in known})
    )
    if not deletion.has_states:
        return []
    responses = [
        _Topic(topic_name=image.topics_by_id[id].name, topic_id=id) for id in deletion.deleted
    ]
    for name in names:
        found = image.topics.get(name)
        if found is None:
            responses.append(_failed(name, _UNKNOWN))
        elif found.id not in deletion.deleted and found.id not in deletion.errors:
            responses.append(_failed(name, KafkaError(Error.UNKNOWN_TOPIC_OR_PARTITION, _NO_STATE)))
    for id, error in deletion.errors.items():
        failed = _failed(image.topics_by_id[id].name, KafkaError(error.error))
        failed.topic_id = id
        responses.append(failed)
    return responses


def _failed(name: str, error: KafkaError) -> DeleteShareGroupOffsetsResponse.Topic:
    return _Topic(topic_name=name, error_code=error.error, error_message=error.message)
