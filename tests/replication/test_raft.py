"""The rules of KRaft: elections, commits, voter changes."""

import pytest

from tests.replication.raft_nodes import Quorum
from tests.simulation.disk import Outcome
from tests.simulation.quorum.controller import LISTENER, Codec
from wirekafka.errors import Error, KafkaError
from wirekafka.replication.raft.messages import (
    AddVoter,
    BeginEpoch,
    EndEpoch,
    EpochAnswer,
    LeaderAndEpoch,
    RemoveVoter,
    ReplicaKey,
    UpdateVoter,
    Vote,
)
from wirekafka.replication.raft.quorum_state import QuorumState

DEFAULT_TIMEOUT_MS = 2_000


def requests(node, kind):
    return [each.request for each in node.raft.take_outbox() if isinstance(each.request, kind)]


def due(quorum, node):
    """Let a node's next deadline pass."""
    quorum.clock.advance(max(node.raft.deadline() - node.now, 0))
    node.raft.tick(node.now)


def pass_election_timeout(quorum, node):
    quorum.clock.advance(DEFAULT_TIMEOUT_MS)
    node.raft.tick(node.now)


def refused(error, call):
    with pytest.raises(KafkaError) as raised:
        call()
    assert raised.value.error is error
    return raised.value.message


# Elections


def test_a_pre_vote_comes_before_a_new_epoch():
    quorum = Quorum()
    one = quorum[1]
    pass_election_timeout(quorum, one)
    first = requests(one, Vote)
    assert [(vote.pre_vote, vote.epoch, vote.voter.id) for vote in first] == [
        (True, 0, 2),
        (True, 0, 3),
    ]
    assert one.log.epoch == 0
    quorum.elect(1)
    assert (one.log.epoch, one.events) == (1, [("leads", 1)])
    assert [node.raft.leadership[:2] for node in quorum.nodes.values()] == [(1, 1)] * 3


def test_followers_of_a_live_leader_refuse_pre_votes():
    quorum = Quorum()
    quorum.elect(1)
    assert not quorum[2].vote(quorum[3], 1, 1, 100, pre_vote=True).granted
    assert not quorum[1].vote(quorum[3], 1, 1, 100, pre_vote=True).granted


def test_a_leader_whose_port_refuses_connections_is_succeeded_before_the_fetch_timeout():
    quorum = Quorum()
    one, two, three = quorum.elect(1), quorum[2], quorum[3]
    quorum.advance(200)
    quorum.lost.add(1)
    for _ in range(60):
        quorum.clock.advance(10)
        for node in (two, three):
            node.raft.tick(node.now)
            for outgoing in node.raft.take_outbox():
                if outgoing.to is None or outgoing.to.id == one.id:
                    node.raft.answered(outgoing, KafkaError(Error.NETWORK_EXCEPTION), node.now)
                else:
                    quorum._pass_on(node, outgoing)
    assert {two.raft.role, three.raft.role} == {"leader", "follower"}


def test_a_follower_that_cannot_connect_to_a_live_leader_does_not_depose_it():
    quorum = Quorum()
    one, two = quorum.elect(1), quorum[2]
    quorum.advance(200)
    epoch = one.log.epoch
    for _ in range(100):
        quorum.clock.advance(10)
        for node in quorum.nodes.values():
            node.raft.tick(node.now)
        for outgoing in two.raft.take_outbox():
            if outgoing.to is None or outgoing.to.id == one.id:
                lost = KafkaError(Error.NETWORK_EXCEPTION)
                two.raft.answered(outgoing, lost, two.now)
            else:
                quorum._pass_on(two, outgoing)
        quorum.deliver_from(3, 1)
    assert two.raft.role != "follower"
    assert one.raft.is_leader and one.log.epoch == epoch == two.log.epoch


def test_a_vote_is_granted_once_in_an_epoch():
    quorum = Quorum()
    three = quorum[3]
    assert three.vote(quorum[1], 1).granted
    assert not three.vote(quorum[2], 1).granted
    assert three.vote(quorum[1], 1).granted
    assert three.vote(quorum[2], 2).granted


def test_a_vote_survives_a_power_cut():
    quorum = Quorum(dynamic=True)
    quorum[3].vote(quorum[1], 5)
    assert quorum[3].log.read_state() == QuorumState(-1, 5, None, quorum[1].key)
    three = quorum[3].restart()
    assert not three.vote(quorum[2], 5).granted
    assert three.vote(quorum[1], 5).granted


