"""Philote: an explicit discipline over gRPC streams; the function in one call, its partials in another.

Its messages hold 1,000 numbers by default; here 100,000, by its stream options, which is faster.
"""

from __future__ import annotations

import importlib
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any, Final

from benchmarks.peers.job import Answer, Array, Ask, by_hand

_NUMBERS: Final = 100_000


def serve(n: int) -> None:
    grpc: Any = importlib.import_module("grpc")
    general: Any = importlib.import_module("philote_mdo.general")

    class Loss(general.ExplicitDiscipline):  # type: ignore[misc]
        def setup(self) -> None:
            self.add_input("a", shape=(n, n), units="")
            self.add_input("b", shape=(n, n), units="")
            self.add_output("loss", shape=(1,), units="")

        def setup_partials(self) -> None:
            self.declare_partials("loss", "a")
            self.declare_partials("loss", "b")

        def compute(self, inputs: Any, outputs: Any) -> None:
            c = inputs["a"] @ inputs["b"]
            outputs["loss"] = (c * c).sum().reshape(1)

        def compute_partials(self, inputs: Any, partials: Any) -> None:
            _, partials["loss", "a"], partials["loss", "b"] = by_hand(inputs["a"], inputs["b"])

    server = grpc.server(ThreadPoolExecutor(4))
    general.ExplicitServer(discipline=Loss()).attach_to_server(server)
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    print(port, flush=True)
    threading.Event().wait()


@contextmanager
def connected(variant: str, n: int, port: int) -> Iterator[Ask]:
    grpc: Any = importlib.import_module("grpc")
    general: Any = importlib.import_module("philote_mdo.general")
    with grpc.insecure_channel(f"127.0.0.1:{port}") as channel:
        client = general.ExplicitClient(channel)
        client._stream_options.num_double = _NUMBERS
        client.send_stream_options()
        client.run_setup()
        client.get_variable_definitions()
        client.get_partials_definitions()

        def ask(a: Array, b: Array) -> Answer:
            inputs = {"a": a, "b": b}
            value = client.run_compute(inputs)["loss"]
            partials = client.run_compute_partials(inputs)
            return float(value[0]), partials["loss", "a"], partials["loss", "b"]

        yield ask
