"""References on disk: exact errors, slices, missing and broken tensors, and a folder that is not whole."""

from __future__ import annotations

import errno
import io
import resource
import signal
from pathlib import Path

import pytest
import torch
from torch import Tensor

from experiments.evidence.vocabulary import JsonValue
from experiments.harness import reference
from experiments.harness.launch.process import run_forked

CPU = torch.device("cpu")


@pytest.fixture
def tensors() -> dict[str, Tensor]:
    torch.manual_seed(0)
    return {"a": torch.randn(7, 5), "b": torch.randn(3)}


def test_the_same_tensors_have_no_error(tmp_path: Path, tensors: dict[str, Tensor]) -> None:
    reference.write(tmp_path / "r", tensors, torch.float32)
    found = reference.errors(tensors, tmp_path / "r", CPU)
    assert (found.overall, found.worst, found.tensors, found.not_finite) == (0.0, 0.0, 2, ())


def test_the_error_is_the_relative_norm_of_the_difference_after_unscaling(
    tmp_path: Path, tensors: dict[str, Tensor], monkeypatch: pytest.MonkeyPatch
) -> None:
    reference.write(tmp_path / "r", tensors, torch.float64)
    monkeypatch.setattr(reference, "SLICE", 4)
    seen: list[int] = []
    moved = {name: (value + 0.01) * 1024 for name, value in tensors.items()}
    found = reference.errors(moved, tmp_path / "r", CPU, 1024.0, lambda name, here, there: seen.append(here.numel()))
    flat = torch.cat([value.flatten() for value in tensors.values()]).double()
    assert found.overall == pytest.approx((0.01**2 * 38) ** 0.5 / float(flat.norm()), rel=1e-4)
    relative = {name: 0.01 * value.numel() ** 0.5 / float(value.norm()) for name, value in tensors.items()}
    assert found.worst_name == max(relative, key=relative.__getitem__)
    assert sum(seen) == 38
    assert max(seen) == 4


def test_a_missing_gradient_counts_as_zero(tmp_path: Path, tensors: dict[str, Tensor]) -> None:
    reference.write(tmp_path / "r", tensors, torch.float32)
    found = reference.errors({"a": tensors["a"]}, tmp_path / "r", CPU)
    assert found.worst == pytest.approx(1.0)
    assert found.worst_name == "b"


def test_nan_is_named_and_never_averaged_away(tmp_path: Path, tensors: dict[str, Tensor]) -> None:
    reference.write(tmp_path / "r", tensors, torch.float32)
    found = reference.errors({**tensors, "b": torch.full((3,), float("nan"))}, tmp_path / "r", CPU)
    assert found.overall is None
    assert found.not_finite == ("b",)


def test_a_reference_that_was_not_written_to_its_end_is_not_whole(tmp_path: Path, tensors: dict[str, Tensor]) -> None:
    assert not reference.is_whole(tmp_path / "r")
    reference.write(tmp_path / "r", tensors, torch.float32)
    assert reference.is_whole(tmp_path / "r")
    with pytest.raises(AttributeError):
        reference.write(tmp_path / "r", {"a": None}, torch.float32)  # type: ignore[dict-item]
    assert not reference.is_whole(tmp_path / "r")


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16])
def test_a_tensor_that_is_read_whole_comes_back_bit_for_bit(tmp_path: Path, dtype: torch.dtype) -> None:
    out = torch.randn(3, 5, generator=torch.Generator().manual_seed(0)).to(dtype).T
    reference.write(tmp_path / "deeper" / "r", {"out": out, "none": out[:0]}, torch.float64)
    assert torch.equal(reference.read(tmp_path / "deeper" / "r", "out", out.shape), out.double())
    assert reference.read(tmp_path / "deeper" / "r", "none", (0, 3)).shape == (0, 3)


def test_a_tensor_that_is_another_or_torn_is_not_read(tmp_path: Path) -> None:
    reference.write(tmp_path / "r", {"out": torch.ones(2, 3)}, torch.float64)
    with pytest.raises(ValueError, match=r"out of shape \[2, 4\] is wanted, found shape \[2, 3\]"):
        reference.read(tmp_path / "r", "out", (2, 4))
    with pytest.raises(ValueError, match=r"other of shape .* is wanted, found none"):
        reference.read(tmp_path / "r", "other", (2, 3))
    (tmp_path / "r" / "0.bin").write_bytes(b"short")
    with pytest.raises(ValueError, match=r"0\.bin ends early"):
        reference.read(tmp_path / "r", "out", (2, 3))


def test_a_scaled_gradient_is_written_as_it_is_without_its_scale(tmp_path: Path) -> None:
    """A baseline under a loss scaler writes what the others, divided by their own scale, are checked against."""
    values = torch.tensor([1.0, -2.0, 3.0])
    reference.write(tmp_path / "r", {"a": values * 65536}, torch.float32, 65536.0)
    assert reference.errors({"a": values * 1024}, tmp_path / "r", torch.device("cpu"), 1024.0).overall == 0.0


class _Full(io.RawIOBase):
    """A disk with room for so many bytes, as Linux answers: first a short write, then ENOSPC, or nothing at all."""

    def __init__(self, room: int, says: bool) -> None:
        self.room, self.says = room, says

    def write(self, data: object) -> int:
        taken = min(self.room, len(memoryview(data)))  # type: ignore[arg-type]
        if taken == 0 and self.says:
            raise OSError(errno.ENOSPC, "No space left on device")
        self.room -= taken
        return taken


@pytest.mark.parametrize("says", [True, False])
def test_a_short_write_is_a_full_disk(says: bool) -> None:
    stream = _Full(100, says)
    reference._write_all(stream, torch.zeros(20))  # type: ignore[arg-type]
    assert stream.room == 20
    with pytest.raises(OSError, match="No space left") as caught:
        reference._write_all(stream, torch.zeros(20))  # type: ignore[arg-type]
    assert caught.value.errno == errno.ENOSPC


def test_a_file_cut_short_for_real_keeps_its_errno_and_a_full_device_stops_the_run(tmp_path: Path) -> None:
    """A file size limit cuts the write as a full disk would; `/dev/full` is one."""

    def limited(_: object) -> dict[str, JsonValue]:
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (7168, 7168))
        try:
            reference.write(tmp_path / "limited", {"a": torch.zeros(6144)}, torch.float64)
        except OSError as error:
            return {"errno": error.errno}
        return {"errno": 0}

    assert run_forked(limited, time_limit_s=60).result == {"errno": errno.EFBIG}
    full = tmp_path / "full"
    full.mkdir()
    (full / "0.bin").symlink_to("/dev/full")

    def job(_: object) -> dict[str, JsonValue]:
        reference.write(full, {"a": torch.zeros(6144)}, torch.float64)
        return {}

    outcome = run_forked(job, time_limit_s=60)
    assert outcome.died is not None
    assert outcome.died.kind == "DiskFull"
    assert not reference.is_whole(full)
