"""What a package needs that brings ops of its own: an entry for the catalog, and a rule.

Such a package names the module that registers them as an entry point:

    [project.entry-points."backhaul.ops"]
    mypackage = "mypackage.backhaul_ops"

The server imports it when it starts. See docs/plugins.md, and the package in examples/plugin.
"""

from backhaul_proto.catalog.avals import Aval, aval
from backhaul_proto.catalog.ops import Attribute, Op, Sample, register
from backhaul_proto.catalog.promotion import promote
from backhaul_proto.catalog.shapes import broadcast_shapes, broadcasting, broadcasting_floats
from backhaul_proto.errors import make_error
from backhaul_server.engine.rules import (
    Array,
    Bilinear,
    Linear,
    Namespace,
    Rule,
    plus,
    rule,
    zeros_like,
)

__all__ = [
    "Array",
    "Attribute",
    "Aval",
    "Bilinear",
    "Linear",
    "Namespace",
    "Op",
    "Rule",
    "Sample",
    "aval",
    "broadcast_shapes",
    "broadcasting",
    "broadcasting_floats",
    "make_error",
    "plus",
    "promote",
    "register",
    "rule",
    "zeros_like",
]
