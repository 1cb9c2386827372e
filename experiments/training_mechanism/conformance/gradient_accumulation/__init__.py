"""Page 6: gradient accumulation against the whole batch at once (torch), Accelerate's loop, and Transformers' loss.

The model is a softmax regression on fixed features, in float64: convex and smooth, so gradient descent with a step
below 1 / L does not enlarge an error it inherits, and the errors of N updates simply add.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from experiments.conformance.page import Page, PageCheck, Trial
from experiments.conformance.tolerance import Tolerance, dot, softmax

RATE = 0.5  # with features in [-1, 1] and width w the loss is w/2-smooth: the step is RATE / w


class CountedMicroBatch(NamedTuple):
    """Features [rows, sequence, width] in [-1, 1] and labels [rows, sequence], -100 where nothing is predicted."""

    features: Tensor
    labels: Tensor


def regression(trial: Trial) -> nn.Linear:
    """The model of a case: width -> classes, with bias, its values drawn."""
    width, classes = trial.case.integer("width", 1, 5), trial.case.integer("classes", 2, 6)
    model = nn.Linear(width, classes).double()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.copy_(trial.case.normal(*parameter.shape, bound=2.0))
    return model


def draw_micro_batches(trial: Trial, model: nn.Linear, count: int) -> list[CountedMicroBatch]:
    """`count` micro-batches of unequal lengths; each has at least one target."""
    found = []
    for index in range(count):
        rows, length = trial.case.integer(f"rows {index}", 1, 3), trial.case.integer(f"length {index}", 1, 7)
        features = trial.case.normal(rows, length, model.in_features).clamp(-1, 1)
        labels = trial.case.integers(0, model.out_features, rows, length)
        labels[trial.case.integers(0, 3, rows, length) == 0] = -100
        labels[0, 0] = 0
        found.append(CountedMicroBatch(features, labels))
    return found


def targets(batch: CountedMicroBatch) -> int:
    """Positions with a label."""
    return int((batch.labels != -100).sum())


def loss_sum(model: nn.Module, batch: CountedMicroBatch) -> Tensor:
    """Cross-entropy summed over the targets."""
    return F.cross_entropy(model(batch.features).flatten(0, 1), batch.labels.flatten(), reduction="sum")


def joined(model: nn.Module, batches: list[CountedMicroBatch]) -> Tensor:
    """The oracle: every position of every micro-batch in one flat batch, torch's own mean over the targets."""
    features = torch.cat([batch.features.flatten(0, 1) for batch in batches])
    return F.cross_entropy(model(features), torch.cat([batch.labels.flatten() for batch in batches]))


def gradient_tolerance(model: nn.Linear, batches: list[CountedMicroBatch], updates: int = 1) -> Tolerance:
    """Roundings of one gradient entry: logits, softmax, the sum over positions; and of the update made of it."""
    positions = sum(batch.labels.numel() for batch in batches)
    logits = dot(model.in_features) + 1
    once = softmax(model.out_features, logits, 2.0 * (model.in_features + 1)) + dot(positions) + len(batches) + 4
    return Tolerance("float64", once * updates, "updates * (softmax of a dot product, sum over positions, update)")


def gradients(model: nn.Module) -> dict[str, Tensor]:
    """A copy of every gradient, which is then cleared."""
    found = {name: parameter.grad.clone() for name, parameter in model.named_parameters() if parameter.grad is not None}
    model.zero_grad()
    return found


def whole_batch(trial: Trial) -> None:
    """Loss and gradients of accumulated micro-batches of unequal lengths are those of the batch at once."""
    m = trial.mechanism("accumulation")
    model = regression(trial)
    batches = draw_micro_batches(trial, model, trial.case.integer("micro_batches", 1, 5))
    loss = m.accumulate(batches, lambda batch: loss_sum(model, batch), [targets(batch) for batch in batches])
    ours = gradients(model)
    theirs = joined(model, batches)
    theirs.backward()
    tolerance = gradient_tolerance(model, batches)
    trial.compare.agree("loss", loss, theirs, tolerance, magnitude=2.0 * (model.in_features + 1))
    for name, gradient in gradients(model).items():  # features and probability errors are at most 1
        trial.compare.agree(f"gradient of {name}", ours.get(name), gradient, tolerance, magnitude=1.0)