def test_a_static_vote_is_stored_without_a_directory():
    quorum = Quorum()
    quorum[3].vote(quorum[1], 5)
    three = quorum[3].restart()
    assert three.log.read_state() == QuorumState(-1, 5, (1, 2, 3), ReplicaKey(1))
    assert three.vote(quorum[1], 5).granted
    assert not three.vote(quorum[2], 5).granted


def test_a_vote_is_durable_before_it_is_answered():
    quorum = Quorum()
    three = quorum[3]
    three.syncs.waits = True
    three.vote(quorum[1], 1)
    answers = []
    three.raft.when_durable(lambda: answers.append("sent"))
    assert answers == []
    three.syncs.finish()
    assert answers == ["sent"]


def test_a_candidate_sends_nothing_before_its_own_vote_is_durable():
    quorum = Quorum()
    one = quorum[1]
    one.syncs.waits = True
    pass_election_timeout(quorum, one)
    for outgoing in one.raft.take_outbox():
        if outgoing.to is not None:
            one.raft.answered(outgoing, quorum[outgoing.to.id].serve(outgoing.request), one.now)
    assert one.raft.role == "candidate"
    assert one.raft.take_outbox() == []
    one.syncs.finish()
    assert [vote.epoch for vote in requests(one, Vote)] == [1, 1]


def test_a_candidate_with_a_shorter_log_is_refused():
    quorum = Quorum()
    quorum.elect(1).append(7)
    quorum.deliver()
    end = quorum[2].log.end_offset
    quorum.lost.add(1)
    assert not quorum[2].vote(quorum[3], 2, 1, end - 1).granted
    assert not quorum[2].vote(quorum[3], 3, 0, end + 10).granted
    assert quorum[2].vote(quorum[3], 4, 1, end).granted


def test_invalid_votes_are_refused_with_kafkas_errors():
    quorum = Quorum(dynamic=True)
    quorum.elect(1)
    two = quorum[2]
    refused(Error.FENCED_LEADER_EPOCH, lambda: two.vote(quorum[3], 0, pre_vote=True))
    refused(Error.INVALID_REQUEST, lambda: two.vote(quorum[3], 1, last_epoch=1))
    refused(Error.INVALID_REQUEST, lambda: two.vote(quorum[3], 2, end_offset=-1))
    other = Vote(
        voter=ReplicaKey(2, b"x" * 16),
        candidate=quorum[3].key,
        epoch=9,
        last_epoch=1,
        end_offset=100,
    )
    refused(Error.INVALID_VOTER_KEY, lambda: two.raft.vote(other, two.now))
    assert two.log.epoch == 9, "the epoch counts all the same, as in Kafka"


def test_a_voter_without_pre_votes_makes_the_prospective_node_a_candidate():
    quorum = Quorum()
    one = quorum[1]
    pass_election_timeout(quorum, one)
    vote = next(each for each in one.raft.take_outbox() if isinstance(each.request, Vote))
    one.raft.answered(vote, KafkaError(Error.UNSUPPORTED_VERSION), one.now)
    assert (one.raft.role, one.log.epoch) == ("candidate", 1)


def test_a_leader_that_restarts_does_not_lead_its_epoch_again():
    quorum = Quorum()
    quorum.elect(1)
    one = quorum[1].restart()
    assert (one.raft.role, one.log.epoch) == ("resigned", 1)
    refused(Error.NOT_CONTROLLER, lambda: one.append(1))
    assert {type(each) for each in requests(one, EndEpoch)} == {EndEpoch}
    due(quorum, one)
    assert (one.raft.role, one.log.epoch) == ("unattached", 2)


def test_a_clean_stop_proposes_the_voter_with_the_longest_log():
    quorum = Quorum()
    one = quorum.elect(1)
    quorum.lost.add(2)
    one.append(1)
    quorum.deliver()
    one.raft.resign(one.now)
    ends = [each for each in one.raft.take_outbox() if isinstance(each.request, EndEpoch)]
    assert [key.id for key in ends[0].request.preferred] == [3, 2]
    assert one.events == [("leads", 1), "resigned"]
    refused(Error.NOT_CONTROLLER, lambda: one.append(2))
    three = quorum[3]
    three.raft.end_epoch(ends[0].request, three.now)
    assert three.raft.role == "prospective", "the first successor does not wait"


