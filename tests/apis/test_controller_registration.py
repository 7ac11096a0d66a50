"""ControllerRegistration: the listeners and features of a controller in the metadata."""

from __future__ import annotations

from pathlib import Path

from tests.in_process import InProcessBroker, now
from tests.manual_clock import ManualClock
from wirekafka.apis.shared.call import ControllerCall
from wirekafka.apis.shared.registry import declared_by
from wirekafka.protocol.controller_registration import ControllerRegistrationRequest
from wirekafka.protocol.records.metadata import RegisterControllerRecord


def test_a_controller_is_registered_with_its_own_features(tmp_path: Path) -> None:
    broker = InProcessBroker(tmp_path, ManualClock())
    controller = broker.broker.controller
    kind = ControllerRegistrationRequest
    request = kind(
        controller_id=3001,
        incarnation_id=b"i" * 16,
        listeners=[kind.Listener(name="CONTROLLER", host="c", port=9093, security_protocol=1)],
        features=[kind.Feature(name="kraft.version", min_supported_version=0)],
    )
    decide = declared_by(kind).decide
    assert decide is not None
    response = now(decide(request, ControllerCall(controller, 0)))
    assert (response.error_code, response.error_message) == (0, "")
    record = RegisterControllerRecord
    assert controller.image.controllers[3001] == record(
        controller_id=3001,
        incarnation_id=b"i" * 16,
        end_points=[
            record.ControllerEndpoint(name="CONTROLLER", host="c", port=9093, security_protocol=1)
        ],
        features=[
            record.ControllerFeature(
                name="kraft.version", min_supported_version=0, max_supported_version=0
            )
        ],
    )
    broker.stop()
