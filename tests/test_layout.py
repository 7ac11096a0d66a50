"""The shape of the tree: who imports whom, one file per API, and nothing grows too big."""

import ast
import re
import subprocess
import sys
from collections import defaultdict
from collections.abc import Container, Iterable, Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import NamedTuple

import pytest

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = ROOT / "wirekafka"
OTHER_TEXTS = sorted(
    path
    for folder in ("benchmarks", "compat_tests", "spark_examples", "tests")
    for suffix in ("py", "java", "txt")
    for path in (ROOT / folder).rglob(f"*.{suffix}")
    if path != Path(__file__).resolve()
)
"""Sources and transcripts outside of the package; this file has to name the words it forbids."""

LAYERS = (
    "errors",
    "clock",
    "bounded_memory",
    "regex",
    "visible_text",
    "config",
    "codec",
    "protocol",
    "log",
    "metrics",
    "quotas",
    "security",
    "schemas",
    "client",
    "runtime",
    "tiered",
    "tables",
    "reader",
    "snapshot",
    "translation",
    "replication",
    "metadata",
    "coordinator",
    "telemetry",
    "controller",
    "broker",
    "apis",
    "server",
    "web",
    "registry",
    "testing",
    "doctor",
    "conformance",
    "console",
    "spark",
    "cli",
)
"""Bottom to top: a module imports from its own layer and from those before it."""

MAY_USE_ASYNCIO = (
    "registry/",
    "server/",
    "web/",
    "registry/",
    "client/",
    "testing/",
    "console/",
    "cli/",
    "conformance/wire.py",
    "replication/partition/waiting.py",
    "runtime/driver.py",
    "runtime/promise.py",
)
MAY_USE_OS = (
    "log/files.py",
    "config/small_file.py",
    "security/tls_context.py",
    "spark/batch_commit.py",
    "tables/iceberg/catalog.py",
    "tiered/store.py",
    "translation/worker.py",
    "server/",
    "client/",
    "testing/",
    "console/",
    "cli/",
)
IO_MODULES = {"os", "shutil", "tempfile", "fcntl", "mmap"}

MAX_FILES = 25
"""In a folder; the folders of APIs and of their schemas have one file for each API."""
FOLDERS_OF_ALL_APIS = {"apis", "protocol"}
SECOND_HANDLERS = {"fetch_metadata"}
"""Handlers of an API that another file handles too."""
NOUNS = {"feed"}
"""Names of modules that end like participles, but are nouns."""
SHARED_PARTS = {"authorized_operations", "node_endpoints", "quorum_endpoints"}
"""Schemas that several APIs share."""
MAX_FUNCTION_LINES = 60
"""Of the body without its docstring: the formatter gives a long signature a line per parameter."""
MAX_LINE_LENGTH = 100

DOCUMENTS = sorted(
    [
        *ROOT.glob("*.md"),
        *(
            path
            for folder in ("benchmarks", "docs", "spark_examples")
            for path in (ROOT / folder).rglob("*.md")
        ),
    ]
)
VAGUE_WORDS = re.compile(
    r"(?<![a-z])(?!tell\((?:self)?\))(?:un)?(?:told|tells?|telling)(?![a-z])", re.IGNORECASE
)
"""Words that hide whether something is sent, returned, reported, decoded or logged: a stream's
`tell()` has its name from Python."""


class Source:
    """What the rules need to know of a file of Python, which is parsed once for all of them."""

    def __init__(self, path: Path):
        self.path = path
        self.text = path.read_text()
        tree = ast.parse(self.text)
        self.docstring = ast.get_docstring(tree) or ""
        self.classes = [
            (node.name, [ast.unparse(base) for base in node.bases])
            for node in tree.body
            if isinstance(node, ast.ClassDef)
        ]
        self.definitions = list(_defined(tree.body))
        self.imports: list[str] = []
        """Absolute names of all modules imported, for type checking too."""
        self.functions: list[Function] = []
        self.expressions: list[ast.Call] = []
        """Calls of functions of `re`, whose first argument is an expression."""
        self.attributes: set[str] = set()
        self.words: set[str] = set()
        """The names that its expressions use, and the words of its strings."""
        for node in _nodes(tree):
            self._read(node)

    def _read(self, node: ast.AST) -> None:
        match node:
            case ast.Import():
                self.imports += [alias.name for alias in node.names]
            case ast.ImportFrom():
                package = self.path.relative_to(ROOT).parts[:-1]
                base = list(package[: len(package) - node.level + 1]) if node.level else []
                module = [*base, *([node.module] if node.module else [])]
                self.imports += [".".join([*module, alias.name]) for alias in node.names]
            case ast.FunctionDef() | ast.AsyncFunctionDef():
                self.functions.append(
                    Function(node.name, _body_lines(node), is_handler=_is_handler(node))
                )
            case ast.Call(func=ast.Attribute(value=ast.Name(id="re"))):
                self.expressions.append(node)
            case ast.Attribute():
                self.attributes.add(node.attr)
            case ast.Name(ctx=ast.Load()):
                self.words.add(node.id)
            case ast.Constant(value=str(value)):
                self.words.update(re.findall(r"\w+", value))

    def __repr__(self) -> str:
        return self.path.relative_to(ROOT).as_posix()

    @property
    def relative(self) -> str:
        """The path within the package."""
        return self.path.relative_to(PACKAGE).as_posix()

    @property
    def module(self) -> str:
        parts = self.path.relative_to(ROOT).with_suffix("").parts
        return ".".join(parts).removesuffix(".__init__")

    @property
    def top_imports(self) -> set[str]:
        return {module.split(".")[0] for module in self.imports}