def test_a_leader_that_no_majority_fetches_from_resigns():
    quorum = Quorum()
    one = quorum.elect(1)
    quorum.advance(5_000)
    assert one.raft.is_leader
    quorum.lost |= {2, 3}
    quorum.clock.advance(2_999 - 50)
    one.raft.tick(one.now)
    assert one.raft.is_leader
    quorum.clock.advance(100)
    one.raft.tick(one.now)
    assert one.raft.role == "resigned"
    assert one.events[-1] == "resigned"


def test_a_node_notices_that_no_majority_can_be_reached():
    quorum = Quorum()
    one = quorum.elect(1)
    assert not one.raft.is_cut_off
    quorum.lost |= {2, 3}
    quorum.clock.advance(1_000)
    one.raft.tick(one.now)
    first, second = one.raft.take_outbox()
    one.raft.answered(first, KafkaError(Error.NETWORK_EXCEPTION), one.now)
    assert not one.raft.is_cut_off, "two of three can still elect one"
    one.raft.answered(second, KafkaError(Error.REQUEST_TIMED_OUT), one.now)
    assert one.raft.is_cut_off
    one.fetch(quorum[3], one.log.end_offset)
    assert not one.raft.is_cut_off, "a voter that sends requests is there"


def test_a_leader_that_resigns_counts_only_those_that_do_not_answer_from_then_on():
    quorum = Quorum()
    one = quorum.elect(1)
    quorum.lost |= {2, 3}
    quorum.clock.advance(1_000)
    one.raft.tick(one.now)
    for outgoing in one.raft.take_outbox():
        one.raft.answered(outgoing, KafkaError(Error.NETWORK_EXCEPTION), one.now)
    one.raft.resign(one.now)
    assert not one.raft.is_cut_off
    for outgoing in one.raft.take_outbox():
        one.raft.answered(outgoing, KafkaError(Error.NETWORK_EXCEPTION), one.now)
    assert one.raft.is_cut_off


def test_a_leader_that_resigned_notices_when_its_successors_stop_too():
    quorum = Quorum()
    one = quorum.elect(1)
    one.raft.resign(one.now)
    for outgoing in one.raft.take_outbox():
        acknowledged = EpochAnswer(leadership=one.raft.leadership)
        one.raft.answered(outgoing, acknowledged, one.now)
    assert one.raft.take_outbox() == [] and not one.raft.is_cut_off
    due(quorum, one)
    for outgoing in one.raft.take_outbox():
        one.raft.answered(outgoing, KafkaError(Error.NETWORK_EXCEPTION), one.now)
    assert one.raft.is_cut_off


def test_a_leader_announces_itself_to_those_that_do_not_fetch():
    quorum = Quorum()
    one = quorum.elect(1)
    quorum.lost.add(3)
    quorum.advance(900)
    one.raft.take_outbox()
    due_ms = one.now
    while not (sent := requests(one, BeginEpoch)) and one.now < due_ms + 1_100:
        quorum.clock.advance(50)
        quorum[2].raft.tick(one.now)
        one.fetch(quorum[2], one.log.end_offset)
        one.raft.tick(one.now)
        for id in (2, 3):
            one.raft._sending._under_way.pop(id, None)
    assert {request.voter.id for request in sent} == {3}


def test_a_second_leader_of_an_epoch_is_not_followed():
    quorum = Quorum()
    quorum.elect(1)
    two = quorum[2]
    other = LeaderAndEpoch(3, 1, ((LISTENER, "host", 3),))
    two.raft.begin_epoch(BeginEpoch(voter=two.key, leadership=other), two.now)
    assert two.raft.leadership[:2] == (1, 1)


# Commits


def test_records_are_committed_once_a_majority_has_synced_them():
    quorum = Quorum()
    one = quorum.elect(1)
    quorum.deliver()
    committed = one.log.committed_offset
    end = one.append(7)
    assert one.log.committed_offset == committed
    one.fetch(quorum[2], end)
    assert one.log.committed_offset == end
    # Observers get the leader's batches a moment later, never in the middle of an append.
    quorum.clock.advance(1)
    assert one.delivered == [7]


