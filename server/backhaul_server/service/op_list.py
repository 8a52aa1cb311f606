"""The catalog as ListOps answers it."""

from __future__ import annotations

import hashlib
from functools import lru_cache

from backhaul_proto import tensors
from backhaul_proto.catalog import ops as catalog
from backhaul_proto.catalog.avals import INEXACT
from backhaul_proto.v1 import service_pb2
from backhaul_server.engine.rules import Derivatives, derivatives


@lru_cache(maxsize=1)
def ops_message() -> service_pb2.ListOpsResponse:
    """The public ops, by name."""
    message = service_pb2.ListOpsResponse()
    for name in sorted(catalog.CATALOG):
        entry = catalog.CATALOG[name]
        if entry.private:
            continue
        found = derivatives(entry)
        info = message.ops.add(
            name=name,
            operands=entry.operands,
            doc=entry.doc,
            has_vjp=found.vjp,
            has_jvp=found.hvp,
        )
        for dtype in entry.dtypes:
            has = found if dtype in INEXACT else Derivatives()
            info.support.add(dtype=tensors.number_of(dtype), vjp=has.vjp, jvp=has.jvp, hvp=has.hvp)
        for each in entry.attributes:
            info.attributes.add(
                name=each.name,
                type=each.kind,
                required=each.required,
                default_value="" if each.default is None else str(each.default),
                doc=each.doc,
            )
    return message


@lru_cache(maxsize=1)
def ops_digest() -> bytes:
    """SHA-256 of the catalog."""
    return hashlib.sha256(ops_message().SerializeToString(deterministic=True)).digest()
