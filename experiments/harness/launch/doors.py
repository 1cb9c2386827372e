"""Which door a task goes through: one process, or ranks. A server and its client have their place here too."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from experiments.evidence.record import Launch
from experiments.harness.launch.outcome import Outcome, Work
from experiments.harness.launch.process import run_forked
from experiments.harness.launch.ranks import RANK_LIMIT_S, Seat, run_ranks
from tools.environments.errors import LabError

if TYPE_CHECKING:
    from experiments.harness.tasks import Job

LAUNCHED = ("gate", "measure")  # tasks that the kind's launch is for; every other is one process


def run(job: Job, launch: Launch, *, time_limit_s: float, rank_limit_s: float = RANK_LIMIT_S) -> Outcome:
    """Run a task. Raises LabError for a launch that this version cannot do."""
    refuse_unknown(launch)
    if launch.type == "process" or job.task.kind not in LAUNCHED:
        return run_forked(job, time_limit_s=time_limit_s)

    def seated(seat: Seat) -> Work:
        return replace(job, seat=seat)

    return run_ranks(seated, ranks=launch.ranks, time_limit_s=time_limit_s, rank_limit_s=rank_limit_s)


def refuse_unknown(launch: Launch) -> None:
    """Raises LabError for a launch that this version cannot do."""
    if launch.type == "server":
        raise LabError(
            wanted="a launch of type process or ranks",
            found="server",
            next="this version starts no server: the door comes with the first kind that needs one",
            where="launch",
        )
    least = 2 if launch.type == "ranks" else 1
    if launch.ranks < least or (launch.type == "process" and launch.ranks != 1):
        raise LabError(
            wanted="one rank in a process, or at least two ranks",
            found=f"{launch.type} of {launch.ranks}",
            next="say in the kind's `launch` how many ranks the workload takes",
            where="launch",
        )
