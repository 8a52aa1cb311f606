"""GPUs of this machine, opened through CuPy."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from importlib import import_module
from typing import Any, Final

from backhaul_proto.errors import BackhaulError, make_error
from backhaul_server.engine.arrays import Namespace

OLDEST: Final = (14, 2)
"""The release of CuPy that our calls were checked against. From 14 on its dtypes promote as NumPy 2's do."""


@dataclass(frozen=True, slots=True)
class CudaDevice:
    """A GPU that was opened.

    Attributes:
        model: its name, as the driver gives it.
        xp: its arrays.
        memory: bytes that all sessions may use there together.
    """

    model: str
    xp: Namespace
    memory: int


def open_cuda(number: int, memory: int | None = None) -> CudaDevice:
    """Open a GPU, and bound what CuPy takes of its memory.

    CuPy may take a fifth more than sessions may hold, for the libraries' workspaces and for what is lost
    between arrays, but leaves a twentieth of what was free.

    Args:
        number: of the GPU, as CuPy and nvidia-smi count them.
        memory: bytes that all sessions may use there together; None: four fifths of what is free.

    Raises:
        InvalidArgument: DEVICE_UNAVAILABLE: CuPy, a driver, the GPU or CUDA's libraries are missing, or it
            has not so much memory.
    """
    cupy = _cupy(number)
    name = f"cuda:{number}"
    count = _counted(cupy, name)
    if number >= count:
        there = f"cuda:0 to cuda:{count - 1}" if count > 1 else "cuda:0" if count else "none"
        raise _unavailable(
            name,
            f"This machine has no {name}: of GPUs it shows {there} to this process. Name one of these, or "
            "look at CUDA_VISIBLE_DEVICES.",
        )
    check_libraries(name)
    try:
        device = cupy.cuda.Device(number)
        free, _ = device.mem_info
        model = cupy.cuda.runtime.getDeviceProperties(number)["name"].decode()
        allowed = free * 4 // 5 if memory is None else memory
        if allowed > free * 19 // 20:
            raise _unavailable(
                name,
                f"{name} ({model}) has {free} bytes free, and --device-memory asks for {memory}. Ask for "
                "less, or end what uses it (nvidia-smi lists that).",
            )
        with device:
            cupy.get_default_memory_pool().set_limit(size=min(allowed * 6 // 5, free * 19 // 20))
        # Here, as it imports CuPy, and only what is there can be imported.
        from backhaul_server.engine.cupy_arrays import CupyNamespace

        xp = CupyNamespace(number, allowed)
    except cupy.cuda.runtime.CUDARuntimeError as error:
        raise _unavailable(name, f"{name} cannot be used: {error}.") from None
    return CudaDevice(model, xp, allowed)


def _cupy(number: int) -> Any:
    """CuPy."""
    name = f"cuda:{number}"
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of what is missing: it is said below, as one error
            import cupy
    except ImportError as error:
        raise _unavailable(
            name,
            f"{name} needs CuPy, which cannot be imported ({error}). Install it for the CUDA of your driver "
            "(nvidia-smi shows which): pip install 'backhaul[cuda12]', or 'backhaul[cuda13]'.",
        ) from None
    release = tuple(int(each) for each in cupy.__version__.split(".")[:2])
    if release < OLDEST:
        raise _unavailable(
            name,
            f"{name} needs CuPy 14.2 or newer, and {cupy.__version__} is installed: pip install --upgrade "
            "'backhaul[cuda12]', or 'backhaul[cuda13]'.",
        )
    return cupy


def check_libraries(name: str) -> None:
    """Check that CUDA's libraries can be loaded, which CuPy does only when they are first used.

    Raises:
        InvalidArgument: DEVICE_UNAVAILABLE.
    """
    try:
        import_module("cupyx.scipy.linalg")  # cuBLAS and cuSOLVER
        import_module("cupy.cuda.compiler").nvrtc.getVersion()
    except (ImportError, OSError, RuntimeError) as error:
        raise _unavailable(
            name,
            f"{name} needs the libraries of CUDA (cuBLAS, cuSOLVER, NVRTC), which cannot be loaded: {error} "
            "Install them beside CuPy, pip install 'cupy-cuda12x[ctk]' (or cupy-cuda13x[ctk]), or NVIDIA's "
            "CUDA toolkit.",
        ) from None


def _counted(cupy: Any, name: str) -> int:
    """How many GPUs there are."""
    try:
        count: int = cupy.cuda.runtime.getDeviceCount()
    except cupy.cuda.runtime.CUDARuntimeError as error:
        raise _unavailable(
            name,
            f"{name} cannot be used: {error}. Is NVIDIA's driver installed, at least as new as the CUDA that "
            "CuPy is for, and the GPU handed to this container (nvidia-smi)?",
        ) from None
    return count


def _unavailable(name: str, message: str) -> BackhaulError:
    return make_error("DEVICE_UNAVAILABLE", message, device=name)