class Function(NamedTuple):
    name: str
    length: int
    is_handler: bool


@cache
def sources() -> list[Source]:
    return [Source(path) for path in sorted(PACKAGE.rglob("*.py"))]


def test_imports_go_only_downward() -> None:
    wrong = [
        f"{source}: {imported}"
        for source in sources()
        if (layer := _layer(source.module)) is not None
        for imported in source.imports
        if (other := _layer(imported)) is not None and other > layer
    ]
    assert wrong == []


def test_no_two_files_import_each_other() -> None:
    """Neither directly nor by way of others, imports for type checking included."""
    benchmarks = [Source(path) for path in (ROOT / "benchmarks").rglob("*.py")]
    for files in (sources(), benchmarks):
        modules = {source.module: source for source in files}
        graph = {
            name: {_known(each, modules) for each in source.imports} - {None, name}
            for name, source in modules.items()
        }
        assert _circles(graph) == []


def test_every_module_belongs_to_a_layer() -> None:
    tops = {source: source.relative.removesuffix(".py").split("/") for source in sources()}
    allowed = {*LAYERS, "__init__", "__main__"}
    assert [source for source, parts in tops.items() if parts[0] not in allowed] == []


def test_only_the_server_touches_asyncio() -> None:
    used = {"asyncio", "uvloop", "socket", "selectors"}
    assert [
        source
        for source in sources()
        if not source.relative.startswith(MAY_USE_ASYNCIO) and used & source.top_imports
    ] == []


def test_only_log_files_touches_the_file_system() -> None:
    assert [
        f"{source}: {module}"
        for source in sources()
        if not source.relative.startswith(MAY_USE_OS)
        for module in source.imports
        if not module.startswith("os.path") and module.split(".")[0] in IO_MODULES
    ] == []


def test_expressions_of_the_standard_library_are_written_in_the_source() -> None:
    """Such an expression may take time with any power of the text: `wirekafka.regex` has others."""
    for source in sources():
        assert [each for each in source.imports if each.startswith("re.")] == [], source
        found = [call for call in source.expressions if not _is_constant(call.args[0])]
        assert [ast.unparse(call) for call in found] == [], source
        assert source.relative == "regex.py" or "re2" not in source.top_imports, source


def test_modules_open_with_a_sentence() -> None:
    """The first paragraph of the docstring is one."""
    assert [
        source
        for source in sources()
        if not source.docstring.split("\n\n")[0].rstrip().endswith(".")
    ] == []


def test_modules_are_named_by_nouns() -> None:
    """Not by a participle or an adjective: these leave open what it is that has the property."""
    assert [
        source
        for source in sources()
        if re.search(r"(ed|ible)$", source.path.stem) and source.path.stem not in NOUNS
    ] == []


def test_functions_and_lines_stay_small() -> None:
    assert [
        f"{source}: {line}"
        for source in sources()
        for line in source.text.splitlines()
        if len(line) > MAX_LINE_LENGTH
    ] == []
    assert [
        f"{source}: {function.name} has {function.length} lines"
        for source in sources()
        for function in source.functions
        if function.length >= MAX_FUNCTION_LINES
    ] == []


def test_folders_stay_small() -> None:
    sizes: dict[str, int] = defaultdict(int)
    for source in sources():
        folder = source.path.parent.relative_to(PACKAGE).as_posix()
        sizes[folder] += source.path.stem != "__init__"
    too_big = {folder for folder, size in sizes.items() if size > MAX_FILES}
    assert too_big == FOLDERS_OF_ALL_APIS


