#!/usr/bin/env bash
# Measures multicasts, and training with them, on virtual nodes whose links let 1 Gbit/s and 100 Mbit/s pass, and writes
# the figures as CSV. On a fresh cluster (make bench-traffic), as root; some ten minutes. Other work on the machine
# shows in small messages first.
# usage: traffic_bench.sh BUILD FOLDER
source "$(dirname "$0")/../cluster/lib.sh"
# shellcheck source=../cluster/training.sh
source "$tests/training.sh"
step=(srun --mpi=pmi2 --kill-on-bad-exit=1)

say() { echo "$(date +%H:%M:%S) $*"; }

# The links of some ranks; messages as large as their rate allows in little time.
probe() { # placement, launcher and its arguments
  say "$rate, $1: probe"
  on_head "${@:2}" "$build/bin/sluice-run" probe --largest-mib "$largest_message" -o "cluster-$1.h5" >"probe-$1.log" 2>&1
}

# Multicasts among ranks that were probed just before.
measure() { # placement, largest bytes, groups in one word, launcher and its arguments
  say "$rate, $1, up to $2 bytes: $3"
  # shellcheck disable=SC2086 # words
  on_head "${@:4}" "$build/bin/traffic_bench" "cluster-$1.h5" "$2" 1 $3 | sed "s/^/$rate,$1,/" >>multicasts.csv
}

step_times() { # training: but for the first step, a warm-up
  column "$1.h5" /steps/duration_s | tail -n +2
}

# A plan trained with flat sends, MPI's and the model's choice, in turns.
measure_training() { # plan, options of sluice optimize
  local round way bytes
  say "$rate, training: $1"
  make_plan vgg11 "$1-flat" --cluster cluster-2x2.h5 --multicast flat "${@:2}"
  make_plan vgg11 "$1-mpi" --cluster cluster-2x2.h5 --multicast mpi "${@:2}"
  make_plan vgg11 "$1-chosen" --cluster cluster-2x2.h5 "${@:2}"
  for round in 1 2; do
    for way in flat mpi chosen; do
      train "$1-$way" 5
      bytes=$(planned_between_nodes "$1-$way")
      step_times "$1-$way" | sed "s/^/$rate,$1,$way,$bytes,$round,/" >>training.csv
    done
  done
}

# Bytes in and out of every node for one payload to all.
say 'bytes by node'
on_head "${step[@]}" --nodes=4 --ntasks-per-node=2 "$build/tests/traffic_check" >bytes.txt

make_dataset
make_profile vgg11 16
echo rate,placement,group,bytes,algorithm,segment_bytes,measured_s,predicted_s,chosen >multicasts.csv
echo rate,plan,way,bytes_between_nodes,round,step_s >training.csv
for rate in 1gbit 100mbit; do
  cluster rate all "$rate"
  most=$((64 << 20)) some=$((16 << 20)) largest_message=8
  [ "$rate" = 1gbit ] || most=$((16 << 20)) some=$((4 << 20)) largest_message=1
  blocks=("${step[@]}" --nodes=4 --ntasks-per-node=2)
  probe 4x2 "${blocks[@]}"
  measure 4x2 "$most" 'all two' "${blocks[@]}"
  measure 4x2 "$some" leaders "${blocks[@]}"
  large=("${step[@]}" --nodes=2 --ntasks-per-node=4)
  probe 2x4 "${large[@]}"
  measure 2x4 "$some" all "${large[@]}"
  uneven=(salloc --quiet --nodes=4 mpiexec -hosts 'node1:3,node2:1,node3:2,node4:2')
  probe 3+1+2+2 "${uneven[@]}"
  measure 3+1+2+2 "$some" all "${uneven[@]}"
  probe 2x2 "${step[@]}" --nodes=2 --ntasks-per-node=2
  measure_training two-consumers "${two_consumers[@]}"
  measure_training cooperative "${cooperative[@]}"
done
say "figures in $PWD"
