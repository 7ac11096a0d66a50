"""CreateTopics: the configurations of new topics."""

from __future__ import annotations

from collections.abc import Iterable

from wirekafka.conformance.case import Book, ConformanceLevel
from wirekafka.conformance.cases.admin.configured import TOPIC, values_of
from wirekafka.conformance.cases.admin.create_topics import ask, await_partitions, create, new
from wirekafka.conformance.cases.admin.topic_configs import MALFORMED, TOGETHER, TOPIC_CONFIGS
from wirekafka.conformance.stage import Stage
from wirekafka.protocol.create_topics import CreateTopicsRequest, CreateTopicsResponse

BOOK = Book(CreateTopicsRequest, "administration", ConformanceLevel.ADMIN, "KIP-525")


def _case(title: str, configs: Iterable[tuple[str, str | None]]) -> None:
    @BOOK.play(title, versions="2,5,7")
    def _play(stage: Stage) -> None:
        ask(stage, create(new(stage.name("new"), configs=configs)))


for _config in TOPIC_CONFIGS:
    _case(f"configured {_config.name}", [(_config.name, _config.valid)])
    _case(f"badly configured {_config.name}", [(_config.name, _config.invalid)])
for _what, _pair in MALFORMED.items():
    _case(f"configured with {_what}", [_pair])
for _what, _pairs in TOGETHER.items():
    _case(f"configured with {_what}", _pairs)
_case("configured with null", [("retention.ms", None)])
_case("configured with null for an unknown name", [("no.such.key", None)])
_case("configured twice with a name", [("retention.ms", "1"), ("retention.ms", "2")])


@BOOK.play("configurations that are kept", versions="2,7")
def _kept(stage: Stage) -> None:
    """The topic is described with the configurations that it was created with, as written."""
    name = stage.name("new")
    configs = [("retention.ms", "5000"), ("cleanup.policy", "compact, delete")]
    configs.append(("min.cleanable.dirty.ratio", "0.250"))
    ask(stage, create(new(name, configs=configs), validate_only=False))
    await_partitions(stage, name, 1)
    stage.until(lambda: values_of(stage, TOPIC, name), "the configurations")
    stage.note("configurations", values_of(stage, TOPIC, name))


@BOOK.play("the configurations in an answer", versions="5+", source="KIP-525")
def _listed(stage: Stage) -> None:
    """All configurations of topics are listed, their values being the installation's."""
    answer = stage.do(create(new(stage.name("new"))))
    assert isinstance(answer, CreateTopicsResponse)
    stage.note(
        "configurations",
        [
            {"name": each.name, "read_only": each.read_only, "is_sensitive": each.is_sensitive}
            for each in answer.topics[0].configs or ()
        ],
    )
    stage.note(
        "those of the topic",
        [each.name for each in answer.topics[0].configs or () if each.config_source == 1],
    )
