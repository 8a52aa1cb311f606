"""What an op is: its name, operands, typed attributes and the shapes and dtypes of its results.

An entry holds no numerics. The server's rule of the same name computes and differentiates it.
"""

from __future__ import annotations

import difflib
import operator
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Literal

import numpy as np

from backhaul_proto.bounds import MAX_NAME_BYTES, check_count
from backhaul_proto.catalog.avals import (
    BOOL,
    INEXACT,
    INTEGER,
    MAX_BYTES,
    MAX_RANK,
    SUPPORTED,
    Aval,
    is_array_shape,
)
from backhaul_proto.catalog.index import Index, canonical_index
from backhaul_proto.errors import BackhaulError, make_error
from backhaul_proto.kept_calls import kept_by_size, weight

Ints = tuple[int, ...]
AttributeValue = bool | int | float | str | np.dtype | tuple[Any, ...] | Index
Attributes = tuple[tuple[str, AttributeValue], ...]
"""Bound attributes: (name, value) pairs in the order of the entry, hashable; those that are None left out."""

AttributeKind = Literal[
    "bool", "int", "float", "string", "dtype", "ints", "axes", "int_lists", "paired_axes", "index"
]
Infer = Callable[..., Aval | tuple[Aval, ...]]


@dataclass(frozen=True, slots=True)
class Attribute:
    """A static argument of an op.

    ``axes`` is an int or a list of ints; ``int_lists`` a list of lists of ints; ``paired_axes`` an int,
    or a list of ints and lists of ints; ``index`` what stands between the brackets of x[...], its arrays
    apart (`catalog.index`).
    """

    name: str
    kind: AttributeKind
    default: Any = None
    required: bool = False
    keyword_only: bool = True
    doc: str = ""


Domain = Literal[
    "any",
    "positive",
    "nonzero",
    "unit",
    "above_one",
    "distinct",
    "hermitian",
    "positive_definite",
    "well_conditioned",
    "lower_triangular",
    "upper_triangular",
]
"""From where a sample's numbers are drawn. ``nonzero`` and ``distinct`` keep away from kinks at 0 and
at ties; ``unit`` is within (-1, 1); the last five are of matrices."""


@dataclass(frozen=True, slots=True)
class Sample:
    """Operand shapes and attributes that the generated tests try, and from where the numbers are drawn.

    Attributes:
        shapes: of the operands.
        attributes: of the op.
        domain: one for all operands, or one for each.
        constants: operands, by position, that are no leaves but these integers or bools.
        kinds: dtype kinds that the sample is tried in, of those that the op takes.
    """

    shapes: tuple[tuple[int, ...], ...]
    attributes: Mapping[str, Any] = field(default_factory=dict)
    domain: Domain | tuple[Domain, ...] = "any"
    constants: Mapping[int, Any] = field(default_factory=dict)
    kinds: str = "fc"


@dataclass(frozen=True, slots=True, eq=False)
class Op:
    """One entry of the catalog.

    Attributes:
        name: as in ``bh.apply(name, ...)``, ListOps and the wire.
        operands: names of the array arguments; one that starts with ``*`` takes any number.
        infer: ``infer(avals, **attributes)`` gives the result's aval, or a tuple of them for an op
            with several results; raises InvalidArgument.
        doc: first line says what; the rest is the body of the Python function's docstring.
        promotes: operands are brought to one dtype, and Python scalars among them are weak: all
            operands, or those at these positions.
        floating: integer and bool operands (of those that are promoted) are computed with as float64.
        kinds: the NumPy dtype kinds that operands may have.
        several: whether it gives a tuple of results, be it of one.
        private: a helper of rules, not callable by users.
        differentiable: whether results of inexact dtype require a gradient when an operand does.
        aliases: further names of its Python function, NumPy's own where the array API has another;
            ``linalg.name`` is one in the module linalg.
        gauge: whether results are defined up to a gauge only (signs, phases, rotations); derivatives
            of such results have tests of their own.
    """

    name: str
    operands: tuple[str, ...]
    infer: Infer
    doc: str
    attributes: tuple[Attribute, ...] = ()
    promotes: bool | tuple[int, ...] = False
    floating: bool = False
    kinds: str = "biufc"
    several: bool = False
    private: bool = False
    differentiable: bool = True
    gauge: bool = False
    aliases: tuple[str, ...] = ()
    samples: tuple[Sample, ...] = ()

    @property
    def variadic(self) -> bool:
        """Whether the op takes any number of operands."""
        return bool(self.operands) and self.operands[-1].startswith("*")

    @property
    def dtypes(self) -> tuple[np.dtype, ...]:
        """The dtypes that operands may have, those with gradients first."""
        return tuple(dtype for dtype in (*INEXACT, *INTEGER, BOOL) if dtype.kind in self.kinds)

    def promotes_operand(self, position: int) -> bool:
        """Whether the operand takes part in promotion."""
        promotes = self.promotes
        return promotes if isinstance(promotes, bool) else position in promotes


