"""The developers' documents name only what exists, and their commands work."""

from __future__ import annotations

import ast
import importlib.util
import inspect
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import typer

from docs.draw_architecture import drawing
from tests.test_layout import LAYERS, PACKAGE, ROOT
from wirekafka.apis.shared import registry, routes
from wirekafka.cli import serve
from wirekafka.cli.main import build
from wirekafka.config.option import ConfigError
from wirekafka.config.options import rows
from wirekafka.errors import Error

DOCS = ROOT / "docs"
KINDS = ("tutorials", "how-to", "reference", "explanation")
PAGES = (DOCS / "index.md", *sorted(path for kind in KINDS for path in (DOCS / kind).glob("*.md")))
ARCHITECTURE = DOCS / "explanation" / "architecture.md"
WHERE_TO_START = DOCS / "how-to" / "where-to-start.md"
CONTRIBUTING = ROOT / "CONTRIBUTING.md"
NAMED = (ARCHITECTURE, CONTRIBUTING)
READ_WITH_THE_CODE = (
    DOCS / "explanation" / "high-watermark.md",
    DOCS / "explanation" / "how-kafka-works.md",
    DOCS / "explanation" / "reader.md",
    DOCS / "explanation" / "tiered.md",
    WHERE_TO_START,
)
LINKED = (
    *PAGES,
    CONTRIBUTING,
    ROOT / "README.md",
    ROOT / "CHANGELOG.md",
    ROOT / "CODE_OF_CONDUCT.md",
    ROOT / "SECURITY.md",
    ROOT / ".github" / "pull_request_template.md",
    ROOT / ".github" / "PULL_REQUEST_TEMPLATE" / "conformance-results.md",
    ROOT / "benchmarks" / "README.md",
    ROOT / "spark_examples" / "README.md",
)
MOST_STEPS = 10

each_document = pytest.mark.parametrize("page", NAMED, ids=lambda page: page.name)


def test_every_page_is_of_one_of_the_four_kinds() -> None:
    assert set(DOCS.rglob("*.md")) == set(PAGES)


def test_the_pages_are_built_into_a_site(tmp_path: Path) -> None:
    """Strictly: each page is in the navigation, and no link or anchor leads nowhere.

    With `--quiet`, warnings would not count.
    """
    pytest.importorskip("mkdocs", reason="an extra of this project: docs")
    built = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--site-dir", tmp_path / "site"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert built.returncode == 0, built.stderr
    assert (tmp_path / "site" / "explanation" / "high-watermark.html").exists()
    assert not list((tmp_path / "site").rglob("*.py"))


def test_the_index_names_every_page() -> None:
    links = re.findall(r"\]\(([^)#]+)\)", (DOCS / "index.md").read_text())
    assert {DOCS / link for link in links} | {DOCS / "index.md"} == set(PAGES)


@pytest.mark.parametrize(
    "page", (*PAGES, ROOT / "README.md"), ids=lambda page: str(page.relative_to(ROOT))
)
def test_commands_of_wirekafka_have_the_options_that_pages_give_them(page: Path) -> None:
    unknown = [
        (line, option)
        for line in _commands_of_wirekafka(page)
        for option in re.findall(r" (--[a-z][a-z-]*)", line)
        if option not in _options(*shlex.split(line)[1:3])
    ]
    assert unknown == []


def test_commands_behind_blocks_of_other_languages_are_found() -> None:
    found = _commands_of_wirekafka(DOCS / "tutorials" / "first-broker.md")
    assert "wirekafka consume orders --group billing --exit-at-end" in found


@pytest.mark.parametrize("page", LINKED, ids=lambda page: str(page.relative_to(ROOT)))
def test_targets_of_make_and_variables_that_are_named_exist(page: Path) -> None:
    text = page.read_text()
    targets = set(re.findall(r"(?:`|^)make ([a-z][a-z-]*)", text, re.MULTILINE))
    makefile = (ROOT / "Makefile").read_text()
    assert [name for name in targets if not re.search(rf"^{name}:", makefile, re.MULTILINE)] == []
    variables = set(re.findall(r"`(?:[^`\n]* )?(WIREKAFKA_[A-Z_]+)", text))
    assert [name for name in variables if name not in _texts()] == []


@pytest.mark.parametrize("page", READ_WITH_THE_CODE, ids=lambda page: page.name)
def test_every_place_in_the_code_that_is_named_exists(page: Path) -> None:
    places = [name for name in _names(page) if "/" in name and "(" not in name]
    assert len(places) > 15
    assert [place for place in places if not _is_in_the_code(place)] == []


def test_the_layers_can_be_drawn() -> None:
    assert "replication" in drawing()


def test_the_table_of_layers_is_that_of_the_layout_test() -> None:
    table = _section(ARCHITECTURE, "## Layers")
    assert tuple(reversed(re.findall(r"^\| `(\w+)` \|", table, re.MULTILINE))) == LAYERS


