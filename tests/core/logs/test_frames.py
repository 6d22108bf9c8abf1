"""Tests of the bytes of a log: plain, or a row of zstd frames, whole or damaged."""

from __future__ import annotations

import io
import random
from typing import Final

import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st

from dsh_core.logs import frames
from dsh_core.logs.frames import MAGIC, READ_SIZE, BadFrame, read_blocks
from tests.paths import HOMES

PARTS: Final = (b'{"type":"session"}\n', b"one\ntwo\n" * 40, b"x" * 300 + b"\n", b"last\n")
MAX_PIECE: Final = 1 << 17


def frame(data: bytes, *, checksum: bool = True, size: bool = False, level: int = 3) -> bytes:
    """Return data as a zstd frame, by default as the runtime writes it."""
    compressor = zstandard.ZstdCompressor(
        level=level, write_checksum=checksum, write_content_size=size
    )
    return compressor.compress(data)


FRAMES: Final = tuple(frame(part) for part in PARTS)
WHOLE: Final = b"".join(PARTS)
FILE: Final = b"".join(FRAMES)


class Trickle:
    """A source that gives a few bytes at a time, like a pipe."""

    def __init__(self, data: bytes, step: int) -> None:
        self._source = io.BytesIO(data)
        self._step = step

    def read(self, size: int, /) -> bytes:
        """Return up to `step` bytes."""
        return self._source.read(min(size, self._step))


def read(data: bytes) -> tuple[bytes, list[BadFrame]]:
    """Return what can be read of a file, and what cannot."""
    items = list(read_blocks(io.BytesIO(data)))
    good = b"".join(item for item in items if isinstance(item, bytes))
    return good, [item for item in items if isinstance(item, BadFrame)]


class TestPlain:
    """Files that are not compressed."""

    @pytest.mark.parametrize("data", [b"", b"{", b"\n", WHOLE, WHOLE * 5000, b"\x28\xb5\x2f", b"("])
    def test_they_are_passed_on(self, data: bytes) -> None:
        """Bytes that do not begin like a zstd frame are the log itself."""
        assert read(data) == (data, [])

    def test_in_pieces(self) -> None:
        """However long the file is, a piece is not."""
        pieces = list(read_blocks(io.BytesIO(b"x" * (READ_SIZE * 3 + 5))))
        assert [len(piece) for piece in pieces if isinstance(piece, bytes)] == [
            READ_SIZE,
            READ_SIZE,
            READ_SIZE,
            5,
        ]

    @pytest.mark.parametrize("step", [1, 3, 7])
    def test_from_a_pipe(self, step: int) -> None:
        """A source may give fewer bytes than it was asked for."""
        assert b"".join(read_blocks(Trickle(WHOLE, step))) == WHOLE  # type: ignore[arg-type]

    def test_magic_inside_a_text(self) -> None:
        """A log that begins with an event is plain, whatever stands in it."""
        data = b'{"text":"' + MAGIC + b'"}\n'
        assert read(data) == (data, [])


