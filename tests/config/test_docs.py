"""The configuration page is up to date with the table of options."""

from wirekafka.config.docs import PAGE, page, used_names
from wirekafka.config.options import BROKER, CLIENT_METRICS, GROUP, TOPIC


def test_the_page_is_current():
    hint = "run `python -m wirekafka.config.docs`"
    assert PAGE.read_text(encoding="utf-8") == page(), hint


def test_every_option_is_explained_and_named_on_the_page():
    written = page()
    for table in (BROKER, TOPIC, GROUP, CLIENT_METRICS):
        for name, option in table.items():
            assert option.doc, f"{name} has no doc"
            assert option.internal or f"`{name}`" in written


def test_an_option_counts_as_used_only_if_code_reads_it():
    used = used_names()
    assert {"interval.ms", "match", "metrics", "streams.assignor.name"} <= used
    assert {"log.segment.bytes", "segment.bytes", "log.retention.hours", "listeners"} <= used
    assert "remote.log.delete.on.disable" in used, "tiering cannot be disabled without it"
    assert not {"ssl.protocol", "sasl.login.class", "zookeeper.connect"} & used
