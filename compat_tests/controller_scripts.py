"""Scripts for controllers: lives of brokers and partitions, and requests of administrators."""

from __future__ import annotations

from collections.abc import Callable

from compat_tests.controller_stage import BROKER, PREFERRED, TOPIC, UNCLEAN, Stage
from wirekafka.metadata.controller.features import SUPPORTED

SETTINGS = {"broker_session_timeout_ms": "60000", "auto_leader_rebalance_enable": "false"}
"""No session expires during these scripts."""


def registrations(stage: Stage) -> None:
    """Brokers register, again and again."""
    stage.register(1, "for the first time")
    stage.register(1, "again, the same incarnation", again=True)
    stage.register(1, "another incarnation without a heartbeat since")
    stage.beat(1, "behind", offset=0)
    stage.register(1, "after a heartbeat while fenced")
    stage.beat(1, "wants to be fenced", want_fence=True)
    stage.beat(1, "unfenced")
    stage.register(1, "the same incarnation while unfenced", again=True, rack="r")
    stage.register(1, "another incarnation while unfenced")
    stage.beat(1, "an old epoch", broker_epoch=0)
    stage.beat(1, "fenced", want_fence=True)
    stage.register(1, "another incarnation after it was fenced")
    stage.brokers[1].starts -= 1
    stage.leave(1)
    stage.register(1, "after a controlled shutdown")
    stage.register(7, "wrong cluster", cluster_id="another")
    stage.register(7, "no directories", log_dirs=[])
    stage.register(7, "one directory twice", log_dirs=[b"x" * 16] * 2)
    stage.register(7, "a reserved directory", log_dirs=[bytes(15) + b"\x02"])
    stage.register(7, "a directory of another broker", log_dirs=[bytes([1]) * 16])
    stage.register(7, "no features", features={})
    stage.register(7, "no listeners", listeners=[])
    stage.register(7, "a low metadata version", features=SUPPORTED | {"metadata.version": (7, 20)})
    stage.register(
        7,
        "without one feature",
        features={name: levels for name, levels in SUPPORTED.items() if name != "group.version"},
    )
    stage.register(7, "an unknown feature", features=SUPPORTED | {"unknown": (0, 3)})
    stage.register(7, "an older version", version=1)


def sessions(stage: Stage) -> None:
    """Controlled shutdowns and returns, with and without partitions."""
    for id in (1, 2, 3):
        stage.join(id)
    stage.create("a", [[1, 2, 3]])
    stage.create("alone", [[1]])
    stage.beat(1, "wants to leave", want_shut_down=True)
    stage.place("while-one-leaves", 6, 1)
    stage.create("manually-while-one-leaves", [[1, 2]])
    stage.create("alone-on-one-that-leaves", [[1]])
    stage.alter_isr(2, "a", [2, 3, 1], "with one that leaves")
    stage.beat(1, "wants to leave still", want_shut_down=True)
    stage.beat(1, "has changed its mind")
    stage.beat(2)
    stage.beat(3)
    stage.beat(1, "may leave", want_shut_down=True)
    stage.beat(1, "once more", want_shut_down=True)
    stage.register(1, "at once after a controlled shutdown")
    stage.fence(2)
    stage.register(2, "another incarnation of one that is fenced")
    stage.beat(2, "unfenced again")
    stage.beat(3, "to be fenced and to leave", want_fence=True, want_shut_down=True)
    stage.beat(2, "the last one leaves", want_shut_down=True)
    stage.beat(2, "the last one leaves, again", want_shut_down=True)


