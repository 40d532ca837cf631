#!/usr/bin/env bash
# Submits the whole path as a chain of jobs: each begins once the one before has succeeded, and is
# cancelled where that has failed.
#
#   jobscripts/submit.sh [--wait] [SBATCH OPTIONS] FOLDER
#     measure PROFILE OPTIONS  optimize PLAN OPTIONS  train|sweep TRAINING OPTIONS
#
#   jobscripts/submit.sh --nodes=2 --ntasks-per-node=2 lenet5 \
#     measure --model lenet5 --image 28 --channels 1 --classes 10 --microbatch 32 \
#     optimize --ranks 4 --schedule 1f1b --microbatches 8 --cuts independent \
#     train --data fashion-mnist.h5 --epochs 4 --learning-rate 0.05 --momentum 0.9 --checkpoint-every 600s
#
# measure     probe-profile.sbatch, into FOLDER/cluster.h5 and profile.h5
# optimize    optimize.sbatch, into FOLDER/plan.h5. Several of these make plan-1.h5, plan-2.h5, ... for
# sweep       sweep.sbatch over them, into FOLDER/sweep/1-plan-1.h5, ...; or, by the one plan,
# train       train.sbatch, into FOLDER/results.h5
# (report)    report.sbatch on these comes by itself
#
# SBATCH OPTIONS, as --name=value, say what the ranks need, to measure and to train. Among the words of a job,
# --sbatch=OPTION is one for that job alone: train --sbatch=--time=08:00:00 ...
# Prints a line a job. With --wait it returns when all are over, with the exit code of the first that failed.
# Needs: env.sh beside it; a folder that all nodes see. Writes: FOLDER, with the logs.
set -euo pipefail
source "$(dirname "$(realpath "$0")")/env.sh"

usage() { echo "submit: $*" >&2 && sed -n '5,6s/^# *//p' "$0" >&2 && exit 2; }

follow=no shared=() # options of sbatch for all jobs with ranks
while [[ ${1:-} == -* ]]; do
  case $1 in
    -h | --help) sed -n '2,/^set/s/^# \?//p' "$0" && exit ;;
    --wait) follow=yes ;;
    *) shared+=("$1") ;;
  esac
  shift
done
folder=${1:-}
[ -n "$folder" ] || usage 'no folder'
shift

is_section() { [[ $1 =~ ^(measure|optimize|train|sweep)$ ]]; }
sections=() plans=()
for word in "$@"; do if is_section "$word"; then sections+=("$word"); fi; done
chain=${sections[*]:-nothing}
[[ $chain =~ ^measure\ (optimize\ train|(optimize\ )+sweep)$ ]] || usage "$chain is no chain"
is_section "$1" || usage "$1 belongs to no job"

jobs=() names=() logs=()
withdraw() { # what was submitted, where the chain could not be completed
  local code=$?
  [ "$code" = 0 ] || [ ${#jobs[@]} = 0 ] || { echo "submit: cancels ${jobs[*]}" >&2 && scancel "${jobs[@]}"; }
}
trap withdraw EXIT

# Submits a job that begins once those of `after` have succeeded.
submit() { # name, log, options of sbatch, --, script and its words
  local name=$1 log=$folder/$2 options=() words=() word job
  shift 2
  while [ "$1" != -- ]; do options+=("$1") && shift; done
  for word in "${@:3}"; do
    case $word in --sbatch=*) options+=("${word#--sbatch=}") ;; *) words+=("$word") ;; esac
  done
  # Without --kill-on-invalid-dep a job whose predecessor has failed waits for ever.
  [ ${#after[@]} = 0 ] || options+=("--dependency=afterok$(printf ':%s' "${after[@]}")" --kill-on-invalid-dep=yes)
  job=$(sbatch --parsable --output="$log" "${options[@]}" "$SLUICE_JOBSCRIPTS/$2" "${words[@]}")
  job=${job%%;*} # "12;cluster" where there are several clusters
  jobs+=("$job") names+=("$name") logs+=("${log/\%[jA]/$job}")
  echo "$name: job $job${after[*]:+, after ${after[*]}}"
}

after=() # jobs
submit_measure() {
  submit measure sluice-measure-%j.log "${shared[@]}" -- probe-profile.sbatch "$folder/cluster.h5" "$folder/profile.h5" "$@"
}
submit_optimize() {
  local plan=$folder/plan.h5
  [[ ${sections[-1]} = train ]] || plan=$folder/plan-$((${#plans[@]} + 1)).h5
  after=("${jobs[0]}")
  submit optimize sluice-optimize-%j.log -- optimize.sbatch --profile "$folder/profile.h5" \
    --cluster "$folder/cluster.h5" "$@" -o "$plan"
  plans+=("$plan")
}
submit_train() {
  after=("${jobs[@]:1}")
  submit train sluice-train-%j.log "${shared[@]}" -- train.sbatch --plan "${plans[0]}" "$@" -o "$folder/results.h5"
  submit_report "$folder/results.h5"
}
submit_sweep() {
  after=("${jobs[@]:1}")
  submit sweep sluice-sweep-%A_%a.log "${shared[@]}" --array=1-${#plans[@]} -- sweep.sbatch "$folder/sweep" "${plans[@]}" -- "$@"
  submit_report "$folder/sweep"
}
submit_report() { # results, or a folder of them
  after=("${jobs[-1]}")
  submit report sluice-report-%j.log -- report.sbatch "$1"
}

mkdir -p "$folder"
while [ $# -gt 0 ]; do
  section=$1 words=()
  shift
  while [ $# -gt 0 ] && ! is_section "$1"; do words+=("$1") && shift; done
  "submit_$section" "${words[@]}"
done
trap - EXIT
[ "$follow" = yes ] || exit 0

# A job's final state and exit code ("FAILED 3"), of an array the first bad one's; nothing before it is over.
outcome() { # job
  scontrol --oneliner show job "$1" 2>&1 | awk '
    /Invalid job id/ { worst = "FORGOTTEN"; value = 1 }
    match($0, /JobState=[A-Z_]+/) {
      ++seen
      state = substr($0, RSTART + 9, RLENGTH - 9)
      match($0, /ExitCode=[0-9]+:[0-9]+/)
      split(substr($0, RSTART + 9, RLENGTH - 9), code, ":")
      if (state !~ /^(COMPLETED|FAILED|CANCELLED|TIMEOUT|NODE_FAIL|OUT_OF_MEMORY|BOOT_FAIL|DEADLINE|PREEMPTED)$/) open = 1
      else if (state != "COMPLETED" && !worst) {
        worst = state
        value = code[1] > 0 ? code[1] : code[2] > 0 ? 128 + code[2] : 1
      }
    }
    END { if (worst || seen && !open) print worst ? worst : "COMPLETED", value + 0 }'
}

declare -A over=()
while [ ${#over[@]} -lt ${#jobs[@]} ]; do
  sleep "${SLUICE_POLL_S:-5}"
  for i in "${!jobs[@]}"; do
    [ -z "${over[$i]:-}" ] || continue
    read -r state code < <(outcome "${jobs[i]}") || continue
    over[$i]=$state
    [ "$state" != COMPLETED ] || continue
    scancel --state=PENDING "${jobs[@]:i}" 2>/dev/null || true
    echo "submit: ${names[i]}, job ${jobs[i]}, ended: $state, exit code $code; see ${logs[i]}" >&2
    exit "$code"
  done
done
echo "submit: all done, see $folder"
