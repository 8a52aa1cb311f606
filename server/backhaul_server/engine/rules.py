"""What a rule is, and the registry of them.

A rule says how an op is computed and differentiated. Its three functions stand together:

- ``forward(xp, *operands, **attributes)`` on the array namespace ``xp``;
- ``jvp(F, y, *operands, *tangents, **attributes)`` gives y's tangent; a tangent that is None is zero;
- ``vjp(F, ct, y, *operands, **attributes)`` gives one thunk an operand, of which only those run
  whose operand needs a cotangent.

``F`` is a namespace of catalog ops (`backhaul_server.engine.functions`): on plain arrays, or on
duals when H·v is asked for. As a vjp is written against it, the same lines serve both.

A cotangent that comes back with its result's broadcast shape and dtype instead of its operand's is
brought to them by the pullback: summed over broadcast axes, its real part taken for a real operand;
a tangent likewise to its result. So rules of elementwise ops need not think of it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Final, TypeVar

from backhaul_proto.catalog.avals import Aval
from backhaul_proto.catalog.ops import CATALOG, Op
from backhaul_server.engine.memory import Need, Room, elementwise_need

Array = Any
Namespace = Any
Thunk = Callable[[], Array]
Cotangents = Sequence[Array | None]


class Rule:
    """Base of all rules. A subclass may leave out jvp (then hvp through it raises HvpNotSupported)."""

    name: str
    """The op's; set when the rule is registered."""

    keeps: bool = False
    """Whether forward returns ``(y, residual)``. The residual is kept with the node, and handed as the
    keyword ``residual`` to jvp, which then returns ``(dy, dresidual)``, and to vjp."""

    selective: bool = False
    """Of a rule that keeps: whether forward has a keyword ``needs`` (for each operand whether it requires
    a gradient), so that nothing is kept in vain."""

    function: str = ""
    """Name of the namespace's function that the forward is, for a rule that has no forward of its own."""

    lift: Callable[[Namespace], Callable[..., Any]] | None = None
    """Given the plain namespace, the op on duals, for a rule with a faster way than forward and jvp."""

    forward: Callable[..., Any]
    jvp: Callable[..., Any] | None = None
    vjp: Callable[..., Any] | None = None

    def bind(self, xp: Any) -> Callable[..., Any]:
        """The forward on a namespace, as a function of operands and attributes."""
        if self.function:
            found: Callable[..., Any] = getattr(xp, self.function)
            return found
        forward = partial(self.forward, xp)
        return _without_needs(forward) if self.keeps and not self.selective else forward

    def call(self, xp: Any, **keywords: Any) -> Callable[..., Any]:
        """The forward on a namespace with these attributes, as a function of operands alone."""
        forward = self.bind(xp)
        return partial(forward, **keywords) if keywords else forward  # bare is faster

    def prepare(
        self, avals: tuple[Aval, ...], attributes: Mapping[str, Any]
    ) -> tuple[Rule, dict[str, Any]]:
        """What runs for operands of these avals, worked out once: a rule and its keyword arguments.

        The default is this rule with the attributes. Another rule may be simpler for these operands.
        """
        return self, dict(attributes)

    def prepare_within(
        self, room: Room, avals: tuple[Aval, ...], attributes: Mapping[str, Any]
    ) -> tuple[Rule, dict[str, Any]]:
        """As `prepare`, for a rule that may take so much memory.

        Only rules that can do with less, by computing something again, need to override this.
        """
        return self.prepare(avals, attributes)

    def need(self, operands: tuple[Aval, ...], results: tuple[Aval, ...], **keywords: Any) -> Need:
        """The memory that a call with these keywords takes. The default suits simple rules."""
        return elementwise_need(operands, results)

    def cotangents(
        self,
        F: Namespace,
        ct: Array,
        y: Array,
        operands: Sequence[Array],
        needs: Sequence[bool],
        **keywords: Any,
    ) -> Cotangents:
        """The operands' cotangents, None where none is needed or it is zero.

        The default runs vjp's thunks. A rule whose cotangents share work overrides this instead.
        """
        assert self.vjp is not None
        thunks = self.vjp(F, ct, y, *operands, **keywords)
        return [thunk() if need else None for thunk, need in zip(thunks, needs, strict=True)]


