"""Entry point of `python -m tools.containers`."""

from tools.environments import command_line

command_line.begin()

import sys  # noqa: E402  a Python that is too old gets no further than the line above

from tools.containers.container_command import main  # noqa: E402

if __name__ == "__main__":
    sys.exit(command_line.run(main))