@each_document
def test_every_file_that_is_named_exists(page: Path) -> None:
    paths = [name for name in _names(page) if "/" in name or name.endswith(".py")]
    assert len(paths) > 15
    missing = [
        path
        for path in paths
        if not (ROOT / path).exists()
        and not (PACKAGE / path).exists()
        and not path.endswith("/count_topics.py")
        and not path.endswith("/test_count_topics.py")
    ]
    assert missing == []


@each_document
def test_every_class_and_method_that_is_named_exists(page: Path) -> None:
    classes = [name for name in _names(page) if re.fullmatch(r"[A-Z]\w*[a-z]\w*(\.[a-z_]+)?", name)]
    assert len(classes) > 3
    known = _definitions() | {"CountTopics"}
    assert [name for name in classes if name not in known] == []


@each_document
def test_every_constant_and_error_that_is_named_exists(page: Path) -> None:
    constants = [name for name in _names(page) if re.fullmatch(r"[A-Z][A-Z_]+", name)]
    known = {error.name for error in Error} | _definitions()
    assert [name for name in constants if name not in known] == []


@each_document
def test_every_function_that_is_named_with_its_arguments_exists(page: Path) -> None:
    calls = [match[1] for name in _names(page) if (match := re.match(r"(\w+)\(", name))]
    known = {name.rpartition(".")[2] for name in _definitions()}
    bad_examples = {"append"}
    assert [name for name in calls if name not in known | bad_examples] == []


@pytest.mark.parametrize(
    "request_name", ["Produce", "Fetch", "JoinGroup", "EndTxn", "CreateTopics"]
)
def test_the_path_of_a_request_is_short_and_goes_down_the_layers(request_name: str) -> None:
    section = _section(ARCHITECTURE, f"### {request_name}")
    steps = re.findall(r"^\d+\. `([\w/]+\.py)`", section, re.MULTILINE)
    assert len(steps) == len(re.findall(r"^\d+\. ", section, re.MULTILINE)) <= MOST_STEPS
    for part in re.split(r"\nOnce .*:\n", section):
        heights = [
            _height(path) for path in re.findall(r"^\d+\. `([\w/]+\.py)`", part, re.MULTILINE)
        ]
        assert heights == sorted(heights, reverse=True), part


