"""Blocks that the server keeps: by content and owner, up to a number of bytes."""

from __future__ import annotations

import tracemalloc

import numpy as np
import pytest

from backhaul_proto import codec
from backhaul_proto.catalog.avals import aval
from backhaul_proto.errors import BackhaulError
from backhaul_proto.messages import LEAF, Block, BlockCall, Call
from backhaul_server.engine.engine import Engine
from backhaul_server.sessions.blocks import BlockCache, KnownBlock

PRODUCT = Call("einsum", (("subscripts", "ij,jk->ik"),), 2)


def chain(steps: int) -> tuple[BlockCall, BlockCall]:
    """A chain of products of one leaf, as it is sent with its block and without."""
    operands = [each for i in range(steps) for each in (i, 0)]
    data = codec.write_block(Block(0, [Call(LEAF), PRODUCT], [0] + [1] * steps, operands))
    name = codec.block_hash(data)
    return BlockCall(name, data, 1), BlockCall(name, None, 1)


def is_kept(cache: BlockCache, named: BlockCall, principal: str = "") -> bool:
    try:
        cache.find(principal, named)
    except BackhaulError as error:
        if error.reason != "BLOCK_UNKNOWN":
            raise
        return False
    return True


def test_a_block_is_decoded_once_and_is_its_owner_s() -> None:
    decoded: list[bytes] = []

    def decode(data: bytes) -> Block:
        decoded.append(data)
        return codec.read_block(data)

    cache = BlockCache(decode)
    sent, named = chain(3)
    assert not is_kept(cache, named)
    found = cache.find("one", sent)
    assert cache.find("one", named) is cache.find("one", sent) is found
    assert len(decoded) == 1
    assert not is_kept(cache, named, "two")


def test_blocks_with_their_plans_take_at_most_what_they_may() -> None:
    engine = Engine()
    blocks = [chain(steps) for steps in range(100, 110)]
    cache = BlockCache(codec.read_block, max_bytes=102_000)
    for sent, _ in blocks:
        cache.find("", sent)
    kept = [is_kept(cache, named) for _, named in blocks]
    assert all(kept)  # decoded, they take about 5 kB each
    for sent, named in blocks:
        known = cache.find("", sent)
        for size in (2, 3):
            known.plan(engine, [], [aval((size, size), np.dtype("f8"))])
        cache.find("", named)  # with its plans it is about 45 kB
    kept = [is_kept(cache, named) for _, named in blocks]
    assert kept == [False] * 8 + [True] * 2


@pytest.mark.parametrize("plans", [0, 1, 4])
def test_what_a_block_takes_is_known_about(plans: int) -> None:
    engine = Engine()
    sent, _ = chain(1000)

    def planned() -> KnownBlock:
        known = BlockCache(codec.read_block).find("", sent)
        for size in range(2, 2 + plans):
            known.plan(engine, [], [aval((size, size), np.dtype("f8"))])
        return known

    planned()  # what the engine keeps of its calls is not the block's
    tracemalloc.start()
    known = planned()
    taken, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert 0.5 < known.nbytes / taken < 2