def test_the_leaders_own_copy_counts_once_it_is_synced():
    quorum = Quorum()
    one = quorum.elect(1)
    quorum.deliver()
    committed = one.log.committed_offset
    one.syncs.waits = True
    end = one.append(7)
    one.fetch(quorum[2], end)
    assert one.log.committed_offset == committed
    one.syncs.finish()
    assert one.log.committed_offset == end


def test_a_voter_syncs_before_it_fetches_on():
    quorum = Quorum()
    one, two = quorum.elect(1), quorum[2]
    quorum.deliver()
    two.syncs.waits = True
    one.append(7)
    quorum.deliver()
    assert two.log.end_offset == one.log.end_offset
    assert two.raft.take_outbox() == []
    two.syncs.finish()
    [fetch] = two.raft.take_outbox()
    assert fetch.request.offset == one.log.end_offset


def test_records_of_earlier_epochs_are_committed_with_one_of_the_leaders_own():
    quorum = Quorum()
    one = quorum.elect(1)
    quorum.deliver()
    quorum.lost |= {2, 3}
    end = one.append(7)
    one.restart()
    due(quorum, one)
    quorum.lost.clear()
    one = quorum.elect(1)
    assert one.raft.describe(one.now).high_watermark in (-1, one.log.end_offset)
    leading = one.raft._role
    leading.high_watermark = None
    leading.use(one.raft.voters)
    for replica in leading.others:
        replica.end_offset = end
    assert leading.advanced(one.log.end_offset) is None
    for replica in leading.others:
        replica.end_offset = end + 1
    assert leading.advanced(one.log.end_offset) == end + 1


def test_observers_do_not_count_for_the_majority():
    quorum = Quorum(dynamic=True)
    one = quorum.elect(1)
    quorum.deliver()
    four = quorum.add(4)
    committed = one.log.committed_offset
    end = one.append(7)
    one.fetch(four, end)
    assert one.log.committed_offset == committed
    assert [each.key.id for each in one.raft.describe(one.now).observers] == [4]


def test_uncommitted_appends_are_not_reported_after_a_loss_of_leadership():
    quorum = Quorum()
    one = quorum.elect(1)
    quorum.deliver()
    reported = []
    end = one.append(7)
    one.log.when_committed(end, lambda: reported.append(7))
    one.vote(quorum[2], 9, 1, 100)
    assert one.events[-1] == "resigned"
    one.log.commit(end)
    assert reported == []


def test_a_follower_truncates_what_the_leader_does_not_have():
    quorum = Quorum()
    one = quorum.elect(1)
    quorum.deliver()
    quorum.lost.add(1)
    one.append(7)
    one.append(8)
    quorum.elect(2).append(9)
    quorum.lost.clear()
    quorum.deliver()
    quorum.advance(3_000)
    assert one.raft.leadership.leader_id == 2
    assert [each.log.end_offset for each in quorum.nodes.values()] == [quorum[2].log.end_offset] * 3
    assert one.delivered == quorum[3].delivered == [9]


def test_a_replica_behind_the_log_start_gets_a_snapshot():
    quorum = Quorum()
    one = quorum.elect(1)
    quorum.deliver()
    for value in range(20):
        one.append(value)
    quorum.deliver()
    one.log.write_snapshot([(0, 19)], Codec())
    answer = one.fetch(quorum[2], 0, last_epoch=0)
    assert answer.snapshot == one.log.newest_snapshot()
    late = quorum.add(4)
    quorum.advance(1_000)
    assert late.delivered == [19]
    assert late.log.end_offset == one.log.end_offset


def test_fetches_are_refused_with_kafkas_errors():
    quorum = Quorum()
    one = quorum.elect(1)
    refused(Error.FENCED_LEADER_EPOCH, lambda: one.fetch(quorum[2], 0, epoch=0))
    refused(Error.UNKNOWN_LEADER_EPOCH, lambda: one.fetch(quorum[2], 0, epoch=2))
    refused(Error.NOT_LEADER_OR_FOLLOWER, lambda: quorum[2].fetch(quorum[3], 0))


def test_lags_are_described():
    quorum = Quorum()
    one = quorum.elect(1)
    quorum.deliver()
    quorum.clock.advance(100)
    before = one.now
    one.fetch(quorum[2], one.log.end_offset)
    quorum.clock.advance(100)
    described = {each.key.id: each for each in one.raft.describe(one.now).voters}
    assert (described[1].last_fetch_ms, described[1].last_caught_up_ms) == (one.now, one.now)
    assert (described[2].last_fetch_ms, described[2].last_caught_up_ms) == (before, before)
    refused(Error.NOT_LEADER_OR_FOLLOWER, lambda: quorum[2].raft.describe(one.now))


