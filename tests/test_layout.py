"""The shape of the tree: who imports whom, one file per API, and nothing grows too big."""

import ast
import re
import subprocess
import sys
from collections.abc import Container, Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = ROOT / "wirekafka"
SOURCES = sorted(PACKAGE.rglob("*.py"))
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
    "remembered",
    "regex",
    "visible",
    "config",
    "codec",
    "protocol",
    "log",
    "metrics",
    "quotas",
    "security",
    "client",
    "runtime",
    "replication",
    "metadata",
    "coordinator",
    "telemetry",
    "controller",
    "broker",
    "apis",
    "server",
    "testing",
    "console",
    "cli",
)
"""Bottom to top: a module imports from its own layer and from those before it."""

MAY_USE_ASYNCIO = (
    "server/",
    "client/",
    "testing/",
    "console/",
    "cli/",
    "replication/partition/waiting.py",
    "runtime/promise.py",
)
MAY_USE_OS = (
    "log/files.py",
    "config/small_file.py",
    "security/tls_context.py",
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
SHARED_PARTS = {"node_endpoints", "quorum_endpoints"}
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
VAGUE_WORDS = re.compile(r"(?<![a-z])(?:un)?(?:told|tells?|telling)(?![a-z])", re.IGNORECASE)
"""Words that hide whether something is sent, returned, reported, decoded or logged."""

each_source = pytest.mark.parametrize(
    "path", SOURCES, ids=[str(path.relative_to(PACKAGE)) for path in SOURCES]
)


@each_source
def test_imports_go_only_downward(path: Path) -> None:
    layer = _layer(path.relative_to(ROOT).with_suffix("").parts)
    if layer is None:
        return
    wrong = [
        module
        for module in _imports(path)
        if (other := _layer(tuple(module.split(".")))) is not None and other > layer
    ]
    assert not wrong, f"{LAYERS[layer]} must not import {wrong}"


def test_no_two_files_import_each_other() -> None:
    """Neither directly nor by way of others, imports for type checking included."""
    for folder in ("wirekafka", "benchmarks"):
        assert _circles(ROOT / folder) == []


@each_source
def test_every_module_belongs_to_a_layer(path: Path) -> None:
    parts = path.relative_to(PACKAGE).with_suffix("").parts
    assert parts[0] in LAYERS or parts in {("__init__",), ("__main__",)}


@each_source
def test_only_the_server_touches_asyncio(path: Path) -> None:
    if _relative(path).startswith(MAY_USE_ASYNCIO):
        return
    assert not {"asyncio", "uvloop", "socket", "selectors"} & _top_imports(path)


@each_source
def test_only_log_files_touches_the_file_system(path: Path) -> None:
    if _relative(path).startswith(MAY_USE_OS):
        return
    used = {module for module in _imports(path) if not module.startswith("os.path")}
    assert not IO_MODULES & {module.split(".")[0] for module in used}


@each_source
def test_expressions_of_the_standard_library_are_written_in_the_source(path: Path) -> None:
    """Such an expression may take time with any power of the text: `wirekafka.regex` has others."""
    tree = ast.parse(path.read_text())
    assert not any(
        isinstance(node, ast.ImportFrom) and node.module == "re" for node in ast.walk(tree)
    )
    assert [
        ast.unparse(call) for call in _expressions(tree) if not _is_constant(call.args[0])
    ] == []
    if _relative(path) != "regex.py":
        assert "re2" not in _top_imports(path)


@each_source
def test_modules_open_with_a_sentence(path: Path) -> None:
    docstring = ast.get_docstring(ast.parse(path.read_text()))
    assert docstring, "no module docstring"
    assert docstring.split("\n\n")[0].rstrip().endswith("."), "the first paragraph is a sentence"


@each_source
def test_functions_and_lines_stay_small(path: Path) -> None:
    lines = path.read_text().splitlines()
    assert [line for line in lines if len(line) > MAX_LINE_LENGTH] == []
    for function in _functions(path):
        length = _body_lines(function)
        assert length < MAX_FUNCTION_LINES, f"{function.name} has {length} lines"


def test_folders_stay_small() -> None:
    folders = {path.parent.relative_to(PACKAGE).as_posix() for path in SOURCES}
    sizes = {
        folder: len([path for path in (PACKAGE / folder).glob("*.py") if path.stem != "__init__"])
        for folder in folders - FOLDERS_OF_ALL_APIS
    }
    assert {folder: size for folder, size in sizes.items() if size > MAX_FILES} == {}


def test_rooms_have_an_order() -> None:
    """The folders of a layer import each other in one direction; so do the files beside them."""
    rooms: dict[str, set[str | None]] = {}
    modules = {_module(path): path for path in SOURCES}
    for name, path in modules.items():
        if path.parent == PACKAGE and path.stem == "__init__":
            continue  # Every module imports the package.
        room = _room(path)
        imported = {_known(each, modules) for each in _imports(path)} - {None, name, PACKAGE.name}
        others = {_room(modules[each]) for each in imported if each is not None}
        rooms.setdefault(room, set()).update(others - {room})
    assert [sorted(circle) for circle in _circles_in(rooms)] == []


def test_an_api_is_two_files_of_one_name() -> None:
    """Its schema in protocol/, its handler in apis/; what several APIs share has other names."""
    schemas = {path.stem for path in (PACKAGE / "protocol").glob("*.py")} - {"__init__"}
    handlers = {path.stem for path in (PACKAGE / "apis").glob("*.py")} - {"__init__"}
    assert handlers - schemas == SECOND_HANDLERS
    assert schemas - handlers == SHARED_PARTS


@pytest.mark.parametrize(
    "path", sorted((PACKAGE / "protocol").glob("*.py")), ids=lambda path: path.stem
)
def test_one_schema_file_is_one_api(path: Path) -> None:
    requests = [name for name, bases in _classes(path) if "Request" in bases]
    responses = [name for name, bases in _classes(path) if "Response" in bases]
    if not requests:
        assert not responses
        return
    camel = "".join(word.capitalize() for word in path.stem.split("_"))
    assert requests == [f"{camel}Request"]
    assert responses == [f"{camel}Response"]


@pytest.mark.parametrize(
    "path", sorted((PACKAGE / "apis").glob("*.py")), ids=lambda path: path.stem
)
def test_one_handler_file_is_one_api(path: Path) -> None:
    handlers = [function.name for function in _functions(path) if _is_handler(function)]
    assert handlers in ([], [path.stem])
    assert [name for name, bases in _classes(path) if {"Request", "Response"} & set(bases)] == []


@pytest.mark.parametrize(
    "path", [*SOURCES, *OTHER_TEXTS, *DOCUMENTS], ids=lambda path: str(path.relative_to(ROOT))
)
def test_texts_use_technical_terms(path: Path) -> None:
    lines = path.read_text().splitlines()
    assert [line for line in lines if VAGUE_WORDS.search(line)] == [], (
        "say what is sent, returned, reported, decoded or logged"
    )


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


def _relative(path: Path) -> str:
    return path.relative_to(PACKAGE).as_posix()


def _layer(parts: tuple[str, ...]) -> int | None:
    """The layer's index, or None outside wirekafka and for its own __init__."""
    if len(parts) < 2 or parts[0] != "wirekafka" or parts[1] not in LAYERS:
        return None
    return LAYERS.index(parts[1])


def _circles(folder: Path) -> list[list[str]]:
    """Each set of files of which every one reaches every other by imports."""
    modules = {_module(path): path for path in folder.rglob("*.py")}
    graph = {
        name: {
            target
            for imported in _imports(path)
            if (target := _known(imported, modules)) not in (None, name)
        }
        for name, path in modules.items()
    }
    return sorted(sorted(circle) for circle in _circles_in(graph))


def _circles_in(graph: dict[str, set[str | None]]) -> set[frozenset[str]]:
    reached = {name: _reached(name, graph) for name in graph}
    return {
        frozenset({name, *(other for other in reached[name] if name in reached.get(other, ()))})
        for name in graph
        if name in reached[name]
    }


def _room(path: Path) -> str:
    """The folder of a file; the file itself where its folder has rooms or is the package."""
    has_rooms = path.parent == PACKAGE or any(
        each.is_dir() and each.name != "__pycache__" and list(each.glob("*.py"))
        for each in path.parent.iterdir()
    )
    return (path if has_rooms else path.parent).relative_to(PACKAGE).as_posix()


def _module(path: Path) -> str:
    return ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")


def _known(imported: str, modules: Container[str]) -> str | None:
    """The module that an import names: itself, or the one that the name is taken from."""
    return next((name for name in (imported, imported.rpartition(".")[0]) if name in modules), None)


def _reached(start: str, graph: dict[str, set[str | None]]) -> set[str]:
    found: set[str] = set()
    ahead = [start]
    while ahead:
        new = {each for each in graph[ahead.pop()] if each is not None} - found
        found |= new
        ahead += new
    return found


def _imports(path: Path) -> Iterator[str]:
    """Absolute names of all modules imported, for type checking too."""
    package = path.relative_to(ROOT).parts[:-1]
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = list(package[: len(package) - node.level + 1]) if node.level else []
            module = [*base, *([node.module] if node.module else [])]
            yield from (".".join([*module, alias.name]) for alias in node.names)


def _expressions(tree: ast.AST) -> Iterator[ast.Call]:
    """Calls of functions of `re`, whose first argument is an expression."""
    for node in ast.walk(tree):
        function = node.func if isinstance(node, ast.Call) else None
        if isinstance(function, ast.Attribute) and ast.unparse(function.value) == "re":
            assert isinstance(node, ast.Call)
            yield node


def _is_constant(value: ast.expr) -> bool:
    """Whether it consists of literals and of constants of the module, perhaps escaped."""
    names = {node.id for node in ast.walk(value) if isinstance(node, ast.Name)}
    return all(name == "re" or name == name.upper() for name in names)


def _top_imports(path: Path) -> set[str]:
    return {module.split(".")[0] for module in _imports(path)}


def _functions(path: Path) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield node


def _body_lines(function: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    first = function.body[0]
    if ast.get_docstring(function) is not None:
        first = function.body[min(1, len(function.body) - 1)]
    return (function.end_lineno or 0) - first.lineno + 1


def _classes(path: Path) -> Iterator[tuple[str, list[str]]]:
    for node in ast.parse(path.read_text()).body:
        if isinstance(node, ast.ClassDef):
            yield node.name, [ast.unparse(base) for base in node.bases]


def _is_handler(function: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    return any(
        isinstance(decorator, ast.Call) and ast.unparse(decorator.func) == "api"
        for decorator in function.decorator_list
    )
