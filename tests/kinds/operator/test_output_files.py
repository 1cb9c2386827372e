"""An output on disk comes back bit for bit, and one that is torn or of another size is none."""

from __future__ import annotations

import errno
import resource
from pathlib import Path

import pytest
import torch

from experiments.harness.launch.process import run_forked
from experiments.kinds.operator import output_files


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16])
def test_an_output_comes_back_bit_for_bit(tmp_path: Path, dtype: torch.dtype) -> None:
    out = torch.randn(3, 5, generator=torch.Generator().manual_seed(0)).to(dtype).T
    path = tmp_path / "deeper" / "out.bin"
    assert not output_files.is_whole(path)
    output_files.write(out, path)
    assert output_files.is_whole(path)
    assert torch.equal(output_files.read(path, out.shape), out.double())


def test_an_output_of_another_size_is_refused(tmp_path: Path) -> None:
    output_files.write(torch.ones(2, 3), tmp_path / "out.bin")
    with pytest.raises(ValueError, match=r"out\.bin has 48 bytes"):
        output_files.read(tmp_path / "out.bin", torch.Size((2, 4)))


def test_what_could_not_be_written_to_its_end_is_not_whole_and_says_why(tmp_path: Path) -> None:
    path = tmp_path / "out.bin"

    def write_too_much(enter: object) -> dict[str, int]:
        import signal

        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))  # stands for a disk with little room
        try:
            output_files.write(torch.ones(1000), path)
        except OSError as error:
            return {"errno": error.errno or 0}
        return {}

    found = run_forked(write_too_much, time_limit_s=60)
    assert found.result == {"errno": errno.EFBIG}
    assert not output_files.is_whole(path)
