"""The log: its lines, and nobody who reads them."""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

import pytest

from backhaul_server.log_stream import LogStream

SECONDS = 60.0
"""Within which a thread gets its turn, on any machine."""


@contextmanager
def pipe() -> Iterator[tuple[int, int]]:
    reader, writer = os.pipe()
    try:
        yield reader, writer
    finally:
        for each in (reader, writer):
            with suppress(OSError):
                os.close(each)


def logger(handler: LogStream) -> logging.Logger:
    made = logging.Logger("test")
    handler.setFormatter(logging.Formatter("%(levelname)s %(message)s"))
    made.addHandler(handler)
    return made


def lines(reader: int, count: int) -> list[str]:
    with os.fdopen(os.dup(reader), encoding="utf-8") as file:
        return [file.readline().rstrip("\n") for _ in range(count)]


def test_lines_come_in_their_order() -> None:
    with pipe() as (reader, writer):
        handler = LogStream(writer)
        log = logger(handler)
        for number in range(100):
            log.info("line %d", number)
        assert lines(reader, 100) == [f"INFO line {number}" for number in range(100)]
        handler.close()


def test_what_waits_is_written_at_the_end() -> None:
    with pipe() as (reader, writer):
        handler = LogStream(writer)
        log = logger(handler)
        for number in range(100):
            log.info("line %d", number)
        handler.close()
        log.info("after the end")
        os.close(writer)
        with os.fdopen(os.dup(reader), encoding="utf-8") as file:
            assert file.read().splitlines() == [f"INFO line {number}" for number in range(100)]


def fill(writer: int) -> int:
    """Leave no room in a pipe; how many bytes that took."""
    os.set_blocking(writer, False)
    filled = 0
    with suppress(BlockingIOError):
        while True:
            filled += os.write(writer, b".")
    os.set_blocking(writer, True)
    return filled


def test_nobody_waits_for_who_does_not_read_and_what_is_lost_is_counted() -> None:
    kept, lost = 50, 7
    with pipe() as (reader, writer):
        filled = fill(writer)
        handler = LogStream(writer, kept=kept)
        log = logger(handler)
        log.info("line 0")
        until(handler._lines.empty)  # the thread has it, and waits for a reader
        for number in range(1, kept + lost + 1):
            log.info("line %d", number)
        assert os.read(reader, filled) == b"." * filled
        assert lines(reader, kept + 1) == [f"INFO line {number}" for number in range(kept + 1)]
        handler.setFormatter(
            logging.Formatter("%(levelname)s %(message)s %(lost)s", defaults={"lost": ""})
        )
        log.info("and on")
        handler.close()
        assert lines(reader, 2) == [
            f"WARNING lines of the log were lost: they were not read in time {lost}",
            "INFO and on ",
        ]


def test_the_end_does_not_wait_for_who_does_not_read() -> None:
    with pipe() as (reader, writer):
        fill(writer)
        handler = LogStream(writer)
        logger(handler).info("for nobody")
        handler.close()  # comes back
        assert handler._thread.is_alive()
        os.close(reader)
        handler._thread.join(SECONDS)
        assert not handler._thread.is_alive()


def until(true: Callable[[], bool]) -> None:
    end = time.monotonic() + SECONDS
    while not true():
        assert time.monotonic() < end
        time.sleep(0.001)


def test_a_reader_who_has_gone_is_no_harm() -> None:
    with pipe() as (reader, writer):
        handler = LogStream(writer)
        log = logger(handler)
        os.close(reader)
        for _ in range(3):
            log.info("for nobody")
        handler.close()
        handler._thread.join(SECONDS)
        assert not handler._thread.is_alive()


def test_a_pipe_that_does_not_block_is_waited_for() -> None:
    with pipe() as (reader, writer):
        os.set_blocking(writer, False)
        handler = LogStream(writer)
        log = logger(handler)
        for number in range(200):
            log.info("%01000d", number)
        assert [int(each.split()[1]) for each in lines(reader, 200)] == list(range(200))
        handler.close()


def test_a_record_that_cannot_be_formatted_harms_nobody(
    capsys: pytest.CaptureFixture[str],
) -> None:
    with pipe() as (reader, writer):
        handler = LogStream(writer)
        log = logger(handler)
        log.info("%d", "no number")
        log.info("a line")
        assert lines(reader, 1) == ["INFO a line"]
        assert "no number" in capsys.readouterr().err
        handler.close()
