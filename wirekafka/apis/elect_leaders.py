"""ElectLeaders: starts an election of the preferred leaders of partitions (KIP-183).

v1: unclean elections (KIP-460).
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import islice

from wirekafka.apis.shared.call import Call, ControllerCall
from wirekafka.apis.shared.registry import api, failure_of
from wirekafka.errors import Error, KafkaError
from wirekafka.metadata.controller.elections import ElectionType
from wirekafka.metadata.controller.elections import ElectLeaders as Elect
from wirekafka.metadata.controller.sweep import in_portions
from wirekafka.protocol.elect_leaders import ElectLeadersRequest, ElectLeadersResponse
from wirekafka.security.acl import ALTER, CLUSTER

_Result = ElectLeadersResponse.ReplicaElectionResult
_Elected = tuple[str, int, KafkaError | None]
_Reply = list[_Elected]


@api(ElectLeadersRequest, ElectLeadersResponse, forwarded=True)
async def elect_leaders(request: ElectLeadersRequest, call: ControllerCall) -> ElectLeadersResponse:
    """Elect leaders of the given partitions; null means all partitions that need one."""
    call.authorize(ALTER, CLUSTER)
    if request.election_type not in tuple(ElectionType):
        raise KafkaError(Error.INVALID_REQUEST, f"Unknown election type {request.election_type}")
    requested = request.topic_partitions
    partitions = _all(call) if requested is None else _requested(request)
    reply: _Reply = []
    for portion in in_portions(partitions):
        reply += await call.controller.submit(Elect(ElectionType(request.election_type), portion))
    if requested is None:
        # As in Kafka, partitions that need no election are not listed.
        not_needed = Error.ELECTION_NOT_NEEDED
        reply = [each for each in reply if each[2] is None or each[2].error is not not_needed]
        topics = [name for name, _ in partitions]
        return ElectLeadersResponse(replica_election_results=_results(topics, reply))
    return ElectLeadersResponse(replica_election_results=_as_requested(request, reply))


def _as_requested(request: ElectLeadersRequest, reply: _Reply) -> list[_Result]:
    """The results in the order of the request, in which a topic may be several times."""
    results = iter(reply)
    return [
        _Result(
            topic=topic.topic,
            partition_result=[_partition(each) for each in islice(results, len(topic.partitions))],
        )
        for topic in request.topic_partitions or ()
    ]


def _all(call: ControllerCall) -> list[tuple[str, int]]:
    return [
        (topic.name, index)
        for topic in call.controller.image.topics.values()
        for index in topic.partitions
    ]


def _requested(request: ElectLeadersRequest) -> list[tuple[str, int]]:
    return [
        (topic.topic, index)
        for topic in request.topic_partitions or ()
        for index in topic.partitions
    ]


def _results(topics: Iterable[str], reply: _Reply) -> list[_Result]:
    by_topic: dict[str, list[_Result.PartitionResult]] = {name: [] for name in topics}
    for topic, index, error in reply:
        by_topic[topic].append(_partition((topic, index, error)))
    return [_Result(topic=name, partition_result=results) for name, results in by_topic.items()]


def _partition(reply: _Elected) -> _Result.PartitionResult:
    _, index, error = reply
    return _Result.PartitionResult(
        partition_id=index,
        error_code=error.error if error else Error.NONE,
        error_message=error.message if error else None,
    )


@failure_of(elect_leaders)
def elect_leaders_failure(
    request: ElectLeadersRequest, error: KafkaError, call: Call
) -> ElectLeadersResponse:
    """Report the error for every partition of the request."""
    reply: _Reply = [(topic, index, error) for topic, index in _requested(request)]
    return ElectLeadersResponse(
        error_code=error.error, replica_election_results=_as_requested(request, reply)
    )