def many_updates(trial: Trial) -> None:
    """Parameters after every update of an epoch whose last window is short, against torch on whole windows."""
    m = trial.mechanism("accumulation")
    model = regression(trial)
    start = {name: parameter.detach().clone() for name, parameter in model.named_parameters()}
    steps = trial.case.integer("steps", 1, 3)
    batches = draw_micro_batches(trial, model, trial.case.integer("micro_batches", 1, 7))
    seen: list[dict[str, Tensor]] = []
    losses = m.updates(
        batches,
        steps,
        torch.optim.SGD(model.parameters(), lr=RATE / (model.in_features + 1)),
        lambda batch: loss_sum(model, batch),
        targets,
        after_update=lambda: seen.append({name: p.detach().clone() for name, p in model.named_parameters()}),
    )
    model.load_state_dict(start)
    optimizer = torch.optim.SGD(model.parameters(), lr=RATE / (model.in_features + 1))
    expected = [batches[at : at + steps] for at in range(0, len(batches), steps)]
    trial.compare.exactly("number of updates", len(seen), len(expected))
    for index, window in enumerate(expected):
        optimizer.zero_grad()
        loss = joined(model, window)
        loss.backward()
        optimizer.step()
        tolerance = gradient_tolerance(model, window, index + 1)
        trial.compare.agree(f"loss of update {index}", losses[index], loss, tolerance, magnitude=20.0)
        for name, parameter in model.named_parameters():
            trial.compare.agree(f"{name} after update {index}", seen[index][name], parameter, tolerance, magnitude=4.0)


def wrong_control(trial: Trial) -> None:
    """The per-micro-batch mean is what its formula says: torch's means, averaged; equal lengths make both the same."""
    m = trial.mechanism("accumulation")
    model = regression(trial)
    batches = draw_micro_batches(trial, model, trial.case.integer("micro_batches", 1, 4))
    counts = [targets(batch) for batch in batches]
    m.accumulate(batches, lambda batch: loss_sum(model, batch), counts, "per_micro_batch")
    ours = gradients(model)
    torch.stack([joined(model, [batch]) for batch in batches]).mean().backward()
    tolerance = gradient_tolerance(model, batches)
    for name, gradient in gradients(model).items():
        trial.compare.agree(f"gradient of {name}", ours.get(name), gradient, tolerance, magnitude=1.0)
    equal = [trial.case.integer("targets each", 1, 100)] * len(batches)
    trial.compare.exactly("divisors of equal lengths", m.divisors(equal, "per_micro_batch"), m.divisors(equal))


def without_targets(trial: Trial) -> None:
    """A micro-batch without targets adds nothing per token, and has no mean of its own; nor has an empty window."""
    m = trial.mechanism("accumulation")
    model = regression(trial)
    batches = draw_micro_batches(trial, model, 2)
    silent = CountedMicroBatch(batches[1].features, torch.full_like(batches[1].labels, -100))
    m.accumulate([batches[0], silent], lambda batch: loss_sum(model, batch), [targets(batches[0]), 0])
    ours = gradients(model)
    joined(model, [batches[0], silent]).backward()
    tolerance = gradient_tolerance(model, [batches[0], silent])
    for name, gradient in gradients(model).items():
        trial.compare.agree(f"gradient of {name}", ours.get(name), gradient, tolerance, magnitude=1.0)
    refused = [("per_token", [0, 0]), ("per_token", []), ("per_micro_batch", [3, 0])]
    for normalise, counts in refused:
        trial.compare.holds(f"{normalise} of {counts}", _raises(m.divisors, counts, normalise), "a number", "no value")


def _raises(call: object, *arguments: object) -> bool:
    """Whether the call refuses its arguments with ValueError."""
    assert callable(call)
    try:
        call(*arguments)
    except ValueError:
        return True
    return False


