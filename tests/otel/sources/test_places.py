"""Where a follower stands, over restarts."""

from __future__ import annotations

from pathlib import Path

import pytest

from dsh_otel.sources import places as module
from dsh_otel.sources.places import Place, Places, PlacesError

ROOT = "/home"
KEY = "/home/sessions/s-1"
PLACE = Place("session.v4.jsonl", 10, "ab", 3, 1, exported=True)


def opened(path: Path | None, now_ms: int = 5) -> Places:
    return Places(path, ROOT, now_ms)


def test_places_are_known_after_a_restart(tmp_path: Path) -> None:
    path = tmp_path / "new" / "state"
    places = opened(path)
    assert places.fresh
    places.put([(KEY, PLACE), (KEY + "2", PLACE)])
    places.put([(KEY + "2", None)])
    places.close()
    again = opened(path, now_ms=9)
    assert (again.fresh, again.since_ms) == (False, 5)
    assert again.get(KEY) == PLACE
    assert again.get(KEY + "2") is None
    again.close()


def test_without_a_file_they_are_kept_in_memory() -> None:
    places = opened(None)
    places.put([(KEY, PLACE)])
    assert places.get(KEY) == PLACE
    places.close()


def test_a_row_that_was_cut_does_not_count(tmp_path: Path) -> None:
    path = tmp_path / "state"
    places = opened(path)
    places.put([(KEY, PLACE)])
    places.put([(KEY, Place("f", 20))])
    places.close()
    path.write_bytes(path.read_bytes()[:-9])
    again = opened(path)
    assert again.get(KEY) == PLACE
    again.put([(KEY, Place("f", 30))])
    again.close()
    last = opened(path)
    assert last.get(KEY) == Place("f", 30)
    last.close()


@pytest.mark.parametrize("data", [b"hello\n", b'{"version":99,"since":1}\n', b"{}\n", b"\xff\n"])
def test_another_file_is_refused_and_stays(data: bytes, tmp_path: Path) -> None:
    path = tmp_path / "state"
    path.write_bytes(data)
    with pytest.raises(PlacesError, match="state"):
        opened(path)
    assert path.read_bytes() == data


def test_two_followers_do_not_share_it(tmp_path: Path) -> None:
    places = opened(tmp_path / "state")
    with pytest.raises(PlacesError, match="in use"):
        opened(tmp_path / "state")
    places.close()
    opened(tmp_path / "state").close()


def test_it_does_not_grow_for_ever(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_JOURNAL", 1000)
    path = tmp_path / "state"
    places = opened(path)
    for offset in range(500):
        places.put([(KEY, Place("f", offset))])
    places.close()
    assert path.stat().st_size < 1500
    again = opened(path)
    assert again.get(KEY) == Place("f", 499)
    again.close()


def test_what_cannot_be_written_is_said(tmp_path: Path) -> None:
    places = opened(tmp_path / "state")
    assert places._file is not None
    places._file.close()
    with Path("/dev/full").open("ab", buffering=0) as full:
        places._file = full
        places.put([(KEY, PLACE)])
        assert "space" in places.problem
        places._file = None
    places.close()


def test_what_is_expected_counts_before_it_has_arrived(tmp_path: Path) -> None:
    path = tmp_path / "state"
    places = opened(path)
    places.put([(KEY, PLACE)])
    later = Place("f", 99)
    places.expect(KEY, later)
    assert places.get(KEY) == later
    places.close()
    again = opened(path)
    assert again.get(KEY) == PLACE
    again.close()


def test_what_could_not_be_written_is_written_when_there_is_room(tmp_path: Path) -> None:
    path = tmp_path / "state"
    places = opened(path)
    whole = places._file
    with Path("/dev/full").open("ab", buffering=0) as full:
        places._file = full
        places.put([(KEY, PLACE)])
        assert places.problem
        places.put([(KEY + "2", PLACE)])
    assert not places.problem
    places.close()
    assert whole is not None
    whole.close()
    again = opened(path)
    assert (again.get(KEY), again.get(KEY + "2")) == (PLACE, PLACE)
    again.close()


def test_a_short_write_is_a_failure_and_mended_at_the_end(tmp_path: Path) -> None:
    class Short:
        def write(self, data: bytes) -> int:
            return len(data) // 2

        def close(self) -> None:
            """Do nothing."""

    path = tmp_path / "state"
    places = opened(path)
    assert places._file is not None
    places._file.close()
    places._file = Short()  # type: ignore[assignment]
    places.put([(KEY, PLACE)])
    assert places.problem
    places.close()
    again = opened(path)
    assert again.get(KEY) == PLACE
    again.close()


@pytest.mark.parametrize("path", ["/dev/null", "/dev/full", "/dev/zero"])
def test_what_is_no_file_is_refused(path: str) -> None:
    with pytest.raises(PlacesError, match="no state file"):
        opened(Path(path))
    assert not Path(f"{path}.lock").exists()