_DTYPE_NAME: Final = re.compile(r"[<>=|]?[A-Za-z]{1,16}[0-9]{0,4}_?", re.ASCII)

CATALOG: Final[dict[str, Op]] = {}


def register(entry: Op) -> Op:
    """Put an entry into the catalog; its name must be new."""
    if entry.name in CATALOG:
        raise ValueError(f"op {entry.name!r} is in the catalog already")
    CATALOG[entry.name] = entry
    return entry


def get(name: str) -> Op:
    """The public entry of this name, or InvalidArgument (UNKNOWN_OP) that names the nearest."""
    entry = CATALOG.get(name)
    if entry is None or entry.private:
        check_count("bytes in the name of an op", len(name), MAX_NAME_BYTES)
        public = [op.name for op in CATALOG.values() if not op.private]
        near = difflib.get_close_matches(name, public, n=3, cutoff=0.4)
        hint = f"; did you mean {' or '.join(near)}?" if near else "; bh.ops() lists what there is."
        raise make_error("UNKNOWN_OP", f"There is no op named {name!r}{hint}", op=name)
    return entry


def by_name(pairs: Attributes, op: str) -> Mapping[str, AttributeValue]:
    """Attributes as they came, not yet bound, by name; one given twice is INVALID_ATTRIBUTE."""
    mapping = dict(pairs)
    if len(mapping) != len(pairs):
        raise make_error("INVALID_ATTRIBUTE", f"{op}: an attribute is given twice.", op=op)
    return mapping


def bind(entry: Op, given: Mapping[str, Any]) -> Attributes:
    """Check attributes against the entry, fill in defaults, and bring them to their hashable form."""
    values = dict(given)
    bound: list[tuple[str, AttributeValue]] = []
    for spec in entry.attributes:
        value = values.pop(spec.name, None if spec.required else spec.default)
        if value is None:
            if spec.required:
                raise make_error(
                    "INVALID_ATTRIBUTE",
                    f"{entry.name} needs the attribute {spec.name} ({spec.kind}).",
                    op=entry.name,
                    attribute=spec.name,
                )
            continue
        bound.append((spec.name, _canonical(entry, spec, value)))
    if values:
        names = ", ".join(spec.name for spec in entry.attributes) or "none"
        raise make_error(
            "INVALID_ATTRIBUTE",
            f"{entry.name} has no attribute {', '.join(sorted(values))}; it takes: {names}.",
            op=entry.name,
            attribute=next(iter(values)),
        )
    return tuple(bound)


def infer(entry: Op, attributes: Attributes, avals: tuple[Aval, ...]) -> tuple[Aval, ...]:
    """Result avals of the op for these operands, without running it. Kept by arguments.

    Raises:
        InvalidArgument: the operands or attributes cannot be right; names op and operand.
    """
    try:
        return _infer(entry, attributes, avals)
    except BackhaulError as error:
        error.details.setdefault("op", entry.name)
        raise


def weigh_call(entry: Op, attributes: Attributes, avals: tuple[Aval, ...]) -> int:
    """About how many numbers the arguments of an op have."""
    return len(avals) + sum(weight(value) for _, value in attributes)