def splitting(trial: Trial) -> None:
    """Micro-batch sizes are torch.split's; after an OOM the pieces halve and the effective batch stays."""
    m = trial.mechanism("accumulation")
    effective, piece = trial.case.integer("effective_batch", 1, 40), trial.case.integer("micro_batch", 1, 40)
    expected = [len(part) for part in torch.arange(effective).split(piece)]
    trial.compare.exactly("micro-batch sizes", m.split(effective, piece), expected)
    grouped = [len(window) for window in m.windows(range(effective), piece)]
    trial.compare.exactly("micro-batches per window", grouped, expected)
    sizes = m.split(effective, piece)
    while max(sizes) > 1:
        smaller = m.split_smaller(sizes)
        trial.compare.exactly("effective batch after halving", sum(smaller), effective)
        trial.compare.exactly("largest piece after halving", max(smaller), max(sizes) // 2)
        sizes = smaller
    trial.compare.holds("halving one row", _raises(m.split_smaller, sizes), "a batch of zero rows", "no value")
    trial.compare.holds("zero rows", _raises(m.split, effective, 0), "pieces", "no value")
    trial.compare.holds("zero steps", _raises(lambda: list(m.windows([1], 0))), "windows", "no value")


def wide_sums(trial: Trial) -> None:
    """bf16 gradients summed in fp32: off by fp32 roundings only, where a bf16 sum stops growing."""
    m = trial.mechanism("accumulation")
    count = trial.case.integer("micro_batches", 1, 300)
    parameter = nn.Parameter(torch.zeros(3, dtype=torch.bfloat16))
    unused = nn.Parameter(torch.zeros(2, dtype=torch.bfloat16))
    terms = trial.case.normal(count, 3, dtype=torch.bfloat16).abs()
    wide = m.WideGradients([parameter, unused])
    for _ in range(2):  # a second window must start from nothing
        for term in terms:
            parameter.grad = term.clone()
            wide.add()
            trial.compare.exactly("gradient after add", parameter.grad, None)
        total, nothing = wide.take()
        tolerance = Tolerance("float32", count, "one addition a micro-batch", "float32")
        trial.compare.agree("summed gradient", total, terms.double().sum(0), tolerance)
        trial.compare.exactly("gradient that never came", nothing, None)


def accelerate_loop(trial: Trial) -> None:
    """Accelerate's own loop, given the per-token loss it documents, makes the same updates, remainder included.

    accelerator.backward divides by the accumulation steps whatever the window holds, so the caller multiplies by them.
    """
    m = trial.mechanism("accumulation")
    model = regression(trial)
    start = {name: parameter.detach().clone() for name, parameter in model.named_parameters()}
    steps = trial.case.integer("steps", 1, 3)
    batches = draw_micro_batches(trial, model, trial.case.integer("micro_batches", 1, 6))
    ours: list[dict[str, Tensor]] = []
    m.updates(
        batches,
        steps,
        torch.optim.SGD(model.parameters(), lr=RATE / (model.in_features + 1)),
        lambda batch: loss_sum(model, batch),
        targets,
        after_update=lambda: ours.append({name: p.detach().clone() for name, p in model.named_parameters()}),
    )
    model.load_state_dict(start)
    theirs = _train_with_accelerate(model, batches, steps, per_token=True)
    trial.compare.exactly("number of updates", len(ours), len(theirs))
    tolerance = gradient_tolerance(model, batches, len(ours))
    for index, expected in enumerate(theirs):
        for name, parameter in expected.items():
            trial.compare.agree(f"{name} after update {index}", ours[index][name], parameter, tolerance, magnitude=4.0)


def accelerate_short_window(trial: Trial) -> None:
    """What Accelerate does with plain means is pinned too: a short last window is divided by the full step count."""
    m = trial.mechanism("accumulation")
    model = regression(trial)
    start = {name: parameter.detach().clone() for name, parameter in model.named_parameters()}
    steps = trial.case.integer("steps", 2, 4)
    batches = draw_micro_batches(trial, model, trial.case.integer("left over", 1, steps))
    counts = [targets(batch) for batch in batches]
    m.accumulate(batches, lambda batch: loss_sum(model, batch), counts, "per_micro_batch")
    ours = gradients(model)
    (after,) = _train_with_accelerate(model, batches, steps, per_token=False)
    tolerance = gradient_tolerance(model, batches)
    for name, gradient in ours.items():
        moved = (start[name] - after[name]) * (model.in_features + 1) / RATE
        share = len(batches) / steps
        size = 1.0 + 4.0 * (model.in_features + 1) / RATE  # the move is a difference of parameters of up to 4
        trial.compare.agree(f"gradient of {name}", gradient * share, moved, tolerance, magnitude=size)


def _train_with_accelerate(
    model: nn.Linear, batches: list[CountedMicroBatch], steps: int, *, per_token: bool
) -> list[dict[str, Tensor]]:
    """Parameters after each update of Accelerate's loop over a prepared loader."""
    from accelerate import Accelerator
    from accelerate.state import AcceleratorState, GradientState

    AcceleratorState._reset_state(reset_partial_state=True)  # the step count lives in process-wide singletons
    GradientState._reset_state()
    accelerator = Accelerator(cpu=True, gradient_accumulation_steps=steps)
    optimizer = torch.optim.SGD(model.parameters(), lr=RATE / (model.in_features + 1))
    loader: Any = torch.utils.data.DataLoader(batches, batch_size=None)  # type: ignore[arg-type]
    prepared, optimizer, loader = accelerator.prepare(model, optimizer, loader)
    model.zero_grad()
    window_targets = [
        sum(targets(batch) for batch in batches[at - at % steps : at - at % steps + steps])
        for at in range(len(batches))
    ]
    found: list[dict[str, Tensor]] = []
    for index, batch in enumerate(loader):
        with accelerator.accumulate(prepared):
            micro = CountedMicroBatch(*batch)
            divisor = window_targets[index] / steps if per_token else targets(micro)
            accelerator.backward(loss_sum(prepared, micro) / divisor)
            optimizer.step()
            optimizer.zero_grad()
        if accelerator.sync_gradients:
            found.append({name: parameter.detach().clone() for name, parameter in model.named_parameters()})
    return found


def transformers_items(trial: Trial) -> None:
    """A Qwen2 model called with num_items_in_batch, micro-batch by micro-batch, has the gradients accumulated here."""
    from experiments.training_mechanism.conformance.shared.tiny_qwen2 import LAYER_ROUNDINGS, tiny_qwen2

    m = trial.mechanism("accumulation")
    model = tiny_qwen2(seed=trial.case.integer("weights", 0, 3))
    vocabulary = model.config.vocab_size
    windows = []
    for index in range(trial.case.integer("micro_batches", 1, 3)):
        ids = trial.case.integers(0, vocabulary, 1, trial.case.integer(f"length {index}", 2, 8))
        windows.append(ids)
    counts = [ids.shape[1] - 1 for ids in windows]
    m.accumulate(
        windows,
        lambda ids: F.cross_entropy(
            model(input_ids=ids).logits[:, :-1].flatten(0, 1), ids[:, 1:].flatten(), reduction="sum"
        ),
        counts,
    )
    ours = gradients(model)
    for ids in windows:
        model(input_ids=ids, labels=ids, num_items_in_batch=sum(counts)).loss.backward()
    theirs = gradients(model)
    roundings = softmax(vocabulary, 1, 4.0) + LAYER_ROUNDINGS + sum(counts)
    tolerance = Tolerance("float32", roundings, "softmax over V, one layer's dot products, sum over positions")
    for name, gradient in theirs.items():
        trial.compare.agree(f"gradient of {name}", ours.get(name), gradient, tolerance)


OURS = "accumulation.accumulate"
CHECKS = (
    PageCheck("whole_batch", whole_batch, OURS, "torch.nn.functional.cross_entropy on the whole batch"),
    PageCheck("many_updates", many_updates, "accumulation.updates", "torch.optim.SGD on whole windows"),
    PageCheck("wrong_control", wrong_control, OURS, "the mean of torch.nn.functional.cross_entropy means"),
    PageCheck("without_targets", without_targets, OURS, "torch.nn.functional.cross_entropy", examples=5),
    PageCheck("splitting", splitting, "accumulation.split", "torch.Tensor.split"),
    PageCheck("wide_sums", wide_sums, "accumulation.WideGradients", "the float64 sum in torch", examples=8),
    PageCheck(
        "accelerate_loop",
        accelerate_loop,
        "accumulation.updates",
        "accelerate.Accelerator.accumulate",
        ("accelerate",),
        12,
    ),
    PageCheck(
        "accelerate_short_window", accelerate_short_window, OURS, "accelerate.Accelerator.backward", ("accelerate",), 8
    ),
    PageCheck(
        "transformers_items",
        transformers_items,
        OURS,
        "transformers Qwen2ForCausalLM num_items_in_batch",
        ("transformers",),
        6,
    ),
)

PAGE = Page("gradient_accumulation", ("accumulation",), CHECKS)