class TestZstd:
    """Files of several frames."""

    def test_all_frames_are_read(self) -> None:
        """Frames are read one after the other to the end of the file."""
        assert read(FILE) == (WHOLE, [])

    @pytest.mark.parametrize("step", [1, 2, 5, 100])
    def test_from_a_pipe(self, step: int) -> None:
        """Frames may come in a few bytes at a time."""
        assert b"".join(read_blocks(Trickle(FILE, step))) == WHOLE  # type: ignore[arg-type]

    @pytest.mark.parametrize("checksum", [True, False])
    @pytest.mark.parametrize("size", [True, False])
    @pytest.mark.parametrize("level", [-5, 1, 19])
    def test_frames_of_other_writers(self, checksum: bool, size: bool, level: int) -> None:
        """A log that somebody compressed again is read as well."""
        options = {"checksum": checksum, "size": size}
        data = b"".join(frame(part * 3000, level=level, **options) for part in PARTS)
        assert read(data) == (b"".join(part * 3000 for part in PARTS), [])

    def test_empty_frames(self) -> None:
        """A frame may hold nothing."""
        assert read(frame(b"") + FILE + frame(b"")) == (WHOLE, [])

    @pytest.mark.parametrize("place", range(len(FRAMES) + 1))
    @pytest.mark.parametrize("size", [0, 5, 70_000])
    def test_skippable_frames(self, place: int, size: int) -> None:
        """Frames that are made to be skipped are, wherever they stand."""
        skippable = b"\x53\x2a\x4d\x18" + size.to_bytes(4, "little") + bytes(size)
        data = b"".join((*FRAMES[:place], skippable, *FRAMES[place:]))
        assert read(data) == (WHOLE, [])

    def test_a_torn_skippable_frame(self) -> None:
        """A file may end inside a skippable frame, too."""
        good, bad = read(FILE + b"\x50\x2a\x4d\x18" + (9).to_bytes(4, "little") + b"abc")
        assert good == WHOLE
        assert [(b.offset, b.torn) for b in bad] == [(len(FILE), True)]

    def test_incompressible_data(self) -> None:
        """Blocks may be stored as they are, or as one repeated byte."""
        noise = random.Random(7).randbytes(400_000)
        runs = bytes(400_000)
        assert read(frame(noise) + frame(runs)) == (noise + runs, [])

    def test_what_a_runtime_wrote(self) -> None:
        """Real files have a header frame and one frame for each append."""
        path = next(HOMES.glob("text/**/*.zstd"))
        whole = zstandard.ZstdDecompressor().stream_reader(path.open("rb"), read_across_frames=True)
        with whole:
            assert read(path.read_bytes()) == (whole.read(), [])


class TestBounds:
    """Memory that a file can ask for."""

    def test_a_bomb_comes_in_small_pieces(self) -> None:
        """A frame of a few bytes that holds 300 MiB never gives more than 128 KiB at once."""
        bomb = zstandard.ZstdCompressor().compressobj()
        data = b"".join(bomb.compress(bytes(1 << 20)) for _ in range(300)) + bomb.flush()
        assert len(data) < 100_000
        sizes = [len(piece) for piece in read_blocks(io.BytesIO(data)) if isinstance(piece, bytes)]
        assert sum(sizes) == 300 << 20
        assert max(sizes) <= MAX_PIECE

    def test_a_huge_window_is_refused(self) -> None:
        """A frame that wants gigabytes of history is damage; the next one is read."""
        # Magic, no flags, a window of 2**41 bytes, one raw block of one byte.
        huge = MAGIC + b"\x00" + bytes([31 << 3]) + b"\x09\x00\x00x"
        good, bad = read(huge + FILE)
        assert good == WHOLE
        assert [(b.offset, b.torn) for b in bad] == [(0, False)]
        assert "memory" in bad[0].reason or "indow" in bad[0].reason

    def test_a_size_that_leads_past_the_end(self) -> None:
        """A skippable frame that claims gigabytes costs none."""
        data = b"\x50\x2a\x4d\x18" + b"\xff\xff\xff\xff" + FILE
        good, bad = read(data)
        assert good == WHOLE
        assert [(b.offset, b.torn) for b in bad] == [(0, False)]


class TestTorn:
    """Files that end inside a frame."""

    @pytest.mark.parametrize("cut", range(1, len(FRAMES[-1])))
    def test_cut_at_every_byte_of_the_last_frame(self, cut: int) -> None:
        """The frames before it are read, and the loss is known to be a torn end."""
        good, bad = read(FILE[:-cut])
        assert WHOLE.startswith(good)
        assert good[: len(WHOLE) - len(PARTS[-1])] == WHOLE[: -len(PARTS[-1])]
        start = len(FILE) - len(FRAMES[-1])
        assert [(b.offset, b.torn) for b in bad] == [(start, True)]

    def test_cut_between_frames(self) -> None:
        """A file that ends with a frame is whole."""
        assert read(b"".join(FRAMES[:3])) == (b"".join(PARTS[:3]), [])

    def test_what_is_there_of_a_large_frame_is_read(self) -> None:
        """Of a torn frame all whole blocks are decompressed."""
        noise = random.Random(5).randbytes(1 << 20)
        good, bad = read(frame(noise)[:700_000])
        assert len(good) > 500_000
        assert noise.startswith(good)
        assert [b.torn for b in bad] == [True]


