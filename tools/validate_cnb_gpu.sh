#!/bin/sh
# May a GPU profile run on this machine, or in this container? Driver, device nodes, nvidia-smi, preflight, a tensor
# operation for each dtype the profile claims, and its smoke experiment; the first blocked one ends it.
#
#   sh tools/validate_cnb_gpu.sh [--profile ID] [--summary FILE] [--python PATH] [--accept CHECK]...
#
# Exit code 0 only if the profile may run, 1 where something is in the way, 2 for wrong usage. The summary is one JSON
# object (default: runs/gpu-validation.json), written whatever was found; wrong usage writes none. In CNB and in an image
# of this project, real_gpu is refused until this has passed since the start. Plain POSIX sh: CNB runs it under dash.
set -u

root=$(cd "$(dirname "$0")/.." && pwd) || exit 1
begun=$(date -u +%Y-%m-%dT%H:%M:%SZ)
profile=${TMLAB_IMAGE_PROFILE:-} # without it and without --profile: what the environment of $python was made for
summary=
python=${PYTHON:-python3}
accept=
devices=${TMLAB_DEVICES:-/dev} # tests have a folder of their own

usage() {
  printf 'blocked\n  wanted %s\n  found  %s\n  → %s\n' "$1" "$2" \
    "sh tools/validate_cnb_gpu.sh [--profile ID] [--summary FILE] [--python PATH] [--accept CHECK]" >&2
  exit 2
}

while [ $# -gt 0 ]; do
  case $1 in
    -h | --help) sed -n '2,9s/^# \{0,1\}//p' "$0"; exit 0 ;;
    --profile | --summary | --python | --accept) ;;
    *) usage "an option of this script" "$1" ;;
  esac
  [ $# -ge 2 ] || usage "a value for $1" "none"
  case $1 in
    --profile) profile=$2 ;;
    --summary) summary=$2 ;;
    --python) python=$2 ;;
    --accept) accept="$accept --accept $2" ;;
  esac
  shift 2
done
case $profile in *[!A-Z0-9-]*) usage "the id of a profile" "$profile" ;; esac
case $accept in *[!A-Za-z0-9.\ -]*) usage "the id of a check after --accept" "$accept" ;; esac
case $summary in
  '') summary=${TMLAB_RUNS:-$root/runs}/gpu-validation.json ;;
  /*) ;;
  *) summary=$PWD/$summary ;;
esac
[ "$summary" = "${summary%/}" ] && [ ! -d "$summary" ] || usage "a file for the summary" "$summary, a folder"
cd "$root" || exit 1
if [ -z "$profile" ]; then
  profile=$("$python" -m tools.environments.preflight.gpu_validation_steps here 2>/dev/null) || profile=
  [ -n "$profile" ] || usage "--profile ID, or a Python of an environment that the installer made" "neither, $python has no stamp"
fi

work=$(mktemp -d "${TMPDIR:-/tmp}/tmlab-validate.XXXXXX") || exit 1
trap 'rm -rf "$work"' EXIT
trap 'exit 130' INT TERM
: >"$work/steps"
separator=$(printf '\037')
blocked=0
record=null
registry=null
clock=$(date +%s)

quoted() { # a text as a JSON string
  printf '"%s"' "$(printf '%s' "$1" | tr '\n\t\r' '   ' | LC_ALL=C tr -d '\000-\037\177' | sed 's/\\/\\\\/g; s/"/\\"/g')"
}

step() { # id, status, wanted, found, repair: told, and kept for the summary
  now=$(date +%s)
  took=$((now - clock))
  clock=$now
  printf '  %-19s %-9s %s\n' "$1" "$2" "$4"
  if [ "$2" = blocked ]; then
    blocked=1
    printf '    wanted %s\n    → %s\n' "$3" "${5:-see what it found}"
  fi
  [ ! -s "$work/steps" ] || printf ',\n' >>"$work/steps"
  printf '  {"id": %s, "status": %s, "wanted": %s, "found": %s, "repair": %s, "seconds": %d}' \
    "$(quoted "$1")" "$(quoted "$2")" "$(quoted "$3")" "$(quoted "$4")" "$(quoted "$5")" "$took" >>"$work/steps"
}

limited() { # run a command, but not for ever where this system can say so
  seconds=$1
  shift
  if command -v timeout >/dev/null 2>&1; then timeout "$seconds" "$@"; else "$@"; fi
}

last_line() { # the last line with something on it, of those that exist
  cat "$@" 2>/dev/null | grep -v '^[[:space:]]*$' | tail -n 1 | cut -c 1-300
}

ask() { "$python" -m tools.environments.preflight.gpu_validation_steps "$@"; }

told() { # what a LabError says in its line: its `found`, or its next step, which a plain terminal gets with ->
  case $1 in found) sed -n 's/^  found  //p' "$2" ;; next) sed -n 's/^  \(→\|->\) //p' "$2" ;; esac
}

look_at_start() {
  if [ "$known" = no-python ]; then
    step python blocked "Python 3.11 or 3.12, as $python" "none that starts" "activate the profile's environment first, or --python PATH"
  elif [ "$known" -ne 0 ]; then
    step profile blocked "a registry that can be read" "$(told found "$work/card.err")" "$(told next "$work/card.err")"
  elif ! ask clear --profile "$profile" 2>"$work/clear.err"; then
    step runs blocked "a runs folder that can be written" "$(told found "$work/clear.err")" "$(told next "$work/clear.err")"
  fi
}

look_at_driver() {
  smi=$(limited 30 nvidia-smi --query-gpu=name,memory.total,compute_cap,driver_version --format=csv,noheader 2>&1)
  smi_code=$?
  version=
  [ "$smi_code" -ne 0 ] || version=$(printf '%s\n' "$smi" | head -n 1 | sed 's/.*, *//')
  [ -n "$version" ] || version=$(grep -oE '[0-9]{3,}\.[0-9.]+' /proc/driver/nvidia/version 2>/dev/null | head -n 1)
  if [ -n "$version" ]; then
    step driver ok "an NVIDIA driver" "$version" ""
  else
    step driver blocked "an NVIDIA driver" "none that answers" \
      "on the host: install or repair the driver until nvidia-smi answers; in a container: start it with --gpus all"
  fi
}

