# shellcheck shell=bash disable=SC2154,SC2034 # lib.sh sets build; the scripts read what is set here
# Training that is interrupted and goes on, for the scripts that do so: LeNet-5 on two nodes x two ranks with a
# checkpoint every 20 steps, and the sequential run that nothing interrupts, whose bits all others must have.
# A run NAME is NAME.h5, its checkpoints, NAME-weights.h5 and NAME.log. Sourced after lib.sh and training.sh.
steps=300
every=20
patience=60 # [s]
training=(--data data.h5 --steps "$steps" --seed 7 --learning-rate 0.02 --momentum 0.9)

make_oracle() { # also data, profile, and the plan of the runs that are compared with it
  make_dataset
  make_profile lenet5 8
  make_plan lenet5 four --nodes 2 --ranks-per-node 2 --intra-gbps 80 --inter-gbps 1 --schedule 1f1b \
    --cuts independent --forward-cuts 3,6,8 --backward-cuts 2,5,9
  on_head "$build/bin/sluice" optimize --profile lenet5.h5 --microbatches "$microbatches" --ranks 1 \
    --schedule sequential -o sequential-plan.h5 >sequential-plan.log 2>&1
  "$build/bin/sluice-run" train --plan sequential-plan.h5 --threads 1 "${training[@]}" \
    --save-weights oracle-weights.h5 -o oracle.h5 >oracle.log 2>&1 || fail "the oracle: $(cat oracle.log)"
}

await() { # what, command...
  local deadline=$((SECONDS + patience))
  until "${@:2}"; do
    ((SECONDS < deadline)) || fail "$1: not within $patience s: $(tail -n 20 ./*.log)"
    sleep 0.05
  done
}

# Step of the newest checkpoint, -1 if there is none.
newest() { # run
  local manifest folder step=-1
  for manifest in "$1.h5.checkpoints"/step-*/manifest.h5; do
    folder=${manifest%/*}
    [ ! -e "$manifest" ] || step=$((10#${folder##*step-}))
  done
  echo "$step"
}
reaches() { (($(newest "$1") >= $2)); } # run, step
runs_until() { await "$1: a checkpoint of step $2" reaches "$1" "$2"; } # run, step

# Steps in the record of a run that has not ended.
recorded() { # run
  local part
  for part in "$1.h5.parts"/*rank-000000.part-*.h5; do column "$part" /steps/step; done | sort -nu | wc -l
}

kill_rank() { # number or "[0-9]*"
  local process
  for process in $(on_head pgrep -x sluice-run); do
    ! on_head grep -qz "^SLURM_PROCID=$1\$" "/proc/$process/environ" || on_head kill -KILL "$process"
  done
}

expect_readable() { # run, when
  "$build/bin/sluice" report "$1.h5" >"$1.report" 2>&1 || fail "$2: what $1 recorded cannot be read: $(cat "$1.report")"
}

# The whole run, however often it was interrupted, is the one that never was.
expect_same_bits() { # run
  h5diff "$1-weights.h5" oracle-weights.h5 /weights || fail "$1: the weights differ from the uninterrupted run's"
  h5diff "$1.h5" oracle.h5 /steps/step || fail "$1: steps are missing or recorded twice"
  h5diff "$1.h5" oracle.h5 /steps/loss || fail "$1: the losses differ from the uninterrupted run's"
}

# Where the attempts of a finished run began.
expect_attempts() { # run, first steps
  expect_equal "$1: first steps of the attempts" "$2" "$(column "$1.h5" /run/attempts/first_step | xargs)"
  expect_readable "$1" 'at the end'
  [[ $2 != *' '* ]] || grep -qi restart "$1.report" || fail "$1: the report does not show the restart: $(cat "$1.report")"
}
