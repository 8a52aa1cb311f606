"""Every public function of NumPy, called on tensors: recorded, or refused with a TypeError or our own error.

None may hand back an array that was computed from a tensor's value: its gradient would be lost unseen.
"""

from __future__ import annotations

import traceback
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from numpy.testing import overrides

import backhaul as bh
from backhaul_proto.errors import BackhaulError

LINE = np.array([0.7, 0.2, 0.9])
SQUARE = np.array([[2.0, 0.3, 0.1], [0.3, 1.5, 0.2], [0.1, 0.2, 1.8]])

Call = Callable[[Any, Any], Any]
PATTERNS: dict[str, Call] = {
    "f(x)": lambda f, x: f(x),
    "f(x, x)": lambda f, x: f(x, x),
    "f([x, x])": lambda f, x: f([x, x]),
    "f((x, x))": lambda f, x: f((x, x)),
    "f(x, 1)": lambda f, x: f(x, 1),
    "f(1, x)": lambda f, x: f(1, x),
    "f(x, array)": lambda f, x: f(x, np.ones(x.shape)),
    "f(array, x)": lambda f, x: f(np.ones(x.shape), x),
    "f(x, (-1,))": lambda f, x: f(x, (-1,)),
    "f(x, 0, 0)": lambda f, x: f(x, 0, 0),
    "f(x, x, x)": lambda f, x: f(x, x, x),
    "f(condition, x, x)": lambda f, x: f(np.ones(x.shape, bool), x, x),
    "f('i...->...', x)": lambda f, x: f("i...->...", x),
    "f(x, out=array)": lambda f, x: f(x, out=np.zeros(x.shape)),
}

ASKED_FOR = {"array", "asanyarray", "asarray", "ascontiguousarray", "asfortranarray"}
"""They take the value on purpose, as the documentation of tensors says."""

UNINITIALISED = {"empty", "empty_like"}

WIDER = {"astype", "clip", "take_along_axis", "vsplit"}
"""Ours take calls that NumPy refuses (a tensor for a dtype, no upper bound, ...)."""


def functions() -> dict[str, Any]:
    """Those that ask their arguments first, by the path that a user writes."""
    public = overrides.get_overridable_numpy_ufuncs() | overrides.get_overridable_numpy_array_functions()
    return {
        f"{prefix}{name}": found
        for prefix, module in (("", np), ("linalg.", np.linalg), ("fft.", np.fft))
        for name in sorted(module.__all__)
        if callable(found := getattr(module, name))
        and not isinstance(found, type)
        and (found in public or hasattr(found, "__wrapped__"))
    }


FUNCTIONS = functions()


def leaves(result: Any) -> Iterator[Any]:
    if isinstance(result, tuple | list):
        for each in result:
            yield from leaves(each)
    else:
        yield result


def passed_through_backhaul(fault: BaseException) -> bool:
    frames = traceback.walk_tb(fault.__traceback__)
    return any(frame.f_globals.get("__name__", "").startswith("backhaul") for frame, _ in frames)


def attempt(function: Any, call: Call, values: Any) -> list[Any] | None:
    """The parts of the result on a tensor, or None when it is refused.

    NumPy's own errors count as refusals only where it never reached us: the call is malformed.
    """
    try:
        return list(leaves(call(function, bh.Tape().leaf(values))))
    except (TypeError, BackhaulError) as refusal:
        assert getattr(refusal, "reason", "") != "INTERNAL", refusal
    except Exception as fault:
        if passed_through_backhaul(fault) or isinstance(fault, RecursionError):
            raise
    return None


def loses_a_gradient(part: Any, again: Any) -> bool:
    """Whether it holds real or complex numbers that change with the tensor's values."""
    if not isinstance(part, np.ndarray | np.generic | float | complex):
        return False
    return np.asarray(part).dtype.kind not in "biuSU" and not np.array_equal(part, again)


def check(name: str, pattern: str) -> bool:
    """Whether it is recorded with a gradient."""
    recorded = False
    function, call = FUNCTIONS[name], PATTERNS[pattern]
    for values in (LINE, SQUARE):
        where = f"np.{name}: {pattern} of shape {values.shape}"
        try:
            parts = attempt(function, call, values)
        except Exception as fault:
            raise AssertionError(f"{where}: {fault!r}") from fault
        if parts is None or name in ASKED_FOR | UNINITIALISED:
            continue
        tensors = [part for part in parts if isinstance(part, bh.TrackedTensor)]
        recorded |= any(tensor.requires_grad for tensor in tensors)
        others = attempt(function, call, values * 0.875)
        assert others is not None
        for part, again in zip(parts, others, strict=True):
            assert not loses_a_gradient(part, again), f"{where} gave a plain {type(part)}"
        if not tensors:
            continue
        try:
            expected = list(leaves(call(function, values.copy())))
        except np.linalg.LinAlgError:
            with pytest.raises(BackhaulError):
                tensors[0].numpy()
            continue
        except Exception as fault:
            assert name in WIDER, f"{where} is recorded, but NumPy: {fault!r}"
            continue
        for part, right in zip(parts, expected, strict=True):
            np.testing.assert_allclose(
                np.asarray(part), right, rtol=1e-12, atol=1e-14, err_msg=where
            )
    return recorded
