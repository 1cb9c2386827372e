"""The ring by hand in real ranks over gloo: the library's sum, for every number of ranks and whatever the chunks."""

from __future__ import annotations

from collections.abc import Mapping

import pytest
import torch
import torch.distributed as dist

from experiments.evidence.vocabulary import JsonValue
from experiments.harness.launch.outcome import EnterPhase, Outcome, Work
from experiments.harness.launch.ranks import Seat, run_ranks
from experiments.harness.launch.rendezvous import joined
from experiments.mechanisms.ring_all_reduce import ring_all_reduce

LENGTHS = (4, 5, 7, 64, 1001)  # cut evenly or not; one element a chunk


def ring(ranks: int) -> Outcome:
    """Every rank's sums of integers that only it has, in several formats and lengths."""

    def work(seat: Seat) -> Work:
        def do(enter: EnterPhase) -> Mapping[str, JsonValue]:
            found = {}
            with joined(seat, "cpu"):
                for dtype in (torch.float32, torch.bfloat16, torch.int64):
                    for length in LENGTHS:
                        mine = (torch.arange(length) % 7 + 8 * seat.rank).to(dtype)
                        theirs = mine.clone()
                        dist.all_reduce(theirs)
                        ring_all_reduce(mine)
                        found[f"{dtype} {length}"] = torch.equal(mine, theirs)
            return found

        return do

    return run_ranks(work, ranks=ranks, time_limit_s=120)


@pytest.mark.parametrize("ranks", [2, 3, 4])
def test_the_ring_gives_the_library_s_sum_on_every_rank(ranks: int) -> None:
    outcome = ring(ranks)
    assert outcome.died is None
    answers = (outcome.result, *outcome.others)
    assert len(answers) == ranks
    for answer in answers:
        assert answer is not None
        assert len(answer) == 3 * len(LENGTHS)
        assert all(answer.values()), answer


def test_each_rank_sends_twice_its_share_and_no_more() -> None:
    """2 (n - 1) / n of the tensor, counted at the door to the library."""

    def work(seat: Seat) -> Work:
        def do(enter: EnterPhase) -> Mapping[str, JsonValue]:
            sent = 0
            door = dist.batch_isend_irecv

            def counted(moves: list[dist.P2POp]) -> list[dist.Work]:
                nonlocal sent
                sent += sum(move.tensor.numel() for move in moves if move.op is dist.isend)
                return door(moves)

            dist.batch_isend_irecv = counted
            with joined(seat, "cpu"):
                ring_all_reduce(torch.ones(300))
            return {"sent": sent}

        return do

    outcome = run_ranks(work, ranks=3, time_limit_s=120)
    assert outcome.died is None
    assert [outcome.result, *outcome.others] == [{"sent": 400}] * 3