@kept_by_size(16384, weigh_call)
def _infer(entry: Op, attributes: Attributes, avals: tuple[Aval, ...]) -> tuple[Aval, ...]:
    count, fixed = len(avals), len(entry.operands)
    if (count < fixed - 1) if entry.variadic else (count != fixed):
        wanted = f"at least {fixed - 1}" if entry.variadic else str(fixed)
        raise make_error(
            "OPERAND_COUNT",
            f"{entry.name} takes {wanted} operand(s) ({', '.join(entry.operands)}), {count} given.",
            op=entry.name,
            expected=wanted,
            actual=count,
        )
    for position, each in enumerate(avals):
        if each.dtype.kind not in entry.kinds:
            raise make_error(
                "DTYPE_NOT_SUPPORTED",
                f"{entry.name} does not take {each.dtype} arrays (operand {position}).",
                op=entry.name,
                operand=position,
                actual=each.dtype,
            )
    result = entry.infer(avals, **dict(attributes))
    results = result if isinstance(result, tuple) else (result,)
    for each in results:
        if not is_array_shape(each.shape, each.dtype.itemsize):
            raise make_error(
                "MEMORY_LIMIT_EXCEEDED",
                f"{entry.name} would give {each.dtype} of shape {each.shape!s:.200}: no array has more "
                f"than {MAX_RANK} axes or {MAX_BYTES} bytes.",
                op=entry.name,
                expected=f"at most {MAX_RANK} axes, {MAX_BYTES} bytes",
                actual=f"{each.shape!s:.200}",
            )
    return results


def _canonical(entry: Op, spec: Attribute, value: Any) -> AttributeValue:
    try:
        return _CANONICAL[spec.kind](value)
    except BackhaulError:
        raise
    except (TypeError, ValueError, OverflowError):
        raise make_error(
            "INVALID_ATTRIBUTE",
            f"{entry.name}: {spec.name} must be {_SAYS[spec.kind]}, not {value!r:.200}.",
            op=entry.name,
            attribute=spec.name,
            expected=spec.kind,
            actual=f"{value!r:.200}",
        ) from None


def _bool(value: Any) -> bool:
    if isinstance(value, bool | np.bool_):
        return bool(value)
    raise TypeError


def _int(value: Any) -> int:
    if isinstance(value, bool | np.bool_):
        raise TypeError
    number = operator.index(value)
    if not -(2**63) <= number < 2**63:
        raise OverflowError
    return number


def _float(value: Any) -> float:
    if isinstance(value, bool | str | bytes):
        raise TypeError
    return float(value)


def _string(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError
    value.encode("utf-8")  # a lone surrogate cannot travel: UnicodeEncodeError is a ValueError
    return value


def _dtype(value: Any) -> np.dtype:
    # NumPy reads other strings, and tuples and lists, as descriptions of structured dtypes, and some of those
    # by Python's own parser: what a client wrote must not come there.
    if isinstance(value, str):
        is_simple = _DTYPE_NAME.fullmatch(value) is not None
    else:
        is_simple = isinstance(value, np.dtype | type) or hasattr(value, "dtype")
    dtype: np.dtype = np.dtype(value).newbyteorder("=") if is_simple else np.dtype(object)
    if dtype not in SUPPORTED:
        raise make_error(
            "DTYPE_NOT_SUPPORTED",
            f"dtype={value!s:.100} is not one that backhaul carries; choose one of "
            f"{', '.join(sorted(map(str, SUPPORTED)))}.",
            actual=f"{value!s:.100}",
        )
    return dtype


def _ints(value: Any) -> Ints:
    if isinstance(value, Iterable) and not isinstance(value, str | bytes):
        return tuple(_int(each) for each in value)
    raise TypeError


def _axes(value: Any) -> int | Ints:
    return _ints(value) if isinstance(value, Iterable) else _int(value)


def _int_lists(value: Any) -> tuple[Ints, ...]:
    if isinstance(value, Iterable) and not isinstance(value, str | bytes):
        return tuple(_ints(each) for each in value)
    raise TypeError


def _paired_axes(value: Any) -> int | tuple[Ints, ...]:
    """Each of the listed as a list: ``axes=(1, 0)`` means ``axes=([1], [0])``."""
    if not isinstance(value, Iterable):
        return _int(value)
    return tuple(_ints(each) if isinstance(each, Iterable) else (_int(each),) for each in value)


_CANONICAL: Mapping[AttributeKind, Callable[[Any], AttributeValue]] = {
    "bool": _bool,
    "int": _int,
    "float": _float,
    "string": _string,
    "dtype": _dtype,
    "ints": _ints,
    "axes": _axes,
    "int_lists": _int_lists,
    "paired_axes": _paired_axes,
    "index": canonical_index,
}
_SAYS: Mapping[AttributeKind, str] = {
    "bool": "True or False",
    "int": "an integer of 64 bits",
    "float": "a number",
    "string": "a string",
    "dtype": "a dtype",
    "ints": "a sequence of integers",
    "axes": "an integer or a sequence of integers",
    "int_lists": "a sequence of sequences of integers",
    "paired_axes": "an integer or two sequences of integers",
    "index": "a tuple of integers, slices, None, ... and 'array'",
}
