"""Rules of ops that rearrange axes: all of them permute or reshape."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from backhaul_proto.catalog.avals import Aval
from backhaul_proto.catalog.axes import moved, permutation, swapped
from backhaul_proto.catalog.ops import CATALOG, Ints
from backhaul_server.engine.ops.manipulation import Reshape
from backhaul_server.engine.rules import Array, Linear, Namespace, Rule, rule

Prepared = tuple[Rule, dict[str, Any]]


@rule("permute_dims")
class PermuteDims(Linear):
    """y has x's axes in another order; the adjoint puts them back."""

    function = "permute_dims"

    def prepare(self, avals: tuple[Aval, ...], attributes: Mapping[str, Any]) -> Prepared:
        return self, {"axes": permutation(attributes.get("axes"), avals[0].ndim)}

    def vjp(self, F: Namespace, ct: Array, y: Array, x: Array, axes: Ints) -> Any:
        back = tuple(sorted(range(len(axes)), key=axes.__getitem__))
        return (lambda: F.permute_dims(ct, axes=back),)


@rule("moveaxis")
class MoveAxis(PermuteDims):
    """y has some of x's axes moved."""

    def prepare(self, avals: tuple[Aval, ...], attributes: Mapping[str, Any]) -> Prepared:
        return self, {"axes": moved(ndim=avals[0].ndim, **attributes)}


@rule("swapaxes")
class SwapAxes(PermuteDims):
    """y has two of x's axes swapped."""

    def prepare(self, avals: tuple[Aval, ...], attributes: Mapping[str, Any]) -> Prepared:
        return self, {"axes": swapped(ndim=avals[0].ndim, **attributes)}


class Reshaping(Reshape):
    """Base of rules whose result has its operand's elements in the same order."""

    def prepare(self, avals: tuple[Aval, ...], attributes: Mapping[str, Any]) -> Prepared:
        result = CATALOG[self.name].infer(avals, **attributes)
        assert isinstance(result, Aval)
        return self, {"shape": result.shape}


@rule("squeeze")
class Squeeze(Reshaping):
    """y lacks axes of size 1."""


@rule("expand_dims")
class ExpandDims(Reshaping):
    """y has new axes of size 1."""


@rule("ravel")
class Ravel(Reshaping):
    """y has one axis."""
