"""Brokers and controllers serve the APIs that Kafka's JSON schemas name for their listeners."""

from __future__ import annotations

import re

import pytest

from tests.kafka_jars import kafka_schemas
from wirekafka.apis.shared import registry, routes

APIS = registry.load()
SERVED = list(routes.BROKERS.served())


@pytest.mark.parametrize("declared", APIS.values(), ids=lambda declared: declared.name)
def test_apis_are_served_on_the_listeners_that_kafkas_schemas_name(declared: registry.Api) -> None:
    text = (kafka_schemas("message") / f"{declared.name}Request.json").read_text()
    listeners = re.search(r'"listeners": *\[(.*?)\]', text)
    assert listeners is not None
    is_for_clients = '"broker"' in listeners[1]
    assert (declared in SERVED) is is_for_clients
    version = declared.request.versions.last
    assert (routes.BROKERS.find(declared.key << 16 | version) is not None) is is_for_clients
    is_for_controllers = '"controller"' in listeners[1]
    assert (routes.CONTROLLERS.find(declared.key << 16 | version) is not None) is is_for_controllers
