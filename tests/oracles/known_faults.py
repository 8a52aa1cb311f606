"""Faults that users of other libraries reported of gradients, with the right answers.

Each is written down from the thread that it names: what was computed and where, not its code.
"""

from __future__ import annotations

from typing import Final

from tests.oracles.faults import Fault
from tests.oracles.faults_linear_algebra import LINEAR_ALGEBRA
from tests.oracles.faults_pointwise import POINTWISE
from tests.oracles.faults_reductions import REDUCTIONS
from tests.oracles.faults_shapes import INDICES_AND_SHAPES

FAULTS: Final[tuple[Fault, ...]] = (
    *POINTWISE,
    *REDUCTIONS,
    *LINEAR_ALGEBRA,
    *INDICES_AND_SHAPES,
)
