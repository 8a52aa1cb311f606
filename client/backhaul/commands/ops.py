"""``backhaul ops``: what a server can compute."""

from __future__ import annotations

from typing import Annotated, Any

import typer
from rich.text import Text

from backhaul.commands.common import (
    Json,
    Target,
    Timeout,
    TlsCa,
    TlsCert,
    TlsKey,
    TlsName,
    Token,
    connected,
    console,
    fail,
    print_json,
    table,
    tls_of,
)
from backhaul.server_ops import OpInfo


def ops(
    target: Target = None,
    describe: Annotated[
        str | None, typer.Option(metavar="NAME", help="One op, with all that is known of it.")
    ] = None,
    like: Annotated[
        str, typer.Option(metavar="TEXT", help="Those whose name or description has this text.")
    ] = "",
    timeout: Timeout = 5.0,
    token: Token = None,
    tls_ca: TlsCa = None,
    tls_cert: TlsCert = None,
    tls_key: TlsKey = None,
    tls_name: TlsName = None,
    as_json: Json = False,
) -> None:
    """List the ops of a server, its plugins' too; without a target those of this installation.

    Example: backhaul ops localhost:50051

    Example: backhaul ops --like solve

    Example: backhaul ops --describe einsum
    """
    tls = tls_of(tls_ca, tls_cert, tls_key, tls_name)
    with connected(target, token, tls, timeout) as connection:
        found = connection.ops()
    if describe is not None:
        by_name = {each.name: each for each in found}
        if describe not in by_name:
            near = ", ".join(each.name for each in found if describe in each.name)
            fail(
                f"The server has no op {describe!r}. "
                + (f"It has {near}." if near else "backhaul ops lists those that it has.")
            )
        _describe(by_name[describe], as_json=as_json)
        return
    chosen = [each for each in found if like.lower() in f"{each.name} {each.doc}".lower()]
    if as_json:
        print_json({"target": connection.target, "ops": [_facts(each) for each in chosen]})
        return
    if not chosen:
        fail(f"No op of {connection.target} has {like!r} in its name or description.")
    made = table("op", "operands", "attributes", "gradient", "H·v", "what it computes")
    for each in chosen:
        made.add_row(
            each.name,
            ", ".join(each.operands),
            ", ".join(attribute.name for attribute in each.attributes),
            _yes(each.has_vjp),
            _yes(each.has_jvp),
            Text(each.doc.partition("\n")[0]),
        )
    console().print(made)


def _describe(op: OpInfo, *, as_json: bool) -> None:
    if as_json:
        print_json(_facts(op))
        return
    print(f"{op.name}({', '.join(op.operands)})\n\n{op.doc.strip()}\n")
    if op.attributes:
        made = table("attribute", "type", "", "what it is")
        for each in op.attributes:
            need = "required" if each.required else f"default {each.default}"
            made.add_row(each.name, each.type, need, Text(each.doc))
        console().print(made)
        print()
    if op.support:
        made = table("operands of", "gradient", "J·v", "H·v")
        for dtype, has in op.support.items():
            made.add_row(dtype, _yes(has.vjp), _yes(has.jvp), _yes(has.hvp))
        console().print(made)


def _yes(is_so: bool) -> str:
    return "yes" if is_so else "-"


def _facts(op: OpInfo) -> dict[str, Any]:
    return {
        "name": op.name,
        "operands": op.operands,
        "attributes": [
            {"name": each.name, "type": each.type, "required": each.required, "doc": each.doc}
            for each in op.attributes
        ],
        "gradient": op.has_vjp,
        "hvp": op.has_jvp,
        "doc": op.doc,
    }
