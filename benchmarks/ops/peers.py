"""What NumPy, SciPy, JAX and torch call an op, and the same questions put to them.

A peer's function is found by the op's name or an alias. One that does not take the operands, or whose
answer differs from ours, is another function, and no job is made of it. As ours do, jobs of gradients
compute the value too, and those of H·v both: a compiler would leave out what is not returned.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Final

import numpy as np

from backhaul_proto.catalog.ops import Op, Sample

Array = np.ndarray[Any, Any]
Job = Callable[[], object]

_SPACES: Final = {
    "numpy": ("numpy", "scipy.special", "numpy.linalg", "scipy.linalg"),
    "jax": ("jax.numpy", "jax.scipy.special", "jax.nn", "jax.numpy.linalg", "jax.scipy.linalg"),
    "torch": ("torch", "torch.special", "torch.nn.functional", "torch.linalg"),
}
_AGREE: Final = 1e-7


def installed(peer: str) -> bool:
    """Whether the library is there; JAX is set to double precision."""
    try:
        library = importlib.import_module(peer)
    except ImportError:
        return False
    if peer == "jax":
        library.config.update("jax_enable_x64", True)
    return True


def jobs(
    peer: str, op: Op, sample: Sample, arrays: Sequence[Array], expected: dict[str, Any]
) -> dict[str, Job]:
    """Jobs by question, of those in ``expected`` that the peer answers as we do.

    Args:
        peer: numpy, jax or torch.
        op: the entry.
        sample: for its attributes.
        arrays: the operands.
        expected: our answers: the value, the gradients, the H·v.
    """
    make = {"numpy": _numpy, "jax": _jax, "torch": _torch}[peer]
    found: dict[str, Job] = {}
    for function in _functions(peer, op):
        called = partial(function, **sample.attributes) if sample.attributes else function
        f = (lambda *xs, called=called: called(list(xs))) if op.variadic else called
        for question, job in make(f, arrays).items():
            if (
                question in expected
                and question not in found
                and _same(job, question, expected[question])
            ):
                found[question] = job
    return found


def _functions(peer: str, op: Op) -> list[Callable[..., Any]]:
    in_linalg = op.name.startswith("linalg.")
    spaces = [s for s in _SPACES[peer] if s.endswith("linalg") == in_linalg]
    names = [each.rpartition(".")[2] for each in (op.name, *op.aliases)]
    loaded = [importlib.import_module(space) for space in spaces]
    found = [getattr(space, name, None) for space in loaded for name in names]
    return [each for each in found if callable(each)]


def _same(job: Callable[[], Any], question: str, expected: Any) -> bool:
    try:
        with np.errstate(all="ignore"):
            found = job()
        if question != "value":
            found = found[-1]  # after the value, and the gradients
        ours, theirs = _flat(expected), _flat(found)
        return len(ours) == len(theirs) and all(
            a.shape == b.shape and np.allclose(a, b, rtol=_AGREE, atol=_AGREE, equal_nan=True)
            for a, b in zip(ours, theirs, strict=True)
        )
    except Exception:  # whatever a function of the same name says to operands not its own
        return False


def _flat(found: Any) -> list[Array]:
    several = found if isinstance(found, (tuple, list)) else (found,)
    return [np.asarray(each.detach() if hasattr(each, "detach") else each) for each in several]


def _last(found: Any) -> Any:
    return found[-1] if isinstance(found, (tuple, list)) else found


def _numpy(f: Callable[..., Any], arrays: Sequence[Array]) -> dict[str, Job]:
    return {"value": partial(f, *arrays)}


def _jax(f: Callable[..., Any], arrays: Sequence[Array]) -> dict[str, Job]:
    jax = importlib.import_module("jax")
    given = [jax.numpy.asarray(x) for x in arrays]
    real = tuple(i for i, x in enumerate(arrays) if x.dtype.kind == "f")
    leaves, ones = [given[i] for i in real], [jax.numpy.ones_like(given[i]) for i in real]

    def loss(*xs: Any) -> Any:
        all_given = list(given)
        for i, x in zip(real, xs, strict=True):
            all_given[i] = x
        return jax.numpy.sum(jax.numpy.real(_last(f(*all_given))))

    gradient = jax.value_and_grad(loss, argnums=tuple(range(len(real))))

    def hvp(xs: Any, vs: Any) -> Any:
        (value, gradients), (_, products) = jax.jvp(gradient, xs, vs)
        return value, gradients, products

    compiled = {
        "value": (jax.jit(f), given),
        "gradient": (jax.jit(gradient), leaves),
        "hvp": (jax.jit(hvp), [tuple(leaves), tuple(ones)]),
    }
    return {question: partial(_awaited, jax, g, xs) for question, (g, xs) in compiled.items()}


def _awaited(jax: Any, function: Callable[..., Any], arrays: Sequence[Any]) -> object:
    return jax.block_until_ready(function(*arrays))


def _torch(f: Callable[..., Any], arrays: Sequence[Array]) -> dict[str, Job]:
    """H·v is reverse over reverse, and so there is none of an op whose gradient is constant."""
    torch = importlib.import_module("torch")
    given = [torch.from_numpy(x) for x in arrays]
    grad = torch.autograd.grad

    def loss() -> tuple[Any, list[Any]]:
        xs = [x.detach().requires_grad_(x.is_floating_point()) for x in given]
        return torch.real(_last(f(*xs))).sum(), [x for x in xs if x.requires_grad]

    def gradient() -> object:
        value, leaves = loss()
        return value, grad(value, leaves)

    def hvp() -> object:
        value, leaves = loss()
        gradients = grad(value, leaves, create_graph=True)
        return value, gradients, grad(sum(each.sum() for each in gradients), leaves)

    return {"value": lambda: f(*given), "gradient": gradient, "hvp": hvp}
