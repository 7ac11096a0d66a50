"""The pages of a topic's records: lists from an offset or a time on, one record, its bytes."""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from wirekafka.codec.compression import Codec
from wirekafka.console.excerpts import Excerpt, Form, Shown, compact, readable, show
from wirekafka.console.pages.page import (
    AT_ONCE,
    LARGEST_INT64,
    Download,
    Page,
    PageError,
    PageView,
    Visit,
    slot,
    without_query,
)
from wirekafka.console.records.columns import COLUMNS, chosen
from wirekafka.console.records.record_files import KEPT_BYTES, WRITERS
from wirekafka.console.records.record_pages import (
    MOST_PARTITIONS,
    MOST_RECORDS,
    PageWish,
    newest_partitions,
    read_page,
    read_record,
)
from wirekafka.console.topic_reads import LATEST, LIST_BYTES, Positions, Seen, TopicReads
from wirekafka.console.value_decoder import MOST_BYTES, PAGE_LIMIT_S, ValueDecoder
from wirekafka.visible_text import visible

if TYPE_CHECKING:
    from wirekafka.client.schema_registry import DecodedValue

RECORD_BYTES = 256 << 10
"""How much of a key or value is shown on the page of one record."""
DECODED_LIST_BYTES = 32 << 10
"""How much of each key and value is kept to be decoded for lists."""
CHOICES = tuple(form for form in Form if form is not Form.DECODED)
_DECODED_CHARACTERS = 4
"""How many characters of a decoded value are shown for each byte that would be shown otherwise."""
_WHOLE = 1 << 40
_PER_PAGE = 50
EXPORTED_RECORDS = 1_000
"""The records in a file."""
_MOST_EXPORTS = 2
_exports = threading.BoundedSemaphore(_MOST_EXPORTS)
_LINE_CHARACTERS = 300
_LIST_HEX_BYTES = 512


@dataclass(frozen=True, slots=True)
class MessagePart:
    """A key, a value or a header to display; `shown` is None for null."""

    shown: Shown | None
    size_bytes: int
    schema: DecodedValue | None = None
    """The schema that the bytes name, and why they could not be decoded by it."""
    brief: str | None = None
    """One line in place of the hexadecimal digits."""

    @property
    def is_decoded(self) -> bool:
        return self.shown is not None and self.shown.form is Form.DECODED

    @property
    def is_binary(self) -> bool:
        """Whether it is shown as hexadecimal digits."""
        return self.shown is not None and self.shown.form is Form.HEX

    @property
    def has_more(self) -> bool:
        """Whether there is more to show than its line."""
        if self.shown is None:
            return False
        text = self.shown.text
        return self.is_binary or "\n" in text or len(text) > _LINE_CHARACTERS

    @property
    def line(self) -> str:
        """Its start on one line."""
        text = "" if self.shown is None else self.shown.text
        if self.brief is not None:
            text = self.brief
        start = text[: 2 * _LINE_CHARACTERS]
        if self.shown is not None and self.shown.form in (Form.JSON, Form.DECODED):
            start = compact(start)
        start = start.replace("\n", "⏎")
        is_cut = len(start) > _LINE_CHARACTERS or len(text) > 2 * _LINE_CHARACTERS
        return start[:_LINE_CHARACTERS] + ("…" if is_cut else "")


@dataclass(frozen=True, slots=True)
class RecordLine:
    """A record to display."""

    seen: Seen
    key: MessagePart
    value: MessagePart
    headers: list[tuple[str, MessagePart]]

    @property
    def size_bytes(self) -> int:
        """Of its key, its value, and the headers that were read."""
        parts = (self.key, self.value, *(part for _, part in self.headers))
        return sum(part.size_bytes for part in parts)

    @property
    def compression(self) -> str:
        """The name of the codec of its batch."""
        number = self.seen.batch.compression
        return Codec(number).name.lower() if number in set(Codec) else f"codec {number}"


def show_list(visit: Visit) -> PageView:
    """A page of a topic's records."""
    reads = reads_of(visit)
    chosen = chosen_partitions(visit.query, reads)
    is_newest_first = visit.query.get("order", "newest") != "oldest"
    partitions = chosen or newest_partitions(reads)
    forms_of(visit.query)
    wish = PageWish(
        partitions,
        min(max(visit.number("count", _PER_PAGE), 1), MOST_RECORDS),
        is_newest_first,
        _positions(visit, reads, partitions),
        list_bytes(visit),
    )
    page = read_page(reads, wish)
    decoder = decoder_of(visit)
    values = {
        "title": f"Messages of {reads.topic}",
        "topic": reads.topic,
        "partitions": reads.partitions(),
        "read": partitions,
        "is_some": not chosen and len(partitions) < len(reads.partitions()),
        "most": MOST_PARTITIONS,
        "is_newest_first": is_newest_first,
        "page": page,
        "lines": [line_of(seen, visit.query, decoder) for seen in page.records],
        "following": "" if page.is_last else cursor(page.following),
        "forms": CHOICES,
        **column_values(visit.query),
    }
    return PageView("messages.html", values)