# Voters


def add(quorum, leader, node):
    request = AddVoter(voter=node.key, endpoints=node.voter.endpoints)
    return leader.raft.add_voter(request, leader.now)


def test_a_voter_is_added_and_votes_from_the_append_on():
    quorum = Quorum(dynamic=True)
    one = quorum.elect(1)
    four = quorum.add(4)
    quorum.advance(1_000)
    done = add(quorum, one, four)
    quorum.deliver()
    assert done.done and done.result() is None
    assert [node.raft.voters.ids for node in quorum.nodes.values()] == [(1, 2, 3, 4)] * 4
    assert four.raft.is_voter
    assert refused(Error.DUPLICATE_VOTER, lambda: add(quorum, one, four)).startswith("The voter id")


def test_a_new_voter_needs_an_endpoint_of_the_controllers_listener():
    quorum = Quorum(dynamic=True)
    one = quorum.elect(1)
    quorum.advance(1_000)
    new = AddVoter(voter=ReplicaKey(4, b"4" * 16), endpoints=(("SECURE", "host", 4),))
    message = refused(Error.INVALID_REQUEST, lambda: one.raft.add_voter(new, one.now))
    assert message == (
        "Add voter request didn't include the endpoint (Endpoints(endpoints={ListenerName(SECURE)="
        f"host/<unresolved>:4}})) for the default listener ListenerName({LISTENER})"
    )


def test_voters_change_one_at_a_time():
    quorum = Quorum(dynamic=True)
    one = quorum.elect(1)
    four = quorum.add(4)
    quorum.advance(1_000)
    add(quorum, one, four)
    remove = RemoveVoter(voter=quorum[2].key)
    message = refused(Error.REQUEST_TIMED_OUT, lambda: one.raft.remove_voter(remove, one.now))
    assert "previous voter change" in message
    quorum.deliver()
    quorum.lost |= {2, 3, 4}
    done = one.raft.remove_voter(remove, one.now)
    quorum.clock.advance(2_100)
    message = refused(Error.REQUEST_TIMED_OUT, lambda: one.raft.remove_voter(remove, one.now))
    assert "to commit the latest voter change" in message
    with pytest.raises(KafkaError, match=r"The request timed out\."):
        done.result()


def test_a_voter_change_fails_when_its_leader_resigns():
    quorum = Quorum(dynamic=True)
    one = quorum.elect(1)
    quorum.advance(1_000)
    quorum.lost |= {2, 3}
    done = one.raft.remove_voter(RemoveVoter(voter=quorum[2].key), one.now)
    one.raft.resign(one.now)
    with pytest.raises(KafkaError, match="intended only for the leader") as caught:
        done.result()
    assert caught.value.error is Error.NOT_LEADER_OR_FOLLOWER


def test_a_removed_leader_commits_its_removal_and_resigns():
    quorum = Quorum(dynamic=True)
    one = quorum.elect(1)
    quorum.advance(1_000)
    done = one.raft.remove_voter(RemoveVoter(voter=one.key), one.now)
    quorum.deliver()
    assert done.done and done.result() is None
    assert one.events[-1] == "resigned"
    quorum.advance(6_000)
    leaders = {node.raft.leadership.leader_id for node in quorum.nodes.values()}
    assert len(leaders) == 1 and leaders < {2, 3}
    assert one.raft.role == "observer"


def test_a_removed_leader_leads_again_if_only_it_has_the_removal():
    """The other voter needs its vote, but has a shorter log and gets none."""
    quorum = Quorum(2, dynamic=True)
    one = quorum.elect(1)
    quorum.advance(1_000)
    quorum.lost.add(2)
    one.raft.remove_voter(RemoveVoter(voter=one.key), one.now)
    one.log.sync()
    one.restart()
    assert one.raft.voters.ids == (2,)
    quorum.lost.clear()
    quorum.advance(20_000)
    assert [node.raft.voters.ids for node in quorum.nodes.values()] == [(2,)] * 2
    assert quorum[2].raft.is_leader
    assert one.raft.role == "observer"