class TestCorrupt:
    """Files with damaged bytes in the middle."""

    @pytest.mark.parametrize("place", range(len(FRAMES) - 1))
    def test_a_flip_of_any_byte_of_any_frame(self, place: int) -> None:
        """Whichever byte is flipped, the frames after it are read, and none of before is lost."""
        start = sum(map(len, FRAMES[:place]))
        for at in range(start, start + len(FRAMES[place])):
            for mask in (0xFF, 0x01, 0x80):
                data = bytearray(FILE)
                data[at] ^= mask
                good, bad = read(bytes(data))
                assert good.startswith(b"".join(PARTS[:place])), (at, mask)
                assert good.endswith(b"".join(PARTS[place + 1 :])), (at, mask)
                assert not any(b.torn for b in bad), (at, mask)
                if good != WHOLE:
                    # What is not as it was is reported, by the checksum at the latest.
                    assert bad, (at, mask)
                    assert start <= bad[0].offset <= start + len(FRAMES[place]), (at, mask)

    def test_a_missing_stretch(self) -> None:
        """Bytes that are missing in the middle cost the frames they belong to."""
        data = FILE[: len(FRAMES[0]) + 10] + FILE[-len(FRAMES[3]) - 5 :]
        good, bad = read(data)
        assert good.startswith(PARTS[0])
        assert good.endswith(PARTS[3])
        assert bad

    def test_foreign_bytes_between_frames(self) -> None:
        """What is no frame is reported once, and skipped."""
        good, bad = read(FRAMES[0] + b"some text" * 9000 + b"".join(FRAMES[1:]))
        assert good == WHOLE
        assert [(b.offset, b.reason, b.torn) for b in bad] == [
            (len(FRAMES[0]), "no zstd frame begins here", False)
        ]

    def test_foreign_bytes_at_the_end(self) -> None:
        """Something behind the last frame is no torn frame."""
        good, bad = read(FILE + b"some text")
        assert good == WHOLE
        assert [(b.offset, b.torn) for b in bad] == [(len(FILE), False)]

    @pytest.mark.parametrize("at", range(4))
    def test_a_damaged_magic_of_the_first_frame(self, at: int) -> None:
        """A file is known as zstd by its later frames if its first bytes are damaged."""
        data = bytearray(FILE)
        data[at] ^= 0xFF
        good, bad = read(bytes(data))
        assert good == b"".join(PARTS[1:])
        assert [(b.offset, b.torn) for b in bad] == [(0, False)]

    def test_a_large_frame_that_fails_at_its_end(self) -> None:
        """A frame of more bytes than are remembered is skipped to its end; later ones are read."""
        noise = random.Random(1).randbytes(5 << 20)
        large = bytearray(frame(noise))
        large[-1] ^= 0xFF
        good, bad = read(FRAMES[0] + bytes(large) + b"".join(FRAMES[1:]))
        assert good == PARTS[0] + noise + b"".join(PARTS[1:])
        assert [(b.offset, b.torn) for b in bad] == [(len(FRAMES[0]), False)]

    @given(st.binary(max_size=400))
    def test_noise_in_zstd_clothes(self, noise: bytes) -> None:
        """Whatever follows the magic, reading ends, and no frame behind it is lost."""
        good, bad = read(MAGIC + noise + b"".join(FRAMES[1:]))
        assert bad
        assert good.endswith(b"".join(PARTS[2:]))

    @given(st.binary(max_size=400))
    def test_noise(self, noise: bytes) -> None:
        """Any file at all can be read."""
        good, bad = read(noise)
        assert bad or good == noise or noise[:1] == b"\x28"


def test_false_magics_are_not_read_again_and_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """However many frames seem to begin in a broken one, the work stays in bounds."""
    taken = 0

    class Counting(frames._Window):
        """A window that counts what is taken out of it."""

        def take(self, size: int) -> bytes:
            nonlocal taken
            data = super().take(size)
            taken += len(data)
            return data

    monkeypatch.setattr(frames, "_Window", Counting)
    monkeypatch.setattr(frames, "_MAX_AGAIN", 1 << 16)
    # Each begins a frame of a raw block that reaches far, and leads to no block.
    fake = MAGIC + bytes([0, 0x58]) + (100_000 << 3).to_bytes(3, "little")
    data = fake * 30_000 + b"\xff" * 200_000
    good, bad = read(data + FRAMES[0])
    assert bad
    assert good.endswith(PARTS[0])
    assert taken < 3 * len(data) + (1 << 18)