def topics(stage: Stage) -> None:
    """Topics are created, enlarged and deleted, with every kind of error."""
    stage.create("none", factor=1, partitions=1, label="without brokers")
    for id in (1, 2, 3):
        stage.join(id, rack="ab"[id % 2])
    stage.register(4, "fenced")
    stage.create("all", [[1, 2, 3], [2, 3, 1], [3, 1, 2]])
    stage.create("with-fenced", [[4, 1], [1, 4]])
    stage.create("fenced-alone", [[4]])
    stage.create("empty", [[]])
    stage.create("twice", [[1, 1]])
    stage.create("unknown", [[1, 99]])
    stage.create("unlike", [[1, 2], [1]])
    stage.create("gap", assignments=[(0, [1]), (2, [1])])
    stage.create("double", assignments=[(0, [1]), (0, [1])])
    stage.create("both", [[1]], factor=1)
    stage.create("counted", [[1]], partitions=1)
    stage.create("zero-factor", factor=0, partitions=1)
    stage.create("zero-partitions", factor=1, partitions=0)
    stage.create("too-many", factor=5, partitions=1)
    stage.create("excessive", factor=1, partitions=10_001)
    stage.create("bad-config", [[1]], configs={"retention.ms": "x"})
    stage.create("dry", [[1]], validate_only=True)
    stage.create("all", [[1]], "again")
    stage.create("a.b", [[1]])
    stage.create("a_b", [[1]])
    stage.create("configured", [[1, 2]], configs={"min.insync.replicas": "2", "retention.ms": "5"})
    stage.grow("all", 4, [[1, 2, 3]])
    stage.grow("all", 4, label="to what it is")
    stage.grow("all", 2, label="less")
    stage.grow("all", 6, [[1, 2, 3]], label="too few assignments")
    stage.grow("all", 5, [[1, 2]], label="another factor")
    stage.grow("all", 5, [[1, 2, 99]], label="unknown broker")
    stage.grow("fenced", 5, label="unknown topic")
    stage.grow("with-fenced", 3, [[4, 1]], label="a fenced broker first")
    stage.grow("configured", 20_000, label="excessive")
    stage.fence(1)
    stage.fence(2)
    stage.fence(3)
    stage.create("all-fenced", factor=1, partitions=1)
    stage.create("too-many-and-fenced", factor=9, partitions=1)
    stage.grow("configured", 2, label="all fenced")
    stage.grow("configured", 2, [[1, 2]], label="manually, all fenced")
    stage.delete("all", "unknown", "all")
    stage.delete("configured")


def racks(stage: Stage) -> None:
    """Replicas are placed over racks, of equal and of different sizes, and on fenced brokers."""
    for id in range(1, 7):
        stage.join(id, rack="abc"[id % 3])
    stage.place("two-of-six", 24, 2)
    stage.place("three-of-six", 24, 3)
    stage.place("four-of-six", 24, 4)
    stage.place("all", 24, 6)
    stage.fence(1)
    stage.fence(4)
    stage.place("without-a-rack", 40, 2, is_even=False)
    stage.place("with-fenced-brokers", 40, 3, is_even=False)
    stage.join(7, rack="d")
    stage.place("a-small-rack", 40, 3, is_even=False)
    stage.join(8)
    stage.place("one-without-a-rack", 60, 2, is_even=False)


def isrs(stage: Stage) -> None:
    """Leaders propose ISRs; brokers are fenced and return; eligible leaders come and go."""
    for id in (1, 2, 3):
        stage.join(id)
    stage.create("two", [[1, 2, 3]], configs={"min.insync.replicas": "2"})
    stage.create("one", [[1, 2, 3]])
    stage.create("single", [[1]])
    stage.create("unclean", [[1, 2]], configs={"unclean.leader.election.enable": "true"})
    stage.alter_isr(1, "two", [1, 2])
    stage.alter_isr(1, "two", [1, 2, 3])
    stage.alter_isr(1, "two", [1, 2, 3], "again")
    stage.alter_isr(1, "two", [1])
    stage.alter_isr(1, "two", [1, 3])
    stage.alter_isr(1, "two", [2, 3], "without the leader")
    stage.alter_isr(1, "two", [], "empty")
    stage.alter_isr(1, "two", [1, 9], "not a replica")
    stage.alter_isr(1, "two", [1, 1], "twice")
    stage.alter_isr(2, "two", [1, 2], "not the leader")
    stage.alter_isr(1, "two", [1, 2], "old partition epoch", partition_epoch=0)
    stage.alter_isr(1, "two", [1, 2], "new partition epoch", partition_epoch=99)
    stage.alter_isr(1, "two", [1, 2], "new leader epoch", leader_epoch=99)
    stage.alter_isr(1, "two", [1, 2], "recovering", leader_recovery_state=1)
    stage.alter_isr(1, "two", [1], "recovering alone", leader_recovery_state=1)
    stage.alter_isr(1, "unclean", [1])
    stage.fence(3)
    stage.alter_isr(1, "two", [1, 3], "with a fenced one")
    stage.fence(1)
    stage.fence(2)
    stage.beat(3, "returns")
    stage.beat(2, "returns")
    stage.beat(1, "returns")
    for name in ("two", "one", "single", "unclean"):
        leader = stage.partition(name).leader
        if leader > 0:
            stage.alter_isr(leader, name, [leader], "recovered")
    for kind in (PREFERRED, UNCLEAN):
        stage.elect(kind, ("two", 0), ("one", 0), ("no", 0), ("two", 7), ("unclean", 0))
        stage.elect(kind)
    stage.elect(7, ("two", 0))


