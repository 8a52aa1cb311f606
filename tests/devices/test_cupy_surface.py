"""What our namespace names of CuPy, against the CuPy that is installed: without a GPU, nothing is computed.

CuPy can be imported without a driver. Its functions can be found, and asked for their parameters and for
the dtypes that they take; whether they compute what they say, only `tests/devices/test_gpu.py` tells.
"""

from __future__ import annotations

import ast
import inspect
from collections.abc import Iterator
from functools import reduce
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.devices.recorded import Taken, calls

from backhaul_proto.errors import InternalError, MemoryLimitExceeded
from backhaul_server.engine import arrays

cupy = pytest.importorskip("cupy", reason="CuPy is not installed: pip install 'backhaul[cuda12]'")

ENGINE = Path(arrays.__file__).parent
OURS = sorted(ENGINE.glob("cupy_*.py"))
_FLOATS = ("float16", "float32", "float64")


def _resolved(name: str) -> Any:
    """What stands behind a name of the namespace."""
    from backhaul_server.engine.cupy_arrays import SUPPLIED

    return SUPPLIED.get(name) or reduce(getattr, name.split("."), cupy)


def _used() -> dict[str, set[Taken]]:
    found = calls()
    assert len(found) > 120
    return found


def test_every_function_that_rules_call_is_there_and_takes_what_it_is_given() -> None:
    wrong = []
    for name, ways in _used().items():
        try:
            function = _resolved(name)
        except AttributeError:
            wrong.append(f"{name} is missing")
            continue
        for way in ways:
            why = _refused(function, way)
            if why:
                wrong.append(f"{name}{way.args} {sorted(way.keywords)}: {why}")
    assert not wrong, "\n".join(wrong)


def _refused(function: Any, way: Taken) -> str:
    """Why a function cannot be called so; empty when it can, as far as its signature tells."""
    if isinstance(function, cupy.ufunc):
        return _loop_refused(function, way)
    try:
        signature = inspect.signature(function)
    except ValueError:  # of operator.attrgetter and methodcaller there is none
        return "" if len(way.args) == 1 and not way.keywords else "takes one argument"
    try:
        signature.bind(*way.args, **dict.fromkeys(way.keywords))
    except TypeError as error:
        return str(error)
    return ""


def _loop_refused(ufunc: Any, way: Taken) -> str:
    if len(way.args) != ufunc.nin or way.keywords:
        return f"takes {ufunc.nin} operands and no keywords"
    for loop in ufunc.types:
        taken, _, given = loop.partition("->")
        if all(map(_fits, way.args, taken)):
            result = np.dtype(given).name
            return "" if result == way.result else f"gives {result}, not {way.result}"
    return f"has no loop for it among {ufunc.types}"


def _fits(arg: str, char: str) -> bool:
    """Whether CuPy takes an operand into a loop: as `numpy.can_cast`, and of numbers by their kind."""
    into = np.dtype(char)
    if arg in ("bool", "int", "float", "complex"):
        return "biufc".index({"bool": "b", "int": "i", "float": "f", "complex": "c"}[arg]) <= (
            "biufc".index(into.kind)
        )
    return np.can_cast(np.dtype(arg), into)


def test_all_else_that_we_name_of_cupy_is_there() -> None:
    missing = []
    for chain in _chains():
        if chain[:3] == ("cupyx", "scipy", "linalg"):
            continue  # its import needs the CUDA libraries; see below
        try:
            reduce(getattr, chain[1:], __import__(chain[0]))
        except AttributeError:
            missing.append(".".join(chain))
    assert not missing
    array, stream, pointer = cupy.ndarray, cupy.cuda.Stream, cupy.cuda.MemoryPointer
    for owner, names in {
        array: "T mT astype base copy data dtype get imag nbytes real reshape set shape size strides",
        stream: "record synchronize __enter__ __exit__",
        pointer: "copy_from_host_async copy_to_host_async __add__",
        cupy.cuda.Event: "synchronize",
        cupy.cuda.Device: "mem_info __enter__ __exit__",
        cupy.cuda.MemoryPool: "set_limit",
    }.items():
        assert [each for each in names.split() if not hasattr(owner, each)] == []


