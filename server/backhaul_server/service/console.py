"""The server's console: a small web page of what its sessions hold and do. It only reads.

It listens on the loopback alone, and wants a token as the password (HTTP Basic, or Bearer): one of the
server's, whose principal's sessions are shown, or where the server has none, one that is made when it starts.
Every answer forbids scripts, frames and what comes from elsewhere. A page of another site cannot read it: it
answers to the loopback's own names alone, and to nobody without the token.
"""

from __future__ import annotations

import base64
import binascii
import json
import logging
import re
import threading
from collections import deque
from collections.abc import Mapping
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from secrets import compare_digest
from typing import Any, Final

from backhaul_proto.errors import BackhaulError, DeadlineExceeded, make_error
from backhaul_proto.messages import SessionInfo, Sight
from backhaul_proto.tokens import digest_of, new_token
from backhaul_server.service import console_pages as pages
from backhaul_server.service.access import Tokens, unauthenticated
from backhaul_server.service.dispatch import Dispatcher
from backhaul_server.service.entry import ANYONE
from backhaul_server.service.incidents import guarded
from backhaul_server.workers.call import Call

log = logging.getLogger("backhaul.server")

HOST: Final = "127.0.0.1"
NODES: Final = 150
"""Nodes of a tape that its page shows."""
PATIENCE: Final = 5.0
"""Seconds that a look at a tape may take."""
REQUESTS: Final = 16
"""Requests that are answered at once; further connections are closed."""
SAMPLES: Final = 120
_POLL: Final = 0.1
"""Seconds within which it ends when it is told to."""

HEADERS: Final[Mapping[str, str]] = {
    "Content-Security-Policy": "default-src 'none'; style-src 'self'; base-uri 'none'; form-action 'none'; "
    "frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cache-Control": "no-store",
}

_OWN_NAMES: Final = re.compile(r"(127\.0\.0\.1|localhost|\[::1\])(:\d+)?", re.IGNORECASE)
_TAPE: Final = re.compile(r"/tape/([0-9a-f]{2,64})(\.json)?")
_UNOPENED: Final = SessionInfo(0, 0, 0.0, 0)


class Looks:
    """What the sessions of principals did between one look and the next.

    Args:
        dispatcher: knows the sessions.
    """

    def __init__(self, dispatcher: Dispatcher) -> None:
        self._dispatcher = dispatcher
        self._lock = threading.Lock()
        self._before: dict[str, dict[bytes, SessionInfo]] = {}
        self._samples: dict[str, deque[pages.Sample]] = {}

    def take(self, principal: str) -> tuple[list[pages.Row], list[pages.Sample]]:
        """The sessions, those that compute most first, and what they did together, up to now.

        Time is by the sessions' own ages, so looks may be any time apart.
        """
        found = list(self._dispatcher.summaries(principal))
        with self._lock:
            before = self._before.get(principal, {})
            rows = []
            for each in found:
                was = before.get(each.digest, _UNOPENED)
                seconds = each.info.age_seconds - was.age_seconds
                load = steps = 0.0
                if seconds > 0:
                    load = (each.info.busy_seconds - was.busy_seconds) / seconds
                    steps = (each.info.steps - was.steps) / seconds
                rows.append(pages.Row(each, load, steps))
            self._before[principal] = {each.digest: each.info for each in found}
            samples = self._samples.setdefault(principal, deque(maxlen=SAMPLES))
            samples.append(
                pages.Sample(
                    sum(each.info.bytes for each in found),
                    sum(row.load for row in rows),
                    sum(row.steps_per_second for row in rows),
                )
            )
            rows.sort(key=lambda row: (-row.load, not row.session.busy))
            return rows, list(samples)


