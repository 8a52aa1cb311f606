"""check_grad: it agrees with right derivatives, and says which ones are wrong."""

from __future__ import annotations

from collections.abc import Iterator
from importlib.metadata import EntryPoint
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import backhaul as bh
from backhaul_proto.catalog.ops import CATALOG
from backhaul_server.engine.rules import RULES
from backhaul_server.plugins import Plugins

RNG = np.random.default_rng(3)


@pytest.mark.parametrize("dtype", ["f4", "f8", "c8", "c16"])
def test_right_derivatives_agree(dtype: str) -> None:
    a, b = (RNG.standard_normal((3, 3)).astype(dtype) for _ in range(2))
    if dtype.startswith("c"):
        a = a + 1j * b
    report = bh.check_grad(lambda x, y: bh.einsum("ij,jk,ik->k", x, y, bh.conj(x)), a, b)
    assert report, report
    assert {each.what for each in report.comparisons} == {"gradient", "H·v", "symmetry of H"}
    assert len(report.comparisons) >= 2 * 18


def test_several_results_and_large_arguments() -> None:
    x = RNG.standard_normal((40, 30))
    report = bh.check_grad(lambda x: (x * x, bh.sum(x, axis=0), x.detach()), x)
    assert report, report


def test_a_wrong_gradient_is_found_and_named() -> None:
    x = np.array([1.0, 2.0, 0.0])
    report = bh.check_grad(lambda x: x * x.detach(), x, order=1)
    assert not report
    assert not report.ok
    wrong = [each for each in report.comparisons if each.error > report.tolerance]
    assert {"argument 0[0]", "argument 0[1]"} <= {each.where for each in wrong}
    assert "argument 0[2]" not in {each.where for each in wrong}
    assert "3 of 4 derivatives are wrong" in repr(report)
    assert "argument 0[1]" in repr(report)


@pytest.fixture
def wrong_op(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """An op whose gradient is right and whose jvp is not."""
    (tmp_path / "wrong_op.py").write_text(
        "from backhaul_server.plugin import *\n"
        "register(Op('wrong.square', ('x',), broadcasting, 'A square.'))\n"
        "@rule('wrong.square')\n"
        "class Square(Rule):\n"
        "    def forward(self, xp, x): return x * x\n"
        "    def jvp(self, F, y, x, dx): return F.multiply(dx, x)\n"
        "    def vjp(self, F, ct, y, x): return (lambda: F.multiply(ct, F.add(x, x)),)\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    Plugins().load([EntryPoint("wrong", "wrong_op", "backhaul.ops")])
    yield "wrong.square"
    del CATALOG["wrong.square"], RULES["wrong.square"]


def test_a_wrong_second_derivative_is_found(wrong_op: str) -> None:
    def f(x: Any) -> Any:
        y = bh.apply(wrong_op, x)
        return bh.sum(y * y)

    x = np.array([1.0, -2.0])
    assert bh.check_grad(f, x, order=1)
    report = bh.check_grad(f, x)
    assert not report
    assert {each.what for each in report.comparisons if each.error > 1e-6} == {"H·v"}


def test_what_is_refused() -> None:
    with pytest.raises(bh.InvalidArgument, match="int64"):
        bh.check_grad(lambda x: x, np.arange(3))
    with pytest.raises(bh.InvalidArgument, match="no array"):
        bh.check_grad(lambda: 1.0)
    with pytest.raises(bh.InvalidArgument, match="order"):
        bh.check_grad(lambda x: x, 1.0, order=3)
    with pytest.raises(bh.InvalidArgument, match="no tensor that depends"):
        bh.check_grad(lambda x: 1.0, 1.0)
