"""The operation that is measured, and what a forked child has at hand to build it. For worker code.

A worker module of this kind exposes `build(context: OperatorContext) -> Operation`, the candidate itself, and
`exact(context: OperatorContext) -> Exact`, the output that it has to come to.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from typing import NamedTuple

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


class Exact(NamedTuple):
    """What the operation has to come to, computed in float64 throughout."""

    out: Tensor  # [rows, out_features]
    terms: float  # root of the sum of the squares of all the terms that were summed up to give `out`


def builder(module: str) -> Callable[[OperatorContext], Operation]:
    """The `build` of an experiment's worker module."""
    build: Callable[[OperatorContext], Operation] = import_module(module).build
    return build


def exact_of(module: str) -> Callable[[OperatorContext], Exact]:
    """The `exact` of an experiment's worker module."""
    exact: Callable[[OperatorContext], Exact] = import_module(module).exact
    return exact
