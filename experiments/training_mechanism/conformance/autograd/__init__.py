"""Page 1: the small reverse-mode engine against torch.autograd: operations, the walk, accumulation, higher order."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from experiments.conformance.page import Page, PageCheck, Trial
from experiments.conformance.tolerance import ELEMENTARY, Tolerance, dot
from experiments.training_mechanism.conformance.shared.residual_blocks import raises

BOUND = 2.0  # |entry| of a drawn input


def _leaves(m: Any, values: Sequence[Tensor]) -> tuple[list[Any], list[Tensor]]:
    """The same values as leaves of both engines."""
    return [m.Variable(value.clone()) for value in values], [value.clone().requires_grad_() for value in values]


def _hold(
    trial: Trial,
    name: str,
    ours: Any,
    theirs: Tensor,
    leaves: tuple[list[Any], list[Tensor]],
    roundings: int,
    formula: str,
    magnitude: float,
) -> None:
    """Value and every gradient of one expression under a drawn seed."""
    m = trial.mechanism("autograd_engine")
    tolerance = Tolerance("float64", roundings, formula)
    trial.compare.agree(f"value of {name}", ours.value, theirs, tolerance, magnitude=magnitude)
    seed = trial.case.normal(*theirs.shape, bound=BOUND)
    mine = m.gradient(ours, leaves[0], m.constant(seed))
    other = torch.autograd.grad(theirs, leaves[1], seed, allow_unused=True)
    for place, (left, right) in enumerate(zip(mine, other, strict=True)):
        trial.compare.agree(
            f"gradient of {name}, input {place}",
            None if left is None else left.value,
            right,
            tolerance,
            magnitude=BOUND * magnitude,
        )


def elementwise(trial: Trial) -> None:
    """Each operation of one input, where it is smooth and where it is not."""
    m = trial.mechanism("autograd_engine")
    value = trial.case.normal(trial.case.integer("rows", 1, 4), trial.case.integer("columns", 1, 4), bound=BOUND)
    operations: dict[str, tuple[Callable[[Any], Any], Callable[[Tensor], Tensor], Tensor]] = {
        "exp": (m.exp, torch.exp, value),
        "log": (m.log, torch.log, value.abs() + 0.5),
        "tanh": (m.tanh, torch.tanh, value),
        "relu": (m.relu, torch.relu, value.round()),
        "negative": (m.negative, torch.neg, value),
        "power 3": (lambda v: m.power(v, 3.0), lambda v: v**3.0, value),
        "power -1.5": (lambda v: m.power(v, -1.5), lambda v: v**-1.5, value.abs() + 0.5),
        "transpose": (m.transpose, lambda v: v.transpose(-1, -2), value),
        "reshape": (lambda v: m.reshape(v, (-1,)), lambda v: v.reshape(-1), value),
        "sum_to": (lambda v: m.sum_to(v, (1, value.shape[1])), lambda v: v.sum(0, keepdim=True), value),
        "sum_to scalar": (lambda v: m.sum_to(v, ()), torch.sum, value),
        "expand": (lambda v: m.expand(v, (3, *value.shape)), lambda v: v.expand(3, *value.shape), value),
    }
    roundings = 4 * ELEMENTARY + value.numel() + 3
    largest = 2.0 * (BOUND + 0.5) ** 3  # of any of these functions and slopes: 3 x^2, 1.5 * 0.5^-2.5, e^2, ...
    for name, (mine, theirs, x) in operations.items():
        ours, other = _leaves(m, [x])
        size = largest * x.numel()
        _hold(trial, name, mine(ours[0]), theirs(other[0]), (ours, other), roundings, "functions and a sum", size)


def broadcasting(trial: Trial) -> None:
    """Two inputs of different shapes: what was broadcast is summed back; a maximum's tie is shared."""
    m = trial.mechanism("autograd_engine")
    rows, columns = trial.case.integer("rows", 1, 4), trial.case.integer("columns", 1, 4)
    shapes = [((rows, columns), (columns,)), ((rows, 1), (1, columns)), ((2, rows, columns), (rows, 1)), ((), (rows,))]
    first, second = trial.case.choice("shapes", shapes)
    operations: list[tuple[str, Callable[..., Any], Callable[..., Tensor]]] = [
        ("add", m.add, torch.add), ("multiply", m.multiply, torch.mul)
    ]  # fmt: skip
    values = [trial.case.normal(*first, bound=BOUND), trial.case.normal(*second, bound=BOUND)]
    for name, mine, theirs in operations:
        leaves = _leaves(m, values)
        _hold(trial, name, mine(*leaves[0]), theirs(*leaves[1]), leaves, 32 + 3, "product, sum over 32", 32 * BOUND**2)
    tied = [value.round() for value in (trial.case.normal(rows, columns), trial.case.normal(rows, columns))]
    leaves = _leaves(m, tied)
    _hold(trial, "maximum", m.maximum(*leaves[0]), torch.maximum(*leaves[1]), leaves, 3, "a product", 8.0)