def unclean_returns(stage: Stage) -> None:
    """Brokers return after clean and unclean stops (KIP-966)."""
    for id in (1, 2, 3):
        stage.join(id)
    stage.create("two", [[1, 2, 3]], configs={"min.insync.replicas": "2"})
    stage.create("three", [[1, 2, 3]], configs={"min.insync.replicas": "3"})
    stage.create("single", [[1]])
    stage.create("pair", [[1, 2]], configs={"min.insync.replicas": "2"})
    stage.fence(3)
    stage.fence(2)
    stage.fence(1)


def moves(stage: Stage) -> None:
    """Partitions are reassigned, to completion and back."""
    for id in (1, 2, 3, 4):
        stage.join(id)
    stage.create("m", [[1, 2, 3], [1, 2, 3]])
    stage.create("n", [[1, 2]])
    stage.move("m", {0: [1, 2, 3]}, "to itself")
    stage.move("m", {0: [3, 2, 1]}, "another order")
    stage.move("m", {0: [1, 2, 4]})
    stage.moving()
    stage.move("m", {0: None}, "called off")
    stage.move("m", {0: None}, "called off again")
    stage.move("m", {0: [1, 2, 4]}, "once more")
    stage.move("m", {0: [2, 4]}, "another target")
    stage.moving()
    stage.alter_isr(1, "m", [1, 2, 3, 4], "completes")
    stage.moving()
    stage.move("m", {1: [4], 0: [1]}, "both")
    stage.move("m", {1: [], 0: [1, 1], 5: [1], 2: None})
    stage.move("m", {1: [99]})
    stage.move("zz", {1: [1]})
    stage.create("o", [[1, 2]])
    stage.move("o", {0: [1, 2, 3]}, "adds a replica")
    stage.move("o", {0: [1, 2]}, "which is then to be removed as well as added")
    stage.moving()
    stage.alter_isr(1, "o", [1, 2, 3], "is in sync, and does not complete it")
    stage.moving()
    stage.delete("o")
    stage.move("n", {0: [2]}, "fewer")
    stage.move("n", {0: [2, 3]}, "more")
    stage.move("n", {0: [3, 4]}, "while moving")
    stage.move("n", {0: [2]}, "back by a target")
    stage.move("n", {0: [1, 2, 3]}, "factor changes", allow_replication_factor_change=False)
    stage.move("n", {0: [1]}, "factor stays", allow_replication_factor_change=False)
    stage.move("n", {0: None}, "called off")
    stage.move("n", {0: [2, 3]}, "one more")
    stage.move("n", {0: [3]}, "factor stays 2", allow_replication_factor_change=False)
    stage.move("n", {0: [1, 4]}, "with the same factor", allow_replication_factor_change=False)
    stage.fence(2)
    stage.move("n", {0: [1, 2]}, "to a fenced broker")
    stage.fence(1)
    stage.move("n", {0: [3, 4]}, "with none in sync")
    stage.move("n", {0: None}, "called off, with none in sync")
    stage.delete("m", "n")