def test_rooms_have_an_order() -> None:
    """The folders of a layer import each other in one direction; so do the files beside them."""
    rooms: dict[str, set[str | None]] = defaultdict(set)
    modules = {source.module: source for source in sources()}
    room_of = {source.module: _room(source.path) for source in sources()}
    for name, source in modules.items():
        if name == PACKAGE.name:
            continue  # Every module imports the package.
        imported = {_known(each, modules) for each in source.imports} - {None, name, PACKAGE.name}
        others = {room_of[each] for each in imported if each is not None}
        rooms[room_of[name]] |= others - {room_of[name]}
    assert _circles(rooms) == []


def test_no_two_public_classes_have_one_name() -> None:
    """But for schemas, and for the words of `wirekafka.testing`, which its users read alone."""
    where: dict[str, list[Source]] = defaultdict(list)
    for source in sources():
        for name, _ in source.classes:
            is_users_word = source.relative.startswith("testing/") and name in _users_words()
            is_schema = source.relative.startswith("protocol/")
            if not (name.startswith("_") or is_users_word or is_schema):
                where[name].append(source)
    assert {name: found for name, found in where.items() if len(found) > 1} == {}


def test_every_definition_is_referenced() -> None:
    """In its own module, by import, as an attribute, or by a decorator that registers it."""
    imported = {each for source in sources() for each in source.imports}
    elsewhere = {word for source in sources() for word in source.attributes}
    for source in sources():
        if source.path.stem == "__init__":
            elsewhere |= source.words
    for path in OTHER_TEXTS:
        elsewhere.update(re.findall(r"\w+", path.read_text()))
    assert [
        f"{source}: {name}"
        for source in sources()
        for name in source.definitions
        if name not in source.words
        and f"{source.module}.{name}" not in imported
        and name not in elsewhere
    ] == []


def test_an_api_is_two_files_of_one_name() -> None:
    """Its schema in protocol/, its handler in apis/; what several APIs share has other names."""
    schemas = {path.stem for path in (PACKAGE / "protocol").glob("*.py")} - {"__init__"}
    handlers = {path.stem for path in (PACKAGE / "apis").glob("*.py")} - {"__init__"}
    assert handlers - schemas == SECOND_HANDLERS
    assert schemas - handlers == SHARED_PARTS


def test_one_schema_file_is_one_api() -> None:
    for source in _files_of("protocol"):
        requests = [name for name, bases in source.classes if "Request" in bases]
        responses = [name for name, bases in source.classes if "Response" in bases]
        camel = "".join(word.capitalize() for word in source.path.stem.split("_"))
        assert (requests, responses) in (([], []), ([f"{camel}Request"], [f"{camel}Response"])), (
            source
        )


def test_one_handler_file_is_one_api() -> None:
    for source in _files_of("apis"):
        handlers = [function.name for function in source.functions if function.is_handler]
        assert handlers in ([], [source.path.stem]), source
        messages = [name for name, bases in source.classes if {"Request", "Response"} & set(bases)]
        assert messages == [], source


def test_texts_use_technical_terms() -> None:
    """They say what is sent, returned, reported, decoded or logged."""
    texts = {path: path.read_text() for path in (*OTHER_TEXTS, *DOCUMENTS)}
    texts |= {source.path: source.text for source in sources()}
    assert [
        f"{path.relative_to(ROOT)}: {line}"
        for path, text in texts.items()
        if VAGUE_WORDS.search(text)
        for line in text.splitlines()
        if VAGUE_WORDS.search(line)
    ] == []


@pytest.mark.parametrize(
    ("text", "is_vague"),
    [
        ("what the client is told", True),
        ("    for told in request.topics:", True),
        ("def _told(request):", True),
        ("Tell the leader.", True),
        ("the record tells", True),
        ("an intelligent retelling", False),
        ("reported, returned", False),
    ],
)
def test_vague_words_are_found(text: str, is_vague: bool) -> None:
    assert (VAGUE_WORDS.search(text) is not None) == is_vague


def test_the_client_is_light() -> None:
    """Programs that read a file or a broker import it: it must not bring the broker."""
    program = (
        "import sys, wirekafka.client.client;"
        "print(sum(name.startswith('wirekafka') for name in sys.modules))"
    )
    command = [sys.executable, "-c", program]
    loaded = subprocess.run(command, capture_output=True, text=True, check=True, cwd=ROOT).stdout
    assert int(loaded) < 80