def test_a_voter_that_was_removed_starts_no_election():
    quorum = Quorum(dynamic=True)
    one = quorum.elect(1)
    quorum.advance(1_000)
    one.raft.remove_voter(RemoveVoter(voter=one.key), one.now)
    quorum.deliver()
    quorum.advance(6_000)
    epoch = one.log.epoch
    quorum.lost |= {2, 3}
    quorum.advance(20_000)
    assert one.raft.role == "observer"
    assert one.log.epoch == epoch


@pytest.mark.long
def test_a_removed_leader_that_restarts_ends_no_epoch_of_its_successor():
    """It does not know at once that its removal is committed, so it asks for pre-votes."""
    quorum = Quorum(dynamic=True)
    one = quorum.elect(1)
    quorum.advance(1_000)
    one.raft.remove_voter(RemoveVoter(voter=one.key), one.now)
    quorum.deliver()
    assert one.events[-1] == "resigned"
    quorum.lost.add(1)
    one.restart(Outcome.ALL_KEPT)
    quorum.advance(6_000)
    asked = []
    for _ in range(200):
        one.raft.tick(one.now)
        asked += requests(one, Vote)
        quorum.advance(50)
    assert {request.pre_vote for request in asked} == {True}
    quorum.lost.clear()
    epoch = quorum[2].log.epoch
    quorum.advance(10_000)
    assert one.raft.role == "observer"
    assert {node.log.epoch for node in quorum.nodes.values()} == {epoch}
    assert {node.raft.leadership.leader_id for node in quorum.nodes.values()} < {2, 3}


def test_a_voter_change_that_is_truncated_is_undone():
    quorum = Quorum(dynamic=True)
    one = quorum.elect(1)
    quorum.advance(1_000)
    quorum.lost.add(1)
    one.raft.remove_voter(RemoveVoter(voter=quorum[3].key), one.now)
    assert one.raft.voters.ids == (1, 2)
    quorum.elect(2)
    quorum.lost.clear()
    quorum.advance(5_000)
    assert one.raft.voters.ids == (1, 2, 3)


def test_a_static_quorum_has_no_voter_changes():
    quorum = Quorum()
    one = quorum.elect(1)
    quorum.advance(1_000)
    message = refused(
        Error.UNSUPPORTED_VERSION,
        lambda: one.raft.remove_voter(RemoveVoter(voter=quorum[2].key), one.now),
    )
    assert (
        message == "Cluster doesn't support removing voter because the kraft.version feature is 0"
    )


def test_unknown_voters_and_the_last_one_are_not_removed():
    quorum = Quorum(1, dynamic=True)
    one = quorum[1]
    assert one.raft.is_leader
    other = RemoveVoter(voter=ReplicaKey(1, b"x" * 16))
    refused(Error.VOTER_NOT_FOUND, lambda: one.raft.remove_voter(other, one.now))
    last = RemoveVoter(voter=one.key)
    refused(Error.INVALID_REQUEST, lambda: one.raft.remove_voter(last, one.now))


def test_new_endpoints_of_a_voter_are_written():
    quorum = Quorum(dynamic=True)
    one = quorum.elect(1)
    quorum.advance(1_000)
    moved = ((LISTENER, "elsewhere", 2),)
    one.raft.update_voter(
        UpdateVoter(voter=quorum[2].key, leader_epoch=one.log.epoch, endpoints=moved), one.now
    )
    quorum.deliver()
    assert quorum[3].raft.voters.get(2).endpoints == moved


def test_a_static_quorum_becomes_dynamic_once_all_directories_are_known():
    quorum = Quorum()
    one = quorum.elect(1)
    message = refused(Error.INVALID_UPDATE_VERSION, lambda: one.raft.keep_voters(one.now))
    assert "[2, 3]" in message
    # Followers report their directories after one fetch timeout.
    quorum.advance(2_500)
    one.raft.keep_voters(one.now)
    quorum.deliver()
    for node in quorum.nodes.values():
        assert node.log.is_dynamic
        assert [voter.key for voter in node.raft.voters] == [quorum[id].key for id in (1, 2, 3)]


def test_a_voter_that_is_alone_leads_at_once():
    quorum = Quorum(1)
    one = quorum[1]
    assert one.events == [("leads", 1)]
    end = one.append(5)
    assert one.log.committed_offset == end
    quorum.clock.advance(1)
    assert one.restart().events[-1] == ("leads", 2)
    assert one.delivered == []
    quorum.clock.advance(1)
    assert one.delivered == [5]