def _chains() -> Iterator[tuple[str, ...]]:
    """The dotted names in our modules that begin with CuPy's packages."""
    for file in OURS:
        for node in ast.walk(ast.parse(file.read_text())):
            names: list[str] = []
            while isinstance(node, ast.Attribute):
                names.append(node.attr)
                node = node.value
            if isinstance(node, ast.Name) and node.id in ("cupy", "cupyx", "special") and names:
                root = ("cupyx", "scipy", "special") if node.id == "special" else (node.id,)
                yield (*root, *reversed(names))


def test_our_modules_name_cupy_at_all() -> None:
    found = {".".join(each) for each in _chains()}
    assert {"cupy.linalg.solve", "cupyx.scatter_add", "cupyx.scipy.special.gammaln"} <= found
    assert len(found) > 30


@pytest.mark.parametrize(
    ("module", "name", "parameters"),
    [
        ("_decomp_lu", "lu_factor", ["a", "overwrite_a", "check_finite"]),
        ("_decomp_lu", "lu_solve", ["lu_and_piv", "b", "trans", "overwrite_b", "check_finite"]),
        ("_solve_triangular", "solve_triangular", ["a", "b", "trans", "lower", "unit_diagonal"]),
    ],
)
def test_the_solvers_take_what_we_give_them(module: str, name: str, parameters: list[str]) -> None:
    """By their source: their modules cannot be imported without the CUDA libraries."""
    spec = find_spec("cupyx")
    assert spec is not None
    assert spec.origin is not None
    source = Path(spec.origin).parent / "scipy" / "linalg" / f"{module}.py"
    (found,) = [
        node
        for node in ast.parse(source.read_text()).body
        if isinstance(node, ast.FunctionDef) and node.name == name
    ]
    assert [each.arg for each in found.args.args][: len(parameters)] == parameters
    package = ast.parse((source.parent / "__init__.py").read_text())
    imports = [node for node in package.body if isinstance(node, ast.ImportFrom)]
    assert name in [each.name for node in imports for each in node.names]


@pytest.mark.parametrize("dtype", ["float", "double", "complex<float>", "complex<double>"])
def test_our_kernel_is_compiled_for_each_dtype(dtype: str) -> None:
    """By NVRTC, with CuPy's headers: as CuPy itself would, but for no GPU in particular."""
    nvrtc = cupy.cuda.compiler.nvrtc
    try:
        nvrtc.getVersion()
    except (ImportError, RuntimeError, OSError) as error:
        pytest.skip(f"NVRTC is not installed: {error}")
    from backhaul_server.engine.cupy_scans import KERNEL

    headers = Path(cupy.__file__).parent / "_core" / "include"
    source = f"""
        #include <cupy/complex.cuh>
        #include <cupy/carray.cuh>
        typedef {dtype} T;
        typedef CArray<T, 1, true, true> Array;
        extern "C" __global__ void scan(
            const Array a, const Array b, long long n, long long step, bool reverse, Array y,
            CIndexer<1> _ind
        ) {{
            CUPY_FOR(i, _ind.size()) {{ {KERNEL.operation} }}
        }}
    """
    folders = [
        headers,
        *(headers / "cupy" / "_cccl" / each for each in ("libcudacxx", "cub", "thrust")),
    ]
    program = nvrtc.createProgram(source, "scan.cu", [], [])
    nvrtc.compileProgram(
        program,
        ["--std=c++17", "--gpu-architecture=compute_80", *(f"-I{each}" for each in folders)],
    )
    assert b"scan" in nvrtc.getPTX(program)


# Errors, as CuPy raises them


def test_want_of_memory_is_a_limit_that_was_exceeded() -> None:
    from backhaul_server.engine.cupy_errors import translated

    with (
        pytest.raises(MemoryLimitExceeded, match="cuda:1 has no memory left") as caught,
        translated("cuda:1", 1000),
    ):
        raise cupy.cuda.memory.OutOfMemoryError(512, 800, 1200)
    assert caught.value.details == {"device": "cuda:1", "limit": "1000"}


def test_what_fails_in_cuda_is_a_failure_of_the_device() -> None:
    from backhaul_server.engine.cupy_errors import translated

    runtime = cupy.cuda.runtime
    with (
        pytest.raises(InternalError, match="cudaErrorIllegalAddress") as caught,
        translated("cuda:0", 1000),
    ):
        raise runtime.CUDARuntimeError(700)
    assert (caught.value.reason, caught.value.details) == ("DEVICE_FAILED", {"device": "cuda:0"})
    with pytest.raises(RuntimeError, match="ours"), translated("cuda:0", 1000):
        raise RuntimeError("ours")
