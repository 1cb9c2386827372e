"""Page 5: RMSNorm and RoPE against torch (float64), Qwen2's modules (fp32 inside), and a whole Qwen2 decoder."""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F
from torch import Tensor

from experiments.conformance.page import Page, PageCheck, Trial
from experiments.conformance.tolerance import ELEMENTARY, Tolerance, dot, softmax
from experiments.training_mechanism.conformance.shared.residual_blocks import raises
from experiments.training_mechanism.conformance.shared.tiny_qwen2 import (
    HEADS,
    KV_HEADS,
    LAYER_ROUNDINGS,
    VOCABULARY,
    tiny_qwen2,
)

BOUND = 4.0


def _norm_tolerance(x: Tensor, dtype: str, ours: str | None = None) -> Tolerance:
    """Roundings of RMSNorm's gradient: the mean of squares, 1 / sqrt and its cube, a second mean, four products."""
    width, rows = x.shape[-1], x.numel() // x.shape[-1]
    roundings = 2 * dot(width) + 3 * (dot(width) // 2 + ELEMENTARY) + 8 + dot(rows)
    return Tolerance(dtype, roundings, "two means over d, the cube of 1 / sqrt, a sum over rows", ours)


def _hold_norm(trial: Trial, x: Tensor, weight: Tensor, epsilon: float, grad: Tensor, theirs: Tensor,
               leaves: list[Tensor], dtype: str) -> None:  # fmt: skip
    """Output and both gradients against an oracle's output that depends on `leaves`."""
    m = trial.mechanism("norms")
    others = torch.autograd.grad(theirs, leaves, grad)
    wide, wide_weight, wide_grad = x.double(), weight.double(), grad.double()
    allowed = _norm_tolerance(x, dtype, "float64")
    inverse = float(torch.rsqrt(wide.square().mean(-1) + epsilon).max())
    steepest = float((wide_grad * wide_weight).abs().max())
    output = m.rms_norm(wide, wide_weight, epsilon)
    trial.compare.agree(
        "output", output, theirs, allowed, magnitude=float(wide_weight.abs().max()) * x.shape[-1] ** 0.5
    )
    grad_x, grad_weight = m.rms_norm_backward(wide_grad, wide, wide_weight, epsilon)
    trial.compare.agree("gradient of x", grad_x, others[0], allowed, magnitude=inverse * steepest * x.shape[-1])
    rows = x.numel() // x.shape[-1]
    size = rows * float(wide_grad.abs().max()) * x.shape[-1] ** 0.5  # |x r| <= sqrt(d)
    trial.compare.agree("gradient of weight", grad_weight, others[1], allowed, magnitude=size)


def _draw_norm(trial: Trial, dtype: torch.dtype = torch.float64) -> tuple[Tensor, Tensor, float, Tensor]:
    case = trial.case
    shape = (case.integer("batch", 1, 3), case.integer("rows", 1, 4), case.integer("width", 1, 12))
    size = case.choice("size of x", (1.0, 1e-3, 0.0))
    x = case.normal(*shape, bound=BOUND) * size
    epsilon = case.choice("epsilon", (1e-6, 1e-5, 0.1))
    return x.to(dtype), case.normal(shape[-1], bound=2.0).to(dtype), epsilon, case.normal(*shape, bound=2.0).to(dtype)


def norm_written_out(trial: Trial) -> None:
    """The formula in torch's operations with autograd, for inputs of ordinary size, near epsilon, and all zero."""
    x, weight, epsilon, grad = _draw_norm(trial)
    leaves = [x.clone().requires_grad_(), weight.clone().requires_grad_()]
    theirs = leaves[0] / (leaves[0].pow(2).mean(-1, keepdim=True) + epsilon).sqrt() * leaves[1]
    _hold_norm(trial, x, weight, epsilon, grad, theirs, leaves, "float64")


def norm_torch(trial: Trial) -> None:
    """torch's own rms_norm in float64."""
    x, weight, epsilon, grad = _draw_norm(trial)
    leaves = [x.clone().requires_grad_(), weight.clone().requires_grad_()]
    theirs = F.rms_norm(leaves[0], (x.shape[-1],), leaves[1], epsilon)
    _hold_norm(trial, x, weight, epsilon, grad, theirs, leaves, "float64")


def norm_transformers(trial: Trial) -> None:
    """Qwen2RMSNorm, which computes in fp32, with its gradients; and in bf16, where it rounds before the weight."""
    from transformers.models.qwen2.modeling_qwen2 import Qwen2RMSNorm

    x, weight, epsilon, grad = _draw_norm(trial, torch.float32)
    module = Qwen2RMSNorm(x.shape[-1], eps=epsilon)
    with torch.no_grad():
        module.weight.copy_(weight)
    leaf = x.clone().requires_grad_()
    _hold_norm(trial, x, weight, epsilon, grad, module(leaf), [leaf, module.weight], "float32")

    low, low_weight = x.bfloat16(), weight.bfloat16()
    module.to(torch.bfloat16)
    ours = trial.mechanism("norms").rms_norm(low, low_weight, epsilon)
    trial.compare.exactly("dtype is bf16", ours.dtype == torch.bfloat16, module(low).dtype == torch.bfloat16)
    trial.compare.exactly("output in bf16", ours, module(low))  # the same fp32 operations, rounded in the same places


def rope_complex(trial: Trial) -> None:
    """A rotation as a product of complex numbers, with autograd's gradient; then the inverse undoes it."""
    m = trial.mechanism("rope")
    case = trial.case
    width, length = 2 * case.integer("pairs", 1, 6), case.integer("positions", 1, 9)
    theta = case.choice("theta", (1e6, 1e4, 10.0))
    positions = torch.arange(length) + case.choice("first position", (0, 17, 301))
    x, grad = case.normal(2, 3, length, width, bound=BOUND), case.normal(2, 3, length, width, bound=BOUND)
    leaf = x.clone().requires_grad_()
    angle = positions[:, None] / theta ** (torch.arange(width // 2, dtype=torch.float64) * 2 / width)
    turn = torch.polar(torch.ones_like(angle), angle)
    turned = torch.complex(leaf[..., : width // 2], leaf[..., width // 2 :]) * turn
    theirs = torch.cat((turned.real, turned.imag), -1)
    (other,) = torch.autograd.grad(theirs, leaf, grad)
    cos, sin = m.angles(positions, width, theta)
    roundings = math.ceil(float(positions.max()) + 1) * (3 + math.ceil(math.log(theta))) + ELEMENTARY + 3
    tolerance = Tolerance("float64", roundings, "the angle's own error times its size, sin or cos, two products")
    trial.compare.agree("output", m.rotate(x, cos, sin), theirs, tolerance, magnitude=2 * BOUND)
    trial.compare.agree("gradient", m.rotate_backward(grad, cos, sin), other, tolerance, magnitude=2 * BOUND)


def rope_relative(trial: Trial) -> None:
    """The product of a rotated query and a rotated key depends on the distance of their positions alone."""
    m = trial.mechanism("rope")
    width = 2 * trial.case.integer("pairs", 1, 6)
    q, k = trial.case.normal(1, width, bound=BOUND), trial.case.normal(1, width, bound=BOUND)
    near, distance = trial.case.integer("position", 0, 40), trial.case.integer("distance", 0, 40)
    products = []
    for shift in (0, 7):
        places = torch.tensor([[near + shift], [near + distance + shift]])
        cos, sin = m.angles(places, width, 1e4)
        products.append((m.rotate(q, cos[0], sin[0]) * m.rotate(k, cos[1], sin[1])).sum())
    roundings = 90 * (3 + math.ceil(math.log(1e4))) + dot(width) + 2 * ELEMENTARY
    tolerance = Tolerance("float64", roundings, "angles up to 87 radians, a dot product")
    trial.compare.agree(
        "product after a shift of both", products[0], products[1], tolerance, magnitude=width * BOUND**2
    )
    trial.compare.holds(
        "an odd width", raises(ValueError, lambda: m.frequencies(width + 1, 1e4)), "accepted", "refused"
    )


def rope_transformers(trial: Trial) -> None:
    """Qwen2RotaryEmbedding (angles in fp32) and apply_rotary_pos_emb, gradients included."""
    from transformers.models.qwen2.modeling_qwen2 import apply_rotary_pos_emb

    m = trial.mechanism("rope")
    theta = trial.case.choice("theta", (1e6, 1e4))
    model = tiny_qwen2(rope_parameters={"rope_type": "default", "rope_theta": theta})
    width = model.config.hidden_size // HEADS
    length = trial.case.integer("positions", 1, 9)
    positions = (torch.arange(length) + trial.case.choice("first position", (0, 17, 301)))[None]
    query = trial.case.normal(1, HEADS, length, width, dtype=torch.float32, bound=BOUND)
    key = trial.case.normal(1, KV_HEADS, length, width, dtype=torch.float32, bound=BOUND)
    cos, sin = m.angles(positions[0], width, theta)
    their_cos, their_sin = model.model.rotary_emb(query, positions)
    largest = float(positions.max()) + 1
    angle = math.ceil(largest) * (3 + math.ceil(math.log(theta)))
    tolerance = Tolerance("float32", angle + ELEMENTARY, "the angle's own error times its size, sin or cos", "float64")
    trial.compare.agree("cos", torch.cat((cos, cos), -1)[None], their_cos, tolerance, magnitude=1.0)
    trial.compare.agree("sin", torch.cat((sin, sin), -1)[None], their_sin, tolerance, magnitude=1.0)
    leaves = [query.clone().requires_grad_(), key.clone().requires_grad_()]
    outputs = apply_rotary_pos_emb(*leaves, their_cos, their_sin)
    tolerance = Tolerance("float32", angle + ELEMENTARY + 3, "the angles, two products and their sum", "float64")
    for name, x, leaf, theirs in zip(("query", "key"), (query, key), leaves, outputs, strict=True):
        trial.compare.agree(name, m.rotate(x.double(), cos, sin), theirs, tolerance, magnitude=2 * BOUND)
        (other,) = torch.autograd.grad(theirs, leaf, torch.ones_like(theirs))
        ours = m.rotate_backward(torch.ones_like(x.double()), cos, sin)
        trial.compare.agree(f"gradient of {name}", ours, other, tolerance, magnitude=2.0)


def whole_decoder(trial: Trial) -> None:
    """The float64 decoder that serves as the lab's oracle, loss and every gradient, against a Qwen2 in fp32."""
    m = trial.mechanism("decoder_float64")
    layers = trial.case.integer("layers", 1, 2)
    model = tiny_qwen2(trial.case.integer("weights", 0, 3), layers=layers)
    with torch.no_grad():
        for parameter in model.parameters():  # biases and norms start as 0 and 1, which would hide faults
            if parameter.dim() == 1:
                parameter.add_(trial.case.normal(*parameter.shape, dtype=torch.float32, bound=1.0))
    ids = trial.case.integers(0, VOCABULARY, 2, trial.case.integer("sequence", 2, 7))
    theirs = model(input_ids=ids, labels=ids).loss
    theirs.backward()
    weights = {name: value.detach().double().requires_grad_() for name, value in model.named_parameters()}
    config = model.config
    sizes = m.Sizes(layers, HEADS, KV_HEADS, config.rope_parameters["rope_theta"], config.rms_norm_eps)
    divisor = ids[:, 1:].numel()
    ours = m.loss(weights, sizes, ids[:, :-1], ids[:, 1:], divisor)
    ours.backward()
    angle = ids.shape[1] * (3 + math.ceil(math.log(sizes.rope_theta)))
    roundings = layers * (LAYER_ROUNDINGS + angle) + softmax(VOCABULARY, 1, 8.0) + divisor
    tolerance = Tolerance("float32", roundings, "layers * (dot products, angles), softmax over V, positions", "float64")
    trial.compare.agree("loss", ours, theirs, tolerance)
    gradients = {name: value.grad for name, value in weights.items() if value.grad is not None}
    largest = max(float(value.abs().max()) for value in gradients.values())
    for name, parameter in model.named_parameters():
        trial.compare.agree(f"gradient of {name}", gradients[name], parameter.grad, tolerance, magnitude=largest)


NORM, ROPE = "norms.rms_norm", "rope.rotate"
CHECKS = (
    PageCheck("norm_written_out", norm_written_out, NORM, "the formula under torch.autograd"),
    PageCheck("norm_torch", norm_torch, NORM, "torch.nn.functional.rms_norm", examples=12),
    PageCheck("rope_complex", rope_complex, ROPE, "torch.polar and torch.autograd"),
    PageCheck("rope_relative", rope_relative, ROPE, "the definition of a relative position", examples=10),
    PageCheck("norm_transformers", norm_transformers, NORM, "transformers Qwen2RMSNorm", ("transformers",)),
    PageCheck("rope_transformers", rope_transformers, ROPE, "transformers apply_rotary_pos_emb", ("transformers",), 10),
    PageCheck(
        "whole_decoder", whole_decoder, "decoder_float64.loss", "transformers Qwen2ForCausalLM", ("transformers",), 6
    ),
)

PAGE = Page("norm_rope", ("norms", "rope", "decoder_float64"), CHECKS)
