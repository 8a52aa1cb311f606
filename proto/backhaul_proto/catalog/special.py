"""Special functions of each element, by SciPy's names."""

from __future__ import annotations

from backhaul_proto.catalog.avals import Aval
from backhaul_proto.catalog.ops import Attribute, Op, Sample, register
from backhaul_proto.catalog.pointwise import REAL, binary, floats, unary
from backhaul_proto.catalog.shapes import broadcasting_floats


def _polygamma(avals: tuple[Aval, ...], order: int) -> Aval:
    return floats(avals)


unary("erf", "The error function of each element.", kinds=REAL)
unary("erfc", "1 - erf(x) of each element, accurate where it is near 0.", kinds=REAL)
unary("erfinv", "The inverse of the error function of each element.", kinds=REAL, domain="unit")
unary(
    "lgamma",
    "The logarithm of the absolute value of the gamma function of each element.",
    kinds=REAL,
    domain="positive",
    aliases=("gammaln",),
)
unary(
    "digamma",
    "The derivative of `lgamma` of each element.",
    kinds=REAL,
    domain="positive",
    aliases=("psi",),
)
register(
    Op(
        "polygamma",
        ("x",),
        _polygamma,
        "The derivative of `digamma` of the given order, at least 1.",
        attributes=(Attribute("order", "int", required=True),),
        floating=True,
        kinds=REAL,
        private=True,
        samples=(Sample(((2, 3),), {"order": 1}, domain="positive"),),
    )
)
binary(
    "xlogy",
    "x1 log(x2), element by element, and 0 where x1 is 0.\n\n"
    "Where x1 is 0 and x2 is not positive, both derivatives are 0.",
    infer=broadcasting_floats,
    domain=("any", "positive"),
    kinds=REAL,
)
binary(
    "xlog1py",
    "x1 log(1 + x2), element by element, and 0 where x1 is 0.\n\n"
    "Where x1 is 0 and x2 is not above -1, both derivatives are 0.",
    infer=broadcasting_floats,
    domain=("any", "positive"),
    kinds=REAL,
)
