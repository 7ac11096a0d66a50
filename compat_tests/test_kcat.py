"""kcat, as Debian packages it."""

import json
import shutil
import subprocess

import pytest

from compat_tests.conftest import NewTopicName

pytestmark = pytest.mark.skipif(
    shutil.which("kcat") is None, reason="kcat is not installed (Debian: apt install kcat)"
)


def kcat(bootstrap: str, *arguments: str, stdin: str = "") -> str:
    done = subprocess.run(
        ["kcat", "-b", bootstrap, *arguments],
        input=stdin,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_kcat_produces_and_consumes(bootstrap: str, topic: str, codec: str) -> None:
    lines = [f"key{number}\tvalue {number}" for number in range(100)]
    produce = ("-P", "-t", topic, "-K", "\t", "-z", codec, "-H", "from=kcat")
    kcat(bootstrap, *produce, stdin="\n".join(lines))
    shown = kcat(bootstrap, "-C", "-t", topic, "-o", "beginning", "-e", "-f", "%k\t%s %o %h\n")
    expected = [f"{line} {number} from=kcat" for number, line in enumerate(lines)]
    assert shown.splitlines() == expected


def test_kcat_lists_metadata(bootstrap: str, new_topic: NewTopicName) -> None:
    topic = new_topic(2)
    metadata = json.loads(kcat(bootstrap, "-L", "-J", "-t", topic))
    assert [broker["name"] for broker in metadata["brokers"]] == [bootstrap]
    (found,) = metadata["topics"]
    assert [partition["partition"] for partition in found["partitions"]] == [0, 1]


def test_kcat_queries_offsets_by_time(bootstrap: str, topic: str) -> None:
    kcat(bootstrap, "-P", "-t", topic, stdin="a\nb\nc")
    for timestamp, offset in ((-1, 3), (-2, 0), (1000, 0)):
        found = kcat(bootstrap, "-Q", "-t", f"{topic}:0:{timestamp}")
        assert found.strip() == f"{topic} [0] offset {offset}"


def test_kcat_joins_a_group(bootstrap: str, topic: str, unique: str) -> None:
    kcat(bootstrap, "-P", "-t", topic, stdin="a\nb\nc")
    group = ("-G", unique, "-X", "auto.offset.reset=earliest", "-c", "3", topic)
    assert kcat(bootstrap, *group).splitlines() == ["a", "b", "c"]


def test_kcat_reads_the_last_records(bootstrap: str, topic: str) -> None:
    kcat(bootstrap, "-P", "-t", topic, stdin="\n".join("abcdef"))
    assert kcat(bootstrap, "-C", "-t", topic, "-o", "-2", "-e").splitlines() == ["e", "f"]
