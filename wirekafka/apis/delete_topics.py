"""DeleteTopics: deletes topics (KIP-4).

v5: error messages, THROTTLING_QUOTA_EXCEEDED (KIP-599), v6: by name or by topic id (KIP-516).
"""

from __future__ import annotations

from collections import Counter

from wirekafka.apis.shared.call import Call, ControllerCall
from wirekafka.apis.shared.registry import api, failure_of
from wirekafka.apis.shared.turns import Turns
from wirekafka.errors import Error, KafkaError
from wirekafka.metadata.controller.topics import NO_ID, DeleteTopics, TopicReference
from wirekafka.protocol.delete_topics import DeleteTopicsRequest, DeleteTopicsResponse
from wirekafka.security.acl import CLUSTER, DELETE, DESCRIBE, TOPIC

_Result = DeleteTopicsResponse.DeletableTopicResult
_STRICT_SINCE = 5


@api(DeleteTopicsRequest, DeleteTopicsResponse, forwarded=True)
async def delete_topics(request: DeleteTopicsRequest, call: ControllerCall) -> DeleteTopicsResponse:
    """Delete topics by name, or by id since v6; brokers delete the files afterwards."""
    if not call.controller.config.delete_topic_enable:
        if call.version < 3:
            raise KafkaError(Error.INVALID_REQUEST, "Topic deletion is disabled.")
        raise KafkaError(Error.TOPIC_DELETION_DISABLED)
    turns = Turns()
    references, refused = await _validated(_references(request), call, turns)
    references, unauthorized = await _authorized(references, call, turns)
    refused += unauthorized
    quota = call.mutation_quota(strict_since=_STRICT_SINCE)
    outcome = await call.controller.submit(DeleteTopics(references, quota))
    return DeleteTopicsResponse(
        throttle_time_ms=quota.throttle_ms(call.now_ms),
        responses=await turns.map(lambda each: _result(*each), [*outcome, *refused]),
    )


_Refused = tuple[str | None, bytes, KafkaError | None]


def _references(request: DeleteTopicsRequest) -> list[TopicReference]:
    if request.topics:
        return [TopicReference(topic.name, topic.topic_id) for topic in request.topics]
    return [TopicReference(name) for name in request.topic_names]


async def _validated(
    references: list[TopicReference], call: ControllerCall, turns: Turns
) -> tuple[list[TopicReference], list[_Refused]]:
    """Split the references into valid references, and invalid references with an error each."""
    names = await turns.count(each.name for each in references if each.name is not None)
    ids = await turns.count(each.id for each in references if each.id != NO_ID)
    refused: dict[TopicReference, str] = {}
    # A topic referred to by name and by id gets one result.
    doubled: dict[bytes, TopicReference] = {}
    for reference in references:
        await turns.step()
        reason = _why_invalid(reference, names, ids)
        topic = call.controller.image.topics.get(reference.name or "")
        if reason is not None:
            refused[reference] = reason
        elif topic is not None and topic.id in ids:
            doubled[topic.id] = reference
    for topic_id, reference in doubled.items():
        refused[TopicReference(reference.name, topic_id)] = (
            "The provided topic name maps to an ID that was already supplied."
        )
    invalid = {*refused, *doubled.values()}
    valid = [each for each in references if each not in invalid and each.id not in doubled]
    await turns.step(len(references))
    return valid, await turns.map(
        lambda each: (*each[0], KafkaError(Error.INVALID_REQUEST, each[1])), refused.items()
    )


async def _authorized(
    references: list[TopicReference], call: ControllerCall, turns: Turns
) -> tuple[list[TopicReference], list[_Refused]]:
    """Split the references into topics that the client may delete, and refused topics with errors.

    A missing topic needs DESCRIBE only, so that a client with that right learns that the topic is
    missing.
    """
    if call.may(DELETE, CLUSTER):
        return references, []
    image = call.controller.image
    names: dict[TopicReference, str] = {}
    for reference in references:
        await turns.step()
        if reference.name is not None:
            names[reference] = reference.name
        elif reference.id in image.topics_by_id:
            names[reference] = image.topics_by_id[reference.id].name
    may_describe = await turns.authorized(call, DESCRIBE, TOPIC, names.values())
    may_delete = await turns.authorized(call, DELETE, TOPIC, names.values())
    error = KafkaError(Error.TOPIC_AUTHORIZATION_FAILED, "Topic authorization failed.")
    allowed: list[TopicReference] = []
    refused: list[_Refused] = []
    for reference in references:
        await turns.step()
        name = names.get(reference)
        is_missing = name is None or name not in image.topics
        if name is None or name in may_delete or (is_missing and name in may_describe):
            allowed.append(reference)
        else:
            shown = name if reference.name is not None or name in may_describe else None
            refused.append((shown, reference.id, error))
    return allowed, refused


def _why_invalid(reference: TopicReference, names: Counter[str], ids: Counter[bytes]) -> str | None:
    name, topic_id = reference
    if name is not None and topic_id != NO_ID:
        return "You may not specify both topic name and topic id."
    if name is not None:
        return "Duplicate topic name." if names[name] > 1 else None
    if topic_id == NO_ID:
        return "Neither topic name nor id were specified."
    return "Duplicate topic id." if ids[topic_id] > 1 else None


def _result(name: str | None, topic_id: bytes, error: KafkaError | None) -> _Result:
    return _Result(
        name=name,
        topic_id=topic_id,
        error_code=error.error if error else Error.NONE,
        error_message=error.message if error else None,
    )


@failure_of(delete_topics)
def delete_topics_failure(
    request: DeleteTopicsRequest, error: KafkaError, call: Call
) -> DeleteTopicsResponse:
    """Report the error for every topic of the request."""
    return DeleteTopicsResponse(
        responses=[_result(*reference, error) for reference in _references(request)]
    )