look_at_nodes() {
  wanted="device nodes this user may read and write"
  missing=
  found=
  if [ -e "$devices/dxg" ]; then # Windows' own door to the card, in WSL 2
    step nodes ok "$wanted" "dxg (WSL 2)" ""
    return
  fi
  for node in "$devices"/nvidia[0-9]* "$devices/nvidiactl" "$devices/nvidia-uvm"; do
    name=${node##*/}
    if [ -r "$node" ] && [ -w "$node" ]; then found="$found $name"; else missing="$missing $name"; fi
  done
  if [ -z "$missing" ]; then
    step nodes ok "$wanted" "${found# }" ""
  else
    step nodes blocked "$wanted" "none, or not for this user:$missing" \
      "on the host: sudo modprobe nvidia-uvm, or nvidia-modprobe -u; in a container: start it with --gpus all"
  fi
}

look_at_smi() {
  wanted="nvidia-smi to list a card"
  if [ "$smi_code" -eq 0 ] && [ -n "$smi" ]; then
    step nvidia-smi ok "$wanted" "$(printf '%s' "$smi" | tr '\n' ';')" ""
  else
    step nvidia-smi blocked "$wanted" "$(printf '%s' "${smi:-no output}" | head -n 1) (exit code $smi_code)" \
      "on the host: check the driver; in a container: NVIDIA_DRIVER_CAPABILITIES has to hold utility"
  fi
}

look_at_profile() {
  # shellcheck disable=SC2086 # each --accept is a word of its own
  limited 600 "$python" tools/environment_preflight.py --profile "$profile" --json $accept \
    >"$work/preflight.json" 2>"$work/preflight.err"
  code=$?
  if ! ask rows --profile "$profile" --report "$work/preflight.json" >"$work/rows" 2>"$work/rows.err"; then
    step preflight blocked "a preflight report for $profile" \
      "exit code $code: $(last_line "$work/rows.err" "$work/preflight.err")" \
      "$python tools/environment_preflight.py --profile $profile"
    return
  fi
  registry=$(sed -n 's/.*"registry_digest": *\("sha256:[0-9a-f]*"\).*/\1/p' "$work/preflight.json" | head -n 1)
  while IFS=$separator read -r id status wanted found repair; do
    step "$id" "$status" "$wanted" "$found" "$repair"
  done <"$work/rows"
}

run_smoke() {
  wanted="the smoke workload of the profile's first experiment"
  name=$(ask experiment --profile "$profile") || name=
  if [ -z "$name" ]; then
    step experiment skipped "$wanted" "$profile has no experiment yet" ""
    return
  fi
  label=gpu-validation-$(date -u +%Y%m%d-%H%M%S)
  ask checked --profile "$profile" 2>"$work/mark.err" || {
    step experiment blocked "$wanted" "$(told found "$work/mark.err")" "$(told next "$work/mark.err")"
    return
  }
  # shellcheck disable=SC2086
  limited 1200 "$python" -m experiments run "$name" --workload smoke --profile "$profile" --run-mode real_gpu \
    --run-label "$label" --json $accept >"$work/record.json" 2>"$work/experiment.err"
  code=$?
  level=$(sed -n 's/.*"evidence_level": *"\([a-z_]*\)".*/\1/p' "$work/record.json" | head -n 1)
  if [ "$code" -eq 0 ] && [ -n "$level" ]; then
    record=$(printf '{"experiment": %s, "run_label": %s, "level": %s}' \
      "$(quoted "$name")" "$(quoted "$label")" "$(quoted "$level")")
    step experiment ok "$wanted" "$name, $level, label $label" ""
  else
    step experiment blocked "$wanted" "$name ended with $code: $(grep -v '^  ' "$work/experiment.err" | tail -n 1 | cut -c 1-300)" \
      "$python -m experiments run $name --workload smoke --profile $profile --run-mode real_gpu"
  fi
}

write_summary() {
  status=passed
  [ "$blocked" -eq 0 ] || status=blocked
  in_image=null
  [ -z "${TMLAB_IMAGE_PROFILE:-}" ] || in_image=$(quoted "$TMLAB_IMAGE_PROFILE")
  digest=null
  [ -z "${TMLAB_IMAGE_DIGEST:-}" ] || digest=$(quoted "$TMLAB_IMAGE_DIGEST")
  mkdir -p "$(dirname "$summary")" 2>/dev/null
  (: >"$summary.part") 2>/dev/null || return 1 # in a shell of its own, whose words about it nobody needs
  {
    printf '{\n "kind": "gpu-validation",\n "schema_version": "1.0.0",\n "profile": %s,\n "status": "%s",\n' \
      "$(quoted "$profile")" "$status"
    printf ' "begun_at": "%s",\n "registry_digest": %s,\n' "$begun" "${registry:-null}"
    printf ' "image": {"profile": %s, "digest": %s},\n "steps": [\n' "$in_image" "$digest"
    cat "$work/steps"
    printf '\n ],\n "record": %s\n}\n' "$record"
  } >"$summary.part" && mv "$summary.part" "$summary"
}

known=no-python
if "$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then
  ask card --profile "$profile" 2>"$work/card.err"
  known=$?
fi
if [ "$known" = 2 ]; then # no such profile, or one that asks for no card: wrong usage, which leaves every file as it was
  cat "$work/card.err" >&2
  exit 2
fi

echo "$profile · may it run here?"
look_at_start
[ "$blocked" -ne 0 ] || look_at_driver
[ "$blocked" -ne 0 ] || look_at_nodes
[ "$blocked" -ne 0 ] || look_at_smi
[ "$blocked" -ne 0 ] || look_at_profile
[ "$blocked" -ne 0 ] || run_smoke
if [ "$blocked" -eq 0 ]; then
  ask passed --profile "$profile" || blocked=1
elif [ -s "$work/steps" ]; then
  ask clear --profile "$profile" 2>/dev/null
fi
if ! write_summary; then
  printf 'blocked --summary\n  wanted a summary that can be written\n  found  it could not be written to %s\n  → %s\n' "$summary" \
    "--summary FILE in a folder that this user may write" >&2
  blocked=1
  summary="no summary was written"
fi
if [ "$blocked" -eq 0 ]; then echo "passed   $profile may run here · $summary"; else echo "blocked  $profile may not run here · $summary"; fi
exit "$blocked"
