"""`wirekafka serve --tier s3://...` on an S3 server: copies, reads, deletes, fails, recovers."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from compat_tests.s3_server import S3Server
from compat_tests.tiered import LATEST_TIERED, offset
from compat_tests.tiered_topic import TieredTopic
from tests.eventually import eventually
from tests.server.serving import Serving

_BUCKET = "segments"
_URL = f"s3://{_BUCKET}/production"
_FIRST_MS = 1_700_000_000_000
_OPTIONS = tuple(
    word
    for setting in (
        "remote.log.manager.task.interval.ms=200",
        "log.retention.check.interval.ms=200",
        "rlmm.config.remote.log.metadata.topic.num.partitions=1",
    )
    for word in ("--set", setting)
)
_NO_ERROR, _UNKNOWN_SERVER_ERROR = 0, -1


@dataclass
class Tiered:
    """A broker process whose tier is on an S3 server."""

    s3: S3Server
    serving: Serving

    def topic(self, name: str, **configs: str) -> TieredTopic:
        """A new topic; dots in the names of options are underscores."""
        dotted = {key.replace("_", "."): value for key, value in configs.items()}
        topic = TieredTopic(self.bootstrap, Path(), name, dotted)
        topic.create()
        return topic

    @property
    def bootstrap(self) -> str:
        return f"127.0.0.1:{self.serving.port}"

    def objects(self, topic: str) -> list[str]:
        """The keys of a topic's objects in the bucket, below the prefix."""
        return [
            each["path"]
            for found in self.s3.store.list(prefix="production")
            for each in found
            if each["path"].startswith(f"production/{topic}-")
        ]

    def command(self, *arguments: str, url: str = _URL) -> subprocess.CompletedProcess[str]:
        """Run `wirekafka tier`."""
        store = () if arguments[0] == "status" else ("--tier", url)
        place = ("--bootstrap-server", self.bootstrap, *store)
        return subprocess.run(
            [sys.executable, "-m", "wirekafka", "tier", *arguments, *place],
            env={**os.environ, **self.s3.environment},
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )


@pytest.fixture(scope="module")
def tiered(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Tiered]:
    scratch = tmp_path_factory.mktemp("s3")
    with (
        S3Server.running(_BUCKET, scratch / "s3.log") as s3,
        Serving(scratch / "data", "--tier", _URL, *_OPTIONS, environment=s3.environment) as serving,
    ):
        yield Tiered(s3, serving)


def test_a_topic_is_copied_to_s3_read_from_there_and_deleted_by_retention(tiered: Tiered) -> None:
    topic = tiered.topic("plain")
    topic.produce(90, _FIRST_MS)
    topic.settled(tiered_up_to=799)
    assert topic.read_all() == 900
    assert len(tiered.objects("plain")) == 3 * 4

    [row] = json.loads(tiered.command("status", "--json").stdout)
    assert (row["topic"], row["segments"], row["start"], row["end"]) == ("plain", 4, 0, 800)
    assert json.loads(tiered.command("verify", "--json").stdout) == []
    tiered.s3.store.put("production/left-behind/0/1.log", b"left")
    assert "left-behind/0/1.log" in tiered.command("scrub").stdout
    assert "deleted 1 objects" in tiered.command("scrub", "--fix").stderr
    assert json.loads(tiered.command("verify", "--json").stdout) == []

    assert topic.configure(retention_bytes=str(3 << 20)) == ""
    eventually(lambda: len(tiered.objects("plain")) == 3 * 3)
    assert topic.read_all() == 900 - 200
    topic.delete()
    eventually(lambda: not tiered.objects("plain"))


def test_while_s3_is_down_errors_are_retriable_and_afterwards_all_goes_on(tiered: Tiered) -> None:
    topic = tiered.topic("interrupted")
    topic.produce(50, _FIRST_MS)
    topic.settled(tiered_up_to=399)
    tiered.s3.stop()

    topic.produce(50, _FIRST_MS + 500)
    eventually(lambda: topic.fetches([0])["0 at isolation 0"]["error"] == _UNKNOWN_SERVER_ERROR)
    assert tiered.s3.url in _only_line(tiered.command("verify"))
    assert offset(topic.bootstrap, "interrupted", LATEST_TIERED)[2] == 399

    tiered.s3.start()
    topic.settled(tiered_up_to=799)
    # A read that began while S3 was down may have failed since.
    eventually(lambda: topic.fetches([0])["0 at isolation 0"]["error"] == _NO_ERROR)
    assert topic.read_all() == 1_000
    eventually(lambda: json.loads(tiered.command("verify", "--json").stdout) == [])


def test_what_is_wrong_with_the_bucket_or_the_credentials_is_said_in_one_line(
    tiered: Tiered, tmp_path: Path
) -> None:
    url, reason = "s3://no-such-bucket/x", "NoSuchBucket: The specified bucket does not exist"
    assert _refusal(tmp_path / "one", url, tiered.s3) == f"{url}: {reason}"
    assert reason in _only_line(tiered.command("verify", url=url))

    tiered.s3.refuse_unknown_users()
    try:
        refused = _refusal(tmp_path / "two", _URL, tiered.s3)
        assert refused.startswith(f"{_URL}: InvalidAccessKeyId: The AWS Access Key Id")
        assert "InvalidAccessKeyId" in _only_line(tiered.command("scrub"))
    finally:
        tiered.s3.accept_all()


def _only_line(done: subprocess.CompletedProcess[str]) -> str:
    assert done.returncode == 1, done
    [line] = done.stderr.splitlines()
    return line


def _refusal(data: Path, url: str, s3: S3Server) -> str:
    """Why a broker does not start with a store, without what precedes its URL."""
    with Serving(data, "--tier", url, environment=s3.environment) as refused:
        assert refused.ready == ""
        assert refused.stop() == 1
    [line] = [line for line in refused.errors.splitlines() if url in line]
    return url + line.partition(url)[2]
