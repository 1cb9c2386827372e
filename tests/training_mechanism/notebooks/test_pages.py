"""The four notebooks: how they are committed, and what a reader meets who runs them in a real kernel."""

from __future__ import annotations

import ast
import importlib
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import nbformat
import pytest
from page_kernels import PAGES, Job, Pages, make_environment, write_kernel
from stages import few

from experiments.conformance import catalogue
from experiments.evidence import store
from experiments.harness.experiment import Experiment
from tools.environments.layout import ROOT

ORDER = ("mixed_precision_backward", "gradient_accumulation", "activation_checkpointing", "activation_offload")
FIRST_CELL = ("RUN_MODE", "RUN_LABEL", "LOCAL_FILES_ONLY", "WORKLOAD", "PROFILE")
ALIKE = ("environment", "prediction-text", "run-text", "says-text", "run", "run-ladder", "table", "pictures", "next")
CHINESE = re.compile(r"[\u4e00-\u9fff]")
ENGLISH = re.compile(r"\b[a-z]{2,}\b.*\b[a-z]{2,}\b")


def path_of(name: str) -> Path:
    return PAGES / f"{ORDER.index(name) + 1:02d}_{name}.ipynb"


def read(name: str) -> Any:
    return nbformat.read(path_of(name), as_version=nbformat.NO_CONVERT)


def experiment_of(name: str) -> Experiment:
    found: Experiment = importlib.import_module(f"experiments.training_mechanism.{name}.experiment").EXPERIMENT
    return found


def test_there_is_one_page_for_each_experiment_in_the_order_of_first_use() -> None:
    assert sorted(path.name for path in PAGES.glob("*.ipynb")) == [path_of(name).name for name in ORDER]
    folders = {path.parent.name for path in PAGES.parent.glob("*/experiment.py")}
    assert folders == set(ORDER)


@pytest.mark.parametrize("name", ORDER)
def test_a_page_is_committed_without_a_trace_of_a_run(name: str) -> None:
    page = read(name)
    nbformat.validate(page)
    assert (page.nbformat, page.nbformat_minor) == (4, 5)
    assert page.metadata.kernelspec == {"display_name": "Python 3", "language": "python", "name": "python3"}
    assert page.metadata.language_info == {"name": "python"}
    identities = [cell.id for cell in page.cells]
    assert len(set(identities)) == len(identities)
    assert all(re.fullmatch(r"[a-z]+(-[a-z]+)*", identity) for identity in identities)  # given, not drawn
    for cell in page.cells:
        if cell.cell_type == "code":
            assert (cell.outputs, cell.execution_count) == ([], None)
        assert set(cell.metadata) <= {"tags"}


@pytest.mark.parametrize("name", ORDER)
def test_the_first_cell_holds_the_choices_and_begins_as_a_dry_run(name: str) -> None:
    first = read(name).cells[0]
    assert first.metadata.tags == ["parameters"]
    values = {}
    for statement in ast.parse(first.source).body:
        assert isinstance(statement, ast.Assign)
        assert isinstance(statement.targets[0], ast.Name)
        values[statement.targets[0].id] = ast.literal_eval(statement.value)
    assert tuple(values)[: len(FIRST_CELL)] == FIRST_CELL
    assert values["RUN_MODE"] == "dry_run"
    assert values["LOCAL_FILES_ONLY"] is False
    assert values["WORKLOAD"] in experiment_of(name).workloads


@pytest.mark.parametrize("name", ORDER)
def test_every_text_is_in_chinese_and_in_english(name: str) -> None:
    for cell in read(name).cells:
        if cell.cell_type != "markdown":
            continue
        without_maths = re.sub(r"\$\$.*?\$\$|\$.*?\$|`.*?`", "", cell.source, flags=re.DOTALL)
        blocks = [block for block in without_maths.split("\n\n") if block.strip() and not block.startswith("|")]
        prose = [block for block in blocks if not block.startswith("#")]
        headings = [line for block in blocks if block.startswith("#") for line in block.splitlines()]
        assert all(CHINESE.search(line) and re.search(r"/ [A-Z][a-z]+", line) for line in headings), cell.id
        chinese = [block for block in prose if CHINESE.search(block)]
        english = [block for block in prose if not CHINESE.search(block) and ENGLISH.search(block.lower())]
        assert chinese, cell.id
        assert english, cell.id


