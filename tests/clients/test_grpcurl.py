"""docs/grpcurl.md: every call is made as it is written, by messages that reflection told of."""

from __future__ import annotations

import hashlib
import json
import shutil
import subprocess
from base64 import b64decode, b64encode
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import grpc
import pytest
from google.protobuf import json_format, message_factory, text_format
from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.descriptor_pool import DescriptorPool
from google.rpc import error_details_pb2, status_pb2
from grpc_reflection.v1alpha.proto_reflection_descriptor_database import (
    ProtoReflectionDescriptorDatabase,
)
from tests.access.authority import Authority, Pair, serving
from tests.clients.grpcurl_page import (
    MORE,
    PAGE,
    Grpcurl,
    Recipe,
    agrees,
    blocks,
    error,
    grpcurl,
    recipes,
)

from backhaul_proto.tokens import line_of, new_token
from backhaul_server.service.certificates import Certificates

TEXT = PAGE.read_text("utf-8")
RECIPES = list(recipes(TEXT))
SECONDS = 120


class Answered(NamedTuple):
    """What a command printed, as far as it can be told without grpcurl."""

    lines: list[str]
    message: dict[str, Any] | None = None
    status: tuple[str, str, list[Any]] | None = None


class Metadata(grpc.UnaryUnaryClientInterceptor, grpc.StreamStreamClientInterceptor):
    """Sends headers with every call, as grpcurl does, reflection included."""

    def __init__(self, headers: list[tuple[str, str]]) -> None:
        self._headers = headers

    def _with(self, details: Any) -> Any:
        return details._replace(metadata=self._headers)

    def intercept_unary_unary(self, continuation: Any, details: Any, request: Any) -> Any:
        return continuation(self._with(details), request)

    def intercept_stream_stream(self, continuation: Any, details: Any, requests: Any) -> Any:
        return continuation(self._with(details), requests)


class Reflected:
    """A server, known by reflection alone."""

    def __init__(self, channel: grpc.Channel) -> None:
        self._channel = channel
        self._database = ProtoReflectionDescriptorDatabase(channel)
        self._pool = DescriptorPool(self._database)

    def do(self, command: Grpcurl) -> Answered:
        match command.words:
            case ["list"]:
                return Answered(sorted(self._database.get_services()))
            case ["list", service]:
                methods = self._pool.FindServiceByName(service).methods
                return Answered(sorted(each.full_name for each in methods))
            case ["describe", name]:
                return Answered(self._described(name))
            case [call]:
                return self._called(call, command.request)
        raise AssertionError(command)

    def message(self, name: str) -> Any:
        return message_factory.GetMessageClass(self._pool.FindMessageTypeByName(name))()

    def _described(self, name: str) -> list[str]:
        holder, _, last = name.rpartition(".")
        try:
            method = self._pool.FindServiceByName(holder).methods_by_name[last]
        except KeyError:
            message = self._pool.FindMessageTypeByName(name)
            kinds = {FieldDescriptor.TYPE_BYTES: "bytes"}
            fields = [
                f"  {kinds[each.type]} {each.name} = {each.number};" for each in message.fields
            ]
            return [f"{name} is a message:", f"message {message.name} {{", *fields, "}"]
        asked, answered = method.input_type.full_name, method.output_type.full_name
        return [f"{name} is a method:", f"rpc {method.name} ( .{asked} ) returns ( .{answered} );"]

    def _called(self, call: str, request: dict[str, Any]) -> Answered:
        service, _, name = call.partition("/")
        method = self._pool.FindServiceByName(service).methods_by_name[name]
        message = self.message(method.input_type.full_name)
        json_format.ParseDict(request, message, descriptor_pool=self._pool)
        answer = message_factory.GetMessageClass(method.output_type)
        stub: Any = self._channel.unary_unary(
            f"/{call}", type(message).SerializeToString, answer.FromString
        )
        try:
            answered = stub(message, timeout=SECONDS)
        except grpc.RpcError as refused:
            return Answered([], status=self._status(refused))
        found = json_format.MessageToDict(answered, descriptor_pool=self._pool)
        return Answered([], message=found)

    def _status(self, refused: Any) -> tuple[str, str, list[Any]]:
        """As grpcurl tells it: what the details are is asked for by reflection too."""
        trailers = dict(refused.trailing_metadata())
        status = status_pb2.Status.FromString(trailers["grpc-status-details-bin"])
        details = json_format.MessageToDict(status, descriptor_pool=self._pool)["details"]
        code = "".join(each.capitalize() for each in refused.code().name.split("_"))
        return code, status.message, details


