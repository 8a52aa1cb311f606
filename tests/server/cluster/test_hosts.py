"""The dispatcher, and a front end of workers: the same body of tests."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from tests.server.cluster.fakes import FakeCluster, FakeLauncher, reported
from tests.server.cluster.hosts import HostBody

from backhaul_proto.messages import Limits
from backhaul_server.cluster.directory import Directory
from backhaul_server.engine.engine import Engine
from backhaul_server.service.dispatch import Dispatcher
from backhaul_server.service.host import Host
from backhaul_server.service.routing import RoutingHost


class TestDispatcher(HostBody):
    @pytest.fixture
    def host(self) -> Iterator[Host]:
        made = Dispatcher(Engine())
        yield made
        made.close()


class TestRoutingHost(HostBody):
    @pytest.fixture
    def host(self) -> Iterator[Host]:
        launcher = FakeLauncher()
        directory = Directory(launcher)
        directory.want(2)
        reported(directory, 2)
        yield RoutingHost(FakeCluster(directory, launcher), Limits(1 << 30), 1 << 30)
        launcher.close()
