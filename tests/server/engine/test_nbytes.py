"""The bytes of arrays that cannot tell them themselves."""

from __future__ import annotations

import array_api_strict
import numpy as np
import pytest

from backhaul_proto.catalog.avals import SUPPORTED
from backhaul_server.engine.tape_memory import nbytes_of


@pytest.mark.parametrize("dtype", sorted(SUPPORTED, key=str), ids=str)
def test_bytes_are_numpys(dtype: np.dtype) -> None:
    x = np.zeros((3, 5), dtype)
    assert nbytes_of(array_api_strict.asarray(x)) == nbytes_of(x) == x.nbytes
