"""All paths of the API, and what answers them."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from wirekafka.registry.http import schema_routes, setting_routes, subject_routes
from wirekafka.registry.http.call import RegistryCall
from wirekafka.registry.http.routing import RegistryRoute

Endpoint = Callable[[RegistryCall], Awaitable[Any]]


def _routes(table: dict[str, Endpoint]) -> list[RegistryRoute[Endpoint]]:
    rows = ((key.split(), endpoint) for key, endpoint in table.items())
    return [RegistryRoute(method, path, endpoint) for (method, path), endpoint in rows]


ROUTES = _routes(
    {
        "GET /": setting_routes.root,
        "POST /": setting_routes.root,
        "GET /v1/metadata/id": setting_routes.server_id,
        "GET /v1/metadata/version": setting_routes.server_version,
        "GET /schemas": schema_routes.schemas,
        "GET /schemas/types": schema_routes.types,
        "GET /schemas/ids/{id}": schema_routes.schema_of_id,
        "GET /schemas/ids/{id}/schema": schema_routes.text_of_id,
        "GET /schemas/ids/{id}/subjects": schema_routes.subjects_of_id,
        "GET /schemas/ids/{id}/versions": schema_routes.versions_of_id,
        "GET /schemas/guids/{guid}": schema_routes.schema_of_guid,
        "GET /schemas/guids/{guid}/ids": schema_routes.ids_of_guid,
        "GET /subjects": subject_routes.subjects,
        "POST /subjects/{subject}": subject_routes.look_up,
        "DELETE /subjects/{subject}": subject_routes.delete_subject,
        "GET /subjects/{subject}/metadata": subject_routes.latest_with_metadata,
        "GET /subjects/{subject}/versions": subject_routes.versions,
        "POST /subjects/{subject}/versions": subject_routes.register,
        "GET /subjects/{subject}/versions/{version}": subject_routes.version,
        "DELETE /subjects/{subject}/versions/{version}": subject_routes.delete_version,
        "GET /subjects/{subject}/versions/{version}/schema": subject_routes.text_of_version,
        "GET /subjects/{subject}/versions/{version}/referencedby": subject_routes.referenced_by,
        "POST /compatibility/subjects/{subject}/versions": subject_routes.compatibility,
        "POST /compatibility/subjects/{subject}/versions/{version}": (
            subject_routes.compatibility_with_version
        ),
        "GET /config": setting_routes.config,
        "PUT /config": setting_routes.set_config,
        "DELETE /config": setting_routes.delete_config,
        "GET /config/{subject}": setting_routes.config_of_subject,
        "PUT /config/{subject}": setting_routes.set_config_of_subject,
        "DELETE /config/{subject}": setting_routes.delete_config_of_subject,
        "GET /mode": setting_routes.mode,
        "PUT /mode": setting_routes.set_mode,
        "DELETE /mode": setting_routes.delete_mode,
        "GET /mode/{subject}": setting_routes.mode_of_subject,
        "PUT /mode/{subject}": setting_routes.set_mode_of_subject,
        "DELETE /mode/{subject}": setting_routes.delete_mode_of_subject,
        "GET /contexts": setting_routes.contexts,
        "DELETE /contexts/{context}": setting_routes.delete_context,
        **{
            f"{method} {path}": setting_routes.no_exporters
            for path in ("/exporters", "/exporters/{name}", "/exporters/{name}/{part}")
            for method in ("GET", "POST", "PUT", "DELETE")
        },
    }
)
