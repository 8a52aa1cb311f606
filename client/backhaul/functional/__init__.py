"""Derivatives of functions: `grad`, `jacobian`, `hvp` and the others, with the names and manners of JAX.

A function is recorded on a tape that nobody sees, and its derivative asked for in the same round trip. It is
called each time, as Python is; `jit` keeps its steps instead.
"""

from backhaul.functional.batching import batched
from backhaul.functional.compiling import jit
from backhaul.functional.gradients import grad, value_and_grad
from backhaul.functional.jacobians import hessian, jacobian, value_grad_and_hessian
from backhaul.functional.products import HessianProduct, gauss_newton_product, hvp, jvp
from backhaul.functional.pulling import Pullback, vjp

__all__ = [
    "HessianProduct",
    "Pullback",
    "batched",
    "gauss_newton_product",
    "grad",
    "hessian",
    "hvp",
    "jacobian",
    "jit",
    "jvp",
    "value_and_grad",
    "value_grad_and_hessian",
    "vjp",
]
