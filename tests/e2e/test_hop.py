"""An agent with an OTLP implementation of its own between the export and a bare server."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.e2e import cli
from tests.e2e.logs import SAMPLES
from tests.e2e.receivers import wait_until
from tests.e2e.spans import assert_same, expected_spans
from tests.paths import CASES

if TYPE_CHECKING:
    from pathlib import Path

    from tests.e2e.receivers import Rotel, Sink

pytestmark = pytest.mark.e2e


@pytest.mark.parametrize("place", [SAMPLES, CASES], ids=["real", "broken"])
def test_every_span_passes_rotel_once_and_unchanged(place: Path, rotel: Rotel, sink: Sink) -> None:
    done = cli.export(place, endpoint=rotel.endpoint)
    expected = expected_spans(place)
    assert cli.count("spans? went to", done.stderr) == len(expected) > 0
    wait_until(lambda: len(sink.spans()) >= len(expected), "all spans in the sink", log=rotel.log)
    rotel.stop()
    assert_same(sink.spans(), expected)
    assert {request.path for request in sink.requests} == {"/v1/traces"}
