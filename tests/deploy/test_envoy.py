"""deploy/envoy with the real Envoy before two real servers: affinity, a server killed, gRPC-Web.

To run it: make envoy-test
"""

from __future__ import annotations

import base64
import signal
import struct
import threading
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from http.client import HTTPConnection
from pathlib import Path

import numpy as np
import pytest
from google.rpc.error_details_pb2 import ErrorInfo
from google.rpc.status_pb2 import Status
from tests.access.authority import Authority
from tests.deploy.envoy_process import EnvoyProcess, before, envoy_program
from tests.e2e.server_process import ServerProcess, serving

import backhaul as bh
from backhaul_proto._version import __version__
from backhaul_proto.messages import SERVICE
from backhaul_proto.tokens import line_of, new_token
from backhaul_proto.v1 import service_pb2

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        envoy_program() is None, reason="no envoy on the PATH or in $ENVOY: make envoy-test has one"
    ),
]

SESSIONS = 64
BLOCKS = 5


@dataclass
class Cluster:
    """Envoy and the two servers behind it."""

    envoy: EnvoyProcess
    servers: list[ServerProcess]

    @property
    def target(self) -> str:
        return self.envoy.target

    def sessions(self, of: int) -> dict[bytes, int]:
        """The sessions of one server, with the steps that each has run: asked directly."""
        with bh.connect(self.servers[of].target, timeout=120) as direct:
            return {each.digest: each.info.steps for each in direct.sessions()}


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    with clustered(tmp_path) as made:
        yield made


@contextmanager
def clustered(
    folder: Path, *options: str, replaced: Mapping[str, str] | None = None
) -> Iterator[Cluster]:
    """Two servers with these options; with `replaced`, Envoy has TLS as in docs/deploying.md."""
    with serving(*options) as first, serving(*options) as second:
        servers = [first, second]
        addresses = [each.target.partition("://")[2] for each in servers]
        with before(addresses, folder, replaced) as envoy:
            yield Cluster(envoy, servers)


@dataclass
class Walk:
    """A tape whose value is known at each step: w + 1 + 2 + ... in as many requests."""

    tape: bh.Tape
    at: bh.TrackedTensor
    start: float
    steps: int = 0

    def step(self) -> None:
        self.steps += 1
        self.at = self.at + float(self.steps)
        self.check()

    def check(self) -> None:
        expected = self.start + self.steps * (self.steps + 1) / 2
        assert self.at.numpy().tolist() == [expected] * 3
        assert self.tape.pullback(bh.sum(self.at * self.at)).value == 3 * expected**2


def walk(connection: bh.Connection, start: float) -> Walk:
    tape = bh.Tape(connection)
    made = Walk(tape, tape.leaf(np.full(3, start)) * 1.0, start)
    made.check()
    return made


def test_no_session_is_split(cluster: Cluster) -> None:
    with (
        bh.connect(cluster.target, timeout=60) as one,
        bh.connect(cluster.target, timeout=60) as other,
        ThreadPoolExecutor(16) as pool,
    ):
        walks = list(pool.map(lambda i: walk((one, other)[i % 2], float(i)), range(SESSIONS)))
        for _ in range(BLOCKS):
            list(pool.map(Walk.step, walks))
        first, second = cluster.sessions(0), cluster.sessions(1)
        assert len(first) + len(second) == SESSIONS
        assert set(first) & set(second) == set()
        assert min(len(first), len(second)) >= SESSIONS // 8
        # All of a session's work was where the session is: each has run as many steps as every other.
        assert len({*first.values(), *second.values()}) == 1


def on_each(
    cluster: Cluster, connection: bh.Connection, count: int
) -> tuple[list[Walk], list[Walk]]:
    """Walks on the first server, and those on the second."""
    split: tuple[list[Walk], list[Walk]] = ([], [])
    known = len(cluster.sessions(0))
    for i in range(count):
        made = walk(connection, float(i))
        now = len(cluster.sessions(0))
        split[0 if now > known else 1].append(made)
        known = now
    assert min(map(len, split)) >= count // 8
    return split


