"""Page 2: activation functions and losses, forward and backward, against torch and the functions Transformers uses.

Ordinary and extreme inputs are compared apart: an absolute bound that suits an input of 800 says little about one of 1.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from experiments.conformance.page import Page, PageCheck, Trial
from experiments.conformance.tolerance import ELEMENTARY, Tolerance, dot, softmax

BOUND = 4.0
SPECIAL = (0.0, -0.0, 1e-9, -1e-9, 19.5, 20.5, -20.5, 45.0, -45.0, 800.0, -800.0)

Pair = tuple[str, Callable[[Any, Tensor], tuple[Tensor, Tensor]], Callable[[Tensor], Tensor]]

FUNCTIONS: tuple[Pair, ...] = (
    ("sigmoid", lambda m, x: (m.sigmoid(x), m.sigmoid_backward(torch.ones_like(x), x)), torch.sigmoid),
    ("tanh", lambda m, x: (x.tanh(), m.tanh_backward(torch.ones_like(x), x.tanh())), torch.tanh),
    ("relu", lambda m, x: (m.relu(x), m.relu_backward(torch.ones_like(x), x)), F.relu),
    ("silu", lambda m, x: (m.silu(x), m.silu_backward(torch.ones_like(x), x)), F.silu),
    ("gelu", lambda m, x: (m.gelu(x), m.gelu_backward(torch.ones_like(x), x)), F.gelu),
    (
        "gelu_tanh",
        lambda m, x: (m.gelu_tanh(x), m.gelu_tanh_backward(torch.ones_like(x), x)),
        lambda x: F.gelu(x, approximate="tanh"),
    ),
    ("softplus", lambda m, x: (m.softplus(x), m.softplus_backward(torch.ones_like(x), x)), F.softplus),
)

ELEMENTWISE = 8 * ELEMENTARY + 16
"""Roundings of the longest of these formulas (gelu_tanh backward): its products, and a tanh whose own argument error is
damped, since |u| (1 - tanh(u)^2) stays below 1/2."""


def _magnitude(x: Tensor) -> float:
    """Largest term in any of the formulas: x times the slope of gelu_tanh's inner polynomial."""
    largest = min(float(x.abs().max()), 50.0)  # beyond that tanh, erf and sigmoid are constants
    return max(float(x.abs().max()), (1.0 + largest) * (1.0 + 3 * 0.044715 * largest**2))


def _unary(trial: Trial, x: Tensor, dtype: str) -> None:
    m = trial.mechanism("activations")
    for name, ours, theirs in FUNCTIONS:
        value, slope = ours(m, x)
        leaf = x.clone().requires_grad_()
        other = theirs(leaf)
        (other_slope,) = torch.autograd.grad(other.sum(), leaf)
        tolerance = Tolerance(dtype, ELEMENTWISE, "the longest of the formulas")
        trial.compare.agree(name, value, other, tolerance, magnitude=_magnitude(x))
        trial.compare.agree(f"{name} backward", slope, other_slope, tolerance, magnitude=_magnitude(x))


def ordinary_inputs(trial: Trial) -> None:
    """Every function and slope on inputs up to 4."""
    _unary(trial, trial.case.normal(trial.case.integer("size", 1, 12), bound=BOUND), "float64")


def extreme_inputs(trial: Trial) -> None:
    """At zero, across softplus's threshold and far out: the frameworks' values, no overflow, no NaN."""
    x = torch.tensor([trial.case.choice("input", SPECIAL)], dtype=torch.float64)
    _unary(trial, x, "float64")


def incoming_gradient(trial: Trial) -> None:
    """Every backward multiplies by the gradient that comes in."""
    m = trial.mechanism("activations")
    x = trial.case.normal(trial.case.integer("size", 1, 6), bound=BOUND)
    g = trial.case.normal(*x.shape, bound=BOUND)
    tolerance = Tolerance("float64", ELEMENTWISE + 1, "the longest of the formulas, times the gradient")
    inputs = {"tanh": x.tanh()}
    for name, _, theirs in FUNCTIONS:
        ours = getattr(m, f"{name}_backward")(g, inputs.get(name, x))
        leaf = x.clone().requires_grad_()
        (other,) = torch.autograd.grad(theirs(leaf), leaf, g)
        trial.compare.agree(f"{name} backward", ours, other, tolerance, magnitude=BOUND * _magnitude(x))


def gated_unit(trial: Trial) -> None:
    """silu(gate) * up, with both gradients."""
    m = trial.mechanism("activations")
    size = trial.case.integer("size", 1, 6)
    gate, up, g = (trial.case.normal(size, bound=BOUND) for _ in range(3))
    leaves = [gate.clone().requires_grad_(), up.clone().requires_grad_()]
    theirs = F.silu(leaves[0]) * leaves[1]
    tolerance = Tolerance("float64", ELEMENTWISE + 2, "silu, two products")
    trial.compare.agree("swiglu", m.swiglu(gate, up), theirs, tolerance, magnitude=BOUND**2)
    others = torch.autograd.grad(theirs, leaves, g)
    for name, ours, other in zip(("gate", "up"), m.swiglu_backward(g, gate, up), others, strict=True):
        trial.compare.agree(f"gradient of {name}", ours, other, tolerance, magnitude=BOUND**3 * 2)


