"""`wirekafka produce` and `wirekafka consume`."""

import json
import sys

import pytest

from wirekafka.client.partitioner import murmur2, partition_of


def read(run, topic, *words):
    outcome = run("consume", topic, "--from", "beginning", "--exit-at-end", "--json", *words)
    assert outcome.status == 0, outcome.err
    return [json.loads(line) for line in outcome.out.splitlines()]


# Kafka's own examples (UtilsTest).
@pytest.mark.parametrize(
    ("key", "signed"),
    [
        ("21", -973932308),
        ("foobar", -790332482),
        ("a-little-bit-long-string", -985981536),
        ("a-little-bit-longer-string", -1486304829),
        ("abc", 479470107),
        ("lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8", -58897971),
    ],
)
def test_keys_hash_as_in_java(key, signed):
    assert murmur2(key.encode()) == signed % (1 << 32)


@pytest.mark.parametrize("compression", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_lines_become_records(run, topic, compression):
    lines = "".join(f"line {number}\n" for number in range(1000))
    outcome = run("produce", topic, "-z", compression, given=lines)
    assert (outcome.status, outcome.err) == (0, f"1000 records to {topic}\n")
    values = [record["value"] for record in read(run, topic)]
    assert sorted(values) == sorted(lines.splitlines())


def test_keyed_records_go_to_the_same_partitions_as_in_java(run, topic):
    run("produce", topic, "-K", ":", given="".join(f"key{n}:{n}\n" for n in range(50)))
    records = read(run, topic)
    assert len(records) == 50
    for record in records:
        assert record["key"] == f"key{record['value']}"
        assert record["partition"] == partition_of(record["key"].encode(), 3)


def test_a_line_without_its_key_separator_is_reported_by_number(run, topic):
    outcome = run("produce", topic, "-K", ":", given="a:1\nnothing\n")
    assert (outcome.status, outcome.err) == (1, "wirekafka: line 2: no key separator\n")


def test_headers_partition_and_nulls_are_as_requested(run, topic):
    run("produce", topic, "-p", "2", "-H", "from=test", "-Z", "NULL", given="NULL\nx\n")
    first, second = read(run, topic)
    assert (first["partition"], first["value"]) == (2, None)
    assert second["headers"] == [{"name": "from", "value": "test"}]


def test_json_lines_contain_every_field_of_a_record(run, topic):
    line = {"key": "k", "value": {"a": 1}, "headers": {"h": "v"}, "partition": 1, "timestamp": 77}
    outcome = run("produce", topic, "--json-input", "--json", given=json.dumps(line) + "\n")
    assert json.loads(outcome.out) == {"topic": topic, "records": 1, "partitions": {"1": 1}}
    assert read(run, topic) == [
        {
            "topic": topic,
            "partition": 1,
            "offset": 0,
            "timestamp": 77,
            "key": "k",
            "value": '{"a": 1}',
            "headers": [{"name": "h", "value": "v"}],
        }
    ]
    bad = run("produce", topic, "--json-input", given="{\n")
    assert bad.err.startswith("wirekafka: line 1: not JSON: ")


def test_acks_0_is_not_waited_for(run, topic):
    assert run("produce", topic, "-a", "0", given="a\n").status == 0
    assert run("consume", topic, "-f", "beginning", "-n", "1", "-t", "10").out == "a\n"


def test_reading_starts_at_the_requested_offset(run, topic):
    run("produce", topic, "-p", "0", given="".join(f"{n}\n" for n in range(10)))

    def from_(where: str) -> list[str]:
        return run("consume", topic, "-p", "0", "-f", where, "-e").out.split()

    assert from_("7") == ["7", "8", "9"]
    assert from_("-2") == ["8", "9"]
    assert from_("end") == []
    assert from_("@0") == [str(n) for n in range(10)]
    assert from_("@99999999999999") == []


def test_reading_stops_at_the_requested_offset(run, topic):
    run("produce", topic, "-p", "0", given="a\nb\nc\n")
    assert run("consume", topic, "-f", "beginning", "-n", "2").out == "a\nb\n"
    assert run("consume", topic, "-f", "beginning", "-t", "0.2").out == "a\nb\nc\n"


def test_a_template_prints_any_part_of_a_record(run, topic):
    run("produce", topic, "-p", "1", "-K", "=", "-H", "h=v", given="k=v\n")
    template = "%t %p %o %k %v %h %%\\n"
    assert run("consume", topic, "-f", "beginning", "-e", "--format", template).out == (
        f"{topic} 1 0 k v h=v %\n"
    )


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (("-f", "x"), "bad --from 'x'"),
        (("-p", "77"), "has no partition 77"),
        (("-g", "g", "-p", "1"), "--group and --partition"),
        (("-p", "0", "-f", "99"), "offset 99: beyond the end (OFFSET_OUT_OF_RANGE)"),
    ],
)
def test_unreadable_input_is_reported_in_one_line(run, topic, words, complaint):
    outcome = run("consume", topic, *words)
    assert outcome.status == 1
    assert complaint in outcome.err
    assert outcome.err.count("\n") == 1


HOSTILE = "\x1b]0;owned\x07\x1b[2J\u202eend"


def test_records_do_not_control_the_terminal_that_they_are_shown_on(run, topic, monkeypatch):
    line = f"{HOSTILE}|{HOSTILE} name|value\tof {HOSTILE}"
    assert run("produce", topic, "-K", "|", given=f"k{line}\n").status == 0
    words = ("consume", topic, "--from", "beginning", "--exit-at-end")
    piped = run(*words, "--format", "%k=%v\\n")
    assert HOSTILE in piped.out
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True, raising=False)
    for form in ("%v\\n", "%t %k=%v %h\\n"):
        shown = run(*words, "--format", form)
        assert shown.status == 0, shown.err
        assert "\\u001b]0;owned\\u0007\\u001b[2J\\u202eend" in shown.out
        assert shown.out.replace("\n", "").replace("\t", "").isprintable()
        assert "value\tof" in shown.out
    assert run(*words, "--format", "\\x1b[1m%p\\n").out == "\x1b[1m0\n"
