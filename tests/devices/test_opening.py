"""Devices that cannot be opened: what is said, where, and which command mends it."""

from __future__ import annotations

import os
import subprocess
import sys

import numpy as np
import pytest

import backhaul as bh
from backhaul_proto.errors import BackhaulError, InvalidArgument
from backhaul_server.accelerators import open_accelerator
from backhaul_server.device_names import checked_names, cuda_number


@pytest.fixture
def no_cupy(monkeypatch: pytest.MonkeyPatch) -> None:
    """An environment without CuPy, whatever is installed."""
    monkeypatch.setitem(sys.modules, "cupy", None)


def test_names_of_devices() -> None:
    assert [cuda_number(each) for each in ("cuda:0", "cuda:12")] == [0, 12]
    for wrong in ("cuda", "cuda:", "cuda:01", "cuda:-1", "CUDA:0", "gpu:0", "cpu"):
        with pytest.raises(InvalidArgument, match="cuda:0, cuda:1") as caught:
            cuda_number(wrong)
        assert caught.value.reason == "UNKNOWN_DEVICE"
    assert checked_names("cuda:1,cpu,cuda:0") == "cuda:1,cpu,cuda:0"
    for wrong, why in (("cpu,", "''"), ("cpu,cpu", "twice"), ("cpu cuda:0", "no device")):
        with pytest.raises(ValueError, match=why):
            checked_names(wrong)


@pytest.mark.usefixtures("no_cupy")
def test_without_cupy_the_extra_is_named() -> None:
    with pytest.raises(InvalidArgument, match=r"pip install 'backhaul\[cuda12\]'") as caught:
        open_accelerator("cuda:0")
    assert caught.value.reason == "DEVICE_UNAVAILABLE"
    assert caught.value.details == {"device": "cuda:0"}


@pytest.mark.usefixtures("no_cupy")
def test_the_embedded_server_opens_a_device_when_a_tape_asks_for_it() -> None:
    with bh.connect("embedded") as connection:
        for device, reason in (("cuda:0", "DEVICE_UNAVAILABLE"), ("tpu", "UNKNOWN_DEVICE")):
            with bh.Tape(connection, device=device) as tape:
                loss = bh.sum(tape.leaf(np.ones(1)))
                with pytest.raises(InvalidArgument) as caught:
                    loss.numpy()
                assert caught.value.reason == reason
        assert [each.name for each in connection.info().devices] == ["cpu"]
        with bh.Tape(connection, device="cpu") as tape:
            assert bh.sum(tape.leaf(np.ones(1))).numpy() == 1


def test_a_gpu_without_a_driver_is_refused() -> None:
    cupy = pytest.importorskip("cupy", reason="CuPy is not installed")
    if cupy.cuda.is_available():
        pytest.skip("there is a GPU here")
    with pytest.raises(BackhaulError, match="cuda:0 cannot be used: cudaError") as caught:
        open_accelerator("cuda:0")
    assert caught.value.reason == "DEVICE_UNAVAILABLE"
    assert "driver" in str(caught.value)


def test_without_the_libraries_of_cuda_it_is_said_how_to_get_them() -> None:
    pytest.importorskip("cupy", reason="CuPy is not installed")
    try:
        import cupyx.scipy.linalg  # noqa: F401  it loads cuBLAS
    except ImportError:
        pass
    else:
        pytest.skip("they are there")
    from backhaul_server.engine.cupy_devices import check_libraries

    with pytest.raises(BackhaulError, match=r"pip install 'cupy-cuda12x\[ctk\]'") as caught:
        check_libraries("cuda:0")
    assert caught.value.reason == "DEVICE_UNAVAILABLE"


def test_a_server_that_lacks_its_device_does_not_start() -> None:
    command = [sys.executable, "-m", "backhaul", "serve", "--port", "0", "--devices", "cuda:99"]
    ended = subprocess.run(
        command, capture_output=True, text=True, timeout=60, env={**os.environ}, check=False
    )
    assert ended.returncode == 1
    assert ended.stdout == ""
    assert ended.stderr.startswith("backhaul: ")
    assert "cuda:99" in ended.stderr
    assert "DEVICE_UNAVAILABLE" in ended.stderr


@pytest.mark.parametrize("given", ["gpu", "cuda:0;cpu", ""])
def test_a_list_of_devices_that_is_none_is_refused(given: str) -> None:
    command = [sys.executable, "-m", "backhaul", "serve", "--print-config", "--devices", given]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert ended.returncode == 1
    assert ended.stderr.startswith("backhaul: --devices is ")