def softmax_rows(trial: Trial) -> None:
    """softmax and log_softmax with large inputs, with entries of -inf, and with nothing else in a row (NaN)."""
    m = trial.mechanism("activations")
    rows, size = trial.case.integer("rows", 1, 4), trial.case.integer("size", 1, 9)
    x = trial.case.normal(rows, size, bound=BOUND) + trial.case.choice("offset", (0.0, 1000.0, -1000.0))
    masked = trial.case.integer("masked", 0, size - 1)
    x[:, :masked] = -math.inf
    if trial.case.choice("empty row", (False, True)):
        x[0] = -math.inf
    g = trial.case.normal(rows, size, bound=BOUND)
    # x - max is exact to one rounding of |x|, which an offset of 1000 makes 1000 / 8 times as large
    roundings = softmax(size, int(x[x.isfinite()].abs().max()) + 1 if bool(x.isfinite().any()) else 1, 1.0)
    tolerance = Tolerance("float64", roundings + dot(size) + 2, "softmax of x - max, a dot product")
    for name, theirs in (("softmax", torch.softmax), ("log_softmax", torch.log_softmax)):
        leaf = x.clone().requires_grad_()
        other = theirs(leaf, -1)
        ours = getattr(m, name)(x)
        trial.compare.agree(name, ours, other, tolerance, magnitude=2 * BOUND + math.log(size))
        if name == "log_softmax" and masked:
            continue  # -inf itself has no slope to compare
        (other_grad,) = torch.autograd.grad(other, leaf, g)
        back = getattr(m, f"{name}_backward")(g, ours)
        trial.compare.agree(f"{name} backward", back, other_grad, tolerance, magnitude=BOUND * size)


def losses(trial: Trial) -> None:
    """Each loss and its gradient, with an incoming gradient; Huber also exactly at its corner."""
    m = trial.mechanism("losses")
    rows, size = trial.case.integer("rows", 1, 4), trial.case.integer("size", 1, 6)
    x, y = trial.case.normal(rows, size, bound=BOUND), trial.case.normal(rows, size, bound=BOUND)
    delta = trial.case.choice("delta", (1.0, 0.5, 2.5))
    y[0, 0] = x[0, 0] - delta
    probabilities = torch.softmax(y, -1)
    probabilities[0, -1] = 0.0
    log_q = torch.log_softmax(x, -1)
    g = torch.tensor(trial.case.choice("grad_loss", (1.0, -0.5)), dtype=torch.float64)
    cases: list[tuple[str, Tensor, Tensor, Tensor, Callable[[Tensor], Tensor]]] = [
        ("mse", x, m.mse(x, y), m.mse_backward(g, x, y), lambda v: F.mse_loss(v, y)),
        (
            "huber", x, m.huber(x, y, delta), m.huber_backward(g, x, y, delta),
            lambda v: F.huber_loss(v, y, delta=delta),
        ),
        (
            "bce", x, m.bce_with_logits(x, y.sigmoid()), m.bce_with_logits_backward(g, x, y.sigmoid()),
            lambda v: F.binary_cross_entropy_with_logits(v, y.sigmoid()),
        ),
        (
            "kl", log_q, m.kl_divergence(log_q, probabilities), m.kl_divergence_backward(g, probabilities),
            lambda v: F.kl_div(v, probabilities, reduction="batchmean"),
        ),
    ]  # fmt: skip
    tolerance = Tolerance("float64", rows * size + 3 * ELEMENTARY + 8, "one term's formula, sum over n, mean")
    for name, inputs, value, gradient, theirs in cases:
        leaf = inputs.clone().requires_grad_()
        other = theirs(leaf)
        trial.compare.agree(name, value, other, tolerance, magnitude=(2 * BOUND + delta) ** 2)
        (slope,) = torch.autograd.grad(other, leaf, g)
        trial.compare.agree(f"{name} backward", gradient, slope, tolerance, magnitude=2 * (2 * BOUND + delta))


def extreme_logits(trial: Trial) -> None:
    """Binary cross-entropy of logits of +-800 is finite."""
    m = trial.mechanism("losses")
    x = torch.tensor([800.0, -800.0, 0.0], dtype=torch.float64) * trial.case.choice("sign", (1.0, -1.0))
    y = torch.tensor([1.0, 1.0, 0.0], dtype=torch.float64)
    leaf = x.clone().requires_grad_()
    other = F.binary_cross_entropy_with_logits(leaf, y)
    other.backward()
    tolerance = Tolerance("float64", 3 + 3 * ELEMENTARY + 8, "one term's formula, sum over 3, mean")
    trial.compare.agree("bce", m.bce_with_logits(x, y), other, tolerance, magnitude=800.0)
    one = torch.ones((), dtype=torch.float64)
    trial.compare.agree("bce backward", m.bce_with_logits_backward(one, x, y), leaf.grad, tolerance)


