"""``backhaul einsum``: one contraction with its derivatives, from files to a file."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, Final

import numpy as np
import typer

import backhaul as bh
from backhaul.commands.common import (
    Json,
    TargetOption,
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
from backhaul_proto.units import size

Array = np.ndarray[Any, Any]

_PRINTED: Final = 6
"""Elements up to which an array is printed whole."""


def einsum(
    subscripts: Annotated[str, typer.Argument(help="In einsum notation, such as 'ij,jk->ik'.")],
    files: Annotated[
        list[Path],
        typer.Argument(
            help=".npy files, one an operand; of an .npz all its arrays in order, or file.npz:NAME."
        ),
    ],
    grad: Annotated[
        bool, typer.Option("--grad", help="The gradient of the loss for each operand.")
    ] = False,
    hvp: Annotated[
        bool, typer.Option("--hvp", help="Its Hessian times the direction, for each operand.")
    ] = False,
    cotangent: Annotated[
        Path | None,
        typer.Option(help="Array W (.npy) of the result's shape; left out: ones."),
    ] = None,
    direction: Annotated[
        list[Path] | None,
        typer.Option(help="Direction v (.npy) of an operand, once for each; left out: ones."),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option("--out", "-o", help="Write value, grad_0, hvp_0, ... to this .npz."),
    ] = None,
    target: TargetOption = None,
    timeout: Annotated[
        float | None,
        typer.Option(help="Seconds to wait for the answer; left out: as long as it takes."),
    ] = None,
    token: Token = None,
    tls_ca: TlsCa = None,
    tls_cert: TlsCert = None,
    tls_key: TlsKey = None,
    tls_name: TlsName = None,
    as_json: Json = False,
) -> None:
    """Compute an einsum of arrays in files, with gradients and H·v of a loss.

    The loss is Re sum(conj(W) * result), with W all ones unless --cotangent gives it: for a result that is
    one real number, the result.

    Example: backhaul einsum "ij,jk->ik" a.npy b.npy -o c.npz

    Example: backhaul einsum "ij,jk,ki->" a.npy b.npy c.npy --grad --hvp --target localhost:50051
    """
    operands = [each for path in files for each in _read(path)]
    given = [each for path in direction or () for each in _read(path)]
    if given and len(given) != len(operands):
        fail(f"There are {len(operands)} operands and {len(given)} directions: give one for each.")
    weights = None if cotangent is None else _read(cotangent)[0]
    tls = tls_of(tls_ca, tls_cert, tls_key, tls_name)
    began = time.perf_counter()
    with connected(target, token, tls, timeout, progress=True) as connection:
        found = compute(connection, subscripts, operands, weights, given, grad=grad or hvp, hvp=hvp)
    seconds = time.perf_counter() - began
    if not grad:
        found = {name: array for name, array in found.items() if not name.startswith("grad_")}
    if out is not None:
        try:
            with open(out, "wb") as file:  # by its name, NumPy would change that
                arrays: dict[str, Any] = dict(found)
                np.savez(file, **arrays)
        except OSError as error:
            fail(f"{out} cannot be written: {error}")
    _print(connection.target, found, seconds, out, as_json=as_json)


def compute(
    connection: bh.Connection,
    subscripts: str,
    operands: Sequence[Array],
    weights: Array | None = None,
    directions: Sequence[Array] = (),
    *,
    grad: bool,
    hvp: bool,
) -> dict[str, Array]:
    """Value, gradients and H·v by their names in the file: one round trip, and a second for a large value.

    Args:
        connection: to the server.
        subscripts: the einsum.
        operands: its arrays. Integers and bools are constants, without derivatives.
        weights: W of the loss; None: ones.
        directions: one for each operand; none: ones.
        grad: whether gradients are asked.
        hvp: whether H·v is asked too.
    """
    with bh.Tape(connection) as tape:
        tensors = [
            tape.leaf(each) if each.dtype.kind in "fc" else tape.constant(each) for each in operands
        ]
        value = bh.einsum(subscripts, *tensors)
        if not grad:
            return {"value": value.numpy()}
        weighted = value if weights is None else bh.conj(tape.constant(weights)) * value
        loss = bh.sum(bh.real(weighted) if weighted.dtype.kind == "c" else weighted)
        leaves = {i: each for i, each in enumerate(tensors) if each.requires_grad}
        vectors = directions or [np.ones_like(each) for each in operands]
        found: dict[str, Array] = {}
        if hvp:
            result = tape.hvp(
                loss,
                tangents={each: vectors[i].astype(each.dtype) for i, each in leaves.items()},
                wrt=leaves.values(),
            )
            gradients = result.gradients
            found = {f"hvp_{i}": result.hvp[each] for i, each in leaves.items()}
        else:
            gradients = tape.pullback(loss, wrt=leaves.values())
        found = {f"grad_{i}": gradients[each] for i, each in leaves.items()} | found
        return {"value": value.numpy(), **found}


def _read(path: Path) -> list[Array]:
    """The arrays of a file. Nothing in it is run: pickled objects are refused."""
    text = str(path)
    name = ""
    if not path.exists() and ".npz:" in text:
        text, _, name = text.rpartition(":")
    try:
        with open(text, "rb") as file:
            found = np.load(file, allow_pickle=False)
            if not isinstance(found, np.lib.npyio.NpzFile):
                return [found]
            if name and name not in found.files:
                fail(f"{text} has no array {name!r}; it has {', '.join(found.files)}.")
            return [found[each] for each in ([name] if name else found.files)]
    except (OSError, ValueError, EOFError) as error:
        fail(f"{path} cannot be read as .npy or .npz: {error}")


def _print(
    target: str, found: dict[str, Array], seconds: float, out: Path | None, *, as_json: bool
) -> None:
    if as_json:
        print_json(
            {
                "target": target,
                "seconds": seconds,
                "out": None if out is None else str(out),
                "arrays": {name: _facts(each) for name, each in found.items()},
            }
        )
        return
    made = table("array", "shape", "dtype", "bytes", "norm", "", right=frozenset({3, 4}))
    for name, each in found.items():
        made.add_row(
            name,
            str(each.shape),
            str(each.dtype),
            size(each.nbytes),
            f"{_norm(each):.6g}",
            _some(each),
        )
    console().print(made)
    print(f"{seconds:.3f} s on {target}" + ("" if out is None else f", written to {out}"))


def _facts(array: Array) -> dict[str, Any]:
    return {
        "shape": array.shape,
        "dtype": str(array.dtype),
        "bytes": array.nbytes,
        "norm": _norm(array),
        "finite": bool(np.isfinite(array).all()),
    }


def _norm(array: Array) -> float:
    return float(np.linalg.norm(np.ravel(array)))


def _some(array: Array) -> str:
    flat = np.ravel(array)
    text = " ".join(f"{each:.6g}" for each in flat[:_PRINTED].tolist())
    return text + (" …" if flat.size > _PRINTED else "")
