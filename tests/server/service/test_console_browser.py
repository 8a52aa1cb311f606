"""The server's web page in a real browser, light and dark: it loads, breaks no policy, and can be read."""

from __future__ import annotations

import shutil
import struct
import subprocess
import zlib
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

import backhaul as bh
from backhaul_server.engine.engine import Engine
from backhaul_server.service.console import Console
from backhaul_server.service.dispatch import Dispatcher
from backhaul_server.service.server import Server

BROWSER = next(
    filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None
)

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(BROWSER is None, reason="needs Chromium in the path"),
]

SCHEMES = {"dark": 0, "light": 1}
"""Numbers of Blink's preferred colour schemes."""


@pytest.fixture(scope="module")
def console() -> Iterator[Console]:
    dispatcher = Dispatcher(Engine(), lease=600.0)
    server = Server(dispatcher, ["127.0.0.1:0"])
    server.start()
    made = Console(dispatcher, None, 0)
    made.start()
    try:
        with bh.connect(server.targets[0], timeout=120) as connection, bh.Tape(connection) as tape:
            loss = recorded(tape)
            yield made
            del loss
    finally:
        made.close()
        server.stop(None)


def recorded(tape: bh.Tape) -> bh.TrackedTensor:
    """A small network with a step that makes NaN."""
    rng = np.random.default_rng(1)
    x = tape.constant(rng.standard_normal((64, 16)))
    w1, b1 = tape.leaf(rng.standard_normal((16, 32))), tape.leaf(np.zeros(32))
    w2 = tape.leaf(rng.standard_normal((32, 4)))
    hidden = bh.tanh(x @ w1 + b1)
    scale = bh.log(bh.sum(w2) - 1e3)
    loss = bh.mean((hidden @ w2) ** 2) + scale
    tape.pullback(loss)
    return loss


def browse(console: Console, path: str, scheme: str, tmp_path: Path, *more: str) -> str:
    """What Chromium writes on stdout, and on stderr."""
    assert BROWSER is not None
    where = console.url.replace("//", f"//anybody:{console.password}@").rstrip("/") + path
    command = [
        BROWSER,
        "--headless=new",
        "--no-sandbox",
        "--disable-gpu",
        f"--user-data-dir={tmp_path / 'profile'}",
        "--enable-logging=stderr",
        f"--blink-settings=preferredColorScheme={SCHEMES[scheme]}",
        "--window-size=1160,900",
        "--timeout=10000",
        *more,
        where,
    ]
    done = subprocess.run(command, capture_output=True, text=True, timeout=90, check=True)
    assert "Content Security Policy" not in done.stderr
    return done.stdout


def session_of(console: Console, tmp_path: Path) -> str:
    page = browse(console, "/", "light", tmp_path, "--dump-dom")
    return page.split('href="/tape/')[1].split('"')[0]


def test_the_pages_are_what_the_browser_sees(console: Console, tmp_path: Path) -> None:
    page = browse(console, "/", "light", tmp_path, "--dump-dom")
    assert "1 session of everybody" in page
    graph = browse(
        console, f"/tape/{session_of(console, tmp_path)}", "dark", tmp_path, "--dump-dom"
    )
    for text in ("matmul", "tanh", "NaN", "float64[64,32]"):
        assert text in graph


@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize("page", ["sessions", "tape"])
def test_it_is_light_or_dark_as_the_browser_is(
    console: Console, tmp_path: Path, page: str, scheme: str
) -> None:
    path = "/" if page == "sessions" else f"/tape/{session_of(console, tmp_path)}"
    picture = tmp_path / f"console-{page}-{scheme}.png"
    browse(console, path, scheme, tmp_path, f"--screenshot={picture}")
    colours = row_of(picture, 2)
    assert colours == ({(255, 255, 255)} if scheme == "light" else {(13, 17, 23)})  # the style came


def row_of(picture: Path, row: int) -> set[tuple[int, int, int]]:
    """The colours in one row of a PNG of 8 bits a channel."""
    data = picture.read_bytes()
    width, _, depth, kind = struct.unpack(">IIBB", data[16:26])
    assert depth == 8
    channels = {2: 3, 6: 4}[kind]
    at, packed = 8, b""
    while at < len(data):
        (length,) = struct.unpack(">I", data[at : at + 4])
        if data[at + 4 : at + 8] == b"IDAT":
            packed += data[at + 8 : at + 8 + length]
        at += length + 12
    raw = zlib.decompress(packed)
    stride = width * channels
    line = np.zeros(stride, np.uint8)
    for i in range(row + 1):  # each row is told by the one above and the pixel before
        begin = i * (stride + 1)
        line = _unfiltered(raw[begin], raw[begin + 1 : begin + 1 + stride], line, channels)
    pixels = line.reshape(width, channels)[:, :3]
    return {(int(r), int(g), int(b)) for r, g, b in pixels}


def _unfiltered(kind: int, data: bytes, above: np.ndarray, channels: int) -> np.ndarray:
    line = [0] * len(data)
    for i, byte in enumerate(data):
        left = line[i - channels] if i >= channels else 0
        up = int(above[i])
        corner = int(above[i - channels]) if i >= channels else 0
        near = left + up - corner
        paeth = min((left, up, corner), key=lambda each: abs(near - each))
        line[i] = (byte + (0, left, up, (left + up) // 2, paeth)[kind]) % 256
    return np.array(line, np.uint8)
