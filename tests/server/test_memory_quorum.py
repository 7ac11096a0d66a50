"""Quorums of the real driver, handlers, rules and log: elections, failures, changes of voters."""

from __future__ import annotations

import asyncio

import pytest

from tests.server.memory_quorum import MemoryQuorum, play
from wirekafka.replication.raft.messages import AddVoter, RemoveVoter


def test_three_voters_elect_a_leader_whose_records_all_of_them_commit() -> None:
    async def story(quorum: MemoryQuorum) -> None:
        leader = await quorum.leader(within_ms=5_000)
        for name in ("a", "b", "c"):
            await leader.append(name)
        await quorum.until(
            lambda: all(each.topics == ["a", "b", "c"] for each in quorum.running), within_ms=1_000
        )
        epoch = leader.raft.leadership.epoch
        await asyncio.sleep(30)
        assert leader.raft.leadership.epoch == epoch, "a quiet quorum keeps its leader"

    play(3, story)


def test_a_new_quorum_does_not_wait_before_its_first_election() -> None:
    async def story(quorum: MemoryQuorum) -> None:
        await quorum.leader(within_ms=500)

    play(3, story)


def test_a_new_quorum_elects_a_leader_as_soon_as_a_majority_has_started() -> None:
    async def story(quorum: MemoryQuorum) -> None:
        for id in (2, 3):
            quorum.members[id].crash()
        await asyncio.sleep(4.5)
        quorum.members[2].start()
        await quorum.leader(within_ms=500)

    play(3, story)


def test_a_voter_that_lost_its_disk_does_not_depose_the_leader() -> None:
    async def story(quorum: MemoryQuorum) -> None:
        leader = await quorum.leader()
        await leader.append("a")
        epoch = leader.raft.leadership.epoch
        other = next(each for each in quorum.running if each is not leader)
        other.crash()
        other.lose_disk()
        other.start()
        await quorum.until(lambda: other.topics == ["a"], within_ms=3_000)
        assert leader.raft.is_leader and leader.raft.leadership.epoch == epoch

    play(3, story)


def test_the_crash_of_the_leader_costs_one_election_and_no_record() -> None:
    async def story(quorum: MemoryQuorum) -> None:
        leader = await quorum.leader()
        await leader.append("a")
        leader.crash()
        successor = await quorum.leader(within_ms=6_000)
        await successor.append("b")
        leader.start()
        await quorum.until(lambda: leader.topics == ["a", "b"])
        assert not leader.raft.is_leader

    play(3, story)


def test_a_leader_that_stops_has_a_successor_within_moments() -> None:
    async def story(quorum: MemoryQuorum) -> None:
        leader = await quorum.leader()
        await leader.append("a")
        began_s = quorum.loop.time()
        await leader.stop()
        assert quorum.loop.time() - began_s < 0.5
        successor = await quorum.leader(within_ms=500)
        await successor.append("b")

    play(3, story)


def test_a_leader_without_a_majority_resigns_and_its_records_are_replaced() -> None:
    async def story(quorum: MemoryQuorum) -> None:
        leader = await quorum.leader()
        await leader.append("a")
        quorum.isolate(leader.id)
        lost = asyncio.create_task(leader.append("lost"))
        successor = await quorum.leader(other_than=leader.id)
        await successor.append("b")
        await quorum.until(lambda: not leader.raft.is_leader)
        lost.cancel()
        quorum.heal()
        await quorum.until(lambda: leader.topics == ["a", "b"])
        assert leader.raft.log.end_offset == successor.raft.log.end_offset

    play(3, story)


def test_a_follower_that_was_cut_off_does_not_depose_the_leader() -> None:
    async def story(quorum: MemoryQuorum) -> None:
        leader = await quorum.leader()
        [follower, _] = [each for each in quorum.running if each is not leader]
        quorum.isolate(follower.id)
        await asyncio.sleep(20)
        quorum.heal()
        await leader.append("a")
        await quorum.until(lambda: follower.topics == ["a"])
        assert leader.raft.is_leader, "its pre-votes were refused (KIP-996)"

    play(3, story)


def test_an_observer_finds_the_leader_by_itself() -> None:
    async def story(quorum: MemoryQuorum) -> None:
        leader = await quorum.leader()
        await leader.append("a")
        observer = quorum.add(9, can_vote=False)
        observer.start()
        assert observer.run is not None
        await observer.run.driver.caught_up()
        assert observer.topics == ["a"]
        leader.crash()
        successor = await quorum.leader()
        await successor.append("b")
        await quorum.until(lambda: observer.topics == ["a", "b"], within_ms=2_000)
        described = successor.raft.describe(observer.run.clock.now_ms())
        assert [each.key.id for each in described.observers] == [9]

    play(3, story)


def test_every_node_returns_after_a_power_cut_of_all() -> None:
    async def story(quorum: MemoryQuorum) -> None:
        for round in range(3):
            leader = await quorum.leader()
            await leader.append(f"t{round}")
            members = list(quorum.running)
            for member in members:
                member.crash()
            for member in members:
                member.start()
        last = await quorum.leader()
        await last.append("end")
        expected = ["t0", "t1", "t2", "end"]
        await quorum.until(lambda: all(each.topics == expected for each in quorum.running))

    play(3, story)


def test_a_lone_voter_becomes_three_and_one_again() -> None:
    async def story(quorum: MemoryQuorum) -> None:
        first = await quorum.leader(within_ms=1_000)
        assert first.run is not None
        first.raft.keep_voters(first.run.clock.now_ms())
        await first.append("a")
        for id in (2, 3):
            joining = quorum.add(id)
            joining.start()
            await quorum.until(lambda joining=joining: joining.topics == ["a"])
            add = AddVoter(voter=joining.key, endpoints=joining.endpoints)
            await first.raft.add_voter(add, first.run.clock.now_ms())
        await first.append("b")
        await quorum.until(lambda: all(len(each.raft.voters) == 3 for each in quorum.running))
        first.crash()
        second = await quorum.leader()
        assert second.run is not None
        await second.append("c")
        first.start()
        await quorum.until(lambda: first.topics == ["a", "b", "c"])
        for id in {1, 2, 3} - {second.id}:
            remove = RemoveVoter(voter=quorum.members[id].key)
            await second.raft.remove_voter(remove, second.run.clock.now_ms())
            quorum.members[id].crash()
        await second.append("d")
        assert second.raft.voters.ids == (second.id,)

    play(1, story)


@pytest.mark.parametrize("size", [2, 5])
def test_other_sizes_elect_and_lose_leaders_too(size: int) -> None:
    async def story(quorum: MemoryQuorum) -> None:
        for round in range(4):
            leader = await quorum.leader()
            await leader.append(f"t{round}")
            leader.crash()
            leader.start()
        last = await quorum.leader()
        expected = [f"t{round}" for round in range(4)]
        await quorum.until(lambda: last.topics == expected)

    play(size, story)
