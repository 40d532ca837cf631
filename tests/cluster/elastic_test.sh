#!/usr/bin/env bash
# A checkpoint of four ranks goes on with two, three and four, under other schedules and cuts: losses and weights stay
# those of the uninterrupted run, bit for bit.
source "$(dirname "$0")/lib.sh"
# shellcheck source=training.sh
source "$tests/training.sh"
# shellcheck source=resume.sh
source "$tests/resume.sh"

run() { # name, plan, nodes, ranks per node: in the background
  on_head SLUICE_WAIT_LIMIT=60 srun --mpi=pmi2 --kill-on-bad-exit=1 --nodes="$3" --ntasks-per-node="$4" \
    "$build/bin/sluice-run" train --threads 1 --plan "$2-plan.h5" "${training[@]}" --checkpoint-every "$every" --resume \
    -o "$1.h5" --save-weights "$1-weights.h5" >"$1.log" 2>&1 &
  job=$!
}

make_oracle
make_plan lenet5 others --nodes 2 --ranks-per-node 2 --intra-gbps 80 --inter-gbps 1 --schedule gpipe \
  --cuts independent --forward-cuts 2,5,9 --backward-cuts 3,7,8
for ranks in 2 3; do
  on_head "$build/bin/sluice" optimize --profile lenet5.h5 --microbatches "$microbatches" --ranks "$ranks" \
    --nodes "$ranks" --ranks-per-node 1 --intra-gbps 80 --inter-gbps 1 --schedule gpipe -o "$ranks-plan.h5" >"$ranks-plan.log" 2>&1
done

run stopped four 2 2
runs_until stopped $((5 * every))
on_head scancel --signal=USR1 --name=sluice-run
code=0
wait "$job" || code=$?
expect_equal 'exit code of a run that was asked to stop' 75 "$code"
last=$(newest stopped)

resume() { # name, plan, nodes, ranks per node
  cp -r stopped.h5.parts "$1.h5.parts"
  cp -r stopped.h5.checkpoints "$1.h5.checkpoints"
  run "$@"
  wait "$job" || fail "resuming as $1: $(cat "$1.log")"
  expect_attempts "$1" "0 $last"
  expect_same_bits "$1"
}
resume four-ranks others 2 2
resume three-ranks 3 3 1
resume two-ranks 2 2 1
