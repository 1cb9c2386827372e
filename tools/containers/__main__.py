"""Entry point of `python -m tools.containers`, where the judge of experiments' options is handed in."""

from tools.environments import command_line

command_line.begin()

import functools  # noqa: E402
import sys  # noqa: E402  a Python that is too old gets no further than the line above

from experiments.cli import asked  # noqa: E402
from tools.containers.container_command import main  # noqa: E402

if __name__ == "__main__":
    sys.exit(command_line.run(functools.partial(main, check=asked.check_all)))
