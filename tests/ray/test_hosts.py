"""A front end of Ray's actors: the body of tests of every host."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from tests.ray.clusters import nodes
from tests.server.cluster.hosts import HostBody

from backhaul_server.assembly import assemble_front
from backhaul_server.cluster.starting import start_front
from backhaul_server.effective import load
from backhaul_server.service.host import Host

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def host() -> Iterator[Host]:
    with nodes(1, 1) as cluster:
        settings = load({"workers": "ray:2", "ray_address": cluster.address}).settings
        yield assemble_front(settings, start_front(settings), 1 << 30).host


class TestRay(HostBody):
    """On Ray's actors."""
