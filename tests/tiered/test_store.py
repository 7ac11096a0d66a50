"""Errors of an object store are distinguished, and are one line without times and objects."""

from __future__ import annotations

import sys
from typing import Any

import pytest

from wirekafka.errors import KafkaError
from wirekafka.tiered.store import ObjectMissing, ObjectStore, StoreError

_NOT_FOUND = (
    "Object at location x/{key} not found: Error performing GET http://127.0.0.1:9/b/x/{key} in"
    " {time} - Server returned non-2xx status code: 404 Not Found: <?xml version='1.0'?>\n<Error>"
    "<Code>{code}</Code><Message>{message}</Message></Error>\n\nDebug source:\nNotFound"
)
_UNREACHABLE = (
    "Error performing PUT http://127.0.0.1:9/b/x/{key} in {time}, after 10 retries\n\nDebug"
)


class _Failing:
    """obstore, whose every function raises an error."""

    def __init__(self, error: Exception):
        self._error = error

    def __getattr__(self, name: str) -> Any:
        def fail(*arguments: Any, **options: Any) -> Any:
            raise self._error

        return fail


def _store(error: Exception) -> ObjectStore:
    store = ObjectStore(None)
    store._obstore = _Failing(error)
    return store


def test_a_missing_bucket_is_not_a_missing_object() -> None:
    no_key = _NOT_FOUND.format(key="k", time="1ms", code="NoSuchKey", message="It does not exist.")
    missing = _store(FileNotFoundError(no_key))
    missing.delete("k")  # It is not there, as it should be.
    with pytest.raises(ObjectMissing):
        missing.get("k")

    no_bucket = _NOT_FOUND.format(key="k", time="1ms", code="NoSuchBucket", message="No such one.")
    nowhere = _store(FileNotFoundError(no_bucket))
    for request in (nowhere.get, nowhere.delete):
        with pytest.raises(StoreError, match=r"^k: NoSuchBucket: No such one\.$") as failed:
            request("k")
        assert not isinstance(failed.value, ObjectMissing)


def test_an_error_that_is_repeated_for_another_object_has_the_same_reason() -> None:
    errors = []
    for key, time in (("one", "2.612254482s"), ("two", "19.427µs")):
        store = _store(OSError(_UNREACHABLE.format(key=key, time=time)))
        with pytest.raises(StoreError) as failed:
            store.put(key, [b""])
        errors.append(failed.value)
    assert str(errors[0]).startswith("one: ") and str(errors[1]).startswith("two: ")
    assert errors[0].reason == errors[1].reason
    assert errors[0].reason == "Error performing PUT http://127.0.0.1:9, after 10 retries"


@pytest.mark.parametrize("url", ["s3://bucket/prefix", "file:///somewhere", "memory:"])
def test_a_store_without_the_extra_names_the_package_to_install(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "obstore", None)
    for opened in (ObjectStore.of_url, ObjectStore.of_existing):
        with pytest.raises(KafkaError) as raised:
            opened(url)
        assert "pip install 'wirekafka[tier]'" in str(raised.value.message)