def matrix_products(trial: Trial) -> None:
    """Matrix products, leading dimensions broadcast included."""
    m = trial.mechanism("autograd_engine")
    n, k, p = (trial.case.integer(name, 1, 5) for name in ("n", "k", "m"))
    if trial.case.choice("square", (True, False)):
        k = p = n
    left, right = trial.case.choice("leading dimensions", [((), ()), ((3,), ()), ((3, 1), (2,))])
    values = [trial.case.normal(*left, n, k, bound=BOUND), trial.case.normal(*right, k, p, bound=BOUND)]
    leaves = _leaves(m, values)
    terms = max(k, n, p) * 6
    _hold(
        trial, "matmul", m.matmul(*leaves[0]), torch.matmul(*leaves[1]), leaves, dot(terms), "a dot product",
        terms * BOUND**2,
    )  # fmt: skip


def network(trial: Trial) -> None:
    """A two-layer network with bias and a log-sum-exp loss: values used in several places, gradients that meet."""
    m = trial.mechanism("autograd_engine")
    rows, width, inner = (trial.case.integer(name, 1, 5) for name in ("rows", "width", "inner"))
    shapes = [(rows, width), (width, inner), (inner,), (inner, width)]
    leaves = _leaves(m, [trial.case.normal(*shape, bound=1.0) for shape in shapes])

    def ours(x: Any, w: Any, b: Any, v: Any) -> Any:
        hidden = m.tanh(m.add(m.matmul(x, w), b))
        out = m.add(m.matmul(hidden, v), x)  # the input comes back in: a residual
        return m.log(m.sum_to(m.exp(m.multiply(out, out)), ()))

    def theirs(x: Tensor, w: Tensor, b: Tensor, v: Tensor) -> Tensor:
        out = torch.tanh(x @ w + b) @ v + x
        return (out * out).exp().sum().log()

    largest = float(inner + 1) ** 2  # |out| <= inner + 1, and its square goes through exp
    argument = dot(width) + ELEMENTARY + dot(inner) + 3
    roundings = int(argument * largest) + 2 * (rows * width + width + inner) + 12
    value = theirs(*leaves[1])
    _hold(
        trial, "a network's loss", ours(*leaves[0]), value, leaves, roundings,
        "dot products through exp, twice over", 4 * largest * (width + inner),
    )  # fmt: skip


def higher_order(trial: Trial) -> None:
    """Second and third derivatives, which exist because the first one is a graph again."""
    m = trial.mechanism("autograd_engine")
    leaves = _leaves(m, [trial.case.normal(trial.case.integer("size", 1, 4), bound=1.0).abs() + 0.5])
    mine: Any = m.sum_to(m.multiply(m.tanh(leaves[0][0]), m.log(m.power(leaves[0][0], 3.0))), ())
    other = (leaves[1][0].tanh() * (leaves[1][0] ** 3.0).log()).sum()
    for order in (1, 2, 3):
        (mine,) = m.gradient(mine, leaves[0])
        (other,) = torch.autograd.grad(other, leaves[1], create_graph=True)
        tolerance = Tolerance("float64", 60 * order, "60 roundings an order: functions, products, their sums")
        trial.compare.agree(f"derivative of order {order}", mine.value, other, tolerance, magnitude=100.0)
        mine, other = m.sum_to(mine, ()), other.sum()


