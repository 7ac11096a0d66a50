"""The pages of users with SCRAM passwords: the list, new users, new passwords, removals."""

from __future__ import annotations

from collections.abc import Mapping

from wirekafka.client.admin.users import ScramUser, delete_credentials, list_users, set_password
from wirekafka.client.client import CliError
from wirekafka.console.pages.page import (
    Change,
    Page,
    PageError,
    PageView,
    Redirect,
    Visit,
    whole_number,
)
from wirekafka.console.pages.tables import table
from wirekafka.console.source import Unknown
from wirekafka.security.sasl.scram import ALGORITHMS, FEWEST_ITERATIONS, MOST_ITERATIONS

LINK = ("Users", "/users", "p")

_BOTH = "both"
_LIMITS = f"{FEWEST_ITERATIONS} to {MOST_ITERATIONS}"
_MECHANISMS = ("SCRAM-SHA-512", "SCRAM-SHA-256", _BOTH)


def show(visit: Visit) -> PageView:
    """All users with passwords that the visitor may see, and the form of a new one."""
    try:
        # No names stand for all users, as null does; to null, Apache Kafka 4.4 never answers a
        # user without DESCRIBE on the cluster.
        users, unknown = list_users(visit.client, ()), None
    except CliError as error:
        users, unknown = [], Unknown(str(error))
    values = {
        "title": "Users",
        "unknown": unknown,
        "users": table(users, visit.query, name=lambda row: row.name, sorts=_SORTS),
        "mechanisms": _MECHANISMS,
        "iterations": FEWEST_ITERATIONS,
        "iteration_limits": _LIMITS,
    }
    return PageView("users.html", values)


def add(visit: Visit) -> Redirect:
    """Give a user a first password."""
    name = visit.form.get("name", "").strip()
    if not name:
        raise PageError(400, "Enter a name for the user.")
    mechanisms = _chosen(visit.form)
    for each in list_users(visit.client, [name]):
        if each.mechanism in mechanisms:
            reason = f"{name} has a password for {each.mechanism} already: set a new one for it."
            raise PageError(400, reason)
    _set_password(visit, name, mechanisms)
    return Redirect("/users")


def one(visit: Visit) -> PageView:
    """The forms that change or remove the passwords of a user."""
    name = visit.form.get("name", "") or visit.query.get("name", "")
    found = _found(visit, name)
    values = {
        "title": f"User {name}",
        "name": name,
        "mechanisms": [each.mechanism for each in found],
        "both": _BOTH if len(found) > 1 else "",
        "iterations": max(each.iterations for each in found),
        "iteration_limits": _LIMITS,
        "is_own": name == visit.user,
    }
    return PageView("user.html", values)


def change(visit: Visit) -> Redirect:
    """Replace the password of a user."""
    name = visit.form.get("name", "")
    _set_password(visit, name, [each.mechanism for each in _chosen_of(visit, name)])
    # The session of the user goes on with the old password, which brokers refuse from now on.
    return Redirect("/login?next=/users" if name == visit.user else "/users")


def remove(visit: Visit) -> Redirect:
    """Remove passwords of a user, whose name was entered once more."""
    name = visit.form.get("name", "")
    if visit.form.get("confirmed", "") != name:
        raise PageError(400, f"Nothing was removed: enter {name} to remove the password.")
    delete_credentials(visit.client, _chosen_of(visit, name))
    return Redirect("/users")


def _found(visit: Visit, name: str) -> list[ScramUser]:
    found = list_users(visit.client, [name]) if name else []
    if not found:
        raise PageError(404, f"There is no user {name!r} with a SCRAM password.")
    return found


def _chosen_of(visit: Visit, name: str) -> list[ScramUser]:
    """The passwords of a user for the mechanisms of the form. Raises PageError without one."""
    found = {each.mechanism: each for each in _found(visit, name)}
    mechanisms = _chosen(visit.form)
    for each in mechanisms:
        if each not in found:
            raise PageError(400, f"{name} has no password for {each}.")
    return [found[each] for each in mechanisms]


def _chosen(form: Mapping[str, str]) -> list[str]:
    mechanism = form.get("mechanism", "")
    if mechanism == _BOTH:
        return list(ALGORITHMS)
    if mechanism not in ALGORITHMS:
        raise PageError(400, f"Choose one of the mechanisms {', '.join(ALGORITHMS)}.")
    return [mechanism]


def _set_password(visit: Visit, name: str, mechanisms: list[str]) -> None:
    password, iterations = _password(visit.form), _iterations(visit.form)
    credentials = [ScramUser(name, each, iterations) for each in mechanisms]
    set_password(visit.client, credentials, password)


def _password(form: Mapping[str, str]) -> str:
    """The password that was entered twice. Raises PageError, without the password."""
    password = form.get("password", "")
    if not password:
        raise PageError(400, "Enter a password.")
    if password != form.get("password_again", ""):
        raise PageError(400, "The two passwords differ: enter them again.")
    return password


def _iterations(form: Mapping[str, str]) -> int:
    text = form.get("iterations", "").strip() or str(FEWEST_ITERATIONS)
    count = whole_number(text, MOST_ITERATIONS)
    if count is None or count < FEWEST_ITERATIONS:
        raise PageError(400, f"Iterations are a whole number from {_LIMITS}, not {text!r}.")
    return count


_SORTS = {
    "name": lambda row: row,
    "mechanism": lambda row: (row.mechanism, row.name),
    "iterations": lambda row: row.iterations,
}

ENTRIES = (
    Page("/users", show),
    Change("/users", add, show),
    Page("/user", one),
    Page("/user/password", one),
    Change("/user/password", change, one),
    Page("/user/remove", one),
    Change("/user/remove", remove, one),
)
