"""Derivatives of functions: `grad`, `jacobian`, `hvp` and the others, with the names and manners of JAX.

A function is recorded on a tape that nobody sees, and its derivative asked for in the same round trip. It is
called each time, as Python is; `jit` keeps its steps instead.
"""

from backhaul.functional.compiling import Jitted, jit
from backhaul.functional.gradients import grad, value_and_grad
from backhaul.functional.jacobians import hessian, jacobian

__all__ = ["Jitted", "grad", "hessian", "jacobian", "jit", "value_and_grad"]