def transformers_functions(trial: Trial) -> None:
    """The functions Transformers looks up by name in a model's config, in fp32."""
    from transformers.activations import ACT2FN

    m = trial.mechanism("activations")
    x = trial.case.normal(trial.case.integer("size", 1, 12), dtype=torch.float32, bound=BOUND)
    names = {"silu": "silu", "gelu": "gelu", "gelu_pytorch_tanh": "gelu_tanh", "gelu_new": "gelu_tanh", "relu": "relu"}
    for theirs, ours in names.items():
        leaf = x.clone().requires_grad_()
        other = ACT2FN[theirs](leaf)
        (slope,) = torch.autograd.grad(other.sum(), leaf)
        tolerance = Tolerance("float32", ELEMENTWISE, "the longest of the formulas", "float64")
        value = getattr(m, ours)(x.double())
        trial.compare.agree(theirs, value, other, tolerance, magnitude=_magnitude(x))
        back = getattr(m, f"{ours}_backward")(torch.ones_like(x).double(), x.double())
        trial.compare.agree(f"{theirs} backward", back, slope, tolerance, magnitude=_magnitude(x))


def transformers_mlp(trial: Trial) -> None:
    """Qwen2's MLP, every gradient: three matrix products around the gated unit."""
    from experiments.training_mechanism.conformance.shared.tiny_qwen2 import HIDDEN, MLP, tiny_qwen2

    m = trial.mechanism("activations")
    mlp = tiny_qwen2(trial.case.integer("weights", 0, 3)).model.layers[0].mlp
    x = trial.case.normal(trial.case.integer("tokens", 1, 6), HIDDEN, dtype=torch.float32, bound=BOUND)
    leaf = x.clone().requires_grad_()
    theirs = mlp(leaf)
    g = trial.case.normal(*theirs.shape, dtype=torch.float32, bound=BOUND)
    theirs.backward(g)
    wide = {name: value.detach().double() for name, value in mlp.named_parameters()}
    gate, up = x.double() @ wide["gate_proj.weight"].T, x.double() @ wide["up_proj.weight"].T
    inner = m.swiglu(gate, up)
    back = g.double() @ wide["down_proj.weight"]
    d_gate, d_up = m.swiglu_backward(back, gate, up)
    roundings = 2 * dot(HIDDEN) + dot(MLP) + ELEMENTWISE + dot(len(x))
    tolerance = Tolerance("float32", roundings, "three dot products, silu, sum over tokens", "float64")
    gradients = {
        "output": (inner @ wide["down_proj.weight"].T, theirs),
        "gradient of the input": (d_gate @ wide["gate_proj.weight"] + d_up @ wide["up_proj.weight"], leaf.grad),
        "gradient of down": (g.double().T @ inner, mlp.down_proj.weight.grad),
        "gradient of gate": (d_gate.T @ x.double(), mlp.gate_proj.weight.grad),
        "gradient of up": (d_up.T @ x.double(), mlp.up_proj.weight.grad),
    }
    weight = max(float(value.abs().max()) for value in wide.values())
    size = weight * BOUND * MLP * len(x)  # no entry of any of these is a sum of larger terms
    for name, (ours, other) in gradients.items():
        trial.compare.agree(name, ours, other, tolerance, magnitude=max(size, 1.0))


CHECKS = (
    PageCheck("ordinary_inputs", ordinary_inputs, "activations", "torch.nn.functional", examples=12),
    PageCheck("extreme_inputs", extreme_inputs, "activations", "torch.nn.functional", examples=30),
    PageCheck("incoming_gradient", incoming_gradient, "activations", "torch.nn.functional", examples=8),
    PageCheck("gated_unit", gated_unit, "activations.swiglu", "torch.nn.functional.silu", examples=8),
    PageCheck("softmax_rows", softmax_rows, "activations.softmax", "torch.softmax"),
    PageCheck("losses", losses, "losses", "torch.nn.functional", examples=15),
    PageCheck("extreme_logits", extreme_logits, "losses.bce_with_logits", "torch.nn.functional", examples=2),
    PageCheck(
        "transformers_functions", transformers_functions, "activations", "transformers.activations.ACT2FN",
        ("transformers",), 8,
    ),
    PageCheck(
        "transformers_mlp", transformers_mlp, "activations.swiglu", "transformers Qwen2MLP", ("transformers",), 6,
    ),
)  # fmt: skip

PAGE = Page("activations", ("activations", "losses"), CHECKS)