@pytest.mark.parametrize("name", ORDER)
def test_sections_are_numbered_so_that_the_ladder_is_5_1(name: str) -> None:
    texts = [cell.source for cell in read(name).cells if cell.cell_type == "markdown"]
    headings = [line for text in texts for line in text.splitlines() if line.startswith("#")]
    experiment = experiment_of(name)
    assert headings[0] == f"# {experiment.title_zh} / {experiment.title}"
    assert any(f"\n{experiment.page}（" in text for text in texts)
    assert [line.split()[1] for line in headings if line.startswith("## ")] == list("12345678")
    assert [line.split()[1] for line in headings if line.startswith("### 5")] == ["5.1"]
    ladder = next(text for text in texts if text.startswith("### 5.1"))
    assert "8 GiB" in ladder
    assert ladder.index("Shorten the sequence first") < ladder.index("make the batch smaller")
    maths = [text for text in texts if text.startswith(("## 2 ", "### 2."))]
    assert sum("$$" in text for text in maths) >= 2


@pytest.mark.parametrize("name", ORDER)
def test_a_page_is_thin_and_shows_each_mechanism_where_it_exists(name: str) -> None:
    shown = set()
    for cell in read(name).cells:
        if cell.cell_type != "code":
            continue
        tree = ast.parse(cell.source)
        kinds = (ast.FunctionDef, ast.ClassDef, ast.For, ast.While, ast.Lambda)
        assert not [node for node in ast.walk(tree) if isinstance(node, kinds)], cell.id
        assert len(tree.body) <= 10, cell.id
        for node in ast.walk(tree):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "mechanism":
                module, *names = (ast.literal_eval(argument) for argument in node.args)
                found = importlib.import_module(f"experiments.mechanisms.{module}")
                assert all(hasattr(found, one) for one in names), names
                shown.add(module)
    assert shown & set(catalogue.load(name).modules)


@pytest.mark.parametrize("name", ORDER)
def test_a_page_sends_its_reader_to_what_exists(name: str) -> None:
    texts = "\n".join(cell.source for cell in read(name).cells if cell.cell_type == "markdown")
    notebooks = re.findall(r"`(\d\d_\w+\.ipynb)`", texts)
    following = ORDER[ORDER.index(name) + 1 :][:1]
    assert notebooks and set(notebooks) == {path_of(other).name for other in following} if following else not notebooks
    assert set(re.findall(r"conformance\.exercise (\w+)", texts)) == {name}
    assert name in catalogue.ids()


@pytest.mark.parametrize("identity", ALIKE)
def test_what_all_pages_share_is_the_same_in_all(identity: str) -> None:
    texts = {next(cell.source for cell in read(name).cells if cell.id == identity) for name in ORDER}
    assert len(texts) == 1


MEASURED, REFUSED = "activation_offload", "gradient_accumulation"


@pytest.fixture(scope="module", name="executed")
def fixture_executed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pages]:
    """All notebooks in real kernels, from a folder that is not theirs."""
    base = tmp_path_factory.mktemp("pages")
    data, elsewhere = base / "jupyter", base / "elsewhere"
    elsewhere.mkdir()
    private = {"IPYTHONDIR": str(base / "ipython"), "JUPYTER_PATH": str(data), "PYTHONPATH": ""}
    private |= {"JUPYTER_DATA_DIR": str(base / "data"), "TMLAB_RUNS": str(base / "runs")}
    write_kernel(data, "here", sys.executable, {**private, "PYTHONPATH": str(ROOT)})
    python = make_environment(base / "llm_train_cpu")
    write_kernel(data, "llm_train_cpu", python, private)
    jobs = [Job(name, path_of(name), "here") for name in ORDER]
    measured = ('RUN_MODE = "cpu_mechanism"', 'RUN_LABEL = "measured"')
    jobs.append(Job("measured", path_of(MEASURED), "llm_train_cpu", measured))
    other = ('RUN_MODE = "real_gpu"', 'RUN_LABEL = "refused"', 'PROFILE = "TRAIN-CUDA130-MECHANISM"')
    no_torch = ("import sys", 'sys.modules["torch"] = None')
    jobs.append(Job("refused", path_of(REFUSED), "llm_train_cpu", (*other, *no_torch)))
    no_lab = ("import sys", 'sys.modules["experiments"] = None')
    jobs.append(Job("no lab", path_of(REFUSED), "here", no_lab))
    with pytest.MonkeyPatch.context() as patch:
        for variable in ("JUPYTER_PATH", "JUPYTER_DATA_DIR", "IPYTHONDIR"):
            patch.setenv(variable, private[variable])
        yield Pages(jobs, elsewhere)