def accumulation(trial: Trial) -> None:
    """backward adds to what `grad` already holds; a shared leaf collects from every use; constants collect nothing."""
    m = trial.mechanism("autograd_engine")
    size = trial.case.integer("size", 1, 5)
    values = [trial.case.normal(size, bound=BOUND) for _ in range(2)]
    (x, y), (tx, ty) = _leaves(m, values)
    times = trial.case.integer("backward calls", 1, 3)
    tolerance = Tolerance("float64", 8 * times, "a few products and sums, once per call")
    for _ in range(times):
        cut = m.detach(m.multiply(x, x))
        m.backward(m.sum_to(m.add(m.multiply(m.multiply(x, y), x), m.multiply(cut, y)), ()))
        (tx * ty * tx + (tx * tx).detach() * ty).sum().backward()
    trial.compare.agree("grad of a shared leaf", x.grad.value, tx.grad, tolerance, magnitude=2 * times * BOUND**2)
    trial.compare.agree("grad of the other leaf", y.grad.value, ty.grad, tolerance, magnitude=2 * times * BOUND**2)
    fixed = m.constant(values[0])
    m.backward(m.sum_to(m.multiply(fixed, y), ()))
    trial.compare.exactly("grad of a constant", None if fixed.grad is None else fixed.grad.value, None)


def diamond(trial: Trial) -> None:
    """Paths of different lengths that meet: a node is visited once, after all that use it."""
    m = trial.mechanism("autograd_engine")
    depth = trial.case.integer("depth", 1, 40)
    leaves = _leaves(m, [trial.case.normal(3, bound=0.5)])
    mine, other = leaves[0][0], leaves[1][0]
    for _ in range(depth):  # 2 ** depth paths lead to the leaf
        mine = m.multiply(m.add(mine, m.tanh(mine)), m.constant(torch.full((3,), 0.5, dtype=torch.float64)))
        other = (other + other.tanh()) * 0.5
    _hold(trial, "a ladder of diamonds", mine, other, leaves, depth * 12, "12 roundings a rung", 1.0)


def undefined(trial: Trial) -> None:
    """An unused input has no gradient, and an output that is no scalar needs a seed, in torch as here."""
    m = trial.mechanism("autograd_engine")
    size = trial.case.integer("size", 2, 5)
    (x, y), (tx, ty) = _leaves(m, [trial.case.normal(size), trial.case.normal(size)])
    (_, unused) = m.gradient(m.sum_to(x, ()), [x, y])
    (_, theirs) = torch.autograd.grad(tx.sum(), [tx, ty], allow_unused=True)
    trial.compare.exactly("gradient of an unused input", None if unused is None else unused.value, theirs)
    ours_refuses = raises(ValueError, lambda: m.gradient(x, [x]))
    trial.compare.exactly("refuses a vector", ours_refuses, raises(RuntimeError, lambda: torch.autograd.grad(tx, [tx])))


OURS, TORCH = "autograd_engine", "torch.autograd"
CHECKS = (
    PageCheck("elementwise", elementwise, OURS, TORCH, examples=10),
    PageCheck("broadcasting", broadcasting, OURS, TORCH),
    PageCheck("matrix_products", matrix_products, OURS, TORCH),
    PageCheck("network", network, OURS, TORCH),
    PageCheck("higher_order", higher_order, OURS, TORCH, examples=10),
    PageCheck("accumulation", accumulation, f"{OURS}.backward", "torch.Tensor.backward", examples=10),
    PageCheck("diamond", diamond, f"{OURS}.pull_back", TORCH, examples=10),
    PageCheck("undefined", undefined, OURS, TORCH, examples=5),
)

PAGE = Page("autograd", ("autograd_engine",), CHECKS)
