#!/usr/bin/env bash
# Ends of a training job before its time: signals, scancel, time limit, requeue, a dead node, a dead rank. Each time it
# goes on from the newest checkpoint, by itself or when it is submitted again as docs/slurm.md tells, and ends with the
# bits of the run that nothing interrupted. Arguments after the folders: which ends.
source "$(dirname "$0")/lib.sh"
# shellcheck source=training.sh
source "$tests/training.sh"
# shellcheck source=resume.sh
source "$tests/resume.sh"
reached=$((5 * every)) # the checkpoint after which a run is interrupted

field() { on_head scontrol show job "$job" | sed -n "s/^\(.* \)\{0,1\} *$1=\([^ ]*\).*/\2/p"; }
state() { field JobState; }
is_in() { [[ " $* " == *" $(state) "* ]]; } # states

begin() { # run, more options of sbatch: again with the same words, it goes on
  job=$(on_head SLUICE_BIN="$build/bin" SLUICE_JOBSCRIPTS="$source_tree/jobscripts" sbatch --parsable --nodes=2 \
    --ntasks-per-node=2 --output="$1.log" "${@:2}" "$source_tree/jobscripts/train.sbatch" --plan four-plan.h5 \
    "${training[@]}" --checkpoint-every "$every" -o "$1.h5" --save-weights "$1-weights.h5")
}

expect_end() { # run, state
  await "$1: the job's end" is_in COMPLETED FAILED CANCELLED TIMEOUT NODE_FAIL
  [ "$(state)" = "$2" ] || fail "$1: the job is $(state), expected $2: $(cat "$1.log")"
}

expect_to_finish() { # run, first steps of its attempts
  expect_end "$1" COMPLETED
  expect_attempts "$1" "$2"
  expect_same_bits "$1"
  echo "$1: the attempts began with steps $2"
}

# A checkpoint was written when the end was announced: no step is done twice.
expect_whole_checkpoint() { # run
  expect_readable "$1" 'stopped'
  expect_equal "$1: step of the checkpoint, and steps recorded" "$(newest "$1")" "$(recorded "$1")"
}

await_requeue() { await "$1: requeued" is_in PENDING; } # run

# A requeued job waits for the credentials of the old one to expire, 10 s here. What matters is that its new ones are
# of a later second than the old ones' end.
goes_on() { # run, step of its checkpoint
  on_head scontrol update jobid="$job" starttime=now+2
  expect_to_finish "$1" "0 $2"
}

asked() { # run, command that ends the job so that it comes back
  begin "$1" && runs_until "$1" "$reached"
  on_head "${@:2}" "$job"
  await_requeue "$1"
  expect_whole_checkpoint "$1"
  goes_on "$1" "$(newest "$1")"
}
usr1() { asked usr1 scancel --signal=USR1; }
term() { asked term scancel --signal=TERM; }
requeue() { asked requeue scontrol requeue; }

# A limit of a minute: the job script's signal may come at once, or up to half a minute later. Slow links keep the run
# from ending before.
limit() {
  begin limit --time=1 && runs_until limit "$every"
  cluster rate all 1mbit
  await_requeue limit
  cluster rate all 1gbit
  expect_whole_checkpoint limit
  goes_on limit "$(newest limit)"
}

# Who cancels a job does not want it back, but may submit it again.
cancel() {
  begin cancel && runs_until cancel "$reached"
  on_head scancel "$job"
  expect_end cancel CANCELLED
  expect_whole_checkpoint cancel
  sleep 2
  expect_equal 'cancel: state of the job' CANCELLED "$(state)"
  begin cancel
  expect_to_finish cancel "0 $(newest cancel)"
}

# Steps since the newest checkpoint are done again.
expect_newest_at_least() { # run, step
  expect_readable "$1" 'killed'
  expect_between "$1: step of the newest checkpoint" "$2" "$(newest "$1")" $((steps - 1))
}

# Slurm begins the job again on nodes that are left.
node_dies() { # run, which of its nodes
  local seen
  begin "$1" && runs_until "$1" "$reached"
  dead=$(on_head scontrol show hostnames "$(field NodeList)" | sed -n "$2p")
  seen=$(newest "$1")
  cluster kill-node "$dead"
  await_requeue "$1"
  expect_newest_at_least "$1" "$seen"
  goes_on "$1" "$(newest "$1")"
  cluster start-node "$dead" 1gbit
  dead=
}
first_node() { node_dies first-node 1; } # that of the job script
second_node() { node_dies second-node 2; }

# A fault: the job script leaves it to the user to look at the log and submit again.
rank() {
  local seen
  begin rank && runs_until rank "$reached"
  seen=$(newest rank)
  kill_rank 2
  expect_end rank FAILED
  expect_newest_at_least rank "$seen"
  begin rank
  expect_to_finish rank "0 $(newest rank)"
}

job='' dead=
leave() {
  cluster rate all 1gbit
  [ -z "$job" ] || on_head scancel --quiet "$job" || true
  [ -z "$dead" ] || cluster start-node "$dead" 1gbit || true
}
trap leave EXIT

make_oracle
for end in "${@:3}"; do "$end"; done
