"""Names of subjects, which may begin with a context: `:.context:subject`."""

from __future__ import annotations

from dataclasses import dataclass
from unicodedata import category

from wirekafka.registry import errors

DEFAULT_CONTEXT = "."
ALL_CONTEXTS = ":*:"
"""The prefix of subjects of all contexts."""
_RESERVED = ("__GLOBAL", "__EMPTY")


@dataclass(frozen=True, slots=True)
class QualifiedSubject:
    """A subject and its context. Without a name it stands for the whole context."""

    context: str
    name: str

    def __str__(self) -> str:
        if self.context == DEFAULT_CONTEXT:
            return self.name
        return f":{self.context}:{self.name}"


def qualified(subject: str) -> QualifiedSubject:
    """The parts of a subject's name; the default context if it names none."""
    if subject.startswith(":."):
        context, separator, name = subject[1:].partition(":")
        if separator:
            return QualifiedSubject(context, name)
    return QualifiedSubject(DEFAULT_CONTEXT, subject)


def normal(subject: str) -> str:
    """The one name of a subject: `:.:subject` is `subject`."""
    return str(qualified(subject))


def context_of(subject: str) -> str:
    """The context of a subject."""
    return qualified(subject).context


def within(context: str, subject: str) -> str:
    """A subject as a schema of a context refers to it: in the same context unless it names one."""
    if subject.startswith(":."):
        return normal(subject)
    return str(QualifiedSubject(context, subject))


def required_valid(subject: str) -> None:
    """Raise RegistryError 42208 for a name that no schema can be registered under."""
    name = qualified(subject).name
    if not name.strip() or name in _RESERVED or any(category(each) == "Cc" for each in subject):
        raise errors.invalid_subject(subject)
