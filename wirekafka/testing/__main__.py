"""`python -m wirekafka.testing`: a broker or cluster with a control port, for other languages."""

from __future__ import annotations

import argparse
import signal
import sys
import threading

from wirekafka.server.stop_signals import stop_signals
from wirekafka.testing.broker import Broker
from wirekafka.testing.cluster.cluster import Cluster


def main() -> int:
    """Serve until SIGTERM, SIGHUP or Ctrl-C; returns the exit status."""
    parser = argparse.ArgumentParser(prog="python -m wirekafka.testing", description=__doc__)
    parser.add_argument("--host", default="127.0.0.1", help="address to listen on")
    parser.add_argument(
        "--port", type=int, default=0, help="port for Kafka clients; 0 takes a free one"
    )
    parser.add_argument(
        "--control-port", type=int, default=0, help="port for HTTP control; 0 takes a free one"
    )
    parser.add_argument(
        "--brokers", type=int, default=0, help="start a cluster with so many brokers"
    )
    parser.add_argument(
        "--controllers", type=int, default=1, help="how many controllers the cluster has"
    )
    parser.add_argument("--topic", action="append", default=[], metavar="NAME[:PARTITIONS]")
    parser.add_argument(
        "--set",
        action="append",
        default=[],
        metavar="KEY=VALUE",
        help="set a Kafka option; may be repeated",
    )
    parser.add_argument(
        "--schema-registry", action="store_true", help="start a schema registry beside the broker"
    )
    arguments = parser.parse_args()
    topics = {
        name: int(count or 0)
        for name, _, count in (text.partition(":") for text in arguments.topic)
    }
    config = {name: value for name, _, value in (text.partition("=") for text in arguments.set)}
    should_stop = threading.Event()
    for number in stop_signals():
        signal.signal(number, lambda *_: should_stop.set())
    try:
        with _started(arguments, topics, config) as broker:
            url = broker.serve_control(port=arguments.control_port)
            print(f"wirekafka ready: {broker.bootstrap_servers} control {url}", flush=True)
            should_stop.wait()
    except (ValueError, OSError) as error:
        print(f"wirekafka: {error}", file=sys.stderr)
        return 1
    return 0


def _started(
    arguments: argparse.Namespace, topics: dict[str, int], config: dict[str, str]
) -> Broker | Cluster:
    """A broker, or a cluster if brokers are counted. Raises ValueError."""
    host = arguments.host
    if not arguments.brokers:
        return Broker(
            topics=topics,
            host=host,
            port=arguments.port,
            schema_registry=arguments.schema_registry,
            config=config,
        )
    if arguments.port:
        raise ValueError("--port: the brokers of a cluster take free ports")
    return Cluster(
        arguments.brokers,
        arguments.controllers,
        topics=topics,
        host=host,
        schema_registry=arguments.schema_registry,
        config=config,
    )


if __name__ == "__main__":
    sys.exit(main())
