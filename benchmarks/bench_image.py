"""The CPU image of TRAIN-CPU, built for real: from nothing known, after a change of code, and what it adds to its base.

Needs a Docker engine and a base image (TMLAB_BASE_IMAGE where no registry is in reach). Its images have a name of their
own and are removed again.
"""

from __future__ import annotations

import io
import os
import statistics
import tempfile
from pathlib import Path

from benchmarks.checkout import copy
from benchmarks.measure import Row
from tools.containers import build, container_command, engine, image_text, naming
from tools.environments.install.install_text import Narrator
from tools.environments.registry import registry

PROFILE = "TRAIN-CPU"
CHANGED = "experiments/cli/listing.py"
BUILD_S = 600
REBUILD_S = 15
REBUILDS = 3
SIZE_RATIO = 1.5


def rows() -> list[Row]:
    """Seconds of the first build and of rebuilds, and bytes added to the base over bytes of the environment."""
    client, known = engine.connect(), registry.load()
    profile = known.get(PROFILE)
    request = container_command.request_of(
        container_command.parser().parse_args(["build", "--profile", PROFILE]), profile
    )
    naming.REPOSITORY = f"{naming.REPOSITORY}-benchmark"
    with tempfile.TemporaryDirectory(prefix="tmlab-image-") as folder:
        root = copy(Path(folder) / "checkout")

        def built() -> build.Built:
            return build.build(request, known, client, Narrator(io.StringIO()), os.environ, "", root)

        first = built()
        try:
            size = client.images.get(first.tag).attrs["Size"]
            added = size - client.images.get(request.base_image or image_text.BASE_IMAGE).attrs["Size"]
            told = client.containers.run(first.tag, ["du", "-sb", ".envs/current/"], remove=True)
            environment = int(told.split()[0])
            taken = []
            for number in range(REBUILDS):
                with open(root / CHANGED, "a", encoding="utf-8") as file:
                    file.write(f"# change {number}\n")
                taken.append(built().seconds)
        finally:
            client.images.remove(first.tag, force=True)
    cached = f"{len(first.kept)} of {len(first.kept) + len(first.made)} stages from the cache"
    return [
        Row("image, first build", first.seconds, "s", BUILD_S, cached),
        Row("image, rebuild after a change of code", statistics.median(taken), "s", REBUILD_S, f"{REBUILDS} runs"),
        Row(
            "image, what it adds to its base",
            added / environment,
            "x",
            SIZE_RATIO,
            f"{added / 2**30:.2f} GiB against {environment / 2**30:.2f} GiB of environment",
        ),
    ]
