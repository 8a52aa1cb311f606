"""What Tesseract's runtime serves: the job, value and vector-Jacobian product, by hand in NumPy."""

import importlib
from typing import Any

import numpy as np
from pydantic import create_model

# Not imported by name: where types are checked it is not installed.
_runtime: Any = importlib.import_module("tesseract_core.runtime")
_Matrix: Any = _runtime.Array[(None, None), _runtime.Float64]
_Loss: Any = _runtime.Differentiable[_runtime.Float64]
_Operand: Any = _runtime.Differentiable[_Matrix]

InputSchema: Any = create_model(
    "InputSchema", a=(_Operand, ...), b=(_Operand, ...), with_gradients=(bool, False)
)
OutputSchema: Any = create_model("OutputSchema", loss=(_Loss, ...), gradients=(list[_Matrix], []))


def apply(inputs: Any) -> Any:
    c = inputs.a @ inputs.b
    loss = np.vdot(c, c)
    if not inputs.with_gradients:
        return OutputSchema(loss=loss)
    ct = 2.0 * c
    return OutputSchema(loss=loss, gradients=[ct @ inputs.b.T, inputs.a.T @ ct])


def vector_jacobian_product(
    inputs: Any, vjp_inputs: set[str], vjp_outputs: set[str], cotangent_vector: dict[str, Any]
) -> dict[str, Any]:
    ct = 2.0 * cotangent_vector["loss"] * (inputs.a @ inputs.b)
    gradients = {"a": lambda: ct @ inputs.b.T, "b": lambda: inputs.a.T @ ct}
    return {name: gradients[name]() for name in vjp_inputs}