def _without_needs(forward: Callable[..., Any]) -> Callable[..., Any]:
    """A forward that keeps the same whatever is needed."""

    def run(*operands: Array, needs: Sequence[bool], **keywords: Any) -> Any:
        return forward(*operands, **keywords)

    return run


class Linear(Rule):
    """Base of rules that are linear in their one operand, over the reals: the jvp is the op itself."""

    def jvp(self, F: Namespace, y: Array, x: Array, dx: Array, **keywords: Any) -> Any:
        return getattr(F, self.name)(dx, **keywords)


class Bilinear(Rule):
    """Base of rules that are linear in each of two operands."""

    def jvp(
        self,
        F: Namespace,
        y: Array,
        a: Array,
        b: Array,
        da: Array | None,
        db: Array | None,
        **keywords: Any,
    ) -> Any:
        op = getattr(F, self.name)
        return plus(
            F,
            None if da is None else op(da, b, **keywords),
            None if db is None else op(a, db, **keywords),
        )


class Pointwise(Rule):
    """Base of y = f(x), element by element, that one derivative f' tells all of.

    For complex x, f is holomorphic: the cotangent is multiplied with the conjugate of f'(x).
    """

    def derivative(self, F: Namespace, y: Array, x: Array) -> Array:
        """f'(x)."""
        raise NotImplementedError

    def jvp(self, F: Namespace, y: Array, x: Array, dx: Array) -> Array:
        return F.multiply(dx, self.derivative(F, y, x))

    def vjp(self, F: Namespace, ct: Array, y: Array, x: Array) -> Any:
        return (lambda: F.multiply(ct, F.conj(self.derivative(F, y, x))),)


class Steps(Rule):
    """Base of rules that are constant between jumps: the derivative is 0 wherever there is one."""

    def jvp(self, F: Namespace, y: Array, *operands: Array, **keywords: Any) -> None:
        return None

    def cotangents(
        self,
        F: Namespace,
        ct: Array,
        y: Array,
        operands: Sequence[Array],
        needs: Sequence[bool],
        **keywords: Any,
    ) -> Cotangents:
        # Zeros, not nothing: the loss does reach the operand, and has an entry for it.
        return [zeros_like(F, x) if need else None for x, need in zip(operands, needs, strict=True)]


class NotDifferentiable(Rule):
    """Base of rules that the engine asks for no cotangent; results within a vjp are plain, never duals."""

    def jvp(self, F: Namespace, y: Array, *operands: Array, **keywords: Any) -> None:
        return None


RULES: Final[dict[str, Rule]] = {}

R = TypeVar("R", bound=Rule)


def rule(name: str) -> Callable[[type[R]], type[R]]:
    """Register the class as the rule of the catalog op ``name``."""

    def register(cls: type[R]) -> type[R]:
        if name not in CATALOG:
            raise ValueError(f"rule {name!r} has no entry in the catalog")
        if name in RULES:
            raise ValueError(f"op {name!r} has a rule already")
        RULES[name] = made = cls()
        made.name = name
        return cls

    return register


@dataclass(frozen=True, slots=True)
class Derivatives:
    """Which passes go through an op."""

    vjp: bool = False
    jvp: bool = False
    hvp: bool = False


def derivatives(entry: Op) -> Derivatives:
    """Which passes go through an op whose operands are of inexact dtype."""
    found = RULES[entry.name]
    if not entry.differentiable:
        return Derivatives()
    jvp = found.jvp is not None
    return Derivatives(vjp=True, jvp=jvp, hvp=jvp)  # H·v runs the vjp on duals, which the jvp lifts


def plus(F: Namespace, *terms: Array | None) -> Array | None:
    """The sum of the terms that are not None (zero); None when all are."""
    total = None
    for term in terms:
        if term is not None:
            total = term if total is None else F.add(total, term)
    return total


def zeros_like(F: Namespace, x: Array) -> Array:
    """Zeros of the shape and dtype of x, which may be a dual."""
    return F.xp.zeros(x.shape, dtype=x.dtype)
