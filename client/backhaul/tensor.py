"""Tensors on a tape."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any, Final, NoReturn, cast

import numpy as np
from numpy.typing import DTypeLike

from backhaul.operators import Operators
from backhaul.recording import record
from backhaul.reduction_methods import Reductions
from backhaul_proto.catalog.avals import Shape
from backhaul_proto.catalog.ops import get
from backhaul_proto.errors import make_error

if TYPE_CHECKING:
    from backhaul.tape import Tape

Array = np.ndarray[Any, Any]

SMALL: Final = 64 << 10
"""Bytes up to which a value that is known is kept with its tensor."""

_STOP_GRADIENT: Final = get("stop_gradient")


class TrackedTensor(Operators, Reductions):
    """An array on a tape's server. Shape and dtype are known here; the value comes when it is asked for.

    Made by `Tape.leaf`, `Tape.leaf_with_tangent`, `Tape.constant` and by operations on tensors, never
    directly. It takes part in NumPy's functions and operators, which record on the tape. When its last
    reference is dropped, the server may free it.

    Example:
        >>> import numpy as np, backhaul as bh
        >>> x = bh.Tape().leaf([1.0, 2.0])
        >>> y = np.add(x, 1) * x
        >>> y.shape, y.requires_grad, y.numpy()
        ((2,), True, array([2., 6.]))
    """

    __slots__ = ()

    # What is known without asking

    @property
    def shape(self) -> Shape:
        """Sizes of the axes."""
        return self._node_type.aval.shape

    @property
    def dtype(self) -> np.dtype:
        """The element type."""
        return self._node_type.aval.dtype

    @property
    def ndim(self) -> int:
        """The number of axes."""
        return self._node_type.aval.ndim

    @property
    def size(self) -> int:
        """The number of elements."""
        return self._node_type.aval.size

    @property
    def nbytes(self) -> int:
        """The bytes of its elements."""
        return self._node_type.aval.nbytes

    @property
    def node_id(self) -> int | None:
        """Its id on the tape; None when it requires no gradient."""
        return abs(self._id) if self._node_type.requires_grad else None

    @property
    def requires_grad(self) -> bool:
        """Whether it is a leaf or was computed from one."""
        return self._node_type.requires_grad

    @property
    def has_tangent(self) -> bool:
        """Whether it is a leaf with a tangent, or was computed from one."""
        return self._node_type.has_tangent

    @property
    def tape(self) -> Tape:
        """The tape that it is on."""
        return cast("Tape", self._tape)

    # Its value

    def numpy(self) -> Array:
        """The value, as an array of the caller's own. Asks the server, unless it is known and small.

        Raises:
            AutodiffError: the step failed, on its data (a singular matrix) or on that of a step before it.
            BackhaulError: the server cannot be reached, or holds the tape no more.

        Example:
            >>> import backhaul as bh
            >>> bh.Tape().leaf([1.0, 2.0]).numpy()
            array([1., 2.])
        """
        return self._tape._fetch(self)[0]

    def item(self) -> Any:
        """The only element, as a Python number.

        Raises:
            InvalidArgument: INVALID_VALUE when there is not exactly one.
        """
        self._check_single()
        return self.numpy().item()

    def _check_single(self) -> None:
        if self.size != 1:
            raise make_error(
                "INVALID_VALUE",
                f"A tensor of shape {self.shape} has {self.size} elements and is no single number. Reduce "
                "it, or take numpy().",
                actual=self.shape,
            )

    def _now(self) -> Array:
        """The value, for what cannot await it."""
        return self.numpy()

    def _number(self) -> Any:
        self._check_single()
        return self._now().item()

    def __float__(self) -> float:
        return float(self._number())

    def __complex__(self) -> complex:
        return complex(self._number())

    def __int__(self) -> int:
        return int(self._number())

    def __bool__(self) -> bool:
        if self.size != 1:
            raise make_error(
                "INVALID_VALUE",
                f"A tensor of shape {self.shape} has {self.size} elements and is no single number, true or "
                "false. Reduce it, or take numpy(). If a list was searched for a tensor: == compares "
                "elements; ask any(each is tensor for each in list).",
                actual=self.shape,
            )
        return bool(self._number())

    def __array__(self, dtype: DTypeLike | None = None, copy: bool | None = None) -> Array:
        if copy is False:
            raise ValueError("the value of a tensor is always a copy; leave copy=False out")
        caller = sys._getframe(1).f_globals.get("__name__", "")
        if self.requires_grad and caller.startswith("numpy.") and ".testing" not in caller:
            # np.asarray(tensor) asks from the user's frame; np.ma, np.vectorize or np.mean([tensor]) do not.
            raise TypeError(
                f"{caller} does not record on a tape, and would lose the gradient. Join tensors with "
                "bh.stack([...]); to take the value on purpose, give tensor.numpy() or tensor.detach()."
            )
        value = self._now()
        return value if dtype is None else value.astype(dtype, copy=False)

    def __format__(self, spec: str) -> str:
        return format(self._number(), spec) if spec and not self.shape else format(str(self), spec)

    def detach(self) -> TrackedTensor:
        """A constant with this value: no gradient flows through it.

        Example:
            >>> import backhaul as bh
            >>> bh.Tape().leaf(1.0).detach().requires_grad
            False
        """
        return record(_STOP_GRADIENT, (self,))

    def __copy__(self) -> TrackedTensor:
        return self  # a second handle on the node would release it twice

    def __deepcopy__(self, memo: Any) -> NoReturn:
        raise TypeError("a tensor cannot be copied; take its value with numpy(), or add 0 to it")

    def __reduce__(self) -> NoReturn:
        raise TypeError(
            "a tensor cannot be pickled: it lives on its tape's server. Send its value, numpy()"
        )

    def __repr__(self) -> str:
        try:
            return f"TrackedTensor({self._facts()})"
        except Exception:
            return object.__repr__(self)

    def _facts(self) -> str:
        node = abs(self._id)
        core = self._tape._core
        facts = [f"shape={self.shape}", f"dtype={self.dtype}"]
        facts.append(f"node_id={node}" if self.requires_grad else "constant")
        reason = core.failures.reason(node)
        if self._id < 0:
            facts.append("released")
        elif core.closed:
            facts.append("tape closed")
        elif reason is not None:
            facts.append(f"failed: {reason}")
        elif self._value is not None:
            facts.append(f"value={np.array2string(self._value, threshold=20, separator=', ')}")
        return ", ".join(facts)
