"""`wirekafka completion`: scripts by which shells complete commands and their options."""

from __future__ import annotations

from typing import Annotated

import typer

from wirekafka.client.client import CliError

_BASH = """_wirekafka_completion() {
    local word
    COMPREPLY=()
    while IFS=$'\\t' read -r word _; do
        COMPREPLY+=("$word")
    done < <(_WIREKAFKA_COMPLETE=1 "$1" "${COMP_WORDS[@]:1:COMP_CWORD}" 2>/dev/null)
}
complete -o default -F _wirekafka_completion wirekafka
"""
_ZSH = """#compdef wirekafka
_wirekafka() {
    local -a found
    local word meaning
    while IFS=$'\\t' read -r word meaning; do
        found+=("${word//:/\\\\:}:$meaning")
    done < <(_WIREKAFKA_COMPLETE=1 "${words[1]}" "${(@)words[2,CURRENT]}" 2>/dev/null)
    if (( ${#found} )); then
        _describe wirekafka found
    else
        _files
    fi
}
if [[ ${zsh_eval_context[-1]} == loadautofunc ]]; then
    _wirekafka "$@"
else
    compdef _wirekafka wirekafka
fi
"""
_FISH = """function __wirekafka_complete
    set -l words (commandline -opc)
    set -l current (commandline -ct)
    env _WIREKAFKA_COMPLETE=1 $words[1] $words[2..-1] "$current" 2>/dev/null
end
complete -c wirekafka -a '(__wirekafka_complete)'
"""
_SCRIPTS = {"bash": _BASH, "zsh": _ZSH, "fish": _FISH}
_NAMES = ", ".join(_SCRIPTS)


def command(
    shell: Annotated[str, typer.Argument(metavar="SHELL", help=f"One of {_NAMES}.")],
) -> None:
    """Print a script that makes a shell complete commands of wirekafka and their options.

    For bash, put `eval "$(wirekafka completion bash)"` into ~/.bashrc; for zsh the same with zsh
    into ~/.zshrc, after compinit; for fish, write the output to
    ~/.config/fish/completions/wirekafka.fish.
    """
    if shell not in _SCRIPTS:
        raise CliError(f"no script for {shell!r}: one of {_NAMES}")
    print(_SCRIPTS[shell], end="")
