"""What an operator may say of workers, and what is said where Ray is not installed."""

from __future__ import annotations

import sys

import pytest
from typer.testing import CliRunner

from backhaul.cli import app
from backhaul_proto.errors import InvalidArgument
from backhaul_server.cluster.demand import Demand, read_resources, read_workers
from backhaul_server.effective import load


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("", ()),
        ("a100=1", (("a100", 1.0),)),
        (" a100=1, ssd=0.5 ", (("a100", 1.0), ("ssd", 0.5))),
    ],
)
def test_resources_are_read(text: str, found: tuple[tuple[str, float], ...]) -> None:
    assert read_resources(text) == found


@pytest.mark.parametrize("text", ["a100", "a100=", "=1", "a100=one", "a100=0", "a100=-1"])
def test_what_is_no_resource_is_refused(text: str) -> None:
    with pytest.raises(InvalidArgument, match="NAME=AMOUNT") as caught:
        read_resources(text)
    assert caught.value.details["actual"] == text


def test_workers_are_counted_or_left_to_the_cluster() -> None:
    assert [read_workers(each) for each in ("ray", "ray:7")] == [None, 7]


@pytest.mark.parametrize("text", ["ray:0", "ray:", "ray:many", "spark"])
def test_other_words_for_workers_are_refused(text: str) -> None:
    with pytest.raises(InvalidArgument, match="workers"):
        load({"workers": text})


def test_a_worker_has_its_cores_part_of_a_node() -> None:
    assert Demand(cpus=2.0).share_of(8) == 0.25
    assert Demand(cpus=4.0).share_of(2) == 1.0
    assert Demand(cpus=0.0, gpus=1.0).share_of(8) == 1.0


@pytest.mark.parametrize(
    "words", [("serve", "--workers", "ray:2", "--port", "0"), ("workers", "list")]
)
def test_without_ray_the_extra_is_named(
    words: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in [each for each in sys.modules if each.split(".")[0] == "ray"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.delitem(sys.modules, "backhaul_server.cluster.ray_cluster", raising=False)
    monkeypatch.setitem(sys.modules, "ray", None)
    monkeypatch.setenv("RAY_USAGE_STATS_ENABLED", "0")
    monkeypatch.setenv("RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER", "0")
    monkeypatch.setenv("RAY_worker_niceness", "0")
    shown = CliRunner().invoke(app, words)
    assert shown.exit_code == 1
    assert "pip install 'backhaul[ray]'" in shown.stderr
