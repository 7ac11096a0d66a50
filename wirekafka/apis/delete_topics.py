"""DeleteTopics: deletes topics;
v5: error messages (KIP-599), v6: by name or by topic id (KIP-516).
"""

from __future__ import annotations

from collections import Counter

from wirekafka.apis.registry import Call, api
from wirekafka.codec.message import Int16, Int32, Part, Request, Response, String, Uuid, field
from wirekafka.errors import Error, KafkaError
from wirekafka.metadata.topics import NO_ID, DeleteTopics, TopicReference


class DeleteTopicsRequest(Request, key=20, versions="1-6", flexible="4+"):
    topics: list[DeleteTopicState] = field("6+")
    topic_names: list[String] = field("1-5")
    timeout_ms: Int32

    class DeleteTopicState(Part):
        name: String | None = field(default=None)
        topic_id: Uuid


class DeleteTopicsResponse(Response, answers=DeleteTopicsRequest):
    throttle_time_ms: Int32
    responses: list[DeletableTopicResult]

    class DeletableTopicResult(Part):
        name: String | None = field(nullable="6+", default="")
        topic_id: Uuid = field("6+")
        error_code: Int16
        error_message: String | None = field("5+", default=None)


_Result = DeleteTopicsResponse.DeletableTopicResult


@api(DeleteTopicsRequest, DeleteTopicsResponse)
async def delete_topics(request: DeleteTopicsRequest, call: Call) -> DeleteTopicsResponse:
    """Delete topics by name, or since v6 by id; their files go a little later."""
    if not call.broker.config.delete_topic_enable:
        if call.version < 3:
            raise KafkaError(Error.INVALID_REQUEST, "Topic deletion is disabled.")
        raise KafkaError(Error.TOPIC_DELETION_DISABLED)
    references, refused = _sound(_references(request), call)
    outcome = await call.broker.controller.submit(DeleteTopics(references))
    return DeleteTopicsResponse(responses=[_result(*each) for each in [*outcome, *refused]])


_Refused = tuple[str | None, bytes, KafkaError | None]


def _references(request: DeleteTopicsRequest) -> list[TopicReference]:
    if request.topics:
        return [TopicReference(topic.name, topic.topic_id) for topic in request.topics]
    return [TopicReference(name) for name in request.topic_names]


def _sound(references: list[TopicReference],
           call: Call) -> tuple[list[TopicReference], list[_Refused]]:
    """The references that say one thing each, and those that do not, with what is wrong."""
    names = Counter(reference.name for reference in references if reference.name is not None)
    ids = Counter(reference.id for reference in references if reference.id != NO_ID)
    refused: dict[TopicReference, str] = {}
    # Whoever is named twice, by name and by id, is answered once.
    doubled: dict[bytes, TopicReference] = {}
    for reference in references:
        reason = _why_unsound(reference, names, ids)
        topic = call.broker.image.topics.get(reference.name or "")
        if reason is not None:
            refused[reference] = reason
        elif topic is not None and topic.id in ids:
            doubled[topic.id] = reference
    for topic_id, reference in doubled.items():
        refused[TopicReference(reference.name, topic_id)] = (
            "The provided topic name maps to an ID that was already supplied.")
    sound = [
        reference for reference in references
        if reference not in refused and reference.id not in doubled
        and reference not in doubled.values()
    ]
    return sound, [(*reference, KafkaError(Error.INVALID_REQUEST, reason))
                   for reference, reason in refused.items()]


def _why_unsound(reference: TopicReference, names: Counter[str],
                 ids: Counter[bytes]) -> str | None:
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


def delete_topics_failure(request: DeleteTopicsRequest, error: KafkaError,
                          call: Call) -> DeleteTopicsResponse:
    """Every topic fails the same way."""
    return DeleteTopicsResponse(responses=[
        _result(*reference, error) for reference in _references(request)])
