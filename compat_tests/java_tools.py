"""Runs the main classes of Kafka's own command-line tools."""

import subprocess
from collections.abc import Sequence
from functools import partial
from pathlib import Path

from compat_tests.java_programs import program_classes
from tests import kafka_jars
from wirekafka import Broker

SCRIPTS = {
    "kafka-acls": "org.apache.kafka.tools.AclCommand",
    "kafka-broker-api-versions": "org.apache.kafka.tools.BrokerApiVersionsCommand",
    "kafka-client-metrics": "org.apache.kafka.tools.ClientMetricsCommand",
    "kafka-cluster": "org.apache.kafka.tools.ClusterTool",
    "kafka-configs": "org.apache.kafka.tools.ConfigCommand",
    "kafka-console-consumer": "org.apache.kafka.tools.consumer.ConsoleConsumer",
    "kafka-console-producer": "org.apache.kafka.tools.ConsoleProducer",
    "kafka-consumer-groups": "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand",
    "kafka-consumer-perf-test": "org.apache.kafka.tools.ConsumerPerformance",
    "kafka-delegation-tokens": "org.apache.kafka.tools.DelegationTokenCommand",
    "kafka-delete-records": "org.apache.kafka.tools.DeleteRecordsCommand",
    "kafka-dump-log": "org.apache.kafka.tools.DumpLogSegments",
    "kafka-e2e-latency": "org.apache.kafka.tools.EndToEndLatency",
    "kafka-features": "org.apache.kafka.tools.FeatureCommand",
    "kafka-get-offsets": "org.apache.kafka.tools.GetOffsetShell",
    "kafka-groups": "org.apache.kafka.tools.GroupsCommand",
    "kafka-leader-election": "org.apache.kafka.tools.LeaderElectionCommand",
    "kafka-log-dirs": "org.apache.kafka.tools.LogDirsCommand",
    "kafka-metadata-quorum": "org.apache.kafka.tools.MetadataQuorumCommand",
    "kafka-producer-perf-test": "org.apache.kafka.tools.ProducerPerformance",
    "kafka-reassign-partitions": "org.apache.kafka.tools.reassign.ReassignPartitionsCommand",
    "kafka-share-groups": "org.apache.kafka.tools.consumer.group.ShareGroupCommand",
    "kafka-streams-groups": "org.apache.kafka.tools.streams.StreamsGroupCommand",
    "kafka-topics": "org.apache.kafka.tools.TopicCommand",
    "kafka-transactions": "org.apache.kafka.tools.TransactionsCommand",
    "kafka-verifiable-consumer": "org.apache.kafka.tools.VerifiableConsumer",
    "kafka-verifiable-producer": "org.apache.kafka.tools.VerifiableProducer",
}

_PRODUCERS = {
    f"kafka-{kafka_jars.KAFKA_VERSION}": ("kafka-console-producer", "--bootstrap-server"),
    f"kafka-{kafka_jars.OLD_KAFKA_VERSION}": ("kafka.tools.ConsoleProducer", "--broker-list"),
}
"""Jars that start often: the tool by which their classes are archived, and its option."""

QUICK = ("-Xmx256m", *kafka_jars.QUICK_JVM)

LOG4J2 = """<Configuration><Appenders><Console name="E" target="SYSTEM_ERR">
<PatternLayout pattern="%p %m (%c)%n"/></Console></Appenders>
<Loggers><Root level="WARN"><AppenderRef ref="E"/></Root></Loggers></Configuration>
"""

LOG4J1 = """log4j.rootLogger=WARN, stderr
log4j.appender.stderr=org.apache.log4j.ConsoleAppender
log4j.appender.stderr.target=System.err
log4j.appender.stderr.layout=org.apache.log4j.PatternLayout
log4j.appender.stderr.layout.ConversionPattern=%p %m (%c)%n
"""


class ToolFailed(AssertionError):
    """A tool ended with an error; the text is its output."""


class JavaTools:
    """The command-line tools of one Kafka release."""

    def __init__(self, jars: Path, scratch: Path):
        self._class_path = kafka_jars.class_path(jars)
        self._archive: tuple[str, ...] = ()
        (scratch / "log4j2.xml").write_text(LOG4J2)
        (scratch / "log4j.properties").write_text(LOG4J1)
        self._logging = (
            f"-Dlog4j2.configurationFile={scratch}/log4j2.xml",
            f"-Dlog4j.configuration=file:{scratch}/log4j.properties",
        )
        producer = _PRODUCERS.get(jars.name)
        if producer is not None:
            run_once = partial(self._run_once, *producer)
            self._archive = kafka_jars.class_archive(jars, run_once)

    def command(self, tool: str, *arguments: str, jvm: Sequence[str] = QUICK) -> list[str]:
        """The argument list that starts a tool: its script's name, main class or source file."""
        main, class_path = SCRIPTS.get(tool, tool), self._class_path
        if main.endswith(".java"):
            main, class_path = Path(main).stem, f"{class_path}:{program_classes()}"
        java = kafka_jars.java()
        options = (*jvm, *self._archive, *self._logging)
        return [java, *options, "-cp", class_path, main, *arguments]

    def run(
        self,
        tool: str,
        *arguments: str,
        stdin: str = "",
        timeout_s: float = 120,
        jvm: Sequence[str] = QUICK,
    ) -> str:
        """The standard output; raises ToolFailed when the exit status is not 0."""
        done = self.finish(tool, *arguments, stdin=stdin, timeout_s=timeout_s, jvm=jvm)
        if done.returncode != 0:
            raise ToolFailed(f"{tool} exited with {done.returncode}\n{done.stdout}{done.stderr}")
        return done.stdout

    def finish(
        self,
        tool: str,
        *arguments: str,
        stdin: str = "",
        timeout_s: float = 120,
        jvm: Sequence[str] = QUICK,
    ) -> "subprocess.CompletedProcess[str]":
        """Run a tool to its end, and return its output and exit status."""
        command = self.command(tool, *arguments, jvm=jvm)
        return subprocess.run(
            command, input=stdin, capture_output=True, text=True, timeout=timeout_s, check=False
        )

    def _run_once(self, tool: str, server_option: str, jvm_option: str) -> None:
        """Produce a record with a JVM option."""
        with Broker(topics=["t"]) as broker:
            arguments = (server_option, broker.bootstrap_servers, "--topic", "t")
            command = self.command(tool, *arguments, jvm=(*QUICK, jvm_option))
            subprocess.run(command, input="one\n", capture_output=True, text=True, check=True)

    def start(self, tool: str, *arguments: str) -> "subprocess.Popen[str]":
        """A running tool whose standard output can be read line by line."""
        return subprocess.Popen(
            self.command(tool, *arguments),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
