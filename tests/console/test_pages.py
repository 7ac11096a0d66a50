"""What every page of the console has: the frame, errors as pages, headers, refused requests."""

import gc
import http.client
import statistics
import time

from jinja2.runtime import Context, Macro

from tests.eventually import eventually


def test_the_brokers_are_shown_with_their_disks(broker, site):
    page = site.get("/brokers")
    assert page.status == 200
    assert page.words("title") == "Brokers – wirekafka console"
    [[id, address, *_]] = page.rows("section[aria-labelledby=brokers]")
    assert (id, address) == ("1", broker.bootstrap_servers)
    [disk] = page.rows("section[aria-labelledby=disks]")
    assert disk[0] == "1" and disk[-1].endswith("%")


def test_a_page_that_does_not_exist_is_a_page(site):
    site.get("/")  # The first page begins a session.
    page = site.get("/no/such/page")
    assert page.status == 404
    assert page.words("[role=alert]") == "There is no such page."
    assert page.soup.select("header nav a")


def test_responses_forbid_scripts_and_frames_of_others(site):
    headers = site.get("/").headers
    policy = headers["Content-Security-Policy"]
    assert "default-src 'none'" in policy and "frame-ancestors 'none'" in policy
    assert "unsafe" not in policy
    assert headers["X-Content-Type-Options"] == "nosniff"
    assert headers["Cache-Control"] == "no-store"
    assert "server" not in headers


def test_a_request_for_another_host_is_refused(site):
    """As after a DNS rebinding, when a page of another site reaches the loopback."""
    connection = http.client.HTTPConnection(site.base.removeprefix("http://"))
    connection.request("GET", "/", headers={"Host": "evil.example"})
    response = connection.getresponse()
    assert response.status == 421
    assert b"evil.example" in response.read()
    connection.close()


def test_the_cookie_is_of_no_use_to_scripts_and_other_sites(site):
    connection = http.client.HTTPConnection(site.base.removeprefix("http://"))
    connection.request("GET", "/")
    cookie = connection.getresponse().headers["Set-Cookie"]
    assert "HttpOnly" in cookie and "SameSite=strict" in cookie
    connection.close()


def test_a_page_does_not_wait_for_an_acknowledgement(site):
    """On a connection that is kept, its body would wait for that of its head, 40 ms."""
    connection = http.client.HTTPConnection(site.base.removeprefix("http://"))

    def took_s() -> float:
        begun_s = time.perf_counter()
        connection.request("GET", "/acls")
        connection.getresponse().read()
        return time.perf_counter() - begun_s

    # Not once: the machine may be busy.
    eventually(lambda: statistics.median(took_s() for _ in range(9)) < 0.03)
    connection.close()


def test_a_page_leaves_nothing_for_the_garbage_collector(broker, site):
    """A broker collects rarely: what is in a cycle, as all partitions were, would stay."""
    pages = (
        "/",
        "/topics",
        "/groups",
        "/queries",
        "/configs",
        "/acls",
        "/brokers",
        "/transactions",
    )
    gc.collect()
    gc.disable()
    gc.set_debug(gc.DEBUG_SAVEALL)
    try:
        for path in pages:
            assert site.get(path).status == 200
        gc.collect()
        kept = [each for each in gc.garbage if isinstance(each, Context | Macro)]
    finally:
        gc.set_debug(0)
        gc.garbage.clear()
        gc.enable()
    assert not kept
