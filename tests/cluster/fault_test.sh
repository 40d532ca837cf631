#!/usr/bin/env bash
# Jobs on two nodes x two ranks that lose a rank or a link: they end soon after the wait limit, say who does not answer,
# leave nobody behind, and what they had recorded can be read.
source "$(dirname "$0")/lib.sh"
limit=3      # of a wait [s]
patience=60  # with 5 s for the roll call, and the launcher's own time to clean up

job() { # launcher options, --, program: in the background, its log in ./log; returns once it says that it runs
  local options=()
  while [ "$1" != -- ]; do options+=("$1") && shift; done
  rm -rf results.h5 results.h5.parts
  timeout "$patience" "$tests/cluster.sh" run srun --mpi=pmi2 --nodes=2 --ntasks-per-node=2 "${options[@]}" "${@:2}" \
    >log 2>&1 </dev/null &
  job=$!
  until grep -q 'step 1/' log; do
    kill -0 "$job" || fail "the job did not begin: $(cat log)"
    sleep 0.1
  done
  sleep 1
}

processes() { # pgrep sees 15 characters of a name
  local name
  for name in sluice-run endless_multica; do on_head pgrep -x "$name" || true; done
}
signal() { # signal, rank
  local process
  for process in $(processes); do
    if rank_of "$process" "$2"; then on_head kill -"$1" "$process"; fi
  done
}
rank_of() { # process, rank: whether it is that rank's
  on_head cat "/proc/$1/environ" 2>/dev/null | tr '\0' '\n' | grep -x "SLURM_PROCID=$2" >/dev/null
}

expect_end() { # what, exit codes that the launcher may show, a rank that must be named or none
  local code=0 since=$SECONDS
  wait "$job" || code=$?
  echo "$1: exit code $code after $((SECONDS - since)) s"
  grep 'sluice-run: rank' log || true
  [[ " $2 " == *" $code "* ]] || fail "$1: exit code $code, expected one of $2: $(cat log)"
  [ "$3" = none ] || grep -q "no answer from .*rank [0-9]* (world rank $3 on node" log || fail "$1: rank $3 is not named: $(cat log)"
  [ "$(grep -o 'sluice-run: rank [0-9]*' log | sort | uniq -d)" = '' ] || fail "$1: a rank said more than one line: $(cat log)"
  for ((i = 0; i < 100; ++i)); do
    [ -n "$(processes)" ] || break
    sleep 0.1
  done
  expect_equal "$1: processes left" '' "$(processes | xargs)"
}

expect_readable() {
  [ ! -e results.h5 ] || fail "$1: results.h5 passes for a whole run"
  "$build/bin/sluice" report results.h5 >report.txt || fail "$1: what was recorded cannot be read"
}

make_fashion_dataset
# Micro-batches of 256: activations of some MiB, which take longer than the kernels.
on_head "$build/bin/sluice-run" profile --model lenet5 --image 28 --channels 1 --classes 10 --microbatch 256 \
  --repeats 3 -o profile.h5
"$build/bin/sluice" optimize --profile profile.h5 --nodes 2 --ranks-per-node 2 --intra-gbps 80 --inter-gbps 1 --ranks 4 \
  --microbatches 4 --schedule 1f1b --cuts independent --forward-cuts 3,6,8 --backward-cuts 2,5,9 -o plan.h5
training=("$build/bin/sluice-run" train --plan plan.h5 --data data.h5 --steps 100000 --wait-limit "$limit" -o results.h5)

job --kill-on-bad-exit=0 -- "${training[@]}"
signal KILL 2
expect_end 'a rank killed' 137 2
expect_readable 'a rank killed'

job --kill-on-bad-exit=1 -- "${training[@]}"
signal KILL 2
expect_end 'a rank killed, --kill-on-bad-exit' '137 143' none
expect_readable 'a rank killed, --kill-on-bad-exit'

job --kill-on-bad-exit=0 -- "${training[@]}"
signal STOP 1
expect_end 'a rank stopped' 137 1
expect_readable 'a rank stopped'

job --kill-on-bad-exit=0 -- "${training[@]}"
cluster rate node2 1kbit
until grep -q 'sluice-run: rank' log || ! kill -0 "$job" 2>/dev/null; do sleep 0.2; done
sleep 1
cluster rate node2 1gbit # Slurm needs it, too
expect_end 'a dead link' '137' none
# Whoever speaks misses both ranks behind the link.
both_of=([1]='rank 2 (world rank 2 on node2), rank 3 (world rank 3 on node2)' [2]='rank 0 (world rank 0 on node1), rank 1 (world rank 1 on node1)')
grep 'sluice-run: rank' log | while read -r line; do
  node=$([[ $line =~ ^sluice-run:\ rank\ [0-9]+\ \(world\ rank\ [0-9]+\ on\ node([12]) ]] && echo "${BASH_REMATCH[1]}")
  [[ $line == *"no answer from ${both_of[$node]}"* ]] || fail "the ranks behind the dead link are not named: $line"
done
expect_readable 'a dead link'

# Multicasts of 64 MiB: what is killed is in the middle of one. Nobody has to be killed by the launcher where all answer.
multicasts=("$build/bin/endless_multicasts" 67108864 "$limit")
job --kill-on-bad-exit=0 -- "${multicasts[@]}"
signal KILL 3
expect_end 'a rank killed in a multicast' 137 3
for kill in 0 1; do
  job --kill-on-bad-exit=$kill -- "${multicasts[@]}" 2
  expect_end "a rank that does not take part, --kill-on-bad-exit=$kill" 1 none
  grep -q 'all other ranks answer; waiting for nobody: rank 2 (world rank 2 on node2)' log || fail "rank 2 is not named: $(cat log)"
done

# MPI_Finalize, with a rank that is gone: the other one leaves with the code of its run, which its main() does not return.
code=0
timeout "$patience" "$tests/cluster.sh" run srun --mpi=pmi2 --nodes=2 --ntasks-per-node=1 --kill-on-bad-exit=0 \
  "$build/bin/comm_lost_peer" kill >log 2>&1 </dev/null || code=$?
expect_equal 'exit code with a rank lost before MPI_Finalize' 137 "$code"
grep -q 'task 0: Exited with exit code 6' log || fail "MPI_Finalize: $(cat log)"