def test_who_was_on_a_killed_server_is_told_and_others_notice_nothing(cluster: Cluster) -> None:
    with bh.connect(cluster.target, timeout=60) as connection:
        lost, kept = on_each(cluster, connection, SESSIONS)
        with working(kept) as laps:
            laps.wait_for_more()
            cluster.servers[0].process.kill()
            for each in lost:
                with pytest.raises(bh.SessionLost):
                    each.step()
            laps.wait_for_more()
        fresh = [walk(connection, float(i)) for i in range(8)]
        for each in (*kept, *fresh):
            each.step()
        assert len(cluster.sessions(1)) == len(kept) + len(fresh)


def test_tapes_go_on_where_clients_recover_also_when_the_server_comes_back(
    cluster: Cluster,
) -> None:
    killed = cluster.servers[0]
    with bh.connect(cluster.target, timeout=60, recover=True) as connection:
        moved, kept = on_each(cluster, connection, SESSIONS)
        with working(kept) as laps:
            laps.wait_for_more()
            killed.process.kill()
            for each in moved:
                each.step()
                each.step()
            laps.wait_for_more()
            assert len(cluster.sessions(1)) == SESSIONS
            with serving("--port", killed.target.rpartition(":")[2]) as again:
                assert again.target == killed.target
                cluster.envoy.wait_for_healthy(2)
                fresh = [walk(connection, float(i)) for i in range(SESSIONS)]
                assert len(cluster.sessions(0)) >= SESSIONS // 8
                # Those that the ring now sends back lose their sessions once more, and are made again.
                for each in (*moved, *fresh):
                    each.step()
                laps.wait_for_more()


def test_large_arrays_pass(cluster: Cluster) -> None:
    large = np.arange(3_000_000, dtype=np.float64)  # 24 MB: it travels in chunks
    with bh.connect(cluster.target, timeout=60) as connection, bh.Tape(connection) as tape:
        x = tape.leaf(large)
        gradients = tape.pullback(bh.sum(x * x))
        assert np.array_equal(gradients[x], 2 * large)


