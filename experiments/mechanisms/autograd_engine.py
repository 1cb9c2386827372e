"""A small reverse-mode automatic differentiation engine: the computational graph, and the walk back through it.

Each operation makes a node that remembers its parents and a pullback, the function that turns the gradient of its
output into the gradients of its parents (the vector-Jacobian product). With y = f(x_1, ..., x_n) and L some scalar

    dL/dx_i = (dy/dx_i)^T dL/dy            and, where x feeds several nodes, the contributions add up

The walk visits nodes in reverse topological order, so a node's gradient is complete before it is handed on. Pullbacks
are written in the engine's own operations: the gradient is a graph again, and can be differentiated once more.

Arrays are torch tensors used without their autograd; broadcasting follows torch, and a gradient is summed back over
whatever was broadcast.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor

Pullback = Callable[["Variable"], Sequence["Variable"]]


@dataclass(eq=False)
class Variable:
    """A node of the graph. A leaf has no parents; `grad` is filled by `backward`, on leaves that need a gradient."""

    value: Tensor
    parents: tuple[Variable, ...] = ()
    pullback: Pullback | None = None
    needs_grad: bool = True
    grad: Variable | None = field(default=None, init=False)


def constant(value: Tensor) -> Variable:
    """A leaf no gradient flows into."""
    return Variable(value, needs_grad=False)


def detach(x: Variable) -> Variable:
    """The same value, cut off from the graph."""
    return constant(x.value)


def _node(value: Tensor, parents: tuple[Variable, ...], pullback: Pullback) -> Variable:
    if not any(parent.needs_grad for parent in parents):
        return constant(value)
    return Variable(value, parents, pullback)


# --- operations: value, parents, pullback -----------------------------------------------------------------------------


def add(a: Variable, b: Variable) -> Variable:
    """a + b with broadcasting."""
    return _node(a.value + b.value, (a, b), lambda g: (sum_to(g, a.value.shape), sum_to(g, b.value.shape)))


def multiply(a: Variable, b: Variable) -> Variable:
    """a * b with broadcasting: each factor's gradient is the other factor."""
    return _node(
        a.value * b.value,
        (a, b),
        lambda g: (sum_to(multiply(g, b), a.value.shape), sum_to(multiply(g, a), b.value.shape)),
    )


def matmul(a: Variable, b: Variable) -> Variable:
    """[..., n, k] @ [..., k, m]: dA = G B^T, dB = A^T G, summed over broadcast leading dimensions."""
    return _node(
        a.value @ b.value,
        (a, b),
        lambda g: (
            sum_to(matmul(g, transpose(b)), a.value.shape),
            sum_to(matmul(transpose(a), g), b.value.shape),
        ),
    )


def power(x: Variable, exponent: float) -> Variable:
    """x ** exponent for a constant exponent: d = exponent * x ** (exponent - 1)."""

    def pullback(g: Variable) -> Sequence[Variable]:
        slope = multiply(constant(torch.full_like(x.value, exponent)), power(x, exponent - 1.0))
        return (multiply(g, slope),)

    return _node(x.value**exponent, (x,), pullback)


def exp(x: Variable) -> Variable:
    """e ** x, its own derivative."""
    return _node(x.value.exp(), (x,), lambda g: (multiply(g, exp(x)),))


def log(x: Variable) -> Variable:
    """Natural logarithm: d = 1 / x."""
    return _node(x.value.log(), (x,), lambda g: (multiply(g, power(x, -1.0)),))


def tanh(x: Variable) -> Variable:
    """Hyperbolic tangent: d = 1 - tanh(x) ** 2."""

    def pullback(g: Variable) -> Sequence[Variable]:
        one = constant(torch.ones_like(x.value))
        return (multiply(g, add(one, negative(power(tanh(x), 2.0)))),)

    return _node(x.value.tanh(), (x,), pullback)


def relu(x: Variable) -> Variable:
    """max(x, 0); at 0 the derivative is taken to be 0."""
    open_gate = constant((x.value > 0).to(x.value.dtype))
    return _node(x.value * open_gate.value, (x,), lambda g: (multiply(g, open_gate),))


