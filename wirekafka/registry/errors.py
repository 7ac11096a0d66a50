"""The errors of a schema registry: an HTTP status, a code and a message, as Confluent words it."""

from __future__ import annotations

INVALID_SCHEMA = 42201


class RegistryError(Exception):
    """A request that a registry refuses."""

    def __init__(self, status: int, code: int, message: str) -> None:
        super().__init__(message)
        self.status, self.code, self.message = status, code, message

    def body(self) -> dict[str, int | str]:
        """The JSON of the answer."""
        return {"error_code": self.code, "message": self.message}


def of_http(status: int, reason: str) -> RegistryError:
    """A request that no resource can answer: 404, 405, 406, 415."""
    return RegistryError(status, status, f"HTTP {status} {reason}")


def malformed(message: str) -> RegistryError:
    """A body that is no JSON, or has values of other types than the API's."""
    return RegistryError(400, 400, message)


def unprocessable(message: str) -> RegistryError:
    """A body that the API does not define."""
    return RegistryError(422, 422, message)


def subject_not_found(subject: str) -> RegistryError:
    """No schema was registered under a subject, or all have been deleted."""
    return RegistryError(404, 40401, f"Subject '{subject}' not found.")


def version_not_found(version: int | str) -> RegistryError:
    """A subject has no such version, or it has been deleted."""
    return RegistryError(404, 40402, f"Version {version} not found.")


def schema_not_found(id: int | str | None = None) -> RegistryError:
    """No schema has an id or GUID, or a schema is not registered."""
    message = "Schema not found" if id is None else f"Schema {id} not found"
    return RegistryError(404, 40403, message)


def subject_soft_deleted(subject: str) -> RegistryError:
    """All versions of a subject have been soft-deleted already."""
    message = f"Subject '{subject}' was soft deleted.Set permanent=true to delete permanently"
    return RegistryError(404, 40404, message)


def subject_not_soft_deleted(subject: str) -> RegistryError:
    """Only soft-deleted subjects can be deleted permanently."""
    message = f"Subject '{subject}' was not deleted first before being permanently deleted"
    return RegistryError(404, 40405, message)


def version_soft_deleted(subject: str, version: int) -> RegistryError:
    """A version has been soft-deleted already."""
    message = (
        f"Subject '{subject}' Version {version} was soft deleted."
        "Set permanent=true to delete permanently"
    )
    return RegistryError(404, 40406, message)


def version_not_soft_deleted(subject: str, version: int) -> RegistryError:
    """Only soft-deleted versions can be deleted permanently."""
    message = (
        f"Subject '{subject}' Version {version} was not deleted first "
        "before being permanently deleted"
    )
    return RegistryError(404, 40407, message)


def no_level_of_subject(subject: str) -> RegistryError:
    """A subject has no configuration of its own."""
    message = f"Subject '{subject}' does not have subject-level compatibility configured"
    return RegistryError(404, 40408, message)


def no_mode_of_subject(subject: str) -> RegistryError:
    """A subject has no mode of its own."""
    message = f"Subject '{subject}' does not have subject-level mode configured"
    return RegistryError(404, 40409, message)


def incompatible(subject: str, details: str) -> RegistryError:
    """A schema that the compatibility level of its subject does not allow."""
    message = (
        "Schema being registered is incompatible with an earlier schema for subject "
        f'"{subject}", details: [{details}]'
    )
    return RegistryError(409, 409, message)


def invalid_schema(message: str) -> RegistryError:
    """A schema that does not parse, or refers to an unknown one."""
    return RegistryError(422, INVALID_SCHEMA, message)


def invalid_version(version: str) -> RegistryError:
    """A version in a path that is neither a number nor `latest`."""
    message = (
        f"The specified version '{version}' is not a valid version id. "
        'Allowed values are between [1, 2^31-1] and the string "latest"'
    )
    return RegistryError(422, 42202, message)


def invalid_level() -> RegistryError:
    """An unknown compatibility level."""
    message = (
        "Invalid compatibility level. Valid values are none, backward, forward, full, "
        "backward_transitive, forward_transitive, and full_transitive"
    )
    return RegistryError(422, 42203, message)


def invalid_mode() -> RegistryError:
    """An unknown mode."""
    message = "Invalid mode. Valid values are READWRITE, READONLY, and IMPORT."
    return RegistryError(422, 42204, message)


def not_permitted(message: str) -> RegistryError:
    """A write that the mode of its subject does not allow."""
    return RegistryError(422, 42205, message)


def reference_exists(subject: str, version: int) -> RegistryError:
    """A version cannot be deleted while another schema refers to it."""
    key = f"{{magic=1,keytype=SCHEMA,subject={subject},version={version}}}"
    return RegistryError(422, 42206, f"One or more references exist to the schema {key}.")


def id_mismatch(message: str) -> RegistryError:
    """An id that cannot be given to a schema."""
    return RegistryError(422, 42207, message)


def invalid_subject(subject: str) -> RegistryError:
    """A name that no subject can have. The wording is Confluent's."""
    return RegistryError(422, 42208, f"The specified subject '{subject}' is not a valid.")


def schema_too_large(message: str) -> RegistryError:
    """A schema, or all that it refers to, that exceeds the limits of a registry."""
    return RegistryError(422, 42209, message)


def invalid_rule_set(message: str) -> RegistryError:
    """Metadata or a set of rules that is not well-formed."""
    return RegistryError(422, 42210, message)


def context_not_empty(context: str) -> RegistryError:
    """Only contexts without subjects can be deleted."""
    return RegistryError(422, 42211, f"The specified context '{context}' is not empty.")
