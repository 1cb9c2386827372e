"""Pictures: from the record alone, the same bytes each time, text as text, told apart without colour."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree

import pytest
from sample_records import GATE, GATES, cpu_record, measured_record

from experiments.evidence import plots
from experiments.evidence.plots import breakdown, canvas, numerics, phases, predicted, tradeoff
from tools.environments.errors import LabError
from tools.environments.layout import ROOT

SVG = "{http://www.w3.org/2000/svg}"


def texts(path: Path) -> list[str]:
    tree = ElementTree.parse(path)
    return ["".join(element.itertext()).strip() for element in tree.iter(f"{SVG}text")]


def test_the_numerics_of_a_record(tmp_path: Path) -> None:
    (path,) = plots.draw_all(cpu_record(), tmp_path)
    assert path == tmp_path / "gradients.svg"
    told = texts(path)
    for words in ("fp16 + scaler", "1.0e-04", "3.1 %", "skipped", "loss scale"):
        assert words in told
    assert any("cpu_mechanism" in text for text in told)


def test_the_same_record_gives_the_same_bytes(tmp_path: Path) -> None:
    first = numerics.draw(cpu_record(), tmp_path / "a.svg").read_bytes()
    assert numerics.draw(cpu_record(), tmp_path / "b.svg").read_bytes() == first
    code = (
        "import sys; sys.path.insert(0, 'tests/support')\n"
        "from pathlib import Path\nfrom sample_records import cpu_record\n"
        "from experiments.evidence.plots import numerics\nnumerics.draw(cpu_record(), Path(sys.argv[1]))\n"
    )
    subprocess.run([sys.executable, "-c", code, str(tmp_path / "c.svg")], cwd=ROOT, check=True)
    assert (tmp_path / "c.svg").read_bytes() == first
    assert b"<dc:date>" not in first


def test_text_is_text_and_not_outlines(tmp_path: Path) -> None:
    path = numerics.draw(cpu_record(), tmp_path / "a.svg")
    assert len(texts(path)) > 20
    assert b"DejaVuSans-" not in path.read_bytes()


def test_a_failed_gate_is_hatched_and_named(tmp_path: Path) -> None:
    fp16 = cpu_record().candidates[2]
    bad = replace(
        fp16, checks=replace(GATES, gates={**GATES.gates, "gradient": replace(GATE, passed=False, error=0.5)})
    )
    path = numerics.draw(cpu_record(candidates=(*cpu_record().candidates[:2], bad)), tmp_path / "a.svg")
    assert "5.0e-01, gate failed" in texts(path)
    assert b"<pattern" in path.read_bytes()
    whole = numerics.draw(cpu_record(), tmp_path / "b.svg")
    assert b"<pattern" not in whole.read_bytes()


def test_an_error_of_zero_is_named(tmp_path: Path) -> None:
    exact = replace(
        cpu_record().candidates[2], checks=replace(GATES, gates={**GATES.gates, "gradient": replace(GATE, error=0.0)})
    )
    path = numerics.draw(cpu_record(candidates=(*cpu_record().candidates[:2], exact)), tmp_path / "a.svg")
    assert "bit for bit" in texts(path)


def test_only_what_the_record_has_is_drawn(tmp_path: Path) -> None:
    whole = texts(numerics.draw(cpu_record(), tmp_path / "whole.svg"))
    assert "gradient entries below the format's normal range, %" in whole
    plain = replace(cpu_record().candidates[2], numerics=None)
    path = numerics.draw(cpu_record(candidates=(*cpu_record().candidates[:2], plain)), tmp_path / "a.svg")
    assert not any("normal range" in text or "loss scale" in text for text in texts(path))
    nothing = cpu_record(candidates=cpu_record().candidates[:1])
    assert not numerics.applies(nothing)
    assert plots.draw_all(nothing, tmp_path) == ()


def test_several_scalers_are_told_apart_by_dash(tmp_path: Path) -> None:
    fp16 = cpu_record().candidates[2]
    other = replace(fp16, name="fp16 + other scaler")
    path = numerics.draw(cpu_record(candidates=(*cpu_record().candidates, other)), tmp_path / "a.svg")
    assert b"stroke-dasharray" in path.read_bytes()


def test_a_picture_that_cannot_be_written_is_a_finding(tmp_path: Path) -> None:
    with pytest.raises(LabError, match="picture"):
        numerics.draw(cpu_record(), tmp_path / "missing" / "a.svg")


def test_matplotlib_waits_until_something_is_drawn() -> None:
    code = "import sys\nfrom experiments.evidence import plots\nplots.plots()\nprint('matplotlib' in sys.modules)\n"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"


def test_every_kind_of_picture_of_a_measured_record(tmp_path: Path) -> None:
    drawn = plots.draw_all(measured_record(), tmp_path)
    assert [path.stem for path in drawn] == ["gradients", "memory_time", "phases", "step", "predicted"]
    for path in drawn:
        ElementTree.parse(path)
        assert "every layer" in " ".join(texts(path)), path.stem
        assert not any("none again" in text for text in texts(path)), path.stem


def test_memory_against_time_shows_the_floor(tmp_path: Path) -> None:
    told = texts(tradeoff.draw(measured_record(), tmp_path / "a.svg"))
    assert "floor: pinned bandwidth, 690.0 ms" in told
    assert {"peak allocated, GiB", "allocated after forward, GiB"} <= set(told)
    assert not any("everything kept" in text for text in told)  # ran out of memory: it has no point


def test_the_peak_is_named_in_its_phase(tmp_path: Path) -> None:
    told = texts(phases.draw(measured_record(), tmp_path / "a.svg"))
    assert "loss head 58.8, the peak" in told
    assert "forward 12.0" in told


def test_waiting_is_told_from_work(tmp_path: Path) -> None:
    told = texts(breakdown.draw(measured_record(), tmp_path / "a.svg"))
    assert "1167 ms, busy 26 %, launch-bound" in told
    assert "272.4 ms, busy 99 %" in told


def test_residuals_are_told(tmp_path: Path) -> None:
    told = texts(predicted.draw(measured_record(), tmp_path / "a.svg"))
    assert "none +2.0 %" in told
    assert {"after forward", "peak allocated"} <= set(told)


def test_a_record_without_the_data_has_no_such_picture() -> None:
    for module in (tradeoff, phases, breakdown, predicted):
        assert module.applies(measured_record())
        assert not module.applies(cpu_record())


def test_shades_differ_in_brightness() -> None:
    def brightness(colour: str) -> float:
        red, green, blue = (int(colour[place : place + 2], 16) for place in (1, 3, 5))
        return 0.2126 * red + 0.7152 * green + 0.0722 * blue

    neighbours = zip(canvas.SHADES, canvas.SHADES[1:], strict=False)
    assert all(abs(brightness(a) - brightness(b)) > 12 for a, b in neighbours)
