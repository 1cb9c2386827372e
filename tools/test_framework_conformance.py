#!/usr/bin/env python3
"""Check the hand-written mechanisms of a topic's pages against PyTorch and the frameworks that the topic names.

    python tools/test_framework_conformance.py --topic training_mechanism --profile TRAIN-CPU --require-passed

Without --topic the pages are those of the profile's topic. Exit code 0 when no page failed (with --require-passed: when
every page passed), 1 otherwise or where the environment is not the profile's, 2 for wrong usage, 130 after Ctrl-C.
pytest does not collect this file, in spite of its name.
"""

import os
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.realpath(__file__)))
if sys.path and os.path.realpath(sys.path[0] or ".") == os.path.join(ROOT, "tools"):
    del sys.path[0]  # modules in tools/ are imported as tools.*, never by their bare names
if ROOT not in sys.path:
    sys.path.insert(0, ROOT)

__test__ = False

if __name__ == "__main__":
    from tools.environments import command_line

    command_line.begin()
    from experiments.conformance.command import main

    sys.exit(command_line.run(main))
