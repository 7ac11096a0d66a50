"""Completion of command lines: what is offered, and that shells offer it."""

import os
import pty
import select
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.cli.conftest import Run
from wirekafka.cli import serve
from wirekafka.cli.main import COMMANDS

PROGRAMS = Path(sys.executable).parent
"""The folder of the command `wirekafka`."""
LIMIT_S = 30


@pytest.fixture
def offered(run: Run, monkeypatch: pytest.MonkeyPatch):
    """The words that may follow, as the scripts ask for them."""

    def offered(*words: str) -> list[str]:
        monkeypatch.setenv("_WIREKAFKA_COMPLETE", "1")
        outcome = run(*words)
        assert outcome.status == 0, outcome.err
        return [line.split("\t")[0] for line in outcome.out.splitlines()]

    return offered


def test_commands_are_offered_by_their_beginnings(offered) -> None:
    assert offered("") == list(COMMANDS)
    assert offered("to") == ["topics"]
    assert offered("--v") == ["--version"]
    assert offered("no-such-command", "") == []


def test_subcommands_and_their_options_are_offered(offered) -> None:
    assert offered("reassign", "") == ["plan", "apply", "status", "cancel", "unthrottle"]
    assert offered("quotas", "s") == ["set"]
    assert offered("quotas", "--") == ["--help"]
    assert offered("quotas", "set", "--u") == ["--user"]
    assert offered("elect", "--topic", "t", "--un") == ["--unclean"]
    assert "--bootstrap-server" in offered("acls", "list", "--")


def test_a_place_for_a_value_or_a_file_has_no_candidates(offered) -> None:
    assert offered("elect", "--topic", "") == []
    assert offered("elect", "--topic", "--") == []
    assert offered("reassign", "apply", "") == []


def test_the_options_of_serve_are_offered_without_hidden_ones(offered) -> None:
    names = offered("serve", "--")
    known = serve._parser()._option_string_actions
    assert {"--data", "--listen", "--help"} <= set(names) <= known.keys()
    assert "--node-set" in known and "--node-set" not in names
    assert offered("serve", "--data", "x", "--loop", "u") == ["uvloop"]
    assert offered("serve", "--request-log", "--cl") == ["--cluster-id"]


def test_the_names_of_commands_are_offered_without_the_command_line_library() -> None:
    """Nor does a command import the completion unless a shell asks."""
    script = (
        "import sys, wirekafka.cli.main as m\n"
        "try: m.main(sys.argv[1:])\n"
        "except SystemExit: print([each for each in sys.modules if each.split('.')[0] in"
        " ('typer', 'rich') or 'candidates' in each])"
    )

    def imported(words: list[str], **variables: str) -> str:
        done = subprocess.run(
            [sys.executable, "-c", script, *words],
            capture_output=True,
            text=True,
            env={**os.environ, **variables},
            check=True,
        )
        return done.stdout.splitlines()[-1]

    asked = {"_WIREKAFKA_COMPLETE": "1"}
    assert imported(["to"], **asked) == "['wirekafka.cli.shell.candidates']"
    assert imported(["serve", "--da"], **asked) == "['wirekafka.cli.shell.candidates']"
    assert "candidates" not in imported(["quotas", "--help"])


def test_an_unknown_shell_is_refused_in_one_line(run: Run) -> None:
    outcome = run("completion", "csh")
    assert outcome.err == "wirekafka: no script for 'csh': one of bash, zsh, fish\n"


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("wirekafka fea", ["features"]),
        ("wirekafka reassign ", ["plan", "apply", "status", "cancel", "unthrottle"]),
        ("wirekafka elect -b localhost:9092 --uncl", ["--unclean"]),
        ("wirekafka serve --mirror-t", ["--mirror-topics"]),
        ("wirekafka elect --topic ", []),
    ],
)
def test_bash_asks_for_candidates(line: str, expected: list[str]) -> None:
    """The script's function is called as bash calls it, with the words that bash makes."""
    words = line.split(" ")
    script = (
        'eval "$(wirekafka completion bash)"\n'
        # As bash splits them at the characters of COMP_WORDBREAKS.
        f"COMP_WORDS=({' '.join(repr(each) for word in words for each in broken(word))})\n"
        "COMP_CWORD=$((${#COMP_WORDS[@]} - 1))\n"
        "_wirekafka_completion wirekafka\n"
        '[[ ${#COMPREPLY[@]} == 0 ]] || printf "%s\\n" "${COMPREPLY[@]}"\n'
    )
    done = subprocess.run(
        ["bash", "--norc", "-c", script],
        capture_output=True,
        text=True,
        env={**os.environ, "PATH": f"{PROGRAMS}:{os.environ['PATH']}"},
        check=False,
    )
    assert (done.returncode, done.stderr, done.stdout.splitlines()) == (0, "", expected)


def broken(word: str) -> list[str]:
    host, colon, port = word.partition(":")
    return [host, colon, port] if colon else [word]


def test_bash_completes_a_line_that_is_typed() -> None:
    with Terminal("bash", "--norc", "--noprofile", "-i") as terminal:
        terminal.type('eval "$(wirekafka completion bash)"; echo rea""dy\n')
        terminal.expect("\nready")
        terminal.type("wirekafka feat\t")
        terminal.expect("wirekafka features ")
        terminal.type("downg\t--uns\t")
        terminal.expect("downgrade --unsafe ")


@pytest.mark.parametrize("shell", ["zsh", "fish"])
def test_other_shells_ask_for_candidates(shell: str) -> None:
    if shutil.which(shell) is None:
        pytest.skip(f"there is no {shell}")
    environment = {**os.environ, "PATH": f"{PROGRAMS}:{os.environ['PATH']}"}
    script = {
        "fish": "wirekafka completion fish | source; complete -C 'wirekafka feat'",
        # Outside of a line editor, zsh has no completion: its functions are replaced.
        "zsh": (
            "compdef() {}; _files() { print files }\n"
            '_describe() { print -l "${(@P)2}" }\n'
            'eval "$(wirekafka completion zsh)"\n'
            "words=(wirekafka feat); CURRENT=2; _wirekafka\n"
        ),
    }[shell]
    done = subprocess.run(
        [shell, "-c", script], capture_output=True, text=True, env=environment, check=False
    )
    assert done.returncode == 0, done.stderr
    _, summary = COMMANDS["features"]
    separator = {"fish": "\t", "zsh": ":"}[shell]
    assert done.stdout.splitlines() == [f"features{separator}{summary}"]


class Terminal:
    """A program on a terminal, on which tests type."""

    def __init__(self, *command: str) -> None:
        self._main, child = pty.openpty()
        environment = {**os.environ, "PATH": f"{PROGRAMS}:{os.environ['PATH']}", "TERM": "dumb"}
        self._process = subprocess.Popen(
            command, stdin=child, stdout=child, stderr=child, env=environment, close_fds=True
        )
        os.close(child)
        self._read = ""

    def __enter__(self) -> "Terminal":
        return self

    def __exit__(self, *_: object) -> None:
        self._process.kill()
        self._process.wait()
        os.close(self._main)

    def type(self, text: str) -> None:
        os.write(self._main, text.encode())

    def expect(self, text: str) -> None:
        """Read until a text appears."""
        deadline = time.monotonic() + LIMIT_S
        while text not in self._read:
            left = deadline - time.monotonic()
            assert left > 0, f"no {text!r} in {self._read!r}"
            if select.select([self._main], [], [], left)[0]:
                self._read += os.read(self._main, 4096).decode(errors="replace")
        self._read = ""
