"""The options of the data source: which are known, what they mean, and which errors name them."""

import pickle
import re
from pathlib import Path

import pytest

from wirekafka.reader.problems import ReaderError
from wirekafka.spark.access import open_log
from wirekafka.spark.option_texts import OptionError
from wirekafka.spark.options import (
    EARLIEST,
    LATEST,
    ChosenTopics,
    Position,
    batch_options,
    chosen_columns,
    stream_options,
)

GUIDE = Path(__file__).resolve().parents[2] / "docs" / "how-to" / "read-with-spark.md"
BROKERS = {"kafka.bootstrap.servers": "localhost:9092"}
DOCUMENTED_NAMES = "\n".join(
    line.split("|")[1]
    for line in GUIDE.read_text().partition("## Options")[2].partition("\n## ")[0].splitlines()
    if line.startswith("| `")
)
"""The first column of the guide's table of options."""
ORDERS = BROKERS | {"subscribe": "orders"}


def test_a_batch_reads_everything_that_is_committed_by_default() -> None:
    options = batch_options(ORDERS)
    assert options.topics == ChosenTopics(names=("orders",))
    assert (options.start, options.end) == (Position(EARLIEST), Position(LATEST))
    assert options.isolation == "read_committed"
    assert options.fails_on_data_loss
    assert options.bootstrap == "localhost:9092"


def test_a_stream_begins_at_the_latest_offsets_by_default() -> None:
    assert stream_options(ORDERS).start == Position(LATEST)


def test_names_of_options_have_no_case() -> None:
    options = batch_options({"path": "/data", "SUBSCRIBE": "b, a", "failondataloss": "FALSE"})
    assert options.topics.names == ("a", "b")
    assert options.paths == ("/data",)
    assert not options.fails_on_data_loss


def test_several_directories_are_one_log() -> None:
    assert batch_options({"paths": '["/one", "/two"]', "subscribe": "a"}).paths == ("/one", "/two")


def test_offsets_and_times_are_by_partition() -> None:
    given = ORDERS | {
        "startingOffsets": '{"orders": {"0": -2, "1": 5}}',
        "endingOffsetsByTimestamp": '{"orders": {"0": 1700000000000, "1": 0}}',
    }
    options = batch_options(given)
    assert options.start.offsets == {"orders": {0: EARLIEST, 1: 5}}
    assert options.end.timestamps_ms == {"orders": {0: 1_700_000_000_000, 1: 0}}


def test_options_of_connections_are_kafkas() -> None:
    given = ORDERS | {"kafka.security.protocol": "SASL_SSL", "kafka.sasl.mechanism": "PLAIN"}
    options = batch_options(given)
    assert options.client == {"security.protocol": "SASL_SSL", "sasl.mechanism": "PLAIN"}
    assert batch_options(ORDERS | {"kafka.isolation.level": "read_uncommitted"}).isolation == (
        "read_uncommitted"
    )


def test_options_can_be_sent_to_tasks() -> None:
    options = batch_options(ORDERS | {"startingTimestamp": "7", "columns": "offset,value"})
    assert pickle.loads(pickle.dumps(options)) == options


def test_columns_are_chosen_and_headers_are_added() -> None:
    assert chosen_columns({}) == (None, False)
    assert chosen_columns({"columns": "value, offset"}) == (("value", "offset"), False)
    assert chosen_columns({"includeHeaders": "true"}) == (None, True)


