"""The server's web page, by HTTP requests."""

from __future__ import annotations

import base64
import http.client
import json
import socket
import xml.etree.ElementTree as ET
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from tests.access.authority import serving

import backhaul as bh
from backhaul_proto.catalog.avals import aval
from backhaul_proto.messages import NodeSight, SessionInfo, SessionSummary, Sight
from backhaul_proto.tokens import line_of, new_token
from backhaul_server.engine.engine import Engine
from backhaul_server.service import console_pages as pages
from backhaul_server.service.access import Tokens
from backhaul_server.service.console import HEADERS, NODES, REQUESTS, Console
from backhaul_server.service.dispatch import Dispatcher
from backhaul_server.service.server import Server


def dispatcher_of(server: Server) -> Dispatcher:
    host = server.host
    assert isinstance(host, Dispatcher)
    return host


@pytest.fixture
def server() -> Iterator[Server]:
    running = Server(Dispatcher(Engine(), lease=600.0), ["127.0.0.1:0"])
    running.start()
    yield running
    running.stop(None)


@pytest.fixture
def console(server: Server) -> Iterator[Console]:
    made = Console(dispatcher_of(server), None, 0)
    made.start()
    yield made
    made.close()


@pytest.fixture
def tape(server: Server) -> Iterator[bh.Tape]:
    with bh.connect(server.targets[0], timeout=30) as connection, bh.Tape(connection) as made:
        yield made


class Answer:
    def __init__(self, response: http.client.HTTPResponse) -> None:
        self.status = response.status
        self.headers = response.headers
        self.text = response.read().decode()


def ask(
    console: Console,
    path: str = "/",
    token: str | None = None,
    *,
    method: str = "GET",
    **headers: str,
) -> Answer:
    """By Basic, with the console's own password unless another is given."""
    port = int(console.url.rstrip("/").rpartition(":")[2])
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    password = console.password if token is None else token
    basic = base64.b64encode(f"anybody:{password}".encode()).decode()
    try:
        connection.request(method, path, headers={"Authorization": f"Basic {basic}", **headers})
        return Answer(connection.getresponse())
    finally:
        connection.close()


def digest_in(console: Console, token: str | None = None) -> str:
    (found,) = json.loads(ask(console, "/sessions.json", token).text)["sessions"]
    digest: str = found["session"]
    return digest


def test_sessions_are_shown_with_what_they_hold_and_do(console: Console, tape: bh.Tape) -> None:
    x = tape.leaf(np.eye(100))
    bh.sum(x @ x).numpy()
    first = json.loads(ask(console, "/sessions.json").text)
    assert first["bytes"] >= 80_000
    (session,) = first["sessions"]
    assert (session["steps"], session["busy"]) == (3, False)
    assert session["steps_per_second"] > 0
    again = json.loads(ask(console, "/sessions.json").text)
    assert again["sessions"][0]["steps_per_second"] == 0  # nothing since the look before
    page = ask(console).text
    assert session["session"] in page
    assert f'href="/tape/{session["session"]}"' in page
    assert "78.2" in page or "KiB" in page
    assert '<meta http-equiv="refresh"' in page


def test_a_tape_is_shown_as_a_graph(console: Console, tape: bh.Tape) -> None:
    x = tape.leaf([1.0, -1.0])
    loss = bh.sum(bh.sqrt(x) * 2.0)
    tape.flush()
    digest = digest_in(console)
    page = ask(console, f"/tape/{digest}")
    assert page.status == 200
    start, end = page.text.index('<div class="graph">') + 19, page.text.index("</svg>") + 6
    svg = ET.fromstring(page.text[start:end])
    texts = [each.text for each in svg.iter("{http://www.w3.org/2000/svg}text")]
    assert {"leaf", "sqrt", "multiply", "sum", "NaN", "float64[2]"} <= set(texts)
    assert "<style" not in page.text  # the policy would not have it
    assert "with NaN or Inf" in page.text
    nodes = json.loads(ask(console, f"/tape/{digest}.json").text)["nodes"]
    assert [(each["op"], each["nan"]) for each in nodes if each["op"] == "sqrt"] == [("sqrt", 1)]
    assert loss.node_id in [each["node"] for each in nodes]


def test_a_large_tape_is_bounded_and_says_so(console: Console, tape: bh.Tape) -> None:
    total = tape.leaf(0.0)
    for _ in range(NODES + 20):
        total = total + total
    tape.flush()
    digest = digest_in(console)
    found = json.loads(ask(console, f"/tape/{digest}.json").text)
    assert len(found["nodes"]) == NODES
    assert found["left_out"] == 21
    assert "21 made earlier left out" in ask(console, f"/tape/{digest}").text


def test_a_look_renews_no_lease(console: Console, tape: bh.Tape, server: Server) -> None:
    tape.leaf(1.0)
    tape.flush()
    digest = digest_in(console)
    left = json.loads(ask(console, "/sessions.json").text)["sessions"][0]["lease_left_seconds"]
    ask(console, f"/tape/{digest}")
    after = json.loads(ask(console, "/sessions.json").text)["sessions"][0]["lease_left_seconds"]
    assert after < left


