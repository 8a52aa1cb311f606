"""Other libraries on a remote tape: each in one module, imported when it is asked for.

    >>> import numpy as np, backhaul as bh
    >>> objective = bh.adapters.scipy.objective(lambda x: bh.sum((x - 3.0) ** 2))
    >>> objective.fun(np.zeros(2)), objective.jac(np.zeros(2))
    (18.0, array([-6., -6.]))

| module | what it gives | needs |
| --- | --- | --- |
| `scipy` | value, gradient and H·v for ``scipy.optimize.minimize`` | |
| `jax` | a function under ``jax.grad``, ``jit``, ``jvp``, ``vmap``, ``hessian`` | ``backhaul[jax]`` |
| `torch` | a function under ``torch.autograd``, differentiable twice | ``backhaul[torch]`` |
| `pytensor` | a function in PyTensor's graphs, and so in PyMC's models | ``backhaul[pytensor]`` |
| `autoray` | what autoray, cotengra and quimb call their array functions | ``backhaul[autoray]`` |

opt_einsum needs no adapter: ``opt_einsum.contract("ij,jk->ik", a, b)`` takes tensors.
"""

from __future__ import annotations

import importlib
from importlib.util import find_spec
from types import ModuleType
from typing import Final

_NEEDS: Final = {
    "autoray": "autoray",
    "jax": "jax",
    "pytensor": "pytensor",
    "scipy": "scipy",
    "torch": "torch",
}
"""The adapters, and the library of each."""


def __getattr__(name: str) -> ModuleType:
    if name not in _NEEDS:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return importlib.import_module(f"{__name__}.{name}")


def __dir__() -> list[str]:
    # Those that can be imported: help() and completion look at each.
    return [*globals(), *(name for name, needed in _NEEDS.items() if find_spec(needed))]
