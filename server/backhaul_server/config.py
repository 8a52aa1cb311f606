"""Settings of the server: the one place for their names, types, bounds, defaults and help.

A field is an option of ``backhaul serve`` (``--session-memory``), an environment variable
(``BACKHAUL_SESSION_MEMORY``), a key of the TOML file (``session_memory``), and a row of the table in
docs/serving.md (``make settings`` writes it).
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Final, Literal

from pydantic import AfterValidator, ByteSize, Field
from pydantic_settings import BaseSettings, SettingsConfigDict

from backhaul_server.device_names import HOST, checked_names

HERE: Final = "here"
"""Sessions live in the process that clients call."""

PREFIX: Final = "BACKHAUL_"
"""What a setting's environment variable begins with."""


@dataclass(frozen=True, slots=True)
class Otherwise:
    """What holds where a setting is None: part of the field's type, for help and docs.

    Attributes:
        text: such as ``"half of what the process may use"``.
    """

    text: str


class ServerSettings(BaseSettings):
    """What ``backhaul serve`` can be told. An empty environment variable is as one that is not there."""

    model_config = SettingsConfigDict(env_prefix=PREFIX, env_ignore_empty=True, frozen=True)

    host: str = Field(
        "127.0.0.1", description="Address to listen on; loopback unless told otherwise."
    )
    port: int = Field(
        50051,
        ge=0,
        le=65535,
        description="TCP port; 0 takes any free one, and the line 'listening on …' on stdout says which.",
    )
    unix: Path | None = Field(None, description="A unix socket to listen on as well.")
    threads: int = Field(
        64, ge=1, description="Calls in the server at once, waiting ones included."
    )
    streams: int = Field(
        16,
        ge=1,
        description="Large requests and answers in the server at once, beside those calls.",
    )
    workers: str = Field(
        HERE,
        pattern=r"^(here|ray(:[1-9][0-9]{0,4})?)$",
        description="Where sessions live: `here`, in this process; `ray` or `ray:N`, in so many worker "
        "processes of a Ray cluster (as many as it has room for), see scaling.md.",
    )
    ray_address: Annotated[str | None, Otherwise("a cluster of its own, on this machine")] = Field(
        None, description="The Ray cluster, such as auto or 10.0.0.1:6379."
    )
    ray_namespace: str = Field(
        "backhaul", min_length=1, description="Namespace of the workers in the Ray cluster."
    )
    worker_cpus: float = Field(
        1.0, ge=0, allow_inf_nan=False, description="Cores that a Ray worker is given of its node."
    )
    worker_gpus: float = Field(
        0.0, ge=0, allow_inf_nan=False, description="GPUs that a Ray worker is given of its node."
    )
    worker_resources: Annotated[str, Otherwise("none")] = Field(
        "",
        description="What else a Ray worker is given of its node, such as a100=1,ssd=0.5.",
    )
    lanes: Annotated[int | None, Otherwise("one for each four cores")] = Field(
        None,
        ge=1,
        description="Long steps that may be computed beside the small work; BLAS takes the cores divided "
        "by it.",
    )
    max_message_bytes: ByteSize = Field(
        ByteSize(1 << 30),
        ge=1 << 16,
        le=(1 << 31) - 1,
        description="Largest message either way, such as 64MiB; what is larger travels in pieces.",
    )
    session_memory: Annotated[ByteSize | None, Otherwise("half of what the process may use")] = (
        Field(None, gt=0, description="Most memory that a session may use, such as 512MiB or 4GB.")
    )
    memory_limit: Annotated[
        ByteSize | None, Otherwise("four fifths of what the process may use")
    ] = Field(None, gt=0, description="Most memory that all sessions may use together.")
    rss_limit: Annotated[ByteSize | None, Otherwise("95 % of what the process may use")] = Field(
        None,
        ge=0,
        description="Resident memory of the process from which on it takes no new tapes and only small "
        "requests; 0: it is not looked at.",
    )
    principal_memory: Annotated[ByteSize | None, Otherwise("as all may")] = Field(
        None, gt=0, description="Most memory that the tapes of one principal may use together."
    )
    principal_sessions: int = Field(
        10_000, ge=1, description="Tapes that one principal may have open."
    )
    sessions: int = Field(100_000, ge=1, description="Tapes that may be open.")
    principal_calls: Annotated[int | None, Otherwise("as many as there may be")] = Field(
        None, ge=1, description="Calls of one principal at once."
    )
    watchdog: float = Field(
        60.0,
        ge=0,
        description="Seconds without progress, with calls waiting, after which the log tells where the "
        "work is stuck; 0: never.",
    )
    shared_memory: Annotated[
        ByteSize | None, Otherwise("an eighth of what the process may use")
    ] = Field(
        None,
        ge=0,
        description="Most memory shared with clients of the unix socket, such as 2GiB; 0: none.",
    )
    lease: float = Field(
        600.0,
        ge=0,
        allow_inf_nan=False,
        description="Seconds after its last call at which a session ends; clients may ask for less. "
        "0: never.",
    )
    tls_cert: Path | None = Field(
        None,
        description="The server's certificate (PEM), with those up to its authority; turns TLS on.",
    )
    tls_key: Path | None = Field(None, description="Its private key (PEM).")
    client_ca: Path | None = Field(
        None,
        description="Authorities (PEM) whose certificates clients must have; turns mutual TLS on.",
    )
    token_file: Path | None = Field(
        None, description="File of tokens that clients must have, a line name:digest each."
    )
    max_connection_age: Annotated[float | None, Otherwise("an hour with TLS, else never")] = Field(
        None,
        gt=0,
        le=2_000_000,
        description="Seconds after which clients connect again, and show their certificates anew.",
    )
    insecure: bool = Field(
        False, description="Listen beyond this machine in the clear, or without knowing who calls."
    )
    grace: float = Field(
        10.0,
        ge=0,
        description="Seconds that running calls are given on SIGTERM before they are cancelled.",
    )
    drain_delay: float = Field(
        0.0,
        ge=0,
        allow_inf_nan=False,
        description="Seconds on SIGTERM between NOT_SERVING to health checks and the first refusal; 5 with "
        "Kubernetes.",
    )
    health_port: int | None = Field(
        None,
        ge=0,
        le=65535,
        description="A further port of the same host with the health service alone, in the clear.",
    )
    plugins: bool = Field(True, description="Whether to load ops of other installed packages.")
    devices: Annotated[str, AfterValidator(checked_names)] = Field(
        HOST,
        description="Where tapes can compute, the default first, such as cuda:0,cuda:1; the host (cpu) "
        "always can.",
    )
    device_memory: Annotated[ByteSize | None, Otherwise("four fifths of what is free there")] = (
        Field(
            None,
            gt=0,
            description="Most memory of a GPU that all tapes on it may use together; see docs/gpu.md.",
        )
    )
    keep_memory: bool = Field(
        True,
        description="Keep freed memory for the next arrays while there is work (glibc only).",
    )
    log_format: Literal["json", "text"] = Field(
        "json", description="Form of the log on stderr: one JSON object a line, or text."
    )
    metrics_port: int | None = Field(
        None, ge=0, le=65535, description="Port of the metrics for Prometheus, by HTTP."
    )
    metrics_host: Annotated[str | None, Otherwise("that of the server")] = Field(
        None, description="Address of the metrics."
    )
    console: int | None = Field(
        None,
        ge=0,
        le=65535,
        description="Port of a web page of the server, on 127.0.0.1 alone; 0: any free one.",
    )
    log_level: Literal["debug", "info", "warning", "error"] = Field(
        "info", description="What is logged: debug tells of every call, info of refused ones too."
    )

    @property
    def addresses(self) -> list[str]:
        """Where the server listens."""
        listed = [self._at(self.port)]
        return listed if self.unix is None else [*listed, f"unix:{self.unix}"]

    @property
    def health_address(self) -> str | None:
        """Where health checks alone are answered."""
        return None if self.health_port is None else self._at(self.health_port)

    def _at(self, port: int) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{host}:{port}"
