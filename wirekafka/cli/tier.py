"""The object store of a cluster: what is in it, what is missing, and what belongs to nothing."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated

import typer

from wirekafka.cli.output import (
    BOOTSTRAP,
    AsJson,
    Bootstrap,
    CommandConfig,
    note,
    show_json,
    show_table,
)
from wirekafka.client.client import Client, CliError
from wirekafka.client.fetcher import TopicFetcher
from wirekafka.errors import KafkaError
from wirekafka.tiered.audit import TierAudit, audited, folded
from wirekafka.tiered.chunked_layout import ChunkedLayout, ChunkOptions
from wirekafka.tiered.layout import Layout
from wirekafka.tiered.local_layout import FOLDER, LocalLayout
from wirekafka.tiered.metadata_record import (
    REMOTE_LOG_METADATA_TOPIC,
    MalformedMetadata,
    MetadataRecord,
    decode,
)
from wirekafka.tiered.remote_segment import RemoteSegment, SegmentState
from wirekafka.tiered.store import ObjectStore, Store, StoreError

_EARLIEST = -2
_CHUNK_BYTES = 4 << 20
_WAIT_S = 1.0

app = typer.Typer(no_args_is_help=True, rich_markup_mode=None)

Url = Annotated[
    str | None, typer.Option("--tier", metavar="URL", help="The store, as in `serve --tier`.")
]
LocalDirectory = Annotated[
    str | None,
    typer.Option("--local", metavar="DIR", help="The directory of Kafka's LocalTieredStorage."),
]
KeyPrefix = Annotated[
    str, typer.Option("--key-prefix", metavar="PREFIX", help="Aiven's key.prefix.")
]


@app.command()
def status(
    bootstrap: Bootstrap = BOOTSTRAP, command_config: CommandConfig = None, as_json: AsJson = False
) -> None:
    """Print what each partition has in the store, by the cluster's metadata."""
    with Client(bootstrap, command_config) as client:
        tier = folded(_records(client))
    rows = []
    for partition, states in sorted(tier.items()):
        there = [each for each in states if each.state is SegmentState.COPY_FINISHED]
        rows.append(
            {
                "topic": partition.topic,
                "partition": partition.number,
                "segments": len(there),
                "bytes": sum(each.size_bytes for each in there),
                "start": min((each.start_offset for each in there), default=None),
                "end": max((each.end_offset for each in there), default=None),
                "unfinished": len(states) - len(there),
            }
        )
    if as_json:
        show_json(rows)
        return
    columns = ("topic", "partition", "segments", "bytes", "start", "end", "unfinished")
    show_table(columns, [tuple(row[name] for name in columns) for row in rows])


@app.command()
def verify(
    bootstrap: Bootstrap = BOOTSTRAP,
    command_config: CommandConfig = None,
    tier: Url = None,
    local: LocalDirectory = None,
    key_prefix: KeyPrefix = "",
    as_json: AsJson = False,
) -> None:
    """Compare the store with the metadata; fails if an object of a segment is missing."""
    with Client(bootstrap, command_config) as client:
        audit = _compared(client, *_opened(tier, local, key_prefix))
    _show(audit, as_json=as_json)
    if audit.holes:
        raise typer.Exit(1)


@app.command()
def scrub(
    bootstrap: Bootstrap = BOOTSTRAP,
    command_config: CommandConfig = None,
    tier: Url = None,
    local: LocalDirectory = None,
    key_prefix: KeyPrefix = "",
    fix: Annotated[bool, typer.Option("--fix", help="Delete them.")] = False,
) -> None:
    """Find objects of no segment of this cluster, and delete them with --fix.

    Without --fix nothing is changed. Objects of another cluster in the same place are found too.
    """
    store, layout = _opened(tier, local, key_prefix)
    with Client(bootstrap, command_config) as client:
        audit = _compared(client, store, layout)
    show_table(("object", "bytes"), [tuple(each) for each in audit.orphans])
    if not fix:
        return
    for each in audit.orphans:
        store.delete(each.key)
    note(f"deleted {len(audit.orphans)} objects")


def _opened(url: str | None, local: str | None, key_prefix: str) -> tuple[Store, Layout]:
    if (url is None) == (local is None):
        raise CliError("name the store by --tier or by --local")
    try:
        if local is not None:
            store: Store = ObjectStore.of_directory(f"{local}/{FOLDER}")
            return store, LocalLayout(store)
        store = ObjectStore.of_url(url or "")
    except KafkaError as error:
        raise CliError(error.message or str(error)) from error
    options = ChunkOptions(chunk_bytes=_CHUNK_BYTES, key_prefix=key_prefix)
    return store, ChunkedLayout(store, options)


def _compared(client: Client, store: Store, layout: Layout) -> TierAudit:
    try:
        objects = list(store.list(""))
    except StoreError as error:
        raise CliError(f"the store cannot be listed: {error}") from error
    return audited(folded(_records(client)), objects, layout)


def _records(client: Client) -> Iterator[MetadataRecord]:
    """All records of the metadata topic, in order within each of its partitions."""
    fetcher = TopicFetcher(client, REMOTE_LOG_METADATA_TOPIC, committed_only=False)
    fetcher.assign(fetcher.offsets(fetcher.partitions(), _EARLIEST))
    ends = fetcher.ends()
    skipped = 0
    while not fetcher.has_reached(ends):
        for found in fetcher.fetch(_WAIT_S):
            try:
                yield decode(found.value)
            except MalformedMetadata:
                skipped += 1
    if skipped:
        note(f"skipped {skipped} records that cannot be decoded")


def _show(audit: TierAudit, *, as_json: bool) -> None:
    rows: list[dict[str, object]] = [
        *({"problem": "hole", "object": key, **_named(segment)} for segment, key in audit.holes),
        *({"problem": "unfinished", "object": "", **_named(each)} for each in audit.unfinished),
    ]
    rows += [{"problem": "orphan", "object": each.key} for each in audit.orphans]
    if as_json:
        show_json(rows)
        return
    columns = ("problem", "topic", "partition", "start", "state", "object")
    show_table(columns, [tuple(row.get(name, "") for name in columns) for row in rows])


def _named(segment: RemoteSegment) -> dict[str, object]:
    return {
        "topic": segment.partition.topic,
        "partition": segment.partition.number,
        "start": segment.start_offset,
        "state": segment.state.name,
    }
