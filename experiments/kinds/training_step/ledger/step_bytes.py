"""One training step walked through on paper: what stands on the device at each of its moments.

The largest micro-batch decides, with the gradients of those before it. Order and lifetimes follow the harness's step
(`program.TrainingStep`): gradients are cleared first, decoder and loss head run under autocast, its cache of weight
copies goes when it ends, the backward walks from the head to the embedding.
"""

from __future__ import annotations

from experiments.kinds.training_step.ledger.head import HeadBytes, head
from experiments.kinds.training_step.ledger.layers import FP32, LayerBytes, layer
from experiments.kinds.training_step.ledger.ledger_settings import LedgerSettings
from experiments.models.registered_config import DecoderShape

GIB = 2**30
# cuBLAS keeps a workspace for each thread that multiplies, here forward and backward: 32 MiB each on Hopper, 8 before.
WORKSPACE_BYTES = 2 * 32 * 2**20
INDEX = 8  # bytes of a token id


class Step:
    """The moments of one step, in bytes allocated."""

    def __init__(self, shape: DecoderShape, settings: LedgerSettings) -> None:
        self.shape, self.settings = shape, settings
        self.layer: LayerBytes = layer(shape, settings)
        self.head: HeadBytes = head(shape, settings)
        self.parameters = FP32 * shape.parameters
        self.row = FP32 * shape.hidden * settings.tokens  # hidden states in fp32: of the residual stream, or a gradient
        self.standing = self.state() + WORKSPACE_BYTES + 2 * INDEX * settings.batch * settings.sequence
        self.earlier = self.parameters if settings.micro_batches > 1 else 0  # gradients of earlier micro-batches
        self.last_norm = 2 * self.row + FP32 * settings.tokens  # its input, the normalised input, one root per token
        self.held = [self._held(index) for index in range(shape.layers)]

    def state(self) -> int:
        """fp32 weights, and for AdamW two fp32 moments (Kingma and Ba 2015) beside them. Plain SGD keeps nothing."""
        return self.parameters * (3 if self.settings.optimizer == "adamw" else 1)

    def _held(self, layer: int) -> int:
        """What one layer's forward leaves for its backward, weight copies apart."""
        if not self.settings.recomputes(layer):
            return self.layer.saved
        return self.layer.input + (self.layer.kept if self.settings.checkpoint == "selective" else 0)

    def casts(self, layers: int | None = None) -> int:
        """Weight copies that saved tensors of the first `layers` layers keep alive when autocast's cache has gone."""
        if self.settings.offload == "all":
            return 0  # they travel too
        count = self.shape.layers if layers is None else layers
        return self.layer.casts * sum(not self.settings.recomputes(index) for index in range(count))

    def activations(self) -> int:
        """What is on the device when the decoder has run: layers, last norm, and its output."""
        rotary = 2 * FP32 * self.shape.head_dim * self.settings.sequence  # cosines and sines, shared by all layers
        return self._on_device(sum(self.held) + rotary + self.last_norm, self.row) + self.row

    def _on_device(self, saved: int, newest: int) -> int:
        """Of what has been saved, the part that offloading leaves there."""
        if self.settings.offload == "none":
            return saved
        if self.settings.offload == "all":
            return 0
        # a tensor goes when more than this is on the way out, and the newest one stays
        return min(saved, self.settings.in_flight_bytes + newest)

    def after_forward(self) -> int:
        """The decoder has run. Autocast still holds a copy of every matrix and bias, whatever became of activations."""
        cache = (self.layer.casts + self.layer.bias_casts) * self.shape.layers
        return self.standing + self.earlier + self.activations() + cache

    def forward(self) -> int:
        """The highest moment of the decoder's run: its end, or the last layer at work, the last norm still to come."""
        keeps = self.settings.offload == "none" and not self.settings.recomputes(self.shape.layers - 1)
        moment = self.layer.saving_moment if keeps else self.layer.running_moment
        norm = 0 if self.settings.offload == "all" else self.last_norm
        return self.after_forward() + max(0, moment - norm - self.row)

    def head_backward(self) -> int:
        """The head's backward at its highest; autocast has ended."""
        return self.standing + self.earlier + self.activations() + self.casts() + self.head.backward

    def layers_backward(self) -> int:
        """The worst layer's backward: what it and those before it hold, gradients of those behind it, and its needs.

        A recomputed layer has everything it would have saved standing again, and fresh copies of its matrices.
        """
        gradients = self.head.gradient
        # first the head matrix's gradient is cast to fp32, then comes the last norm's backward, with four rows
        between = max(self.head.gradient_cast, 4 * self.row)
        worst = gradients + self.activations() + self.casts() + between
        for index in reversed(range(self.shape.layers)):
            again = self.layer.saved - self.layer.input + self.layer.casts if self.settings.recomputes(index) else 0
            held = self._on_device(sum(self.held[: index + 1]), self.layer.saved)
            rows = 2 * self.row  # the gradient that comes in, and the decoder's output, which the step still holds
            moment = held + self.casts(index + 1) + again + rows + self.layer.backward_moment
            worst = max(worst, gradients + moment)
            gradients += self.layer.gradients if self.settings.micro_batches == 1 else 0
        return self.standing + self.earlier + worst

    def last_backward(self) -> int:
        """At the embedding all other gradients are there, and its own, as large as the matrix, joins the head's (tied).

        In fp32 the head's gradient is a transposed view; autograd adds to a view out of place, so the sum is a third.
        """
        matrix = FP32 * self.shape.embedding_parameters
        tied = self.shape.tied
        if self.earlier:
            others = self.earlier + (matrix if tied else 0)  # the head's waits apart until the two are added
        else:
            others = self.parameters - (0 if tied else matrix)
        out_of_place = matrix - self.row if tied and not self.settings.low else 0
        return self.standing + others + matrix + max(0, out_of_place) + 2 * self.row
