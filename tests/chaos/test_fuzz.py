"""Malformed requests, in short: the programs `fuzz` and `extreme_attributes` do the same at length."""

from __future__ import annotations

import logging
import random
import tracemalloc
from collections import Counter
from collections.abc import Iterator
from itertools import product

import numpy as np
import pytest
from tests.chaos.door import Door, Refused
from tests.chaos.extreme_attributes import extreme_calls
from tests.chaos.fuzz import Fuzzer, Report
from tests.chaos.mutations import mutated
from tests.chaos.socket_fuzz import SocketFuzzer

from backhaul_proto import codec, tensors
from backhaul_proto.catalog.ops import CATALOG
from backhaul_proto.errors import BackhaulError
from backhaul_proto.messages import CONSTANT, LEAF, Block, BlockCall, Call, Execute
from backhaul_proto.v1 import service_pb2
from backhaul_server.engine.engine import Engine
from backhaul_server.engine.tape import Tape
from backhaul_server.service.dispatch import Dispatcher

SESSION = b"sixteen bytes..."


def checked(report: Report, count: int) -> None:
    assert report.faults == []
    assert report.count == count
    assert report.left == 0
    # It met what it was to meet: answers, bytes that are no message, and errors of many kinds.
    assert report.outcomes[""] > count / 20
    assert report.outcomes["MALFORMED_REQUEST"] > count / 20
    assert len(report.outcomes) > 12


def test_malformed_requests_end_in_typed_errors() -> None:
    checked(Fuzzer(1).run(3000), 3000)


def test_malformed_requests_over_a_socket_end_in_typed_errors() -> None:
    checked(SocketFuzzer(3).run(500), 500)


def test_the_same_seed_gives_the_same_requests() -> None:
    one, other = Fuzzer(4), Fuzzer(4)
    assert [one.next() for _ in range(200)] == [other.next() for _ in range(200)]
    rng = random.Random(0)
    assert len({mutated(rng, b"0123456789", [b"abc"]) for _ in range(100)}) > 50


@pytest.fixture
def door() -> Iterator[Door]:
    dispatcher = Dispatcher(Engine(), session_memory=64 << 20, memory=128 << 20)
    made = Door(dispatcher, timeout=5.0)
    ref = service_pb2.SessionRef(id=SESSION)
    made.call("OpenSession", service_pb2.OpenSessionRequest(session=ref).SerializeToString())
    yield made
    dispatcher.close()
    made.close()


def test_attributes_at_their_extremes_end_in_typed_errors(
    door: Door, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.CRITICAL, "backhaul.server")
    outcomes: Counter[str] = Counter()
    untyped = []
    for op, sample, attributes in extreme_calls():
        arrays = [
            np.ones(shape, "int64" if i in sample.constants else "float64")
            for i, shape in enumerate(sample.shapes)
        ]
        sources = [Call(LEAF if each.dtype.kind == "f" else CONSTANT) for each in arrays]
        count = len(arrays)
        call = Call(op, tuple(attributes.items()), count)
        data = codec.write_block(
            Block(0, [*sources, call], list(range(count + 1)), list(range(count)))
        )
        header, given = codec.write_execute(
            Execute(SESSION, block=BlockCall(codec.block_hash(data), data, 0), tensors=arrays)
        )
        try:
            door.call("Execute", tensors.join(header, given))
            outcomes[""] += 1
        except Refused as refused:
            outcomes[refused.reason] += 1
            if refused.reason == "INTERNAL":
                untyped.append((op, attributes))
    assert untyped == []
    assert outcomes["INVALID_ATTRIBUTE"] > 1000
    assert outcomes[""] > 500


def test_no_array_is_made_that_is_larger_than_the_empty_result() -> None:
    tape = Tape(Engine())
    x = tape.leaf(np.ones(3))
    tracemalloc.start()
    y = tape.apply("tile", [x], reps=(1 << 22, 0, 1))
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert y.value.shape == (1 << 22, 0, 3)
    assert most < 1 << 20


DTYPES = ("bool", "int8", "uint64", "int64", "float32", "float64", "complex64", "complex128")


def test_every_dtype_ends_in_an_answer_or_a_typed_error() -> None:
    engine = Engine()
    outcomes: Counter[str] = Counter()
    for name, entry in sorted(CATALOG.items()):
        if entry.private:
            continue
        for sample, dtype, beside in product(entry.samples, DTYPES, ("", "bool")):
            tape = Tape(engine)
            dtypes = [dtype, *[beside or dtype] * len(sample.shapes)]
            arrays = [np.ones(shape, dtypes[i]) for i, shape in enumerate(sample.shapes)]
            operands = [
                tape.leaf(each) if each.dtype.kind in "fc" else tape.constant(each)
                for each in arrays
            ]
            try:
                with np.errstate(all="ignore"):
                    tape.apply(name, operands, **sample.attributes)
                outcomes[""] += 1
            except BackhaulError as error:
                outcomes[error.reason] += 1
    assert outcomes[""] > 5000
    assert outcomes["DTYPE_NOT_SUPPORTED"] > 300
    assert "INTERNAL" not in outcomes
