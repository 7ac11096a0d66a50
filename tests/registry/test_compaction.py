"""A topic that was compacted leaves the same registry, and so does one that is read twice."""

import random
from collections.abc import Sequence

import pytest

from tests.registry.rest import Rest, record
from wirekafka.registry.entry import Entry
from wirekafka.registry.writer import MemoryWriter

SUBJECTS = ("a", "b", ":.c:a")
TEXTS = [record(name=f"R{number}") for number in range(4)]
READS = (
    "GET /subjects",
    "GET /subjects?deleted=true",
    "GET /schemas?subjectPrefix=:*:&deleted=true",
    "GET /contexts",
    "GET /config",
    "GET /mode",
    *(f"GET /config/{subject}?defaultToGlobal=true" for subject in SUBJECTS),
    *(f"GET /mode/{subject}?defaultToGlobal=true" for subject in SUBJECTS),
    *(f"GET /schemas/ids/{id}/versions?deleted=true" for id in range(1, 9)),
    *(f"GET /schemas/ids/{id}?subject=:.c:" for id in range(1, 5)),
    *(f"GET /subjects/{subject}/versions/1/referencedby" for subject in SUBJECTS),
)


@pytest.mark.parametrize("seed", range(4))
def test_what_compaction_leaves_is_the_same_registry(seed: int) -> None:
    chance = random.Random(seed)
    with Rest().connected() as rest:
        rest("PUT /config", {"compatibility": "NONE"})
        answers = [change(rest, chance) for _ in range(80)]
        expected = [_without_times(rest(line).body) for line in READS]
    assert answers.count(200) > 25
    for entries in (rest.writer.entries, compacted(rest.writer.entries, chance)):
        with Rest(MemoryWriter(entries)).connected() as again:
            assert [_without_times(again(line).body) for line in READS] == expected


def test_an_id_is_never_given_again_whatever_was_compacted() -> None:
    """Compaction leaves the newest record of the topic alone, which has the highest ids."""
    entries: Sequence[Entry] = ()
    given: list[int] = []
    for context in ("", ":.c:"):
        for number in range(6):
            with Rest(MemoryWriter(entries)).connected() as rest:
                subject = f"{context}s{number}"
                given.append(rest.register(subject, record(name=f"R{number}")))
                for query in ("", "?permanent=true"):
                    assert rest(f"DELETE /subjects/{subject}{query}").status == 200
                if number % 2:  # Others write, too.
                    rest("PUT /config", {"compatibility": "NONE"})
                written = rest.writer.entries
            newest = {entry.key: offset for offset, entry in enumerate(written)}
            entries = [written[at] for at in sorted(newest.values()) if written[at].value][:-1]
            entries = [*entries, written[-1]]
    assert given == [1, 2, 3, 4, 5, 6] * 2


def change(rest: Rest, chance: random.Random) -> int:
    """Any change; most are allowed, as the registry is at the time."""
    subject, version = chance.choice(SUBJECTS), chance.choice((1, 2, 3, "latest"))
    permanent = chance.choice(("", "?permanent=true"))
    path = f"/subjects/{subject}"
    match chance.randrange(9):
        case 0 | 1 | 2 | 3:
            body: dict[str, object] = {"schema": chance.choice(TEXTS)}
            if chance.random() < 0.2:
                body["references"] = [{"name": "x.Y", "subject": "a", "version": 1}]
            return rest(f"POST {path}/versions", body).status
        case 4:
            return rest(f"DELETE {path}/versions/{version}{permanent}").status
        case 5:
            return rest(f"DELETE {path}{permanent}").status
        case 6:
            level = chance.choice(("NONE", "FULL"))
            rest(f"PUT /config/{subject}", {"compatibility": level})
            return rest(f"PUT /config/{subject}", {"compatibility": "NONE"}).status
        case 7:
            return rest(f"DELETE /config/{subject}").status
    rest(f"PUT /mode/{subject}", {"mode": "IMPORT"})
    id, text = chance.randrange(1, 8), chance.choice(TEXTS)
    rest(f"POST {path}/versions", {"schema": text, "id": id, "version": chance.randrange(1, 4)})
    return rest(f"DELETE /mode/{subject}").status


def compacted(entries: Sequence[Entry], chance: random.Random) -> Sequence[Entry]:
    """The newest record of each key up to some offset, and all records after it."""
    cleaned = chance.randrange(len(entries))
    newest = {entry.key: offset for offset, entry in enumerate(entries[:cleaned])}
    return [
        entry
        for offset, entry in enumerate(entries)
        if offset >= cleaned or newest[entry.key] == offset
    ]


def _without_times(body: object) -> object:
    if isinstance(body, list):
        return [_without_times(each) for each in body]
    if isinstance(body, dict):
        return {name: each for name, each in body.items() if name != "ts"}
    return body
