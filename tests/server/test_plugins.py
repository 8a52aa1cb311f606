"""Ops of other packages: found by entry points, called by name, refused when they do not fit."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from importlib.metadata import EntryPoint
from pathlib import Path

import numpy as np
import pytest
import scipy.special
from tests.e2e.server_process import serving

import backhaul as bh
from backhaul.server_ops import OpSupport
from backhaul_proto.catalog.ops import CATALOG
from backhaul_server.engine.rules import RULES
from backhaul_server.plugins import Plugins

EXAMPLE = Path(__file__).parents[2] / "examples" / "plugin"


@pytest.fixture
def installed(tmp_path: Path) -> list[Path]:
    """What goes on Python's path when the example is installed: itself, and the record of its entry point."""
    record = tmp_path / "backhaul_bessel-0.1.0.dist-info"
    record.mkdir()
    (record / "METADATA").write_text(
        "Metadata-Version: 2.1\nName: backhaul-bessel\nVersion: 0.1.0\n"
    )
    (record / "entry_points.txt").write_text("[backhaul.ops]\nbessel = backhaul_bessel.ops\n")
    return [tmp_path, EXAMPLE]


@pytest.fixture
def environment(installed: list[Path]) -> dict[str, str]:
    path = [*map(str, installed), os.environ.get("PYTHONPATH", "")]
    return {"PYTHONPATH": os.pathsep.join(filter(None, path))}


def test_a_client_that_knows_nothing_of_it_calls_it_by_name(environment: dict[str, str]) -> None:
    x0 = np.array([0.5, 1.5])
    with serving(environment=environment) as server, bh.connect(server.target) as connection:
        tape = bh.Tape(connection)
        x = tape.leaf(x0)
        y = bh.apply("bessel.jv", x, order=0)
        assert (y.shape, y.dtype, y.requires_grad) == ((2,), np.dtype("f8"), True)
        result = tape.hvp(bh.sum(y), tangents={x: [1.0, 0.0]})
        np.testing.assert_allclose(result.gradients[x], -scipy.special.j1(x0), rtol=1e-14)
        curvature = float(scipy.special.jvp(0, 0.5, 2))
        np.testing.assert_allclose(result.hvp[x], [curvature, 0.0], rtol=1e-13)
        assert connection.calls["Infer"] == 1
        bh.apply("bessel.jv", y, order=0)
        assert connection.calls["Infer"] == 1  # the same operand types

        loss = bh.sum(bh.apply("bessel.kv", x, order=1))
        np.testing.assert_allclose(tape.pullback(loss)[x], scipy.special.kvp(1, x0), rtol=1e-13)
        for ask in (tape.hvp, tape.pushforward):
            with pytest.raises(bh.HvpNotSupported, match=r"bessel\.kv"):
                ask(loss, tangents={x: [1.0, 0.0]})

        told = {each.name: each for each in connection.ops()}
        assert told["bessel.jv"].support["float32"] == OpSupport(vjp=True, jvp=True, hvp=True)
        assert told["bessel.kv"].support["float64"] == OpSupport(vjp=True, jvp=False, hvp=False)
        assert told["bessel.kv"].support["int64"] == OpSupport(vjp=False, jvp=False, hvp=False)
        assert "complex128" not in told["bessel.kv"].support
        with pytest.raises(bh.InvalidArgument, match="order"):
            bh.apply("bessel.jv", x)


def test_without_plugins_it_is_unknown(environment: dict[str, str]) -> None:
    with (
        serving("--no-plugins", environment=environment) as server,
        bh.connect(server.target) as connection,
    ):
        x = bh.Tape(connection).leaf(1.0)
        with pytest.raises(bh.InvalidArgument) as error:
            bh.apply("bessel.jv", x, order=0)
    assert error.value.reason == "UNKNOWN_OP"


def test_the_embedded_server_has_it_too(environment: dict[str, str]) -> None:
    program = """
        import backhaul as bh, backhaul_bessel
        x = bh.Tape().leaf([0.5, 1.5])
        report = bh.check_grad(lambda x: backhaul_bessel.jv(x, order=2), [0.5, 1.5])
        assert report, report
        report = bh.check_grad(lambda x: backhaul_bessel.kv(x, order=2), [0.5, 1.5], order=1)
        assert report, report
        print("right")
    """
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(program)],
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.stdout == "right\n", done.stderr


BROKEN = {
    "cannot be imported": ("import no_such_module", "No module named 'no_such_module'"),
    "an entry without a rule": (
        "from backhaul_server.plugin import *\n"
        "register(Op('lonely.op', ('x',), broadcasting, 'Nothing.'))",
        "one of the two lacks: lonely.op",
    ),
    "a name that is not its package's": (
        "from backhaul_server.plugin import *\n"
        "register(Op('cube', ('x',), broadcasting, 'A cube.'))\n"
        "@rule('cube')\n"
        "class Cube(Rule):\n"
        "    def forward(self, xp, x): return x * x * x",
        "'mypackage.cube'",
    ),
    "no vjp": (
        "from backhaul_server.plugin import *\n"
        "register(Op('some.cube', ('x',), broadcasting, 'A cube.'))\n"
        "@rule('some.cube')\n"
        "class Cube(Rule):\n"
        "    def forward(self, xp, x): return x * x * x",
        "has no vjp",
    ),
    "an op that is there already": (
        "from backhaul_server.plugin import *\nregister(Op('add', ('x',), broadcasting, 'A sum.'))",
        "in the catalog already",
    ),
}


@pytest.mark.parametrize("kind", BROKEN)
def test_one_that_does_not_fit_is_refused_and_leaves_nothing(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source, says = BROKEN[kind]
    module = f"broken_plugin_{list(BROKEN).index(kind)}"
    (tmp_path / f"{module}.py").write_text(source)
    monkeypatch.syspath_prepend(str(tmp_path))
    before = set(CATALOG), set(RULES)
    plugin = EntryPoint("broken", module, "backhaul.ops")
    with pytest.raises(bh.InvalidArgument) as error:
        Plugins().load([plugin])
    assert error.value.reason == "PLUGIN_FAILED"
    assert says in str(error.value)
    assert "broken" in str(error.value)
    assert (set(CATALOG), set(RULES)) == before


def test_a_server_with_a_broken_plugin_says_so_and_ends(
    environment: dict[str, str], tmp_path: Path
) -> None:
    (tmp_path / "backhaul_bessel-0.1.0.dist-info" / "entry_points.txt").write_text(
        "[backhaul.ops]\nbessel = no_such_module\n"
    )
    done = subprocess.run(
        [sys.executable, "-m", "backhaul", "serve", "--port", "0"],
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 1
    assert "The plugin bessel (no_such_module) cannot be loaded" in done.stderr
    assert "--no-plugins" in done.stderr
