"""The image, built and run: ``make container-test``.

Builds server/Dockerfile with buildah and checks by podman what runs: see docs/containers.md. It prints what
it could not do, and why; the status is 1 where a check failed or the image could not be built, and 2 where
this machine can run nothing.
"""

from __future__ import annotations

import argparse
import os
import signal
import sys
import tempfile
from pathlib import Path

from tests.containers.alone import Alone
from tests.containers.around import Around
from tests.containers.building import DEBOOTSTRAP, IMAGE, build
from tests.containers.composed import Composed
from tests.containers.podman import Failed, NotHere, Podman
from tests.containers.project import Project
from tests.containers.report import Report


def main() -> int:
    """The command."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--base",
        help=f"image to build on; {DEBOOTSTRAP}: one made here, with wheels downloaded beforehand, for "
        "where no registry can be reached; else the Dockerfile's",
    )
    parser.add_argument("--image", help="check this image, and build none")
    parser.add_argument("--no-compose", action="store_true", help="leave docker-compose.yml out")
    parser.add_argument(
        "--if-possible",
        action="store_true",
        help="status 0, with a sentence, where nothing can be run on this machine",
    )
    given = parser.parse_args()
    report = Report()
    # Told to end, it takes down what it has brought up.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    with tempfile.TemporaryDirectory(prefix="backhaul-containers-") as folder:
        try:
            podman = Podman.here(Path(folder))
            base = ""
            if given.image is None:
                print(f"building {IMAGE}", flush=True)
                base = build(podman, given.base)
            else:
                podman.pull(given.image)
                podman.try_out(given.image)
        except Failed as error:
            print(f"container-test: {error}", file=sys.stderr)
            return 1
        except NotHere as error:
            print(f"container-test: not done: {error}", file=sys.stderr)
            return 0 if given.if_possible else 2
        image, prefix = given.image or IMAGE, f"backhaul-test-{os.getpid()}"
        alone = Alone(podman, image, base, report, prefix)
        report.part("what the image holds", alone.contents)
        report.part("started with nothing said", alone.refuses)
        report.part("demo", alone.demonstrates)
        report.part("confined", alone.confined)
        report.part("SIGTERM", alone.drains)
        report.part("SIGKILL", alone.recovers)
        if not given.no_compose:
            pull = given.base != DEBOOTSTRAP
            report.part("compose", lambda: compose(podman, image, report, prefix, pull))
    return report.end()


def compose(podman: Podman, image: str, report: Report, prefix: str, pull: bool) -> None:
    """The compose file, profile by profile."""
    project = Project(podman, image, prefix)
    servers, around = Composed(project, report), Around(project, report, pull)
    with around.images(), project.prepared():
        report.part("compose: server", servers.in_the_clear)
        report.part("compose: profile tls", servers.with_tls)
        report.part("compose: profile scale", around.scale)
        report.part("compose: profile monitoring, Prometheus", around.prometheus)
        report.part("compose: profile monitoring, Grafana", around.grafana)
    report.skip(
        "compose: profile gpu", "for a GPU and NVIDIA's container tools; it is not tried here"
    )


if __name__ == "__main__":
    raise SystemExit(main())