@pytest.mark.parametrize("path", ["/", "/sessions.json", "/style.css", "/tape/00", "/nowhere"])
def test_nothing_is_told_without_the_password(console: Console, path: str) -> None:
    for wrong in ("", "wrong", "ä"):
        answer = ask(console, path, wrong)
        assert answer.status == 401
        assert answer.headers["WWW-Authenticate"].startswith("Basic ")
        assert answer.text == "Unauthorized"
    for header in ("", "Basic", "Basic !!!", "Basic YQ==", "Digest x", "Bearer wrong"):
        assert ask(console, path, Authorization=header).status == 401


def test_a_bearer_token_does_too(console: Console) -> None:
    assert ask(console, Authorization=f"Bearer {console.password}").status == 200


@pytest.mark.parametrize("path", ["/", "/sessions.json", "/style.css", "/tape/00", "/nowhere"])
def test_every_answer_forbids_scripts_and_frames(console: Console, path: str) -> None:
    for token in (None, "wrong"):
        headers = ask(console, path, token).headers
        assert {name: headers[name] for name in HEADERS} == dict(HEADERS)
        assert "script" not in headers["Content-Security-Policy"]
        assert headers["Content-Security-Policy"].startswith("default-src 'none'")
        assert headers["Server"] == "backhaul"


@pytest.mark.parametrize(
    "host", ["evil.example", "127.0.0.1.evil.example", "evil.example:80", "", "127.0.0.1:x"]
)
def test_other_names_than_the_loopbacks_are_not_answered(console: Console, host: str) -> None:
    assert ask(console, Host=host).status == 421  # a page that had its name point here
    assert ask(console, Host="localhost:1").status == 200


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "PATCH", "OPTIONS", "TRACE"])
def test_there_is_nothing_but_reading(console: Console, method: str) -> None:
    answer = ask(console, method=method)
    assert answer.status == 501
    assert answer.headers["Content-Security-Policy"] == HEADERS["Content-Security-Policy"]


def test_head_is_get_without_its_text(console: Console) -> None:
    answer = ask(console, "/style.css", method="HEAD")
    assert (answer.status, answer.text) == (200, "")
    assert int(answer.headers["Content-Length"]) == len(pages.PAGE_STYLE.encode())


@pytest.mark.parametrize("path", ["/tape/abc", "/tape/zz", "/tape/00", "/tape/../x", "/TAPE/00"])
def test_what_is_not_there_is_not_found(console: Console, path: str) -> None:
    assert ask(console, path).status == 404
    assert (
        path.rpartition("/")[2] not in ask(console, f"/x<{path}>").text
    )  # nothing asked is echoed


def test_a_principal_sees_its_own_sessions_alone(tmp_path: Path) -> None:
    alice, bob = new_token(), new_token()
    file = tmp_path / "tokens"
    file.write_text(f"{line_of('alice', alice)}\n{line_of('bob', bob)}\n")
    with serving(tokens=file) as server:
        console = Console(dispatcher_of(server), Tokens(file), 0)
        assert console.password is None
        console.start()
        try:
            with (
                bh.connect(server.targets[0], token=alice, timeout=30) as connection,
                bh.Tape(connection) as tape,
            ):
                held = tape.leaf([1.0])
                tape.flush()
                digest = digest_in(console, alice)
                assert "of alice" in ask(console, "/", alice).text
                assert ask(console, f"/tape/{digest}", alice).status == 200
                assert json.loads(ask(console, "/sessions.json", bob).text)["sessions"] == []
                assert ask(console, f"/tape/{digest}", bob).status == 404
                assert ask(console, "/", new_token()).status == 401
                del held
        finally:
            console.close()


def test_connections_beyond_its_room_are_closed(console: Console) -> None:
    port = int(console.url.rstrip("/").rpartition(":")[2])
    idle = [socket.create_connection(("127.0.0.1", port), timeout=60) for _ in range(REQUESTS)]
    try:
        with socket.create_connection(("127.0.0.1", port), timeout=60) as further:
            assert further.recv(1) == b""
    finally:
        for each in idle:
            each.close()


def test_a_port_that_is_taken_is_told(console: Console, server: Server) -> None:
    port = int(console.url.rstrip("/").rpartition(":")[2])
    with pytest.raises(bh.InvalidArgument, match="--console"):
        Console(dispatcher_of(server), None, port)


def test_what_is_shown_is_escaped() -> None:
    summary = SessionSummary(b"\x01", SessionInfo(1, 8, 1.0, 1))
    row, sample = pages.Row(summary, 0.5, 2.0), pages.Sample(8, 0.5, 2.0)
    page = pages.sessions_page("<script>alert(1)</script>", [row], [sample])
    assert "<script>" not in page
    node = NodeSight(1, "<img src=x>", (), aval((), np.dtype("float64")), True, True)
    assert "<img" not in pages.tape_page("<b>", Sight([node]))
    assert "<b>" not in pages.message_page("<b>", "<b>").replace("<b>all", "")
