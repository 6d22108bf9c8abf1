"""The endpoint of ``dsh-otel receive`` in OpenAPI, for fuzzers."""

from __future__ import annotations

from typing import Any, Final


def _list_of(item: dict[str, Any]) -> dict[str, Any]:
    return {"type": "array", "items": item, "maxItems": 4}


def _one_of(name: str) -> dict[str, Any]:
    return {"$ref": f"#/components/schemas/{name}"}


_INTEGER: Final = {"anyOf": [{"type": "integer"}, {"type": "string", "pattern": "^[0-9]{1,20}$"}]}
_TYPES: Final = ["turn/start", "turn/end", "step/start", "tool/call", "tool/result", "odd"]
_STATUS: Final = {
    "type": "object",
    "required": ["code", "message"],
    "properties": {"code": {"type": "integer"}, "message": {"type": "string"}},
}
_RESPONSE: Final = {
    "type": "object",
    "additionalProperties": False,
    "properties": {
        "partialSuccess": {
            "type": "object",
            "required": ["rejectedLogRecords"],
            "properties": {
                "rejectedLogRecords": {"type": "string"},
                "errorMessage": {"type": "string"},
            },
        }
    },
}


def _answer(schema: dict[str, Any]) -> dict[str, Any]:
    binary = {"type": "string", "format": "binary"}
    content = {"application/json": {"schema": schema}, "application/x-protobuf": {"schema": binary}}
    return {"description": "see OTLP", "content": content}


SCHEMAS: Final[dict[str, Any]] = {
    "Value": {
        "anyOf": [
            {"type": "object", "properties": {"stringValue": {"type": "string"}}},
            {"type": "object", "properties": {"intValue": _INTEGER}},
            {"type": "object", "properties": {"boolValue": {"type": "boolean"}}},
            {"type": "object", "properties": {"doubleValue": {"type": "number"}}},
            {
                "type": "object",
                "properties": {
                    "kvlistValue": {
                        "type": "object",
                        "properties": {"values": _list_of(_one_of("Pair"))},
                    }
                },
            },
        ]
    },
    "Pair": {
        "type": "object",
        "required": ["key", "value"],
        "properties": {"key": {"type": "string"}, "value": _one_of("Value")},
    },
    "Attribute": {
        "anyOf": [
            _one_of("Pair"),
            *(
                {
                    "type": "object",
                    "required": ["key", "value"],
                    "additionalProperties": False,
                    "properties": {
                        "key": {"const": key},
                        "value": {
                            "type": "object",
                            "required": [kind],
                            "additionalProperties": False,
                            "properties": {kind: value},
                        },
                    },
                }
                for key, kind, value in (
                    ("session.id", "stringValue", {"enum": ["a", "b", "c"]}),
                    ("event.type", "stringValue", {"enum": _TYPES}),
                    ("event.seq", "intValue", {"type": "integer", "minimum": 0, "maximum": 99}),
                    ("content", "stringValue", {"type": "string"}),
                )
            ),
        ]
    },
    "Record": {
        "type": "object",
        "properties": {
            "timeUnixNano": _INTEGER,
            "body": _one_of("Value"),
            "attributes": {**_list_of(_one_of("Attribute")), "maxItems": 8},
        },
    },
}

API: Final[dict[str, Any]] = {
    "openapi": "3.1.0",
    "info": {"title": "dsh-otel receive", "version": "1"},
    "components": {"schemas": SCHEMAS},
    "paths": {
        "/healthz": {
            "get": {"responses": {"200": {"description": "ok", "content": {"text/plain": {}}}}}
        },
        "/v1/logs": {
            "post": {
                "requestBody": {
                    "required": True,
                    "content": {
                        "application/json": {
                            "schema": {
                                "type": "object",
                                "properties": {
                                    "resourceLogs": _list_of(
                                        {
                                            "type": "object",
                                            "properties": {
                                                "scopeLogs": _list_of(
                                                    {
                                                        "type": "object",
                                                        "properties": {
                                                            "logRecords": _list_of(
                                                                _one_of("Record")
                                                            )
                                                        },
                                                    }
                                                )
                                            },
                                        }
                                    )
                                },
                            }
                        },
                        "application/x-protobuf": {
                            "schema": {"type": "string", "format": "binary"}
                        },
                    },
                },
                "responses": {
                    "200": _answer(_RESPONSE),
                    **{
                        str(status): _answer(_STATUS)
                        for status in (400, 401, 408, 413, 415, 429, 503)
                    },
                },
            }
        },
    },
}
