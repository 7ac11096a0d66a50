"""An administrator of a simulated cluster, who changes voters, topics, configs and replicas."""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING, Any

from tests.simulation.cluster.shape import (
    CLUSTER_ID,
    CONTROLLER,
    CONTROLLER_PORT,
    REPLICAS,
    directory_id,
)
from tests.simulation.wire import Lost
from tests.simulation.world import PLACES
from wirekafka.codec.message import Request
from wirekafka.errors import Error
from wirekafka.protocol.add_raft_voter import AddRaftVoterRequest
from wirekafka.protocol.alter_partition_reassignments import AlterPartitionReassignmentsRequest
from wirekafka.protocol.create_partitions import CreatePartitionsRequest
from wirekafka.protocol.create_topics import CreateTopicsRequest
from wirekafka.protocol.delete_topics import DeleteTopicsRequest
from wirekafka.protocol.elect_leaders import ElectLeadersRequest
from wirekafka.protocol.incremental_alter_configs import IncrementalAlterConfigsRequest
from wirekafka.protocol.quorum_endpoints import LeaderEndpoint
from wirekafka.protocol.remove_raft_voter import RemoveRaftVoterRequest

if TYPE_CHECKING:
    from tests.simulation.cluster.simulation import Simulation

_TIMEOUT_MS = 4_000
_TOPIC = 2
_SET = 0


class Administration:
    """Sends one request at a time, once: whether it is carried out is checked nowhere."""

    def __init__(self, simulation: Simulation):
        self._simulation = simulation
        self._wire = simulation.world.wire("admin", may_linger=True)
        self._topics = 0

    async def change_voters(self, random: Random) -> None:
        """Add or remove a voter, if the quorum is dynamic."""
        simulation = self._simulation
        if not simulation.shape.is_dynamic:
            return
        leader = next((each for each in simulation.members.values() if each.is_active), None)
        controllers = [each.id for each in simulation.members.values() if each.spec.is_controller]
        id = random.choice(controllers)
        voters = leader.raft.voters.ids if leader is not None and leader.raft is not None else ()
        if id in voters:
            if len(voters) > 2:
                await self._ask(
                    RemoveRaftVoterRequest(
                        cluster_id=CLUSTER_ID, voter_id=id, voter_directory_id=directory_id(id)
                    ),
                    0,
                )
            return
        endpoint = LeaderEndpoint(name=CONTROLLER, host=f"node-{id}", port=CONTROLLER_PORT)
        await self._ask(
            AddRaftVoterRequest(
                cluster_id=CLUSTER_ID,
                timeout_ms=_TIMEOUT_MS,
                voter_id=id,
                voter_directory_id=directory_id(id),
                listeners=[endpoint],
            ),
            0,
        )

    async def change(self, random: Random) -> None:
        """Change something at random."""
        change = random.choice(
            (
                self._reassign,
                self._reassign,
                self._create_topic,
                self._grow,
                self._configure,
                self._elect,
            )
        )
        await change(random)

    async def _reassign(self, random: Random) -> None:
        """Move a partition to other brokers, or only make another one its preferred leader."""
        members = self._simulation.members.values()
        brokers = [each.id for each in members if each.spec.is_broker]
        kind = AlterPartitionReassignmentsRequest.ReassignableTopic
        topics = []
        for name, index in random.sample(PLACES, random.randint(1, 3)):
            replicas = random.sample(brokers, REPLICAS)
            partition = kind.ReassignablePartition(partition_index=index, replicas=replicas)
            topics.append(kind(name=name, partitions=[partition]))
        names = {topic.name: topic for topic in topics}
        request = AlterPartitionReassignmentsRequest(
            timeout_ms=_TIMEOUT_MS, topics=list(names.values())
        )
        await self._ask(request, 1)

    async def _create_topic(self, random: Random) -> None:
        """Create a topic, write nothing, and sometimes delete it again."""
        self._topics += 1
        name = f"other-{self._topics}"
        topic = CreateTopicsRequest.CreatableTopic(
            name=name, num_partitions=random.randint(1, 4), replication_factor=REPLICAS
        )
        await self._ask(CreateTopicsRequest(topics=[topic], timeout_ms=_TIMEOUT_MS), 7)
        if random.random() < 0.5:
            state = DeleteTopicsRequest.DeleteTopicState(name=name)
            await self._ask(DeleteTopicsRequest(topics=[state], timeout_ms=_TIMEOUT_MS), 6)

    async def _grow(self, random: Random) -> None:
        """Add partitions, which nobody uses."""
        topic = CreatePartitionsRequest.Topic(
            name=random.choice(("plain", "ledger")), count=random.randint(4, 6), assignments=None
        )
        request = CreatePartitionsRequest(
            topics=[topic], timeout_ms=_TIMEOUT_MS, validate_only=False
        )
        await self._ask(request, 3)

    async def _configure(self, random: Random) -> None:
        kind = IncrementalAlterConfigsRequest.AlterConfigsResource
        name, value = random.choice(
            (("segment.bytes", "1048576"), ("segment.bytes", "2097152"), ("segment.ms", "900"))
        )
        config = kind.AlterableConfig(name=name, config_operation=_SET, value=value)
        topic = random.choice(("plain", "ledger"))
        resource = kind(resource_type=_TOPIC, resource_name=topic, configs=[config])
        await self._ask(IncrementalAlterConfigsRequest(resources=[resource]), 1)

    async def _elect(self, random: Random) -> None:
        """Elect the preferred leaders."""
        await self._ask(
            ElectLeadersRequest(election_type=0, topic_partitions=None, timeout_ms=_TIMEOUT_MS), 2
        )

    async def _ask(self, request: Request, version: int) -> None:
        name = type(request).__name__
        try:
            response = await self._wire.ask(request, version, timeout_s=_TIMEOUT_MS / 1000 + 1)
        except Lost:
            self._simulation.note(f"admin: no response to {name}")
            return
        codes = sorted(_codes(response))
        self._simulation.note(f"admin: {name} gets {', '.join(Error(each).name for each in codes)}")
        if Error.UNKNOWN_SERVER_ERROR in codes:
            self._simulation.world.surprises.append(f"{name} got UNKNOWN_SERVER_ERROR")


def _codes(part: Any) -> set[int]:
    """All error codes in a response."""
    if isinstance(part, list):
        return {code for each in part for code in _codes(each)}
    if not hasattr(part, "__dataclass_fields__") and not hasattr(part, "__slots__"):
        return set()
    names = getattr(part, "__slots__", None) or part.__dataclass_fields__
    found: set[int] = set()
    for name in names:
        value = getattr(part, name, None)
        if name == "error_code":
            found.add(value)
        elif isinstance(value, list):
            found |= _codes(value)
    return found