@pytest.mark.slow
@pytest.mark.parametrize("name", few(1, sorted(ORDER)))
def test_a_dry_run_goes_through_and_gives_a_plan(name: str, executed: Pages) -> None:
    page = executed[name]
    assert page.stopped == ""
    assert "Traceback" not in page.everything()
    assert "level plan" in page.shown("run")
    assert "· plan" in page.shown("table")
    assert "baseline" in page.shown("table")
    assert "nothing that was measured" in page.shown("pictures")
    assert "anything measured: it is a plan" in page.shown("says")
    assert "| default |" in page.shown("ladder")
    assert 'LADDER = {"workload": "fit-8gib"}' in page.shown("ladder")
    assert "predicted for a CUDA card, not executed" in page.shown("prediction")
    assert "not run: LADDER_LABEL is None" in page.shown("run-ladder")
    sources = [cell.id for cell in page.notebook.cells if cell.id.startswith("mechanism")]
    assert sources
    assert all("```python" in page.shown(cell) for cell in sources)


@pytest.mark.slow
def test_an_unregistered_kernel_stays_at_a_dry_run_and_says_why(executed: Pages) -> None:
    shown = executed["activation_checkpointing"].shown("prepare")
    assert sys.executable in shown
    if "notebook.registration" in shown:  # a development environment may have been registered by hand
        assert "dry_run; a run is not possible yet: blocked" in shown
        assert "python tools/register_notebook_runtime.py" in shown


@pytest.mark.slow
def test_a_page_measures_on_the_cpu_and_draws_from_its_record(executed: Pages) -> None:
    page = executed["measured"]
    assert page.stopped == ""
    assert "status=ok" in page.shown("prepare"), page.shown("prepare")
    assert "**kernel** ok" in page.shown("prepare")
    assert "record measured · level cpu_mechanism" in page.shown("run"), page.shown("run")
    assert "gate / none  ok" in page.shown("run")  # progress, line by line
    assert "bit-identical" in page.shown("table")
    assert "text/html" in page.kinds("pictures")
    assert "gradients.svg" in page.shown("pictures")
    assert "gradients and first update of" in page.shown("says")
    assert "anything about GPU memory or speed" in page.shown("says")
    assert "TRAIN-CUDA-MECHANISM" in page.shown("next")
    picture = Path(page.shown("pictures").splitlines()[0])
    record = store.read(picture.parent / "record.json")
    assert record.workload.registered
    assert record.identity.run_label == "measured"
    assert record.profile.id == "TRAIN-CPU"


@pytest.mark.slow
def test_the_wrong_profile_is_a_finding_on_one_line_and_nothing_runs(executed: Pages) -> None:
    page = executed["refused"]
    assert page.stopped == ""
    assert "Traceback" not in page.everything()
    told = page.shown("prepare")
    assert "**kernel** blocked" in told
    assert "of an environment made for TRAIN-CPU" in told
    verdict = next(line for line in told.splitlines() if line.startswith("**run mode**"))
    assert "blocked · RUN_MODE stays dry_run: wanted notebook.interpreter" in verdict
    assert 'set PROFILE = "TRAIN-CPU"' in verdict
    assert page.shown("run").startswith("not run · blocked · RUN_MODE stays dry_run")
    for cell in ("table", "pictures", "says", "next"):
        assert page.shown(cell).startswith("No record")
    assert "| default |" in page.shown("ladder")  # what needs no run can be read all the same
    measured = Path(executed["measured"].shown("pictures").splitlines()[0])
    assert not (measured.parents[2] / REFUSED / "refused").exists()


@pytest.mark.slow
def test_a_kernel_without_torch_is_a_finding_beside_the_maths(executed: Pages) -> None:
    shown = executed["refused"].shown("mechanism-accumulate")
    assert shown.startswith("blocked · kernel: wanted a kernel whose environment has torch")


@pytest.mark.slow
def test_a_kernel_that_cannot_import_the_lab_says_how_to_register_it(executed: Pages) -> None:
    page = executed["no lab"]
    assert "python tools/register_notebook_runtime.py" in page.shown("imports")
    assert "Traceback" not in page.shown("imports")
    assert page.shown("table") == ""  # stopped there