def directories(stage: Stage) -> None:
    """Brokers of several log directories: placed, failed, cordoned."""
    two = [b"1" * 16, b"2" * 16]
    stage.register(1, "two directories", log_dirs=two)
    stage.beat(1)
    stage.join(2)
    stage.join(3)
    stage.create("d", [[1, 2], [2, 1]])
    for index, directory in ((0, two[0]), (1, two[1])):
        stage.assign(1, "d", index, directory)
    stage.assign(1, "d", 7, two[0])
    stage.assign(3, "d", 0, two[0], "of another broker")
    stage.assign(1, "d", 0, b"?" * 16, "an unknown directory")
    stage.assign(1, "d", 0, two[0], "back")
    stage.elect(PREFERRED)
    stage.beat(1, "one failed", offline_log_dirs=[two[0]])
    stage.beat(1, "one failed, again", offline_log_dirs=[two[0]])
    stage.create("on-the-failed-one", [[1]])
    stage.assign(1, "d", 1, two[0], "into a failed directory")
    stage.beat(2, "cordoned", cordoned_log_dirs=[bytes([2]) * 16])
    stage.beat(2, "cordoned again", cordoned_log_dirs=[bytes([2]) * 16])
    stage.create("too-many-for-the-cordoned", factor=3, partitions=1)
    stage.create("manually-on-the-cordoned", [[2, 3]])
    stage.create("unknown-and-cordoned", [[2, 99]])
    stage.grow("d", 3, [[2, 3]], label="on the cordoned")
    stage.move("d", {0: [2, 3]}, "stays on the cordoned")
    stage.move("d", {0: [3, 2]}, "as it is")
    stage.move("d", {0: [3]}, "off the cordoned")
    stage.beat(3, "cordoned", cordoned_log_dirs=[bytes([3]) * 16])
    stage.beat(1, "cordoned", cordoned_log_dirs=two)
    stage.create("all-cordoned", factor=1, partitions=1)
    stage.grow("d", 5, label="all cordoned")
    stage.beat(3, "not reported", cordoned_log_dirs=None)
    stage.beat(3, "cordoned no more", cordoned_log_dirs=[])
    stage.place("on-the-only-one", 3, 1)


def features(stage: Stage) -> None:
    """Features that brokers and controllers have to support."""
    stage.join(1)
    old = SUPPORTED | {
        "share.version": (0, 1),
        "group.version": (1, 1),
        "metadata.version": (7, 33),
    }
    stage.update({"share.version": 1}, type=2)
    stage.register(2, "an older one", features=old)
    stage.update({"share.version": 2})
    stage.update({"share.version": 2}, dry_run=True)
    stage.update({"group.version": 0}, type=2)
    stage.update({"streams.version": 0}, type=2, dry_run=True)
    stage.update({"streams.version": 0}, type=2)
    stage.update({"streams.version": 1}, type=2)
    stage.update({"streams.version": 1})
    stage.update({"streams.version": 1})
    stage.update({"streams.version": 1}, type=2)
    stage.update({"streams.version": -1})
    stage.update({"streams.version": 7})
    stage.update({"streams.version": 0})
    stage.update({"streams.version": 0}, type=0)
    stage.update({"unknown": 1})
    stage.update({"unknown": 0}, type=2)
    stage.update({"metadata.version": 32}, type=2)
    stage.update({"metadata.version": 32}, type=3)
    stage.update({"metadata.version": 31}, type=3)
    stage.update({"metadata.version": 3}, type=3)
    stage.update({"metadata.version": 99})
    stage.update({"metadata.version": 33})
    stage.update({"transaction.version": 1, "share.version": 9}, type=2)
    stage.update({"eligible.leader.replicas.version": 0}, type=2)
    stage.create("no-elr", [[1]])
    stage.fence(1)
    stage.beat(1)
    stage.update({"eligible.leader.replicas.version": 1})
    stage.register_controller(3001, {"metadata.version": (7, 33)}, "another")
    stage.update({"streams.version": 0}, type=2)
    stage.update({"transaction.version": 1}, type=2)
    stage.register_controller(3001, SUPPORTED | {"transaction.version": (2, 2)}, "again")
    stage.update({"transaction.version": 1}, type=2)
    stage.unregister_controller(3001)
    stage.unregister_controller(3001)
    stage.unregister_controller(3000)
    stage.update({"transaction.version": 1}, type=2)
    stage.unregister(2)
    stage.unregister(2)
    stage.update({"share.version": 2})


