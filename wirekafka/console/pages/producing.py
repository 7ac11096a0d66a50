"""The page that appends one record to a topic."""

from __future__ import annotations

import secrets
import time
from collections.abc import Mapping
from urllib.parse import quote, urlencode

from wirekafka.client.partitioner import partition_of
from wirekafka.client.producer import IdempotentProducer
from wirekafka.codec.record import Record
from wirekafka.console.pages.page import (
    LARGEST_INT64,
    Change,
    Page,
    PageError,
    PageView,
    Redirect,
    Visit,
    whole_number,
)
from wirekafka.console.pages.topic_metadata import described
from wirekafka.console.records.entered_bytes import BadEntry, EntryForm, bytes_of, headers_of
from wirekafka.protocol.metadata import MetadataResponse

PATH = "/topics/{topic}/produce"


def form(visit: Visit) -> PageView:
    """The form of a record, and where the record of the last form is."""
    topic, _ = described(visit)
    forms = [each for each in EntryForm if each is not EntryForm.SCHEMA or visit.registry]
    values = {
        "title": f"Produce to {topic.name}",
        "topic": topic,
        "path": PATH,
        "forms": forms,
        "subjects": {part: f"{topic.name}-{part}" for part in ("key", "value")},
        "has_registry": visit.registry is not None,
        "written": _written(visit),
    }
    return PageView("produce.html", values)


def produce(visit: Visit) -> Redirect:
    """Append the record of the form, once."""
    topic, _ = described(visit)
    name = topic.name or ""
    record = Record(
        timestamp=time.time_ns() // 1_000_000,
        key=_part(visit, "key"),
        value=_part(visit, "value"),
        headers=tuple(headers_of(visit.form.get("headers", ""))),
    )
    partition = _partition(topic, visit.form, record.key)
    producer = IdempotentProducer(visit.client)
    producer.init()
    offset = producer.send(name, partition, [record])
    place = urlencode({"partition": partition, "offset": offset})
    return Redirect(f"/topics/{quote(name, safe='')}/produce?{place}")


def _part(visit: Visit, part: str) -> bytes | None:
    """The key or the value. Raises PageError."""
    word = visit.form.get(f"{part}_form", EntryForm.NULL)
    if word not in list(EntryForm):
        raise PageError(400, f"A {part} is one of {', '.join(EntryForm)}, not {word!r}.")
    subject = visit.form.get(f"{part}_subject", "").strip()
    try:
        return bytes_of(visit.form.get(part, ""), EntryForm(word), visit.registry, subject)
    except BadEntry as error:
        raise PageError(400, f"The {part}: {error}.") from None


def _partition(topic: MetadataResponse.Topic, form: Mapping[str, str], key: bytes | None) -> int:
    """The partition that was entered, else the partition of the key, else any with a leader."""
    text = form.get("partition", "").strip()
    count = len(topic.partitions)
    if text:
        entered = whole_number(text, count - 1)
        if entered is None:
            reason = f"The topic has the partitions 0 to {count - 1}, and not {text!r}."
            raise PageError(400, reason)
        return entered
    if key is not None:
        return partition_of(key, count)
    led = [each.partition_index for each in topic.partitions if each.leader_id >= 0]
    if not led:
        raise PageError(502, "No partition of the topic has a leader now.")
    return secrets.choice(led)


def _written(visit: Visit) -> dict[str, int] | None:
    """Where the record of the last form is, by the query; None without one."""
    found = {}
    for name in ("partition", "offset"):
        number = whole_number(visit.query.get(name, ""), LARGEST_INT64)
        if number is None:
            return None
        found[name] = number
    return found


ENTRIES = (Page(PATH, form), Change(PATH, produce, form))
