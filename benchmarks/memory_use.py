"""How much memory the machine has left, and a process uses (Linux)."""

from __future__ import annotations

from pathlib import Path


def available_memory() -> int:
    """Bytes that can be had without driving anything out."""
    return _bytes_of(Path("/proc/meminfo"), "MemAvailable")


def resident(pid: int | str = "self") -> int:
    """Bytes of a process that are in memory now."""
    return _bytes_of(Path(f"/proc/{pid}/status"), "VmRSS")


def peak_resident(pid: int | str = "self") -> int:
    """The most bytes that a process had in memory since its start or `forget_peak`."""
    return _bytes_of(Path(f"/proc/{pid}/status"), "VmHWM")


def forget_peak(pid: int | str = "self") -> None:
    """Count a process's peak from here."""
    Path(f"/proc/{pid}/clear_refs").write_text("5")


def _bytes_of(file: Path, name: str) -> int:
    if not file.exists():
        raise SystemExit(f"There is no {file}: this needs Linux, and the process to live.")
    for line in file.read_text().splitlines():
        if line.startswith(f"{name}:"):
            return int(line.split()[1]) * 1024
    raise SystemExit(f"{file} has no {name}.")
