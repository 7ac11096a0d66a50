"""Java clients against a broker of the test's own, under faults."""

from compat_tests.java_tools import JavaTools
from wirekafka import Broker


def test_a_lost_answer_does_not_make_java_write_twice(java_tools: JavaTools) -> None:
    with Broker(topics=["orders"]) as broker:
        bootstrap = ("--bootstrap-server", broker.bootstrap_servers)
        with (broker.drop("Produce", applied=True, times=1, required=True),
              broker.fail("InitProducerId", "COORDINATOR_LOAD_IN_PROGRESS", times=1)):
            java_tools.run("kafka-console-producer", *bootstrap, "--topic", "orders",
                           stdin="one\ntwo\n")
        assert [record.value for record in broker.records("orders")] == [b"one", b"two"]
        with (broker.fail("Fetch", "NOT_LEADER_OR_FOLLOWER", topic="orders", times=2,
                          required=True),
              broker.fail("JoinGroup", "UNKNOWN_MEMBER_ID", times=1, required=True)):
            read = java_tools.run(
                "kafka-console-consumer", *bootstrap, "--topic", "orders", "--group", "billing",
                "--from-beginning", "--max-messages", "2")
        assert read.split() == ["one", "two"]
        broker.wait_for(lambda: broker.committed("billing") == {("orders", 0): 2})