def test_the_readme_names_only_commands_that_exist() -> None:
    commands = re.findall(r"^(make|wirekafka) ([a-z][a-z-]*)", _readme_code(), re.MULTILINE)
    assert ("make", "demo") in commands and ("make", "test") in commands
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    cli = "\n".join(path.read_text() for path in (PACKAGE / "cli").glob("*.py"))
    for program, command in commands:
        if program == "make":
            assert command in targets, f"README names make {command}"
        else:
            assert f'"{command}"' in cli or f"def {command.replace('-', '_')}(" in cli, command


def test_the_readme_links_only_to_files_that_exist() -> None:
    links = re.findall(r"\]\((?!https?:)([^)#]+)", (ROOT / "README.md").read_text())
    assert [link for link in links if not (ROOT / link).exists()] == []


def _readme_code() -> str:
    return "\n".join(
        re.findall(r"```[a-z]*\n(.*?)```", (ROOT / "README.md").read_text(), re.DOTALL)
    )


def _layer(module: str) -> int | None:
    """The layer's index, or None outside wirekafka and for its own __init__."""
    parts = module.split(".")
    if len(parts) < 2 or parts[0] != PACKAGE.name or parts[1] not in LAYERS:
        return None
    return LAYERS.index(parts[1])


def _files_of(folder: str) -> list[Source]:
    return [source for source in sources() if source.path.parent == PACKAGE / folder]


def _circles(graph: Mapping[str, set[str | None]]) -> list[list[str]]:
    """Each set of which every one reaches every other."""
    reached = {name: _reached(name, graph) for name in graph}
    circles = {
        frozenset({name, *(other for other in reached[name] if name in reached.get(other, ()))})
        for name in graph
        if name in reached[name]
    }
    return sorted(sorted(circle) for circle in circles)


def _reached(start: str, graph: Mapping[str, set[str | None]]) -> set[str]:
    found: set[str] = set()
    ahead = [start]
    while ahead:
        new = {each for each in graph.get(ahead.pop(), ()) if each is not None} - found
        found |= new
        ahead += new
    return found


@cache
def _has_rooms(folder: Path) -> bool:
    return folder == PACKAGE or any(list(each.glob("*.py")) for each in folder.iterdir())


def _room(path: Path) -> str:
    """The folder of a file; the file itself where its folder has rooms or is the package."""
    room = path if _has_rooms(path.parent) else path.parent
    return room.relative_to(PACKAGE).as_posix()


def _known(imported: str, modules: Container[str]) -> str | None:
    """The module that an import names: itself, or the one that the name is taken from."""
    return next((name for name in (imported, imported.rpartition(".")[0]) if name in modules), None)


@cache
def _users_words() -> frozenset[str]:
    """The names that `wirekafka.testing` exports."""
    (source,) = (each for each in sources() if each.relative == "testing/__init__.py")
    return frozenset(source.words)


def _defined(body: Iterable[ast.stmt]) -> Iterator[str]:
    """The names that statements define, but for those registered by a decorator or by pytest."""
    for node in body:
        match node:
            case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef():
                is_registered = any(isinstance(each, ast.Call) for each in node.decorator_list)
                is_hook = node.name.startswith(("pytest_", "__"))
                if not is_hook and (isinstance(node, ast.ClassDef) or not is_registered):
                    yield node.name
            case ast.Assign(targets=[ast.Name(id=name)]) | ast.AnnAssign(target=ast.Name(id=name)):
                if not name.startswith("__"):
                    yield name


def _nodes(tree: ast.AST) -> Iterator[ast.AST]:
    """All nodes of a tree; `ast.walk` takes twice the time."""
    ahead = [tree]
    while ahead:
        node = ahead.pop()
        yield node
        for name in node._fields:
            value = getattr(node, name, None)
            if isinstance(value, ast.AST):
                ahead.append(value)
            elif isinstance(value, list):
                ahead += [each for each in value if isinstance(each, ast.AST)]


def _is_constant(value: ast.expr) -> bool:
    """Whether it consists of literals and of constants of the module, perhaps escaped."""
    names = {node.id for node in ast.walk(value) if isinstance(node, ast.Name)}
    return all(name == "re" or name == name.upper() for name in names)


def _body_lines(function: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    first = function.body[0]
    if ast.get_docstring(function, clean=False) is not None:
        first = function.body[min(1, len(function.body) - 1)]
    return (function.end_lineno or 0) - first.lineno + 1


def _is_handler(function: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    return any(
        isinstance(decorator, ast.Call) and ast.unparse(decorator.func) == "api"
        for decorator in function.decorator_list
    )
