#!/usr/bin/env bash
# The whole path by jobscripts/submit.sh on two nodes x two ranks: from probing to the report of a trained LeNet-5, whose
# losses equal those of one rank. Then chains with an element that fails: their code, and nothing is left in the queue.
source "$(dirname "$0")/lib.sh"
training=(--data data.h5 --epochs 3 --seed 3 --learning-rate 0.05 --momentum 0.9)
measure=(measure --model lenet5 --image 28 --channels 1 --classes 10 --microbatch 32)
optimize=(optimize --ranks 4 --schedule 1f1b --microbatches 4)

chain() { # words of submit.sh; its exit code
  on_head SLUICE_BIN="$build/bin" SLUICE_POLL_S=1 "$source_tree/jobscripts/submit.sh" --nodes=2 --ntasks-per-node=2 "$@"
}

expect_refusal() { # what, code, what it says, words of submit.sh
  local code=0
  chain "${@:4}" >said 2>&1 || code=$?
  expect_equal "$1: exit code" "$2" "$code"
  grep -q -- "$3" said || fail "$1: says $(cat said)"
  grep 'submit:' said
}

expect_empty_queue() { # what
  local i
  for ((i = 0; i < 150; ++i)); do
    [ -n "$(on_head squeue --noheader)" ] || return 0
    sleep 0.2
  done
  fail "$1: left in the queue: $(on_head squeue)"
}

make_fashion_dataset

chain --wait lenet5 "${measure[@]}" "${optimize[@]}" --exactly train "${training[@]}" || { cat lenet5/*.log; fail 'the chain'; }
expect_equal 'losses' 234 "$(column lenet5/results.h5 /steps/loss | wc -l)"
"$build/bin/sluice" optimize --profile lenet5/profile.h5 --ranks 1 --schedule sequential --microbatches 4 -o one-plan.h5
on_head "$build/bin/sluice-run" train --plan one-plan.h5 "${training[@]}" -o one.h5
h5diff lenet5/results.h5 one.h5 /steps/loss || fail 'losses differ from those of one rank'
accuracy=$(sed -nE 's/^test accuracy +([0-9]+).*/\1/p' lenet5/results.h5.txt)
expect_between 'test accuracy' 70 "${accuracy:-0}" 100
expect_empty_queue 'the chain'

expect_refusal 'a plan that cannot be' 2 'optimize, job [0-9]*, ended: FAILED, exit code 2; see bad-plan/sluice-optimize' \
  --wait bad-plan "${measure[@]}" optimize --ranks 0 train "${training[@]}"
expect_empty_queue 'a plan that cannot be'
[ -z "$(ls bad-plan/*train* bad-plan/*report* 2>/dev/null)" ] || fail 'what follows a failed plan began'

# Nobody waits: Slurm itself takes the rest out.
chain bad-model "${measure[@]}" --repeats 0 "${optimize[@]}" train "${training[@]}"
expect_empty_queue 'measures that cannot be'
grep -q 'repeats' bad-model/sluice-measure-*.log || fail "the log: $(cat bad-model/*.log)"

expect_refusal 'a chain that sbatch refuses' 1 'submit: cancels' \
  refused "${measure[@]}" "${optimize[@]}" train --sbatch=--partition=none "${training[@]}"
expect_refusal 'no chain' 2 'measure train is no chain' none "${measure[@]}" train "${training[@]}"
expect_empty_queue 'chains that are refused'
