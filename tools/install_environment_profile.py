"""Make the environment of a profile: gate, create, install, register, check, stamp. A second call resumes.

python tools/install_environment_profile.py --profile TRAIN-CPU
python tools/install_environment_profile.py --profile TRAIN-CUDA-MECHANISM --dry-run
"""

import os
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
_HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:] = [ROOT, *(path for path in sys.path if os.path.abspath(path or os.curdir) != _HERE)]

from tools.environments import command_line  # noqa: E402  the root must be on sys.path first

command_line.begin()

from tools.environments.install.install_command import main  # noqa: E402

if __name__ == "__main__":
    sys.exit(command_line.run(main))
