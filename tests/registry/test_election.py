"""Several instances: one is elected by Kafka's group protocol, and the others forward writes."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest

import wirekafka
from tests.eventually import eventually
from tests.registry.servers import ask, registry
from wirekafka.registry.instance.election import InstanceIdentity, RegistryProtocol

A, B = InstanceIdentity("http", "a", 8081), InstanceIdentity("http", "b", 8081)


@pytest.fixture
def broker() -> Iterator[wirekafka.Broker]:
    with wirekafka.Broker() as broker:
        yield broker


def assigned(members: dict[str, InstanceIdentity | bytes]) -> dict[str, object]:
    encoded = {
        name: each if isinstance(each, bytes) else RegistryProtocol(each).metadata()
        for name, each in members.items()
    }
    [assignment] = set(RegistryProtocol(A).assign(encoded).values())
    decoded: dict[str, object] = json.loads(assignment)
    return decoded


def test_members_exchange_what_confluents_registries_exchange() -> None:
    assert RegistryProtocol(A).metadata() == (
        b'{"version":1,"host":"a","port":8081,"master_eligibility":true,"scheme":"http"}'
    )
    assert assigned({"m1": A}) == {"error": 0, "master": "m1", "master_identity": A.fields()}


def test_the_member_with_the_lowest_id_leads_if_it_may() -> None:
    assert assigned({"m2": A, "m1": B})["master"] == "m1"
    assert (
        assigned({"m2": A, "m1": InstanceIdentity("http", "b", 1, may_lead=False)})["master"]
        == "m2"
    )
    assert assigned({"m2": A, "m1": b"not JSON", "m0": b"{}"})["master"] == "m2"


def test_two_instances_with_one_url_elect_nobody() -> None:
    assert assigned({"m1": A, "m2": A}) == {"error": 1, "master": None, "master_identity": None}


def test_every_instance_writes_and_reads_the_same(broker: wirekafka.Broker) -> None:
    bootstrap = broker.bootstrap_servers
    with registry(bootstrap) as first, registry(bootstrap) as second:
        eventually(lambda: len(broker.group("schema-registry").members) == 2)
        for url, level in ((first, "FULL"), (second, "NONE"), (first, "FORWARD")):
            written = ask(url, "PUT", "/config", {"compatibility": level})
            assert (written.status, written.body) == (200, {"compatibility": level})
            for each in (first, second):
                eventually(
                    lambda each=each, level=level: (
                        ask(each, "GET", "/config").body == {"compatibilityLevel": level}
                    )
                )


def test_another_instance_leads_when_the_leader_has_stopped(broker: wirekafka.Broker) -> None:
    bootstrap = broker.bootstrap_servers
    with registry(bootstrap) as first:
        with registry(bootstrap) as second:
            assert ask(second, "PUT", "/config/a", {"compatibility": "FULL"}).status == 200
        assert ask(first, "PUT", "/config/b", {"compatibility": "NONE"}).status == 200
        assert ask(first, "GET", "/config/a").body == {"compatibilityLevel": "FULL"}


def test_a_request_is_forwarded_once_only(broker: wirekafka.Broker) -> None:
    bootstrap = broker.bootstrap_servers
    with registry(bootstrap) as first, registry(bootstrap) as second:
        body = {"compatibility": "FULL"}
        assert {ask(each, "PUT", "/config", body).status for each in (first, second)} == {200}
        again = [ask(each, "PUT", "/config", body, X_Forward="true") for each in (first, second)]
        assert sorted(each.status for each in again) == [200, 500]
        [refused] = [each for each in again if each.status == 500]
        assert refused.body == {"error_code": 50004, "message": "Leader not known."}


class Redirecting(BaseHTTPRequestHandler):
    """A leader that redirects, and keeps the credentials that it was sent."""

    seen: list[tuple[str, str | None, str | None]] = []

    def do_PUT(self) -> None:
        self.rfile.read(int(self.headers["Content-Length"]))
        credentials = self.headers["Authorization"]
        self.seen.append((self.path, credentials, self.headers["X-Forward"]))
        if "cut" in self.path:
            self.send_response(200)
            self.send_header("Content-Length", "100")
            self.end_headers()
            self.wfile.write(b"{}" if "later" in self.path else b"")
            self.close_connection = True
            return
        self.send_response(307)
        self.send_header("Location", "http://127.0.0.1:1/elsewhere")
        self.send_header("Content-Length", "2")
        self.end_headers()
        self.wfile.write(b"{}")

    def log_message(self, *_: object) -> None: ...


def test_requests_and_credentials_go_to_the_elected_address_alone(broker: wirekafka.Broker) -> None:
    """The leader is one that redirects; a registry that may not lead passes a request on to it."""
    from wirekafka.client.classic_membership import ClassicMembership
    from wirekafka.client.client import Client

    other = HTTPServer(("127.0.0.1", 0), Redirecting)
    threading.Thread(target=other.serve_forever, daemon=True).start()
    leader = InstanceIdentity("http", "127.0.0.1", other.server_port)
    with Client(broker.bootstrap_servers) as client:
        member = ClassicMembership(client, "schema-registry", RegistryProtocol(leader))
        member.join()
        stopping = threading.Event()

        def take_part() -> None:
            while not stopping.wait(0.05):
                if member.must_rejoin():
                    member.join()

        taking_part = threading.Thread(target=take_part, daemon=True)
        taking_part.start()
        advertised = InstanceIdentity("http", "127.0.0.1", 9, may_lead=False)
        with registry(broker.bootstrap_servers, advertised=advertised) as url:
            answer = ask(url, "PUT", "/config/a%2Fb?x=1", {}, login=("alice", "secret"))
            assert answer.status == 307
            assert Redirecting.seen == [("/config/a%2Fb?x=1", "Basic YWxpY2U6c2VjcmV0", "true")]
            assert "location" not in answer.headers
            for path in ("/config/cut", "/config/cut-later"):
                cut = ask(url, "PUT", path, {})
                assert (cut.status, cut.body["error_code"]) == (500, 50003)
            other.shutdown()
            other.server_close()
            stopping.set()
            taking_part.join()


def test_a_leader_is_elected_whatever_the_brokers_least_session_timeout() -> None:
    with (
        wirekafka.Broker(group_min_session_timeout_ms=11_000) as broker,
        registry(broker.bootstrap_servers) as url,
    ):
        assert ask(url, "PUT", "/config", {"compatibility": "FULL"}).status == 200


def test_a_registry_starts_and_ends_without_requests(broker: wirekafka.Broker) -> None:
    with registry(broker.bootstrap_servers) as url:
        assert ask(url, "GET", "/subjects").body == []
    with pytest.raises(OSError, match="refused"):
        ask(url, "GET", "/subjects")
