# shellcheck shell=bash disable=SC2154 # env.sh sets launcher
# What the job scripts share; sourced after env.sh. Nothing here depends on the site.

say() { printf '%s %s, job %s: %s\n' "$(date +%Y-%m-%dT%H:%M:%S%z)" "$SLURM_JOB_NAME" "$(job_name)" "$*" >&2; }

# An array's last element has the number of the whole array, so elements are named by both.
job_name() { if [ -n "${SLURM_ARRAY_JOB_ID:-}" ]; then echo "${SLURM_ARRAY_JOB_ID}_$SLURM_ARRAY_TASK_ID"; else echo "$SLURM_JOB_ID"; fi; }

# The first line of each start, since a requeued job appends to its log.
say_start() {
  say "restart ${SLURM_RESTART_COUNT:-0} (of $SLUICE_MAX_RESTARTS), $SLURM_NTASKS ranks on $SLURM_JOB_NODELIST, started by ${launcher[*]}"
}

# The words that start a program on all ranks of the job, into `step`.
prepare_step() {
  step=("${launcher[@]}")
  case ${launcher[0]##*/} in
    srun)
      # srun no longer inherits cpus-per-task from the job (Slurm 22.05): said again.
      # Ranks that leave together do so within moments; --kill-on-bad-exit would kill the last of them
      # and hide their exit code. --wait ends those that are left over after a rank was lost; it exceeds the
      # 10 s that a rank gives MPI to end.
      step+=(--kill-on-bad-exit=0 --wait=15 --cpus-per-task="$SLURM_CPUS_PER_TASK")
      if [ -n "${SLURM_GPUS_PER_TASK:-}" ]; then
        step+=(--gpus-per-task="$SLURM_GPUS_PER_TASK")
      elif [ -n "${SLURM_GPUS_ON_NODE:-}" ]; then
        step+=(--gres="gpu:$SLURM_GPUS_ON_NODE")
      fi
      ;;
    *)
      # Hydra starts a proxy on each node by srun, which must not bind it to one rank's processors.
      export SLURM_CPU_BIND=none
      step+=(-n "$SLURM_NTASKS")
      ;;
  esac
}

# Runs a program on all ranks. Bash hears signals only between commands, or while it waits for a background job. If the
# batch shell is told to stop (--signal=B:..., scancel --batch), the ranks must be told: launchers pass USR1 on, but
# take TERM for themselves.
run_on_all_ranks() { # program and arguments; returns its exit code
  local step pid heard=no told=no code=0 again
  prepare_step
  "${step[@]}" "$@" &
  pid=$!
  trap 'heard=yes told=yes; kill -USR1 "$pid" 2>/dev/null || true' TERM USR1
  wait "$pid" || code=$?
  while [ "$heard" = yes ]; do # that was no end, unless there is nothing left to wait for (127)
    heard=no again=0
    wait "$pid" || again=$?
    [ "$again" = 127 ] || code=$again
  done
  trap - TERM USR1
  # Hydra, if SIGTERM reaches it as well (scancel --full), sometimes ends with 0 though its ranks ended with 75. To start
  # again what was done after all costs a moment; to take half a training for a whole one would not be noticed.
  [ "$told$code" != yes0 ] || [ "${launcher[0]##*/}" = srun ] || code=75
  return "$code"
}

# Trains and exits. After a stop on request (exit code 75) it puts this job into the queue again; it then goes on from the
# checkpoint. Every other exit code is the job's.
train() { # arguments of sluice-run train
  local code=0
  say_start
  run_on_all_ranks "$SLUICE_BIN/sluice-run" train --resume "$@" || code=$?
  [ "$code" != 75 ] || requeue
  [ "$code" = 0 ] || say "ended with exit code $code"
  exit "$code"
}

requeue() {
  local job state go_on restarts=${SLURM_RESTART_COUNT:-0} # not set at the first start
  job=$(job_name)
  go_on="scontrol requeue $job, or submit it again with the same arguments"
  # SIGNALING: a node has not yet confirmed the signal that the ranks have obeyed.
  state=$(squeue --noheader --jobs="$job" --format=%T 2>/dev/null) || true
  if [ "$state" != RUNNING ] && [ "$state" != SIGNALING ]; then
    say "stopped; Slurm itself has ended or requeued this job. If it is not in the queue: $go_on"
  elif ((restarts >= SLUICE_MAX_RESTARTS)); then
    say "stopped, and not requeued: it was restarted $restarts times (SLUICE_MAX_RESTARTS). To go on: $go_on"
  else
    say 'stopped on request: back into the queue'
    if scontrol requeue "$job"; then
      sleep 60 # Slurm ends this start of the job meanwhile
    else # for instance after sbatch --no-requeue
      say "stopped, and Slurm does not requeue it. To go on: submit it again with the same arguments"
    fi
  fi
}