def settings(stage: Stage) -> None:
    """Configs of topics and brokers, and what they change for partitions."""
    for id in (1, 2, 3):
        stage.join(id)
    stage.create("two", [[1, 2, 3]], configs={"min.insync.replicas": "2"})
    stage.create("one", [[1, 2, 3]])
    stage.configure(TOPIC, "two", {"retention.ms": "5", "cleanup.policy": "compact"})
    stage.configure(TOPIC, "two", {"retention.ms": None})
    stage.configure(TOPIC, "two", {"retention.ms": "x"})
    stage.configure(TOPIC, "two", {"unknown": "x"})
    stage.configure(TOPIC, "no", {"retention.ms": "5"})
    stage.configure(TOPIC, "", {"retention.ms": "5"})
    stage.configure(BROKER, "1", {"log.cleaner.threads": "2"})
    stage.configure(BROKER, "99", {"log.cleaner.threads": "2"}, "not registered")
    stage.configure(BROKER, "1", {"min.insync.replicas": "2"})
    stage.configure(BROKER, "", {"min.insync.replicas": None})
    stage.configure(TOPIC, "two", {"min.insync.replicas": "3"})
    stage.configure(BROKER, "", {"min.insync.replicas": "2"}, "of all")
    stage.configure(BROKER, "", {"unclean.leader.election.enable": "true"}, "of all")
    stage.fence(2)
    stage.fence(1)
    stage.configure(BROKER, "", {"unclean.leader.election.enable": None}, "of all")
    # Kafka 4.4.0 fails later if this clears eligible leaders of topics that are then deleted.
    stage.delete("two", "one")
    stage.configure(BROKER, "", {"min.insync.replicas": "1"}, "as before")


def departures(stage: Stage) -> None:
    """Brokers are unregistered; producer ids are allocated."""
    for id in (1, 2, 3):
        stage.join(id)
    stage.create("two", [[1, 2, 3]], configs={"min.insync.replicas": "2"})
    stage.create("single", [[2]])
    stage.create("unclean", [[2, 1]], configs={"unclean.leader.election.enable": "true"})
    stage.alter_isr(2, "unclean", [2])
    stage.producer_ids(1)
    stage.producer_ids(2)
    stage.producer_ids(1, broker_epoch=0)
    stage.unregister(2)
    stage.producer_ids(2)
    stage.beat(2, "after it was unregistered")
    stage.alter_isr(2, "two", [1], "after it was unregistered")
    stage.unregister(9)
    stage.fence(3)
    stage.unregister(3)
    stage.fence(1)
    stage.unregister(1)


TIMED_SETTINGS = {
    "broker_session_timeout_ms": "5000",
    "leader_imbalance_check_interval_seconds": "1",
    "unclean_leader_election_interval_ms": "1000",
}
"""With these, much happens without a request."""


def timed(stage: Stage) -> None:
    """Sessions expire, leaderships return, unclean elections are held, without any request."""
    for id in (1, 2, 3):
        stage.join(id)
    stage.create("balanced", [[1, 2]])
    stage.create("lost", [[3, 2]])
    stage.create("single", [[3]])
    stage.alter_isr(3, "lost", [3])
    stage.until(lambda: stage.image.brokers[3].fenced, 1, 2)
    stage.note("the session of 3 has expired")
    stage.register(3, "at once after its session")
    stage.until(lambda: "min.insync.replicas" in stage.image.config(BROKER, ""), 1, 2)
    stage.configure(TOPIC, "lost", {"unclean.leader.election.enable": "true"})
    stage.until(lambda: stage.partition("lost").leader == 2, 1, 2)
    stage.note("2 was elected uncleanly")
    stage.fence(1)
    stage.beat(1, "returns")
    stage.alter_isr(2, "balanced", [2, 1])
    stage.until(lambda: stage.partition("balanced").leader == 1, 1, 2)
    stage.note("1 leads again")


SCRIPTS: dict[str, Callable[[Stage], None]] = {
    each.__name__: each
    for each in (
        registrations,
        sessions,
        topics,
        racks,
        isrs,
        unclean_returns,
        moves,
        directories,
        features,
        settings,
        departures,
    )
}