class Console:
    """Serves the pages by HTTP, on threads that end with the process.

    Args:
        dispatcher: whose sessions are shown.
        tokens: who may look; None: who has `password`.
        port: where; 0: any free one.

    Attributes:
        password: made for this console; None where tokens are asked.
        url: where the pages are.

    Raises:
        InvalidArgument: INVALID_TARGET, the port cannot be listened on.
    """

    def __init__(self, dispatcher: Dispatcher, tokens: Tokens | None, port: int) -> None:
        self.password = new_token() if tokens is None else None
        self._tokens = tokens
        self._dispatcher = dispatcher
        self._looks = Looks(dispatcher)
        try:
            self._http = _Server((HOST, port), _handler(self))
        except OSError as error:
            raise make_error(
                "INVALID_TARGET",
                f"The console cannot listen on {HOST}:{port}: {error.strerror}. Choose another --console; 0 "
                "takes any free port.",
                actual=f"{HOST}:{port}",
            ) from None
        self.url = f"http://{HOST}:{self._http.server_port}/"
        self._thread = threading.Thread(
            target=self._http.serve_forever, args=(_POLL,), name="backhaul-console", daemon=True
        )

    def start(self) -> None:
        """Answer from now on."""
        self._thread.start()

    def close(self) -> None:
        """Answer no longer."""
        self._http.shutdown()
        self._http.server_close()
        self._thread.join()

    def principal(self, authorization: str) -> str:
        """Whose sessions a request may see.

        Raises:
            Unauthenticated: nobody's.
        """
        token = _token(authorization)
        if self._tokens is not None:
            return self._tokens.name_of(token)
        assert self.password is not None
        if not compare_digest(digest_of(token), digest_of(self.password)):
            raise unauthenticated()
        return ANYONE

    def page(self, path: str, principal: str) -> tuple[HTTPStatus, str, str]:
        """Status, content type and text of a page."""
        if path == "/style.css":
            return HTTPStatus.OK, "text/css", pages.PAGE_STYLE
        if path in ("/", "/sessions.json"):
            rows, samples = self._looks.take(principal)
            if path == "/":
                return HTTPStatus.OK, "text/html", pages.sessions_page(principal, rows, samples)
            return (
                HTTPStatus.OK,
                "application/json",
                json.dumps(pages.sessions_data(principal, rows, samples[-1])),
            )
        tape = _TAPE.fullmatch(path)
        if tape is None or len(tape[1]) % 2:
            return (
                HTTPStatus.NOT_FOUND,
                "text/html",
                pages.message_page("not found", "There is no such page."),
            )
        return self._tape(tape[1], principal, as_json=tape[2] is not None)

    def _tape(self, digest: str, principal: str, *, as_json: bool) -> tuple[HTTPStatus, str, str]:
        try:
            sight: Sight | None = self._dispatcher.look(
                principal, bytes.fromhex(digest), NODES, Call(PATIENCE)
            )
        except DeadlineExceeded:
            return (
                HTTPStatus.SERVICE_UNAVAILABLE,
                "text/html",
                pages.message_page(
                    "busy",
                    "The session computes, or is large, and could not be looked at in time. Try again.",
                ),
            )
        if sight is None:
            return (
                HTTPStatus.NOT_FOUND,
                "text/html",
                pages.message_page("not found", "There is no session of this name any more."),
            )
        if as_json:
            return HTTPStatus.OK, "application/json", json.dumps(pages.tape_data(digest, sight))
        return HTTPStatus.OK, "text/html", pages.tape_page(digest, sight)


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False

    def __init__(self, address: tuple[str, int], handler: type[BaseHTTPRequestHandler]) -> None:
        super().__init__(address, handler)
        self._room = threading.BoundedSemaphore(REQUESTS)

    def process_request(self, request: Any, client_address: Any) -> None:
        if self._room.acquire(blocking=False):
            super().process_request(request, client_address)
        else:
            self.shutdown_request(request)

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        try:
            super().process_request_thread(request, client_address)
        finally:
            self._room.release()

    def handle_error(self, request: Any, client_address: Any) -> None:
        log.debug("a request to the console broke", exc_info=True)


def _handler(console: Console) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        timeout = 10  # seconds for a request to come

        def do_GET(self) -> None:
            self._answer(with_body=True)

        def do_HEAD(self) -> None:
            self._answer(with_body=False)

        def _answer(self, *, with_body: bool) -> None:
            if not _OWN_NAMES.fullmatch(self.headers.get("Host", "")):
                self.send_error(HTTPStatus.MISDIRECTED_REQUEST)
                return
            try:
                principal = console.principal(self.headers.get("Authorization", ""))
            except BackhaulError:
                self.send_error(HTTPStatus.UNAUTHORIZED)
                return
            path = self.path.partition("?")[0]
            try:
                status, kind, text = guarded("Console", lambda: console.page(path, principal))
            except BackhaulError as error:  # an incident: the log has it
                log.info("refused", extra={"method": "Console", "reason": error.reason})
                self.send_error(HTTPStatus.INTERNAL_SERVER_ERROR)
                return
            self._send(status, kind, text, with_body=with_body)

        def send_error(
            self, code: int, message: str | None = None, explain: str | None = None
        ) -> None:
            """An error in plain words, without what was asked."""
            status = HTTPStatus(code)
            self._send(status, "text/plain", status.phrase, with_body=self.command != "HEAD")

        def _send(self, status: HTTPStatus, kind: str, text: str, *, with_body: bool) -> None:
            body = text.encode("utf-8")
            self.send_response(status)
            if status == HTTPStatus.UNAUTHORIZED:
                self.send_header("WWW-Authenticate", 'Basic realm="backhaul", charset="UTF-8"')
            self.send_header("Content-Type", f"{kind}; charset=utf-8")
            self.send_header("Content-Length", str(len(body)))
            for name, value in HEADERS.items():
                self.send_header(name, value)
            self.end_headers()
            if with_body:
                self.wfile.write(body)

        def version_string(self) -> str:
            return "backhaul"

        def log_message(self, format: str, *args: Any) -> None:
            """Nothing: of what is asked here nothing is to be found in a log."""

    return Handler


def _token(authorization: str) -> str:
    """The token that a request brings: as the password of Basic, or by Bearer; empty: none."""
    scheme, _, given = authorization.partition(" ")
    if scheme.lower() == "bearer":
        return given.strip()
    if scheme.lower() != "basic":
        return ""
    try:
        decoded = base64.b64decode(given.strip(), validate=True).decode("utf-8")
    except (binascii.Error, UnicodeDecodeError):
        return ""
    return decoded.partition(":")[2]