class Servers(NamedTuple):
    """One in the clear, one that asks for a token, one that asks for a certificate."""

    plain: str
    token: str
    mutual: str
    authority: Authority
    alice: Pair
    secret: str

    def channel(self, command: Grpcurl) -> grpc.Channel:
        """To the one that a command is for, by its options."""
        headers = [
            (name, value.replace("$BACKHAUL_TOKEN", self.secret)) for name, value in command.headers
        ]
        if "-plaintext" in command.options:
            assert "-cacert" not in command.options
            channel = grpc.insecure_channel(self.plain)
        elif "-cert" in command.options:
            key, certificate = self.alice.pem
            roots = self.authority.roots.read_bytes()
            credentials = grpc.ssl_channel_credentials(roots, key, certificate)
            channel = grpc.secure_channel(self.mutual, credentials)
        else:
            credentials = grpc.ssl_channel_credentials(self.authority.roots.read_bytes())
            channel = grpc.secure_channel(self.token, credentials)
        return grpc.intercept_channel(channel, Metadata(headers))


@pytest.fixture(scope="module")
def servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Servers]:
    folder = tmp_path_factory.mktemp("grpcurl")
    authority = Authority(folder)
    shown = authority.issue("127.0.0.1")
    secret, tokens = new_token(), folder / "tokens"
    tokens.write_text(line_of("alice", secret) + "\n", "utf-8")
    plain = Certificates(shown.certificate, shown.key)
    mutual = Certificates(shown.certificate, shown.key, authority.roots)
    with (
        serving() as first,
        serving(tokens=tokens, certificates=plain) as second,
        serving(certificates=mutual) as third,
    ):
        places = [each.targets[0].partition("://")[2] for each in (first, second, third)]
        alice = authority.issue("alice", common_name="alice")
        yield Servers(places[0], places[1], places[2], authority, alice, secret)


def check(recipe: Recipe, answered: Answered) -> None:
    if recipe.kind == "json":
        assert agrees(json.loads(recipe.shown), answered.message), answered
    elif recipe.shown.startswith("ERROR:"):
        assert answered.status is not None, answered
        assert agrees(list(error(recipe.shown)), list(answered.status)), answered
    else:
        shown = recipe.shown.splitlines()
        if shown[-1] == MORE:
            assert set(shown[:-1]) <= set(answered.lines)
        else:
            assert shown == answered.lines


def test_every_call_answers_as_the_page_says(servers: Servers) -> None:
    """In the order of the page: later calls use what earlier ones made."""
    made = [each for each in RECIPES if each.is_grpcurl]
    assert len(made) > 15
    for recipe in made:
        command = grpcurl(recipe.command)
        with servers.channel(command) as channel:
            check(recipe, Reflected(channel).do(command))


def test_metadata_names_the_session_of_its_message() -> None:
    found = 0
    for recipe in RECIPES:
        if recipe.is_grpcurl:
            command = grpcurl(recipe.command)
            session = command.request.get("session")
            named = dict(command.headers).get("backhaul-session")
            assert named == (b64decode(session["id"]).hex() if session else None), recipe
            found += session is not None
    assert found > 5


@pytest.mark.parametrize("recipe", [each for each in RECIPES if not each.is_grpcurl], ids=str)
def test_commands_around_them_print_what_the_page_says(recipe: Recipe) -> None:
    programs = {part.split()[0] for part in recipe.command.split(" | ")}
    lacking = sorted(each for each in programs if shutil.which(each) is None)
    if lacking:
        pytest.skip(f"not installed: {', '.join(lacking)}")
    ((_, block),) = [each for each in blocks(TEXT) if each[0] == "textproto"]
    command = recipe.command.replace("< block.txt", "")
    done = subprocess.run(
        ["sh", "-c", command],
        input=block,
        capture_output=True,
        text=True,
        check=True,
        cwd=Path(__file__).parents[2],
        timeout=SECONDS,
    )
    assert done.stdout.split() == recipe.shown.split()


def test_block_and_hash_are_those_of_its_text(servers: Servers) -> None:
    ((_, text),) = [each for each in blocks(TEXT) if each[0] == "textproto"]
    with grpc.insecure_channel(servers.plain) as channel:
        block = text_format.Parse(text, Reflected(channel).message("backhaul.v1.Block"))
    data = block.SerializeToString()
    sent = [
        grpcurl(each.command).request["block"]
        for each in RECIPES
        if each.is_grpcurl and each.command.endswith("/Execute")
    ]
    hashed = b64encode(hashlib.sha256(data).digest()).decode()
    assert sent == [{"hash": hashed, "block": b64encode(data).decode(), "base_id": 1}]


def test_reflection_tells_nobody_that_is_not_known(servers: Servers) -> None:
    roots = grpc.ssl_channel_credentials(servers.authority.roots.read_bytes())
    with grpc.secure_channel(servers.token, roots) as channel:
        with pytest.raises(grpc.RpcError) as caught:
            ProtoReflectionDescriptorDatabase(channel).get_services()
        refused: Any = caught.value
        assert refused.code() is grpc.StatusCode.UNAUTHENTICATED


def test_details_are_told_by_reflection(servers: Servers) -> None:
    with grpc.insecure_channel(servers.plain) as channel:
        told = Reflected(channel).message("google.rpc.ErrorInfo").DESCRIPTOR
    assert told is not error_details_pb2.ErrorInfo.DESCRIPTOR
    assert [each.name for each in told.fields] == ["reason", "domain", "metadata"]