@pytest.mark.parametrize(
    ("given", "named"),
    [
        ({"subscribe": "a"}, "kafka.bootstrap.servers"),
        (BROKERS, "subscribe"),
        (ORDERS | {"path": "/data"}, "kafka.bootstrap.servers contradicts path"),
        (ORDERS | {"assign": '{"orders": [0]}'}, "assign contradicts subscribe"),
        (ORDERS | {"startingTimestamp": "1", "startingOffsets": "earliest"}, "startingOffsets"),
        (ORDERS | {"startingOffsets": "latest"}, "startingOffsets"),
        (ORDERS | {"startingOffsets": '{"orders": {"0": -1}}'}, "startingOffsets"),
        (ORDERS | {"startingOffsets": '{"orders": {"0": -3}}'}, "startingOffsets"),
        (ORDERS | {"startingOffsets": "first"}, "startingOffsets"),
        (ORDERS | {"startingOffsets": '{"orders": [0]}'}, "startingOffsets"),
        (ORDERS | {"startingOffsets": '{"orders": {"a": 0}}'}, "startingOffsets"),
        (ORDERS | {"endingOffsets": "earliest"}, "endingOffsets"),
        (ORDERS | {"endingOffsets": '{"orders": {"0": -2}}'}, "endingOffsets"),
        (ORDERS | {"endingTimestamp": "yesterday"}, "endingTimestamp"),
        (ORDERS | {"maxOffsetsPerTrigger": "10"}, "maxOffsetsPerTrigger"),
        (ORDERS | {"minPartitions": "0"}, "minPartitions"),
        (ORDERS | {"failOnDataLoss": "maybe"}, "failOnDataLoss"),
        (ORDERS | {"columns": "value,price"}, "columns: no column price"),
        (ORDERS | {"groupIdPrefix": "mine"}, "groupIdPrefix"),
        (ORDERS | {"kafka.group.id": "mine"}, "kafka.group.id"),
        (ORDERS | {"kafka.security.protocol": "TLS"}, "kafka.security.protocol"),
        (ORDERS | {"kafka.isolation.level": "none"}, "kafka.isolation.level"),
        (ORDERS | {"tier": "file:///tier"}, "tier contradicts kafka.bootstrap.servers"),
        (ORDERS | {"onError": "skip"}, "onError contradicts kafka.bootstrap.servers"),
        ({"path": "/data", "paths": '["/data"]', "subscribe": "a"}, "paths contradicts path"),
        ({"paths": "7", "subscribe": "a"}, "paths"),
        ({"paths": '"/data"', "subscribe": "a"}, "paths"),
        ({"paths": "[7]", "subscribe": "a"}, "paths"),
        (BROKERS | {"subscribePattern": "("}, "subscribePattern"),
        (BROKERS | {"assign": '{"orders": []}'}, "assign"),
        ({"path": "/data", "subscribe": "a", "kafka.client.id": "me"}, "kafka.client.id needs"),
    ],
)
def test_an_error_names_the_option(given: dict[str, str], named: str) -> None:
    with pytest.raises(OptionError) as raised:
        batch_options(given)
    assert named in str(raised.value)


@pytest.mark.parametrize("name", re.findall(r"`(\w[\w.]+)`", DOCUMENTED_NAMES))
def test_each_documented_option_is_read(name: str) -> None:
    read = stream_options if name == "maxOffsetsPerTrigger" else batch_options
    given = {} if name in ("subscribe", "assign", "subscribePattern") else {"subscribe": "orders"}
    source = {"path": "/data"} if name in ("tier", "onError") else BROKERS
    with pytest.raises(OptionError, match=rf"^{name}: "):
        read(source | given | {name: "(" if name == "subscribePattern" else " "})


@pytest.mark.parametrize("name", ["endingOffsets", "endingTimestamp", "endingOffsetsByTimestamp"])
def test_a_stream_has_no_end(name: str) -> None:
    with pytest.raises(OptionError, match=name):
        stream_options(ORDERS | {name: "latest"})


def test_a_wrong_login_does_not_show_its_password() -> None:
    login = 'Module required password="planted-secret-of-spark"'
    given = ORDERS | {
        "kafka.security.protocol": "SASL_PLAINTEXT",
        "kafka.sasl.mechanism": "PLAIN",
        "kafka.sasl.jaas.config": login,
    }
    options = batch_options(given)
    with pytest.raises(ReaderError, match=r"sasl.jaas.config|log in by PLAIN") as raised:
        open_log(options)
    assert "planted-secret" not in f"{raised.value}{options}"