def export(visit: Visit) -> Download:
    """The records of a page as a file; of more records than a page shows, with whole values."""
    write = writer_of(visit)
    reads = reads_of(visit)
    partitions = chosen_partitions(visit.query, reads) or newest_partitions(reads)
    is_newest_first = visit.query.get("order", "newest") != "oldest"
    with export_slot():
        wish = PageWish(
            partitions,
            EXPORTED_RECORDS,
            is_newest_first,
            _positions(visit, reads, partitions),
            KEPT_BYTES,
        )
        page = read_page(reads, wish)
        for index, reason in page.failed.items():
            raise PageError(502, f"Partition {index} could not be read: {reason}.")
        data = write(reads.topic, page.records, decoder_of(visit))
    return Download(f"{reads.topic}.{visit.query['format']}", data)


def writer_of(visit: Visit) -> Callable[[str, Sequence[Seen], ValueDecoder | None], bytes]:
    """Writes the file that a query asks for by `format`. Raises PageError.

    The query has to have `AT_ONCE`, by which links of other sites are refused.
    """
    kind = visit.query.get("format", "")
    if kind not in WRITERS:
        raise PageError(400, f"Records are exported as one of {', '.join(WRITERS)}.")
    if not visit.query.get(AT_ONCE):
        raise PageError(400, "Export records by the links on a page of this console.")
    return WRITERS[kind]


def export_slot() -> AbstractContextManager[None]:
    """One of a few exports at a time. Raises PageError if there is none left."""
    refusal = f"{_MOST_EXPORTS} exports are under way: wait until one has ended."
    return slot(_exports, refusal)


def column_values(query: Mapping[str, str]) -> dict[str, object]:
    """The values with which templates show columns, and a choice of them."""
    return {"columns": chosen(query), "all_columns": COLUMNS}


def show_record(visit: Visit) -> PageView:
    """One record with all its details."""
    seen = _record(visit, RECORD_BYTES if visit.registry is None else MOST_BYTES)
    values = {
        "title": f"{visit.path['topic']}-{seen.partition} at {seen.offset}",
        "topic": visit.path["topic"],
        "record": line_of(seen, visit.query, decoder_of(visit), RECORD_BYTES),
        "forms": CHOICES,
    }
    return PageView("message.html", values)


def download(visit: Visit) -> Download:
    """The bytes of a record's key or value."""
    part = visit.path["part"]
    if part not in ("key", "value"):
        raise PageError(404, "A record has a key and a value.")
    seen = _record(visit, _WHOLE)
    found = seen.key if part == "key" else seen.value
    if seen.problem:
        raise PageError(404, seen.problem)
    if found is None:
        raise PageError(404, f"The {part} of this record is null.")
    return Download(f"{visit.path['topic']}-{seen.partition}-{seen.offset}.{part}", found.data)


def reads_of(visit: Visit) -> TopicReads:
    """The path's topic. Raises PageError if there is none."""
    topic = visit.path["topic"]
    reads = TopicReads.find(visit.client, topic)
    if reads is None:
        raise PageError(404, f"There is no topic {topic}.")
    return reads


def chosen_partitions(query: Mapping[str, str], reads: TopicReads) -> tuple[int, ...]:
    """The partitions in a query, as "0,5"; none for all. Raises PageError."""
    text = query.get("partition", "").strip()
    found = {_partition(part) for part in text.split(",") if part.strip()}
    known = set(reads.partitions())
    for index in sorted(found - known):
        raise PageError(404, f"{reads.topic} has no partition {index}.")
    if len(found) > MOST_PARTITIONS:
        raise PageError(400, f"Choose at most {MOST_PARTITIONS} partitions.")
    return tuple(sorted(found))


def decoder_of(visit: Visit) -> ValueDecoder | None:
    """The decoder of the records of one page; None without a registry."""
    return None if visit.registry is None else ValueDecoder(visit.registry, PAGE_LIMIT_S)


def list_bytes(visit: Visit) -> int:
    """How much of each key and value is read for a list."""
    return LIST_BYTES if visit.registry is None else DECODED_LIST_BYTES


def line_of(
    seen: Seen,
    query: Mapping[str, str],
    decoder: ValueDecoder | None = None,
    shown_bytes: int = LIST_BYTES,
) -> RecordLine:
    """A record in the forms that a query asks for; decoded where the form is AUTO."""
    key, value = forms_of(query)
    if seen.control:
        decoder = None
    headers = [(name, None if each is None else each.data) for name, each in seen.headers]

    def part(excerpt: Excerpt | None, form: Form, *, is_key: bool) -> MessagePart:
        shown, found = None, None
        if excerpt is not None and decoder is not None and form is Form.AUTO:
            most = _DECODED_CHARACTERS * shown_bytes
            shown, found = decoder.shown(excerpt, most, is_key=is_key, headers=headers)
        return _part(excerpt, form, shown_bytes, shown, found)

    return RecordLine(
        seen,
        part(seen.key, key, is_key=True),
        part(seen.value, value, is_key=False),
        [(visible(name), _part(each, Form.AUTO, shown_bytes)) for name, each in seen.headers],
    )


