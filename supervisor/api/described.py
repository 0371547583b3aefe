"""What OpenAPI says of bodies that routes read by themselves, and of errors."""

from typing import Any

from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi
from pydantic import BaseModel

from supervisor.api.problems import MEDIA_TYPE
from supervisor.model.node import NodeSpec
from supervisor.model.spec import Spec

_REF = "#/components/schemas/{model}"
ANSWERS: dict[int | str, dict[str, Any]] = {
    "default": {
        "description": "An RFC 9457 problem.",
        "content": {MEDIA_TYPE: {"schema": {"$ref": _REF.format(model="Problem")}}},
    }
}
PROBLEM_SCHEMA: dict[str, Any] = {
    "type": "object",
    "title": "Problem",
    "description": "What went wrong, where, and what to do about it.",
    "required": ["type", "title", "status", "detail", "instance", "code", "retryable"],
    "properties": {
        "type": {"type": "string", "examples": ["urn:vigil:problem:not_found"]},
        "title": {"type": "string"},
        "status": {"type": "integer"},
        "detail": {"type": "string"},
        "instance": {"type": "string"},
        "code": {"type": "string", "examples": ["not_found"]},
        "retryable": {"type": "boolean"},
        "remedy": {"type": "string"},
        "errors": {
            "type": "array",
            "items": {
                "type": "object",
                "properties": {name: {"type": "string"} for name in ("place", "value", "detail", "remedy")},
            },
        },
    },
}
_SPEC_EXAMPLE = {
    "name": "vit-l",
    "node": "gpubox-200",
    "workdir": "~/vit",
    "command": "python train.py --batch-size 96",
    "checkpoint": {"path": "out"},
    "resume": "--resume {checkpoint}",
    "knobs": [{"key": "args.--batch-size", "step": "halve", "min": 12, "relieves": ["gpu_oom"]}],
}
_read: dict[str, type[BaseModel]] = {"Spec": Spec, "NodeSpec": NodeSpec}


def accepts(model: type[BaseModel], *, required: bool = False) -> dict[str, Any]:
    """The `requestBody` of a route that reads `model`."""
    _read[model.__name__] = model
    schema = {"$ref": _REF.format(model=model.__name__)}
    return {"requestBody": {"required": required, "content": {"application/json": {"schema": schema}}}}


def accepts_spec() -> dict[str, Any]:
    """The `requestBody` of a run's spec: JSON, YAML or TOML."""
    schema = {"$ref": _REF.format(model="Spec")}
    kinds = ("application/json", "application/yaml", "application/toml")
    content: dict[str, Any] = {kind: {"schema": schema} for kind in kinds}
    content["application/json"]["example"] = _SPEC_EXAMPLE
    return {"requestBody": {"required": True, "content": content}}


def describe(app: FastAPI) -> None:
    """Gives `app` its OpenAPI document, with the schemas of the bodies and of the problem."""

    def document() -> dict[str, Any]:
        if app.openapi_schema is None:
            made = get_openapi(title=app.title, version=app.version, description=app.description, routes=app.routes)
            schemas = made.setdefault("components", {}).setdefault("schemas", {})
            for name, model in _read.items():
                schema = model.model_json_schema(ref_template=_REF)
                for inner, definition in schema.pop("$defs", {}).items():
                    schemas.setdefault(inner, definition)
                schemas.setdefault(name, schema)
            schemas["Problem"] = PROBLEM_SCHEMA
            app.openapi_schema = made
        return app.openapi_schema

    app.openapi = document  # type: ignore[method-assign]
