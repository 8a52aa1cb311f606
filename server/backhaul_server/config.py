"""Settings of the server: flags first, then the environment (``BACKHAUL_PORT`` and so on)."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from pydantic import ByteSize, Field
from pydantic_settings import BaseSettings, SettingsConfigDict


class ServerSettings(BaseSettings):
    """What ``backhaul serve`` can be told."""

    model_config = SettingsConfigDict(env_prefix="BACKHAUL_", frozen=True)

    host: str = Field(
        "127.0.0.1", description="Address to listen on; loopback unless told otherwise."
    )
    port: int = Field(50051, ge=0, le=65535, description="TCP port; 0 takes any free one.")
    unix: Path | None = Field(None, description="A unix socket to listen on as well.")
    threads: int = Field(
        64, ge=1, description="Calls in the server at once, waiting ones included."
    )
    streams: int = Field(
        16,
        ge=1,
        description="Large requests and answers in the server at once, beside those calls.",
    )
    lanes: int | None = Field(
        None,
        ge=1,
        description="Long steps that may be computed beside the small work; None: one for each four cores. "
        "BLAS takes the cores divided by it.",
    )
    max_message_bytes: int = Field(
        1 << 30,
        ge=1 << 16,
        le=(1 << 31) - 1,
        description="Largest message either way, in bytes; what is larger travels in pieces.",
    )
    session_memory: ByteSize | None = Field(
        None,
        gt=0,
        description="Memory that a session may use, such as 512MiB or 4GB; None: half of what the process "
        "may.",
    )
    memory: ByteSize | None = Field(
        None,
        gt=0,
        description="Memory that all sessions may use together; None: four fifths of what the process may.",
    )
    shared_memory: ByteSize | None = Field(
        None,
        ge=0,
        description="Memory shared with clients of the unix socket, such as 2GiB; 0: none; None: an eighth "
        "of what the process may use.",
    )
    lease: float = Field(
        600.0,
        ge=0,
        allow_inf_nan=False,
        description="Seconds after its last call at which a session ends; a client may ask less. 0: never.",
    )
    grace: float = Field(
        10.0,
        ge=0,
        description="Seconds that running calls are given on SIGTERM before they are cancelled.",
    )
    plugins: bool = Field(True, description="Whether to load ops of other installed packages.")
    keep_memory: bool = Field(
        True,
        description="Keep freed memory for the next arrays while there is work (glibc only).",
    )
    metrics_port: int = Field(
        0, ge=0, le=65535, description="Port of the metrics for Prometheus, by HTTP; 0: none."
    )
    metrics_host: str | None = Field(
        None, description="Address of the metrics; None: that of the server."
    )
    log_format: Literal["json", "text"] = Field("json", description="Form of the log on stderr.")
    log_level: Literal["debug", "info", "warning", "error"] = Field(
        "info", description="What is logged."
    )

    @property
    def addresses(self) -> list[str]:
        """Where the server listens."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        listed = [f"{host}:{self.port}"]
        return listed if self.unix is None else [*listed, f"unix:{self.unix}"]
