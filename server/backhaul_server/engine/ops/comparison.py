"""Rules of comparisons and logic on each element: nothing is differentiated."""

from __future__ import annotations

from backhaul_server.engine.rules import NotDifferentiable, rule


@rule("equal")
class Equal(NotDifferentiable):
    """y = (a == b)."""

    function = "equal"


@rule("not_equal")
class NotEqual(NotDifferentiable):
    """y = (a != b)."""

    function = "not_equal"


@rule("less")
class Less(NotDifferentiable):
    """y = (a < b)."""

    function = "less"


@rule("less_equal")
class LessEqual(NotDifferentiable):
    """y = (a <= b)."""

    function = "less_equal"


@rule("greater")
class Greater(NotDifferentiable):
    """y = (a > b)."""

    function = "greater"


@rule("greater_equal")
class GreaterEqual(NotDifferentiable):
    """y = (a >= b)."""

    function = "greater_equal"


@rule("logical_and")
class LogicalAnd(NotDifferentiable):
    """y = a and b."""

    function = "logical_and"


@rule("logical_or")
class LogicalOr(NotDifferentiable):
    """y = a or b."""

    function = "logical_or"


@rule("logical_xor")
class LogicalXor(NotDifferentiable):
    """y = just one of a and b."""

    function = "logical_xor"


@rule("logical_not")
class LogicalNot(NotDifferentiable):
    """y = not x."""

    function = "logical_not"


@rule("isfinite")
class IsFinite(NotDifferentiable):
    """y: x is neither infinite nor NaN."""

    function = "isfinite"


@rule("isinf")
class IsInf(NotDifferentiable):
    """y: x is infinite."""

    function = "isinf"


@rule("isnan")
class IsNan(NotDifferentiable):
    """y: x is NaN."""

    function = "isnan"


@rule("bitwise_and")
class BitwiseAnd(NotDifferentiable):
    """y = a & b."""

    function = "bitwise_and"


@rule("bitwise_or")
class BitwiseOr(NotDifferentiable):
    """y = a | b."""

    function = "bitwise_or"


@rule("bitwise_xor")
class BitwiseXor(NotDifferentiable):
    """y = a ^ b."""

    function = "bitwise_xor"


@rule("bitwise_invert")
class BitwiseInvert(NotDifferentiable):
    """y = ~x."""

    function = "bitwise_invert"