def forms_of(query: Mapping[str, str]) -> tuple[Form, Form]:
    """The forms of keys and values in a query, AUTO for none. Raises PageError."""
    key, value = (query.get(name, "auto") for name in ("key_form", "value_form"))
    for text in (key, value):
        if text not in CHOICES:
            raise PageError(400, f"Bytes are shown as one of {', '.join(CHOICES)}, not {text!r}.")
    return Form(key), Form(value)


def time_of(text: str) -> int:
    """A time in ms: milliseconds since 1970, or as 2026-11-23T14:00 in UTC. Raises PageError."""
    text = text.strip()
    if re.fullmatch(r"\d{1,16}", text):
        return int(text)
    try:
        at = datetime.fromisoformat(text)
    except ValueError:
        raise PageError(
            400, f"{text!r} is no time: write 2026-11-23T14:00, or milliseconds since 1970."
        ) from None
    return round((at if at.tzinfo is not None else at.replace(tzinfo=UTC)).timestamp() * 1000)


def starts_at(reads: TopicReads, partitions: tuple[int, ...], time_ms: int) -> Positions:
    """The first offsets of records that are not older; the ends where there are none."""
    led = [index for index in partitions if index in reads.shape.leaders]
    found = reads.offsets(led, time_ms)
    ends = reads.offsets(led, LATEST)
    return {index: at if at >= 0 else ends[index] for index, at in found.items() if index in ends}


def cursor(positions: Positions) -> str:
    """Positions as text, for a link."""
    return ",".join(f"{index}:{offset}" for index, offset in sorted(positions.items()))


def parsed_cursor(text: str, partitions: tuple[int, ...]) -> Positions:
    """The positions of a link, of these partitions only. Raises PageError."""
    if not re.fullmatch(r"\d{1,9}:\d{1,19}(,\d{1,9}:\d{1,19})*", text):
        raise PageError(400, "This link is broken: begin again with the newest records.")
    parsed = (pair.partition(":") for pair in text.split(","))
    found = {int(index): min(int(offset), LARGEST_INT64) for index, _, offset in parsed}
    return {index: found[index] for index in partitions if index in found}


def _positions(visit: Visit, reads: TopicReads, partitions: tuple[int, ...]) -> Positions:
    query = visit.query
    if query.get("at"):
        return parsed_cursor(query["at"], partitions)
    if query.get("offset", "").strip():
        offset = visit.number("offset", 0)
        if not 0 <= offset <= LARGEST_INT64:
            raise PageError(400, "An offset is a whole number from 0 on.")
        return dict.fromkeys(partitions, offset)
    if query.get("time", "").strip():
        return starts_at(reads, partitions, time_of(query["time"]))
    return {}


def _record(visit: Visit, kept_bytes: int) -> Seen:
    reads = reads_of(visit)
    index = _partition(visit.path["partition"])
    offset = visit.path["offset"]
    if not re.fullmatch(r"\d{1,19}", offset) or int(offset) > LARGEST_INT64:
        raise PageError(404, "An offset is a whole number from 0 on.")
    spans, _ = reads.spans([index])
    if int(offset) in spans.get(index, ()):
        seen = read_record(reads, index, int(offset), kept_bytes)
        if seen is not None:
            return seen
    raise PageError(404, f"There is no record at offset {offset} of {reads.topic}-{index}.")


def _partition(text: str) -> int:
    text = text.strip()
    if not re.fullmatch(r"\d{1,9}", text):
        raise PageError(400, f"{text!r} is not the number of a partition.")
    return int(text)


def _part(
    excerpt: Excerpt | None,
    form: Form,
    shown_bytes: int,
    decoded: Shown | None = None,
    found: DecodedValue | None = None,
) -> MessagePart:
    if excerpt is None:
        return MessagePart(None, 0)
    start = Excerpt(excerpt.data[:shown_bytes], excerpt.size_bytes)
    shown = decoded or show(start, form)
    brief = None
    if shown.form is Form.HEX:
        first = start.data[: 2 * _LINE_CHARACTERS]
        brief = first.hex(" ") if form is Form.HEX else readable(first)
        if shown_bytes <= LIST_BYTES:
            # Five times as long as the bytes: a part of them is enough for lists.
            shown = show(Excerpt(start.data[:_LIST_HEX_BYTES], excerpt.size_bytes), Form.HEX)
    return MessagePart(shown, excerpt.size_bytes, found, brief)


ENTRIES = (
    Page("/topics/{topic}/messages", show_list, without_query(show_list)),
    Page("/topics/{topic}/messages/export", export),
    Page("/topics/{topic}/messages/{partition}/{offset}", show_record),
    Page("/topics/{topic}/messages/{partition}/{offset}/{part}", download),
)
