"""`python -m experiments`: list, run, show, compare, report, fit, results, new."""

import sys

from tools.environments import command_line

if __name__ == "__main__":
    command_line.begin()
    from experiments.cli.entry import main

    sys.exit(command_line.run(main))
