"""OTLP log requests in both encodings."""

from __future__ import annotations

import gzip
import json
import random
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import pytest
from google.protobuf import json_format
from google.rpc.status_pb2 import Status  # type: ignore[import-untyped]
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import (
    ExportLogsServiceRequest,
    ExportLogsServiceResponse,
)

from dsh_core.logs.otlp_json import told_by_request
from dsh_core.logs.told import Told
from dsh_otel.sources.otlp_logs import (
    Answer,
    Encoding,
    GarbageError,
    TooLargeError,
    told_in,
    unpacked,
)
from tests.paths import OTLP

if TYPE_CHECKING:
    from pathlib import Path


def as_protobuf(path: Path) -> bytes:
    document = json.loads(path.read_bytes())
    for resource in document["resourceLogs"]:
        for scope in resource["scopeLogs"]:
            for record in scope["logRecords"]:
                record.pop("droppedAttributesCount", None)
    request = json_format.ParseDict(
        document, ExportLogsServiceRequest(), ignore_unknown_fields=True
    )
    data: bytes = request.SerializeToString()
    return data


@pytest.mark.parametrize("path", sorted(OTLP.glob("*.json")), ids=lambda path: path.stem)
def test_both_encodings_tell_the_same(path: Path) -> None:
    wanted = list(told_by_request(json.loads(path.read_bytes())))
    for encoding, body in (
        (Encoding.JSON, path.read_bytes()),
        (Encoding.PROTOBUF, as_protobuf(path)),
    ):
        found = list(told_in(body, encoding))
        assert len(found) == len(wanted) > 15
        for one, other in zip(found, wanted, strict=True):
            assert type(one) is type(other)
            if isinstance(one, Told) and isinstance(other, Told):
                assert (one.header, one.event) == (other.header, other.event)
                assert one.size > 0


@pytest.mark.parametrize("size", [0, 1, 300_000])
def test_what_was_packed_is_unpacked(size: int) -> None:
    data = random.Random(1).randbytes(size)
    assert unpacked(gzip.compress(data), size) == data
    # Several members are one text.
    assert unpacked(gzip.compress(data) * 3, 3 * size) == data * 3


def test_a_bomb_is_defused() -> None:
    bomb = gzip.compress(bytes(1 << 30), 9)
    with pytest.raises(TooLargeError):
        unpacked(bomb, 1 << 20)
    with pytest.raises(TooLargeError):
        unpacked(gzip.compress(b"x") * 11, 10)


@pytest.mark.parametrize(
    "odd",
    [b"x", gzip.compress(b"x" * 99)[:-9], gzip.compress(b"x")[:5], gzip.compress(b"x") + b"y"],
    ids=["not gzip", "cut", "cut in its head", "more behind it"],
)
def test_what_is_no_whole_gzip_is_garbage(odd: bytes) -> None:
    with pytest.raises(GarbageError):
        unpacked(odd, 1000)


@pytest.mark.parametrize("encoding", list(Encoding))
@pytest.mark.parametrize("body", [b"\xff", b"{" * 100_000, b"[]", b'"x"', b"\x0a\xff"])
def test_garbage_is_told_from_requests(encoding: Encoding, body: bytes) -> None:
    with pytest.raises(GarbageError):
        list(told_in(body, encoding))


@pytest.mark.parametrize("seed", range(300))
def test_a_request_with_wrong_bytes_is_read_or_garbage(seed: int) -> None:
    rng = random.Random(seed)
    path = rng.choice(sorted(OTLP.glob("*.json")))
    encoding = rng.choice(list(Encoding))
    body = bytearray(path.read_bytes() if encoding is Encoding.JSON else as_protobuf(path))
    for _ in range(rng.randint(1, 20)):
        place = rng.randrange(len(body))
        body[place : place + rng.randrange(3)] = rng.randbytes(rng.randrange(4))
    with suppress(GarbageError):
        assert list(told_in(bytes(body), encoding)) is not None


ANSWERS = [Answer(), Answer(rejected=3, message="odd"), Answer(400, "no"), Answer(429, "x" * 500)]


@pytest.mark.parametrize("answer", ANSWERS)
def test_answers_are_those_of_otlp(answer: Answer) -> None:
    """The service's response, or a google.rpc.Status."""
    form: Any = ExportLogsServiceResponse if answer.status == 200 else Status
    binary = form()
    binary.ParseFromString(answer.encoded(Encoding.PROTOBUF))
    plain = json_format.Parse(answer.encoded(Encoding.JSON), form())
    if answer.status == 200:
        assert binary == plain
        assert binary.partial_success.rejected_log_records == answer.rejected
        assert binary.partial_success.error_message == answer.message
    else:
        assert binary.code == plain.code > 0
        assert answer.message.startswith(binary.message)
        assert binary.message
