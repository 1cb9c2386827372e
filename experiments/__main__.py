"""`python -m experiments`: list, run, show, compare, report, fit, results."""

from __future__ import annotations

import sys

from experiments.cli.entry import main

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
