"""The operation that is measured, and what a forked child has at hand to build it. For worker code.

A worker module of this kind exposes `build(context: OperatorContext) -> Operation`, the candidate itself, and
`exact(context: OperatorContext) -> Tensor`, the output [rows, out] that it has to come to, in float64.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module

from torch import Tensor

from experiments.harness.task_context import TaskContext
from experiments.kinds.operator.operator_workload import OperatorWorkload


@dataclass(frozen=True, slots=True, kw_only=True)
class OperatorContext(TaskContext[OperatorWorkload]):
    """One candidate in one child. Everything built from it is the same in every child with the same context."""


@dataclass(frozen=True, slots=True)
class Operation:
    """One operation, its weights in place on the device: `call(given)` is what is timed."""

    given: Tensor  # [rows, in_features]
    call: Callable[[Tensor], Tensor]  # to [rows, out_features]

    def __call__(self) -> Tensor:
        """Run it once."""
        return self.call(self.given)


def builder(module: str) -> Callable[[OperatorContext], Operation]:
    """The `build` of an experiment's worker module."""
    build: Callable[[OperatorContext], Operation] = import_module(module).build
    return build


def exact_of(module: str) -> Callable[[OperatorContext], Tensor]:
    """The `exact` of an experiment's worker module."""
    exact: Callable[[OperatorContext], Tensor] = import_module(module).exact
    return exact
