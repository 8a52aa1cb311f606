"""Every public function of NumPy, called on tensors: recorded, or refused with a TypeError or our own error.

None may hand back an array that was computed from a tensor's value: its gradient would be lost unseen.
"""

from __future__ import annotations

import traceback
import warnings
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
    public = (
        overrides.get_overridable_numpy_ufuncs() | overrides.get_overridable_numpy_array_functions()
    )
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
        if getattr(refusal, "reason", "") == "INTERNAL":
            raise AssertionError("an internal error") from refusal
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
            if name not in WIDER:
                raise AssertionError(f"{where} is recorded, but NumPy: {fault!r}") from fault
            continue
        for part, right in zip(parts, expected, strict=True):
            np.testing.assert_allclose(
                np.asarray(part), right, rtol=1e-12, atol=1e-14, err_msg=where
            )
    return recorded


RECORDED = """
    abs absolute acos acosh add amax amin angle arccos arccosh arcsin arcsinh arctan arctan2
    arctanh around array_split asin asinh astype atan atan2 atanh atleast_1d atleast_2d
    atleast_3d average broadcast_arrays cbrt ceil clip column_stack concat concatenate conj
    conjugate cos cosh cross cumprod cumsum cumulative_prod cumulative_sum deg2rad degrees diag
    diagonal diff divide dot dstack einsum exp exp2 expand_dims expm1 flip fliplr flipud floor
    floor_divide fmax fmin hsplit hstack hypot imag inner kron linalg.cholesky linalg.cross
    linalg.det linalg.diagonal linalg.eigh linalg.eigvalsh linalg.inv linalg.matmul
    linalg.matrix_norm linalg.matrix_power linalg.matrix_transpose linalg.multi_dot linalg.norm
    linalg.outer linalg.pinv linalg.qr linalg.slogdet linalg.solve linalg.svd linalg.svdvals
    linalg.tensordot linalg.trace linalg.vecdot linalg.vector_norm log log10 log1p log2
    logaddexp logaddexp2 matmul matrix_transpose matvec max maximum mean median min minimum mod
    moveaxis multiply negative outer pad percentile permute_dims positive pow power prod ptp
    quantile rad2deg radians ravel real reciprocal remainder repeat reshape roll rot90 round
    sign sin sinc sinh sort split sqrt square squeeze stack std subtract sum swapaxes take
    take_along_axis tan tanh tensordot tile trace transpose trapezoid tril triu true_divide
    trunc unstack var vdot vecdot vecmat vsplit vstack where
""".split()  # noqa: SIM905 - one name a line is 168 lines
"""Those that record a gradient on one of the patterns. One that goes missing here is a regression."""

LISTS_LOSE = """
    abs absolute acos acosh arccos arccosh arcsin arcsinh arctan arctanh asin asinh atan atanh
    cbrt conj conjugate cos cosh deg2rad degrees exp exp2 expm1 fabs floor frexp log log10 log1p
    log2 modf negative positive rad2deg radians reciprocal rint sin sinh spacing sqrt square tan
    tanh trunc
""".split()  # noqa: SIM905 - one name a line is 168 lines
"""Ufuncs of one operand, which NumPy hands a list's tensors as arrays.

A list does not take part in the protocol, and C code asks each tensor in it for its value from the
user's frame, just as np.asarray(tensor) does. Nothing tells the two apart.
"""

KNOWN_LOSSES = {
    *((name, pattern) for name in LISTS_LOSE for pattern in ("f([x, x])", "f((x, x))")),
    ("fromiter", "f(x, x)"),  # goes through float(tensor), which is also how one takes a value
}


def cases() -> Iterator[Any]:
    lost = pytest.mark.xfail(strict=True, raises=AssertionError, reason="drops the gradient")
    for name in FUNCTIONS:
        for pattern in PATTERNS:
            marks = [lost] if (name, pattern) in KNOWN_LOSSES else []
            yield pytest.param(name, pattern, marks=marks, id=f"{name}: {pattern}")


@pytest.fixture(autouse=True)
def quiet() -> Iterator[None]:
    """Arguments made for no function in particular lie outside of many a domain."""
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        yield


@pytest.mark.parametrize(("name", "pattern"), list(cases()))
def test_it_is_recorded_or_refused(name: str, pattern: str) -> None:
    check(name, pattern)


@pytest.mark.parametrize("name", RECORDED)
def test_what_was_recorded_still_is(name: str) -> None:
    if name not in FUNCTIONS:
        pytest.skip("a later NumPy's")
    found = [p for p in PATTERNS if (name, p) not in KNOWN_LOSSES and check(name, p)]
    assert found, f"np.{name} records on none of {sorted(PATTERNS)}"


def test_the_table_names_all_that_record() -> None:
    assert sorted(RECORDED) == RECORDED
    silent = set(FUNCTIONS) - set(RECORDED)
    new = [
        name
        for name in sorted(silent)
        if any(check(name, p) for p in PATTERNS if (name, p) not in KNOWN_LOSSES)
    ]
    assert not new, f"add to RECORDED: {new}"


UFUNCS = [name for name, found in FUNCTIONS.items() if isinstance(found, np.ufunc)]


BINARY = [
    name
    for name in UFUNCS
    if (FUNCTIONS[name].signature, FUNCTIONS[name].nin, FUNCTIONS[name].nout) == (None, 2, 1)
]
METHODS: dict[str, Call] = {
    "reduce": lambda f, x: f.reduce(x),
    "accumulate": lambda f, x: f.accumulate(x),
    "reduceat": lambda f, x: f.reduceat(x, [0, 1]),
    "outer": lambda f, x: f.outer(x, x),
    "at": lambda f, x: f.at(x, [0], 1.0),
}


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("name", BINARY)
def test_methods_of_ufuncs_are_refused_with_a_hint(name: str, method: str) -> None:
    with pytest.raises(TypeError, match=rf"\.{method} does not record on a tape; call "):
        METHODS[method](FUNCTIONS[name], bh.Tape().leaf(LINE))


@pytest.mark.parametrize("name", UFUNCS)
def test_ufuncs_never_write_into_an_array(name: str) -> None:
    ufunc: Any = FUNCTIONS[name]
    out = tuple(np.zeros(3) for _ in range(ufunc.nout))
    x = bh.Tape().leaf(LINE)
    with pytest.raises(TypeError, match="out="):
        ufunc(*[x] * ufunc.nin, out=out)
    assert not any(each.any() for each in out)


@pytest.mark.parametrize(
    ("use", "nearest"),
    [
        (lambda x: np.add.reduce(x), r"np\.sum"),
        (lambda x: np.maximum.reduce(x), r"np\.max"),
        (lambda x: np.multiply.accumulate(x), r"np\.cumprod"),
        (lambda x: np.multiply.outer(x, x), r"np\.multiply with axes added"),
    ],
)
def test_the_nearest_op_is_named(use: Callable[[Any], Any], nearest: str) -> None:
    with pytest.raises(TypeError, match=nearest):
        use(bh.Tape().leaf(LINE))