class Laps:
    """Counts how often all of some walks were gone on with."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._count = 0
        self._failure: BaseException | None = None

    def done(self) -> None:
        with self._changed:
            self._count += 1
            self._changed.notify_all()

    def failed(self, error: BaseException) -> None:
        with self._changed:
            self._failure = error
            self._changed.notify_all()

    def wait_for_more(self) -> None:
        """Until two more laps have ended: one was begun after this call."""
        with self._changed:
            until = self._count + 2
            assert self._changed.wait_for(
                lambda: self._failure is not None or self._count >= until, timeout=60
            )
            if self._failure is not None:
                raise self._failure


@contextmanager
def working(walks: list[Walk]) -> Iterator[Laps]:
    """Goes on with these on a thread, all the while; an error there is one here."""
    laps, stop = Laps(), threading.Event()

    def work() -> None:
        try:
            while not stop.is_set():
                for each in walks:
                    each.step()
                laps.done()
        except BaseException as error:
            laps.failed(error)

    thread = threading.Thread(target=work)
    thread.start()
    try:
        yield laps
        laps.wait_for_more()
    finally:
        stop.set()
        thread.join()


def test_new_sessions_go_elsewhere_once_a_server_drains(tmp_path: Path) -> None:
    with clustered(tmp_path, "--drain-delay", "60") as cluster:
        draining = cluster.servers[0]
        draining.process.send_signal(signal.SIGTERM)
        cluster.envoy.wait_for_healthy(1)
        assert draining.process.poll() is None
        with bh.connect(cluster.target, timeout=120) as connection:
            walks = [walk(connection, float(i)) for i in range(16)]
            assert len(cluster.sessions(1)) == len(walks)
            assert cluster.sessions(0) == {}


def test_tls_on_both_sides_as_the_page_tells_it(tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    pair = authority.issue("localhost")
    token = new_token()
    tokens = tmp_path / "tokens"
    tokens.write_text(f"{line_of('alice', token)}\n", encoding="utf-8")
    options = [
        *("--tls-cert", str(pair.certificate), "--tls-key", str(pair.key)),
        *("--token-file", str(tokens)),
    ]
    files = {
        "/etc/envoy/tls/tls.crt": str(pair.certificate),
        "/etc/envoy/tls/tls.key": str(pair.key),
        "/etc/envoy/servers/ca.crt": str(authority.roots),
        "backhaul-servers.backhaul.svc": "localhost",
    }
    with clustered(tmp_path, *options, replaced=files) as cluster:
        tls = bh.TLS(roots=authority.roots, server_name="localhost")
        target = f"grpcs://{cluster.target}"
        with bh.connect(target, tls=tls, token=token, timeout=120) as connection:
            for each in [walk(connection, float(i)) for i in range(16)]:
                each.step()
        with bh.connect(target, tls=tls, timeout=120) as connection, bh.Tape(connection) as tape:
            tape.leaf(np.ones(3))
            with pytest.raises(bh.Unauthenticated):
                tape.flush()


# ---------------------------------------------------------------- gRPC-Web

ORIGIN = "http://localhost:5173"


def web(
    envoy: EnvoyProcess, method: str, body: bytes, text: bool = False
) -> tuple[dict[str, str], bytes, dict[str, str]]:
    """A call by gRPC-Web, as a browser makes it: headers, message, trailers."""
    frame = struct.pack(">BI", 0, len(body)) + body
    kind = "application/grpc-web-text" if text else "application/grpc-web+proto"
    http = HTTPConnection("127.0.0.1", envoy.port, timeout=120)
    http.request(
        "POST",
        f"/{SERVICE}/{method}",
        body=base64.b64encode(frame) if text else frame,
        headers={"content-type": kind, "accept": kind, "x-grpc-web": "1", "origin": ORIGIN},
    )
    answer = http.getresponse()
    assert answer.status == 200
    data = answer.read()
    http.close()
    headers = {name.lower(): value for name, value in answer.getheaders()}
    if text:
        # Pieces that are each padded by themselves.
        data = b"".join(
            base64.b64decode(each + b"=" * (-len(each) % 4))
            for each in data.replace(b"=", b" ").split()
        )
    message, trailers = b"", {}
    while data:
        flags, size = struct.unpack(">BI", data[:5])
        part, data = data[5 : 5 + size], data[5 + size :]
        if flags & 0x80:
            pairs = (line.split(":", 1) for line in part.decode().split("\r\n") if line)
            trailers = {name: value.strip() for name, value in pairs}
        else:
            message += part
    return headers, message, trailers or headers


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with clustered(tmp_path_factory.mktemp("web")) as made:
        yield made


@pytest.mark.parametrize("text", [False, True])
def test_a_browser_gets_an_answer(shared: Cluster, text: bool) -> None:
    headers, message, trailers = web(shared.envoy, "GetServerInfo", b"", text)
    assert service_pb2.GetServerInfoResponse.FromString(message).version == __version__
    assert trailers["grpc-status"] == "0"
    assert headers["access-control-allow-origin"] == ORIGIN


def test_a_browser_gets_an_error_with_its_reason(shared: Cluster) -> None:
    request = service_pb2.GetSessionRequest()
    request.session.id = bytes(16)
    headers, message, trailers = web(shared.envoy, "GetSession", request.SerializeToString())
    assert message == b""
    assert trailers["grpc-status"] == "5"
    details = trailers["grpc-status-details-bin"]
    status = Status.FromString(base64.b64decode(details + "=" * (-len(details) % 4)))
    info = ErrorInfo()
    assert status.details[0].Unpack(info)
    assert (info.domain, info.reason) == ("backhaul", "SESSION_NOT_FOUND")
    exposed = headers["access-control-expose-headers"].split(", ")
    assert {"grpc-status", "grpc-message", "grpc-status-details-bin"} <= set(exposed)


@pytest.mark.parametrize(
    ("origin", "allowed"),
    [
        (ORIGIN, ORIGIN),
        ("https://elsewhere.example", None),
        ("http://localhost.elsewhere.example", None),
    ],
)
def test_only_pages_of_known_origins_may_call(
    shared: Cluster, origin: str, allowed: str | None
) -> None:
    http = HTTPConnection("127.0.0.1", shared.envoy.port, timeout=120)
    wanted = "content-type,x-grpc-web,authorization,backhaul-session"
    http.request(
        "OPTIONS",
        f"/{SERVICE}/Execute",
        headers={
            "origin": origin,
            "access-control-request-method": "POST",
            "access-control-request-headers": wanted,
        },
    )
    answer = http.getresponse()
    answer.read()
    http.close()
    assert answer.getheader("access-control-allow-origin") == allowed
    if allowed:
        assert answer.status == 200
        may = (answer.getheader("access-control-allow-headers") or "").split(", ")
        assert set(wanted.split(",")) <= set(may)
