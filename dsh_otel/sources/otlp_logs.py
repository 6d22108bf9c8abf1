"""OTLP log requests in both encodings, and the answers to them."""

from __future__ import annotations

import zlib
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Final

import msgspec
from google.protobuf.message import DecodeError
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import (
    ExportLogsServiceRequest,
    ExportLogsServiceResponse,
)

from dsh_core.faults import Fault
from dsh_core.logs.otlp_json import (
    MAX_NESTING,
    LogRecord,
    TooDeepError,
    records_of,
    refused,
    told_by,
)
from dsh_core.logs.told import Aside, Told

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from opentelemetry.proto.common.v1.common_pb2 import AnyValue, KeyValue

_STEP: Final = 1 << 18
_GZIP: Final = 16 + zlib.MAX_WBITS
_INVALID_ARGUMENT: Final = 3
# Codes of google.rpc for the others.
_CODES: Final = {401: 16, 408: 4, 429: 14, 503: 14}
_SHORT: Final = 127
"""Longest text whose length takes one byte in protobuf."""


class Encoding(StrEnum):
    """How a request is written, by its content type."""

    JSON = "application/json"
    PROTOBUF = "application/x-protobuf"


class GarbageError(ValueError):
    """A request cannot be read."""


class TooLargeError(ValueError):
    """A request is too large when it is unpacked."""


def unpacked(body: bytes, limit: int) -> bytes:
    """Return what gzip holds.

    Args:
        body: One or more members of gzip.
        limit: Most bytes that it may hold.

    Raises:
        GarbageError: It is no gzip, or not whole.
        TooLargeError: It holds more.
    """
    parts: list[bytes] = []
    size = 0
    try:
        while body:
            member = zlib.decompressobj(_GZIP)
            while not member.eof:
                part = member.decompress(body, _STEP)
                body = member.unconsumed_tail
                size += len(part)
                if size > limit:
                    raise TooLargeError(f"more than {limit} bytes when unpacked")
                parts.append(part)
                if not part and not body and not member.eof:
                    raise GarbageError("gzip that is not whole")
            body = member.unused_data
    except zlib.error as error:
        raise GarbageError("not gzip") from error
    return b"".join(parts)


def told_in(body: bytes, encoding: Encoding) -> Iterator[Told | Aside | Fault]:
    """Return what a request tells, record by record.

    Args:
        body: The request.
        encoding: How it is written.

    Raises:
        GarbageError: It cannot be read.
    """
    if encoding is Encoding.JSON:
        records = records_of(_document(body))
    else:
        request = ExportLogsServiceRequest()
        try:
            request.ParseFromString(body)
        except DecodeError as error:
            raise GarbageError("not a protobuf message of that kind") from error
        records = _records(request)
    return _told(records, len(body))


def _document(body: bytes) -> object:
    try:
        document = msgspec.json.decode(body)
    except (msgspec.MsgspecError, RecursionError, UnicodeError) as error:
        raise GarbageError("not JSON, or nested too deeply") from error
    if not isinstance(document, dict):
        raise GarbageError("not a JSON object")
    return document


def _told(records: Iterable[LogRecord | Fault], size: int) -> Iterator[Told | Aside | Fault]:
    found = list(records)
    each = size // len(found) if found else 0
    for record in found:
        told = record if isinstance(record, Fault) else told_by(record)
        yield replace(told, size=each) if isinstance(told, Told) else told


def _records(request: ExportLogsServiceRequest) -> Iterator[LogRecord | Fault]:
    for resource in request.resource_logs:
        release = next(
            (
                item.value.string_value
                for item in resource.resource.attributes
                if item.key == "service.version"
            ),
            None,
        )
        for scoped in resource.scope_logs:
            for record in scoped.log_records:
                try:
                    yield LogRecord(
                        scope=scoped.scope.name,
                        release=release,
                        time_ns=record.time_unix_nano or record.observed_time_unix_nano or None,
                        attributes=_pairs(record.attributes, 0),
                        body=_plain(record.body, 0),
                    )
                except TooDeepError as error:
                    yield refused(str(error))


def _pairs(items: Iterable[KeyValue], depth: int) -> dict[str, Any]:
    return {item.key: _plain(item.value, depth) for item in items}


def _plain(value: AnyValue, depth: int) -> Any:  # noqa: ANN401 - a JSON value
    if depth > MAX_NESTING:
        raise TooDeepError("a value is nested too deeply")
    kind = value.WhichOneof("value")
    if kind == "kvlist_value":
        return _pairs(value.kvlist_value.values, depth + 1)
    if kind == "array_value":
        return [_plain(item, depth + 1) for item in value.array_value.values]
    if kind is None or kind == "bytes_value":
        return None
    return getattr(value, kind)


@dataclass(frozen=True, slots=True)
class Answer:
    """What a request is answered.

    Attributes:
        status: The HTTP status.
        message: What is wrong, empty if nothing is.
        rejected: How many records of a request that was taken were not.
        retry_after_s: When to try again, in seconds; 0 if that would not help.
    """

    status: int = 200
    message: str = ""
    rejected: int = 0
    retry_after_s: int = 0

    def encoded(self, encoding: Encoding) -> bytes:
        """Return the body: the service's response, or a google.rpc.Status."""
        if self.status == 200:  # noqa: PLR2004 - HTTP
            return self._response(encoding)
        code = _CODES.get(self.status, _INVALID_ARGUMENT)
        if encoding is Encoding.JSON:
            return msgspec.json.encode({"code": code, "message": self.message})
        text = self.message.encode()[:_SHORT]
        return bytes((0x08, code, 0x12, len(text))) + text

    def _response(self, encoding: Encoding) -> bytes:
        if encoding is Encoding.JSON:
            partial = {"rejectedLogRecords": str(self.rejected), "errorMessage": self.message}
            return msgspec.json.encode({"partialSuccess": partial} if self.rejected else {})
        response = ExportLogsServiceResponse()
        if self.rejected:
            response.partial_success.rejected_log_records = self.rejected
            response.partial_success.error_message = self.message
        data: bytes = response.SerializeToString()
        return data
