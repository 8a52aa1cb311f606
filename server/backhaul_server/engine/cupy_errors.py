"""What CuPy raises as a device fails, as our errors."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import cupy

from backhaul_proto.errors import BackhaulError, make_error


@contextmanager
def translated(name: str, limit: int) -> Iterator[None]:
    """Within it, CuPy's errors for want of memory and those of CUDA and its libraries leave as ours.

    Args:
        name: of the device.
        limit: bytes that sessions may use there.

    Raises:
        MemoryLimitExceeded: the GPU has no memory left.
        InternalError: DEVICE_FAILED.
    """
    try:
        yield
    except cupy.cuda.memory.OutOfMemoryError as error:
        raise _exhausted(name, limit, error) from None
    except cupy.cuda.runtime.CUDARuntimeError as error:
        raise _failed(name, error) from error
    except RuntimeError as error:
        # Errors of cuBLAS, cuSOLVER and the like are classes of their modules, which may not be loaded.
        if type(error).__module__.startswith("cupy"):
            raise _failed(name, error) from error
        raise


def _exhausted(name: str, limit: int, error: Exception) -> BackhaulError:
    return make_error(
        "MEMORY_LIMIT_EXCEEDED",
        f"{name} has no memory left for this: {error} What sessions hold was within {limit} bytes; "
        "workspaces of CUDA's libraries, memory lost between arrays, or other processes took the rest. "
        "Nothing of the request stays. Release tensors that are no longer needed, ask for less at once, or "
        "start the server with less for sessions: --device-memory.",
        device=name,
        limit=limit,
    )


def _failed(name: str, error: Exception) -> BackhaulError:
    return make_error(
        "DEVICE_FAILED",
        f"{name} failed while it computed: {type(error).__name__}: {error}. Make a new tape; if that fails "
        "too, the server has to be started again, and the driver's log (dmesg, nvidia-smi -q) may tell why.",
        device=name,
    )
