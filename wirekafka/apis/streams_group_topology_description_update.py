"""StreamsGroupTopologyDescriptionUpdate: stores the description of a topology (KIP-1331).

Descriptions are kept by a plugin, a Java class. This broker has none, and responds as a Kafka
broker without one.
"""

from __future__ import annotations

from wirekafka.apis.shared.call import Call
from wirekafka.apis.shared.group_protocols import check_streams_protocol
from wirekafka.apis.shared.registry import api
from wirekafka.errors import Error, KafkaError
from wirekafka.protocol.streams_group_topology_description_update import (
    StreamsGroupTopologyDescriptionUpdateRequest,
    StreamsGroupTopologyDescriptionUpdateResponse,
)
from wirekafka.security.acl import GROUP, READ


@api(StreamsGroupTopologyDescriptionUpdateRequest, StreamsGroupTopologyDescriptionUpdateResponse)
def streams_group_topology_description_update(
    request: StreamsGroupTopologyDescriptionUpdateRequest, call: Call
) -> StreamsGroupTopologyDescriptionUpdateResponse:
    """Refuse the description: no plugin is configured."""
    check_streams_protocol(call)
    if not call.is_authorized(READ, GROUP, request.group_id):
        raise KafkaError(Error.GROUP_AUTHORIZATION_FAILED)
    raise KafkaError(
        Error.UNSUPPORTED_VERSION,
        "The broker has no streams group topology description plugin configured.",
    )
