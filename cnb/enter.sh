#!/bin/sh
# In a CNB workspace, or any container that mounts a checkout: the code is this checkout's, the environment the image's.
#
#   sh cnb/enter.sh
#
# Links the image's environment to where the tools look for it, makes tools and experiments importable from here instead
# of from the image's own copy of the code, and ends with preflight. Runs under dash.
set -eu

if [ -z "${TMLAB_IMAGE_PROFILE:-}" ] || [ ! -e /lab/.envs/current ]; then
  printf 'blocked\n  wanted an image of this project\n  found  none: TMLAB_IMAGE_PROFILE is not set\n' >&2
  printf '  → python3 tools/bootstrap.py nox -s TRAIN-CPU, which makes an environment here\n' >&2
  exit 1
fi
cd "$(dirname "$0")/.."
if [ "$PWD" != /lab ]; then
  environment=$(cd /lab/.envs/current && pwd -P)
  mkdir -p .envs
  ln -sfn "$environment" ".envs/${environment##*/}"
  ln -sfn "$environment" .envs/current
fi
python tools/register_notebook_runtime.py
python tools/register_notebook_runtime.py --check
python tools/environment_preflight.py --profile "$TMLAB_IMAGE_PROFILE"
