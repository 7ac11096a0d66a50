"""Connections above the limits: which wait, which are closed, and when (KIP-402, KIP-612)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Mapping

import pytest
import uvloop

from tests.raw_client import RawClient
from tests.server.probe_api import Gate, ProbeRequest
from tests.server.test_connection import Served, gate, probe
from wirekafka.server.connections.listener import Listener
from wirekafka.server.net import SocketNet

__all__ = ["gate"]

Serve = Callable[..., Served]
TWO_LISTENERS = {
    "listeners": "PLAINTEXT://:9092,BROKERS://:9093",
    "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,BROKERS:PLAINTEXT",
    "inter.broker.listener.name": "BROKERS",
}


@pytest.fixture(params=[asyncio.new_event_loop, uvloop.new_event_loop], ids=["asyncio", "uvloop"])
def serve(gate: Gate, request: pytest.FixtureRequest) -> Iterator[Serve]:
    running: list[Served] = []

    def start(**limits: str) -> Served:
        named = {name.replace("_", "."): value for name, value in limits.items()}
        running.append(Served(gate, TWO_LISTENERS | named, request.param))
        return running[-1]

    yield start
    for served in running:
        for member in served.limits.members:
            if isinstance(member, Listener) and member is not served.listener:
                served.call(member.stop_accepting)
                served.call(member.abort)
        served.stop()


def brokers_listener(served: Served) -> Listener:
    """The listener for other brokers, which is started beside that for clients."""
    assert served.listener.broker is not None
    listener = Listener("BROKERS", SocketNet().listen("127.0.0.1", 0), served.limits)
    served.run(listener.start(served.listener.broker))
    return listener


def configure(served: Served, limits: Mapping[str, str]) -> None:
    """Change the configuration as `Broker.configure_broker` and housekeeping do."""

    def change() -> None:
        broker = served.listener.broker
        assert broker is not None
        broker.config = broker.config.with_dynamic({}, limits)
        served.listener.review()

    served.call(change)


def ask(client: RawClient, text: str = "in") -> None:
    client.send(probe(text=text), 0)


def is_served(client: RawClient, text: str = "in") -> bool:
    return bool(client.receive(ProbeRequest, 0).text == text)


@pytest.mark.parametrize("limit", ["max_connections", "listener_name_plaintext_max_connections"])
def test_connections_above_the_limit_wait_in_order_until_others_close(
    serve: Serve, limit: str
) -> None:
    served = serve(**{limit: "2"})
    open_ = []
    for number in range(5):
        open_.append(RawClient(served.port))
        ask(open_[-1], str(number))
        served.until(lambda n=number: served.limits.total + served.listener.waiting == n + 1)
    assert is_served(open_[0], "0") and is_served(open_[1], "1")
    assert served.listener.connections == 2 and served.listener.waiting == 3
    for number in range(3):
        open_[number].socket.close()
        assert is_served(open_[number + 2], str(number + 2))
    for client in open_[3:]:
        client.socket.close()
    served.until(lambda: served.limits.total == 0)


def test_a_client_that_gives_up_while_it_waits_takes_no_slot(serve: Serve) -> None:
    served = serve(max_connections="1")
    with RawClient(served.port) as one:
        ask(one)
        assert is_served(one)
        with RawClient(served.port):
            served.until(lambda: served.listener.waiting == 1)
        last = RawClient(served.port)
        ask(last)
        served.until(lambda: served.listener.waiting == 2)
    assert is_served(last)
    last.socket.close()
    served.until(lambda: served.limits.total == 0)


def test_waiting_connections_are_admitted_when_the_limit_is_raised(serve: Serve) -> None:
    served = serve(max_connections="1")
    with RawClient(served.port) as one, RawClient(served.port) as two, RawClient(served.port) as x:
        for client in (one, two, x):
            ask(client)
        assert is_served(one)
        served.until(lambda: served.listener.waiting == 2)
        configure(served, {"max.connections": "3"})
        assert is_served(two) and is_served(x)


def test_the_least_recently_used_are_closed_when_the_limit_is_lowered(serve: Serve) -> None:
    served = serve(max_connections="10")
    with RawClient(served.port) as one, RawClient(served.port) as two, RawClient(served.port) as x:
        for client in (one, two, x, one):
            ask(client)
            assert is_served(client)
        configure(served, {"max.connections": "1"})
        assert two.is_closed() and x.is_closed()
        ask(one)
        assert is_served(one)


def test_a_broker_takes_the_place_of_the_least_recently_used_client(serve: Serve) -> None:
    served = serve(max_connections="2", listener_name_brokers_max_connections="1")
    brokers = brokers_listener(served)
    with RawClient(served.port) as one, RawClient(served.port) as two:
        for client in (one, two, one):
            ask(client)
            assert is_served(client)
        with RawClient(brokers.address[1]) as broker, RawClient(brokers.address[1]) as next_one:
            ask(broker)
            assert is_served(broker)
            assert two.is_closed()
            ask(next_one)
            served.until(lambda: brokers.waiting == 1)
            ask(one)
            assert is_served(one) and brokers.connections == 1


def test_too_many_that_wait_are_refused(serve: Serve, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("wirekafka.server.connections.acceptor._MOST_HELD", 1)
    served = serve(max_connections="1")
    with RawClient(served.port) as one, RawClient(served.port), RawClient(served.port) as x:
        ask(one)
        assert is_served(one)
        assert x.is_closed()


def test_a_stop_closes_the_connections_that_wait(serve: Serve) -> None:
    served = serve(max_connections="1", max_connection_creation_rate="1")
    with RawClient(served.port) as one, RawClient(served.port) as two:
        ask(one)
        assert is_served(one)
        served.until(lambda: served.listener.waiting == 1)
        served.call(served.listener.stop_accepting)
        assert two.is_closed()


RATES = ["max_connection_creation_rate", "listener_name_plaintext_max_connection_creation_rate"]


@pytest.mark.parametrize("limit", RATES)
def test_connections_above_the_rate_wait_for_at_most_a_window_each(
    serve: Serve, limit: str
) -> None:
    """One a second: those of the first ten seconds come at once, every other waits a second."""
    served = serve(**{limit: "1"})
    clients = [RawClient(served.port) for _ in range(13)]
    for client in clients:
        ask(client)
    assert all(is_served(client) for client in clients[:10])
    served.until(lambda: served.listener.waiting == 3)
    served.call(served.clock.advance, 999)
    assert served.listener.waiting == 3
    for number in (10, 11, 12):
        served.call(served.clock.advance, 1)
        assert is_served(clients[number])
        served.until(lambda n=number: served.listener.waiting == 12 - n)
        served.call(served.clock.advance, 999)
    for client in clients:
        client.socket.close()
    served.until(lambda: served.limits.total == 0)


def test_brokers_are_not_subject_to_the_rate_of_the_whole_broker(serve: Serve) -> None:
    served = serve(
        max_connection_creation_rate="1", listener_name_brokers_max_connection_creation_rate="100"
    )
    brokers = brokers_listener(served)
    for _ in range(30):
        with RawClient(brokers.address[1]) as broker:
            ask(broker)
            assert is_served(broker)
    with RawClient(served.port) as client:
        ask(client)
        assert is_served(client), "they have not been counted for clients either"


def test_a_rate_that_is_lowered_covers_the_connections_before(serve: Serve) -> None:
    served = serve()
    for number in range(11):
        if number == 10:
            configure(served, {"max.connection.creation.rate": "1"})
        with RawClient(served.port) as client:
            ask(client)
            if number < 10:
                assert is_served(client)
                continue
            served.until(lambda: served.listener.waiting == 1)
            served.call(served.clock.advance, 1000)
            assert is_served(client)


def test_an_address_that_connects_too_often_is_closed_after_its_throttle_time(serve: Serve) -> None:
    served = serve(max_connection_creation_rate="0")
    configure(served, {"max.connection.creation.rate": "1"})
    served.call(served.quotas.change, (("ip", "127.0.0.1"),), "connection_creation_rate", 0.2)
    clients = [RawClient(served.port) for _ in range(4)]
    for client in clients:
        ask(client)
    assert is_served(clients[0]) and is_served(clients[1])
    throttled = served.listener._acceptor._throttled
    served.until(lambda: len(throttled) == 2)
    served.call(served.clock.advance, 999)
    assert len(throttled) == 2
    served.call(served.clock.advance, 1)
    assert clients[2].is_closed() and clients[3].is_closed()
    # They count for no rate.
    served.call(served.quotas.change, (("ip", "127.0.0.1"),), "connection_creation_rate", None)
    for _ in range(8):
        with RawClient(served.port) as client:
            ask(client)
            assert is_served(client)
