"""Answers about configurations, modes and contexts, and about the registry itself."""

from __future__ import annotations

from typing import Any

from starlette.responses import Response

from wirekafka.registry import deletion, errors, modes, settings, subjects
from wirekafka.registry.access import RegistryOperation
from wirekafka.registry.http import answers
from wirekafka.registry.http.call import RegistryCall
from wirekafka.registry.state import DEFAULT_LEVEL
from wirekafka.registry.subjects import QualifiedSubject, qualified

_COMPATIBLE_WITH = "8.1.0"
"""The version of Confluent's registry whose API this is."""
_MOST_CONTEXTS = 20_000
_READ, _WRITE = (
    RegistryOperation.SUBJECT_COMPATIBILITY_READ,
    RegistryOperation.SUBJECT_COMPATIBILITY_WRITE,
)
_READ_ALL, _WRITE_ALL = (
    RegistryOperation.GLOBAL_COMPATIBILITY_READ,
    RegistryOperation.GLOBAL_COMPATIBILITY_WRITE,
)


async def root(call: RegistryCall) -> Any:
    """Nothing: that the registry answers is what clients ask."""
    return {}


async def server_id(call: RegistryCall) -> Any:
    """The clusters that the registry belongs to."""
    clusters = {
        "kafka-cluster": call.registry.cluster_id,
        "schema-registry-cluster": call.registry.group_id,
    }
    return {"scope": {"path": [], "clusters": clusters}, "id": ""}


async def server_version(call: RegistryCall) -> Any:
    """The version of the API."""
    return {"version": _COMPATIBLE_WITH, "commitId": ""}


async def no_exporters(call: RegistryCall) -> Any:
    """Schema linking is a feature of Confluent's servers."""
    raise errors.RegistryError(
        501,
        50101,
        "This registry has no exporters: copy the topic _schemas, or register in IMPORT mode",
    )


async def contexts(call: RegistryCall) -> Any:
    """The names of contexts."""
    await call.require(RegistryOperation.GLOBAL_SUBJECTS_READ)
    prefix = call.text("contextPrefix")
    found = [each for each in call.state.contexts() if each.startswith(prefix)]
    return call.page(found, _MOST_CONTEXTS)


async def delete_context(call: RegistryCall) -> Any:
    """Delete an empty context."""
    name = call.variables["context"]
    context = qualified(name).context if name.startswith(":") else name
    await call.require(RegistryOperation.SUBJECT_DELETE, str(QualifiedSubject(context, "")))
    await call.submit(deletion.delete_context(context))
    return Response(status_code=204)


async def config(call: RegistryCall) -> Any:
    """The configuration of the registry."""
    await call.require(_READ_ALL)
    return {"compatibilityLevel": DEFAULT_LEVEL, **(call.state.config(None) or {})}


async def config_of_subject(call: RegistryCall) -> Any:
    """The configuration of a subject."""
    scope = call.scope()
    if scope is None:
        return await config(call)
    await call.require(_READ, scope)
    if call.flag("defaultToGlobal"):
        return call.state.config_in_scope(scope)
    found = call.state.config(scope)
    if found is None:
        raise errors.no_level_of_subject(scope)
    return found


async def set_config(call: RegistryCall) -> Any:
    """Change settings of the registry."""
    await call.require(_WRITE_ALL)
    return await _set_config(call, None)


async def set_config_of_subject(call: RegistryCall) -> Any:
    """Change settings of a subject."""
    scope = call.scope()
    if scope is None:
        return await set_config(call)
    _require_scope(scope)
    await call.require(_WRITE, scope)
    return await _set_config(call, scope)


async def delete_config(call: RegistryCall) -> Any:
    """Delete the settings of the registry."""
    await call.require(_WRITE_ALL)
    return await call.submit(settings.delete_config(None))


async def delete_config_of_subject(call: RegistryCall) -> Any:
    """Delete the settings of a subject."""
    scope = call.scope()
    if scope is None:
        return await delete_config(call)
    await call.require(_WRITE, scope)
    return await call.submit(settings.delete_config(scope))


async def mode(call: RegistryCall) -> Any:
    """The mode of the registry."""
    await call.require(_READ_ALL)
    return {"mode": call.state.mode_in_scope(None)}


async def mode_of_subject(call: RegistryCall) -> Any:
    """The mode of a subject."""
    scope = call.scope()
    if scope is None:
        return await mode(call)
    await call.require(_READ, scope)
    if call.flag("defaultToGlobal"):
        return {"mode": call.state.mode_in_scope(scope)}
    found = call.state.mode(scope)
    if found is None:
        raise errors.no_mode_of_subject(scope)
    return {"mode": found}


async def set_mode(call: RegistryCall) -> Any:
    """Change the mode of the registry."""
    await call.require(_WRITE_ALL)
    return await _set_mode(call, None)


async def set_mode_of_subject(call: RegistryCall) -> Any:
    """Change the mode of a subject."""
    scope = call.scope()
    if scope is None:
        return await set_mode(call)
    _require_scope(scope)
    await call.require(_WRITE, scope)
    return await _set_mode(call, scope)


async def delete_mode(call: RegistryCall) -> Any:
    """Delete the mode of the registry."""
    await call.require(_WRITE_ALL)
    return {"mode": await call.submit(modes.delete_mode(None))}


async def delete_mode_of_subject(call: RegistryCall) -> Any:
    """Delete the mode of a subject."""
    scope = call.scope()
    if scope is None:
        return await delete_mode(call)
    await call.require(_WRITE, scope)
    return {"mode": await call.submit(modes.delete_mode(scope))}


async def _set_config(call: RegistryCall, scope: str | None) -> Any:
    update = settings.required_settings(call.json(), accepts_unknown=call.accepts_unknown)
    written = await call.submit(settings.set_config(scope, update))
    return answers.config_update(written)


async def _set_mode(call: RegistryCall, scope: str | None) -> Any:
    wanted = call.mode_request()
    return {"mode": await call.submit(modes.set_mode(scope, wanted, force=call.flag("force")))}


def _require_scope(scope: str) -> None:
    """A whole context is named by a subject without a name."""
    if qualified(scope).name:
        subjects.required_valid(scope)