@pytest.mark.parametrize("page", LINKED, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_to_files_that_exist(page: Path) -> None:
    links = re.findall(r"\]\((?!https?:)([^)#]*)(?:#([^)]*))?\)", page.read_text())
    assert [
        (link, anchor)
        for link, anchor in links
        if not (target := page.parent / link if link else page).exists()
        or (anchor and anchor not in _anchors(target))
    ] == []


def _anchors(page: Path) -> set[str]:
    text = re.sub(r"```.*?```", "", page.read_text(), flags=re.DOTALL)
    return {
        re.sub(r"[^a-z0-9_ -]", "", heading.lower()).replace(" ", "-")
        for heading in re.findall(r"^#+ (.*)$", text, re.MULTILINE)
    }


def _commands() -> list[str]:
    text = CONTRIBUTING.read_text() + WHERE_TO_START.read_text()
    blocks = re.findall(r"```sh\n(.*?)```", text, re.DOTALL)
    lines = [line.partition("  #")[0].strip() for block in blocks for line in block.splitlines()]
    return list(dict.fromkeys(line for line in lines if line))


@pytest.mark.parametrize("command", _commands())
def test_the_commands_for_contributors_work(command: str) -> None:
    """Quick commands are run; of long ones only the start is checked."""
    words = shlex.split(command)
    environment = dict(os.environ)
    while "=" in words[0]:
        name, _, environment[name] = words.pop(0).partition("=")
        assert name in _texts(), f"nothing reads {name}"
    if words[0] == "make":
        assert re.search(rf"^{words[1]}:", (ROOT / "Makefile").read_text(), re.MULTILINE)
        return
    if words[0] == "git":
        subprocess.run(words, cwd=ROOT, stdout=subprocess.DEVNULL, timeout=60, check=True)
        return
    if words[0] != ".venv/bin/python":
        assert os.access(ROOT / words[0], os.X_OK)
        return
    arguments = _quick(words[1:])
    done = subprocess.run(
        [sys.executable, *arguments],
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr


def _quick(arguments: list[str]) -> list[str]:
    """The same command without its work, where that takes long or writes files."""
    module = arguments[arguments.index("-m") + 1]
    match module:
        case "pytest" if "--record-seconds" in arguments:
            assert "--record-seconds" in _usage(*arguments)
            return ["-m", "pytest", "--version"]
        case "pytest":
            return [*arguments, "--collect-only"]
        case "tests.simulation" if "--show" in arguments:
            return arguments
        case "wirekafka":
            return arguments
        case "tests.attacks" | "tests.simulation" | "tests.histories" | "benchmarks":
            usage = _usage("-m", module)
            options = [word for word in arguments if word.startswith("--")]
            assert [option for option in options if option not in usage] == []
            return ["--version"]
        case _:
            assert len(arguments) == 2, "an option that nothing checks"
            return ["-c", f"import importlib.util as u; assert u.find_spec({module!r})"]


@cache
def _usage(*arguments: str) -> str:
    return subprocess.run(
        [sys.executable, *arguments, "--help"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    ).stdout


def _examples() -> list[str]:
    return re.findall(r"```python\n(.*?)```", CONTRIBUTING.read_text(), re.DOTALL)


def test_the_example_of_an_api_is_served(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registry, "_apis", dict(registry.load()))
    monkeypatch.setattr(routes.BROKERS, "known", {})
    schema, api, test, _ = _examples()
    schemas = _module("wirekafka.protocol.count_topics", schema, tmp_path, monkeypatch)
    module = _module("count_topics_example", api, tmp_path, monkeypatch)
    assert inspect.getdoc(schemas) and inspect.getdoc(module)
    namespace: dict[str, Any] = {"CountTopicsRequest": schemas.CountTopicsRequest}
    exec(compile(test, "<the example's test>", "exec"), namespace)
    [function] = [value for name, value in namespace.items() if name.startswith("test_")]
    (tmp_path / "data").mkdir()
    function(tmp_path / "data")


def test_the_example_of_an_option_is_a_row(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    module = _module("count_options_example", _examples()[3], tmp_path, monkeypatch)
    option = rows(module.CountOptions)["count.topics.max"]
    assert option.parse("7") == 7 and module.CountOptions().count_topics_max == option.default
    with pytest.raises(ConfigError):
        option.parse("0")


def _module(name: str, text: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    path = folder / f"{name}.py"
    path.write_text(text)
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, name, module)
    spec.loader.exec_module(module)
    return module


def _section(page: Path, heading: str) -> str:
    """The text from a heading to the next of its level or above."""
    level = heading.index(" ")
    _, _, rest = page.read_text().partition(f"\n{heading}\n")
    assert rest, heading
    return re.split(rf"\n#{{1,{level}}} ", rest)[0]


def _names(page: Path) -> list[str]:
    """The texts in code font, except commands."""
    text = re.sub(r"```.*?```", "", page.read_text(), flags=re.DOTALL)
    found = (" ".join(name.split()) for name in re.findall(r"`([^`]+)`", text))
    return [name for name in found if "(" in name or " " not in name]


def _is_in_the_code(place: str) -> bool:
    """Whether a path, or a definition as `path:Name` or `path:Class.name`, exists."""
    path, _, name = place.partition(":")
    file = next((root / path for root in (ROOT, PACKAGE) if (root / path).exists()), None)
    if file is None or not name:
        return file is not None
    return name in {each for node in ast.parse(file.read_text()).body for each in _defined(node)}


def _commands_of_wirekafka(page: Path) -> list[str]:
    blocks = [block for language, block in _blocks(page) if language in ("", "sh")]
    lines = [line for block in blocks for line in block.replace("\\\n", " ").splitlines()]
    texts = [*lines, *re.findall(r"`(wirekafka [a-z][^`]*)`", page.read_text())]
    # In front may be a pipe or an assignment.
    commands = (re.search(r"(?<![\w/-])wirekafka [a-z].*", text) for text in texts)
    return [" ".join(found[0].split()) for found in commands if found]


def _blocks(page: Path) -> list[tuple[str, str]]:
    """The language and the text of each block of code."""
    return re.findall(r"^```(\w*)\n(.*?)^```$", page.read_text(), re.DOTALL | re.MULTILINE)


@cache
def _options(command: str, subcommand: str = "") -> set[str]:
    """The options of a command of wirekafka, and of its subcommand if it is a group."""
    if command == "serve":
        return set(serve._parser()._option_string_actions)
    group: Any = typer.main.get_command(build([command]))
    chosen = group.commands[command]
    chosen = getattr(chosen, "commands", {}).get(subcommand, chosen)
    return {name for each in chosen.params for name in each.opts} | {"--help"}


def _height(path: str) -> int:
    return LAYERS.index(path.partition("/")[0].removesuffix(".py"))


@cache
def _definitions() -> set[str]:
    """Names of classes, their methods and fields, functions and constants of modules."""
    found: set[str] = set()
    for folder in ("wirekafka", "tests"):
        for path in (ROOT / folder).rglob("*.py"):
            for node in ast.walk(ast.parse(path.read_text())):
                found.update(_defined(node))
    return found


def _defined(node: ast.AST) -> Iterator[str]:
    match node:
        case ast.ClassDef():
            yield node.name
            for member in node.body:
                for name in _defined(member):
                    yield f"{node.name}.{name}"
        case ast.FunctionDef() | ast.AsyncFunctionDef():
            yield node.name
        case ast.AnnAssign(target=ast.Name(id=name)):
            yield name
        case ast.Assign(targets=[ast.Name(id=name)]):
            yield name


@cache
def _texts() -> str:
    """Sources that read the environment."""
    folders = ("tests", "compat_tests", "wirekafka", "benchmarks")
    return "\n".join(
        path.read_text() for folder in folders for path in (ROOT / folder).rglob("*.py")
    )