def maximum(a: Variable, b: Variable) -> Variable:
    """The larger of two equally shaped inputs; where they tie each gets half of the gradient."""
    share = (a.value > b.value).to(a.value.dtype) + 0.5 * (a.value == b.value).to(a.value.dtype)
    return _node(
        torch.maximum(a.value, b.value),
        (a, b),
        lambda g: (multiply(g, constant(share)), multiply(g, constant(1.0 - share))),
    )


def negative(x: Variable) -> Variable:
    """-x."""
    return multiply(x, constant(-torch.ones_like(x.value)))


def transpose(x: Variable) -> Variable:
    """The last two dimensions exchanged."""
    return _node(x.value.transpose(-1, -2), (x,), lambda g: (transpose(g),))


def reshape(x: Variable, shape: Sequence[int]) -> Variable:
    """The same entries in another shape."""
    return _node(x.value.reshape(tuple(shape)), (x,), lambda g: (reshape(g, x.value.shape),))


def expand(x: Variable, shape: Sequence[int]) -> Variable:
    """x repeated to `shape` by broadcasting; its gradient is the sum over the repeats."""
    return _node(x.value.expand(tuple(shape)), (x,), lambda g: (sum_to(g, x.value.shape),))


def sum_to(x: Variable, shape: Sequence[int]) -> Variable:
    """x summed to `shape`: over leading dimensions it lacks and over those it has with size 1. Undoes broadcasting."""
    lead = x.value.dim() - len(shape)
    repeated = [lead + place for place, size in enumerate(shape) if size == 1 and x.value.shape[lead + place] != 1]
    dimensions = list(range(lead)) + repeated
    if not dimensions:
        return x
    value = x.value.sum(dim=dimensions, keepdim=True).reshape(tuple(shape))
    return _node(value, (x,), lambda g: (expand(g, x.value.shape),))


# --- the walk back ----------------------------------------------------------------------------------------------------


def topological_order(root: Variable) -> list[Variable]:
    """Every node `root` depends on that needs a gradient, parents before children. No recursion: graphs are deep."""
    order: list[Variable] = []
    seen: set[int] = set()
    stack = [(root, False)]
    while stack:
        node, parents_done = stack.pop()
        if parents_done:
            order.append(node)
        elif id(node) not in seen and node.needs_grad:
            seen.add(id(node))
            stack.append((node, True))
            stack.extend((parent, False) for parent in node.parents)
    return order


def pull_back(root: Variable, seed: Variable | None = None) -> dict[int, Variable]:
    """The gradient of `root` with respect to each node, by id(node). `seed` is dL/droot, 1 for a scalar.

    Raises ValueError where root is no scalar and no seed is given: a gradient is of one number.
    """
    if seed is None:
        if root.value.numel() != 1:
            raise ValueError(f"a gradient needs a scalar output or a seed, got shape {tuple(root.value.shape)}")
        seed = constant(torch.ones_like(root.value))
    gradients = {id(root): seed}
    for node in reversed(topological_order(root)):
        if node.pullback is None:
            continue
        for parent, part in zip(node.parents, node.pullback(gradients[id(node)]), strict=True):
            if not parent.needs_grad:
                continue
            before = gradients.get(id(parent))
            gradients[id(parent)] = part if before is None else add(before, part)
    return gradients


def gradient(root: Variable, inputs: Sequence[Variable], seed: Variable | None = None) -> list[Variable | None]:
    """d root / d input for each input, as Variables that can be differentiated again; None where root ignores it."""
    found = pull_back(root, seed)
    return [found.get(id(variable)) for variable in inputs]


def backward(root: Variable, seed: Variable | None = None) -> None:
    """Adds d root / d leaf to the `grad` of every leaf that needs one; a second call adds once more."""
    found = pull_back(root, seed)
    for node in topological_order(root):
        if not node.parents:
            part = detach(found[id(node)])
            node.grad = part if node.grad is None else add(node.grad, part)
