"""Where ranks meet: torch.distributed over loopback, inside the forked ranks. Imports torch.

They meet at a file of this machine and talk over the loopback interface, never over another address. Each rank of a
card sees its own card as the first one.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta

import torch.distributed as dist

from experiments.harness.experiment import DeviceKind
from experiments.harness.launch.ranks import Seat

LOOPBACK = "lo"
BACKENDS = {"cpu": "gloo", "cuda": "cpu:gloo,cuda:nccl"}


@contextmanager
def joined(seat: Seat, kind: DeviceKind) -> Iterator[None]:
    """While open, this process is `seat.rank` of the default process group. Leaves only when all have come as far.

    Call before anything touches the device. A process that fails inside goes without waiting for the others.
    """
    for variable in ("GLOO_SOCKET_IFNAME", "NCCL_SOCKET_IFNAME"):
        os.environ[variable] = LOOPBACK
    if kind == "cuda":
        os.environ["CUDA_VISIBLE_DEVICES"] = _own_card(seat.rank)
    dist.init_process_group(
        BACKENDS[kind],
        init_method=seat.meeting.as_uri(),
        rank=seat.rank,
        world_size=seat.ranks,
        timeout=timedelta(seconds=seat.patience_s),
    )
    yield
    dist.barrier()


def _own_card(rank: int) -> str:
    """The card of a rank: the one of that number among those that are visible."""
    visible = os.environ.get("CUDA_VISIBLE_DEVICES")
    return str(rank) if not visible else visible.split(",")[rank]
