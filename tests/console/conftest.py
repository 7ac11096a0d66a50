"""A broker, and a console of it, for all tests of a module."""

import pytest

import wirekafka
from tests.console.site import Site, console


@pytest.fixture(scope="module")
def broker():
    with wirekafka.Broker() as broker:
        yield broker


@pytest.fixture(scope="module")
def site(broker) -> Site:
    """A visitor of a read-only console."""
    with console(broker.bootstrap_servers) as site:
        yield site


@pytest.fixture(scope="module")
def changing(broker) -> Site:
    """A visitor of a console that allows changes."""
    with console(broker.bootstrap_servers, allow_changes=True) as site:
        yield site
