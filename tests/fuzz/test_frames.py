"""The fuzzer's frames are malformed, repeatable, and of every API and version."""

import struct
from itertools import islice

from tests.fuzz.frames import is_malformed, is_unfinished, malformed_frames, odd_frames
from wirekafka.apis.shared import registry


def test_the_same_seed_gives_the_same_frames() -> None:
    assert list(islice(malformed_frames(7), 200)) == list(islice(malformed_frames(7), 200))
    assert list(islice(malformed_frames(7), 200)) != list(islice(malformed_frames(8), 200))


def test_every_api_and_version_has_a_malformed_frame() -> None:
    spoken = {
        (api.key, version)
        for api in registry.load().values()
        for version in range(api.request.versions.first, api.request.versions.last + 1)
    }
    spoilt = {struct.unpack_from(">hh", frame, 4) for frame in islice(malformed_frames(1), 20_000)}
    assert spoken <= spoilt


def test_odd_frames_are_well_formed() -> None:
    assert not any(map(is_malformed, islice(odd_frames(1), 1000)))


def test_few_frames_are_unfinished() -> None:
    unfinished = sum(map(is_unfinished, islice(malformed_frames(1), 2000)))
    assert 20 < unfinished < 400
