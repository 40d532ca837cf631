#!/usr/bin/env bash
# Training by plans in which several ranks of one node want the same tensor: what crosses the network is what the plan
# says, a node gets each tensor once, and no way of multicasting changes a bit of the losses. All-reduces may differ by
# rounding, and repeat exactly. With "all" as third argument every plan is trained with every algorithm.
source "$(dirname "$0")/lib.sh"
# shellcheck source=training.sh
source "$tests/training.sh"
some=(hierarchical)
[ "${3:-}" != all ] || some=(hierarchical binomial chain tree scatter_allgather mpi)
steps=2
links=(--nodes 2 --ranks-per-node 2 --intra-gbps 80 --inter-gbps 1)

declare -A sent_by_first # bytes out of node1, by training

# Holds a training's bytes against its plan's, which are left in `planned` [B a step].
train_and_count() { # name, algorithm
  local before first sent
  before=$(sent_by_all) first=$(sent_by node1)
  train "$1" "$steps"
  sent_by_first[$1]=$(($(sent_by node1) - first))
  sent=$((($(sent_by_all) - before) / steps))
  planned=$(planned_between_nodes "$1")
  expect_equal "$1: payload between the nodes" $((planned * steps)) \
    "$(column "$1.h5" /ranks/sent_inter_node_bytes | sum)"
  # MPI_Ibcast's messages are its own affair; the plan has what a binomial tree would send.
  [ "$2" = mpi ] || expect_between "$1: bytes on the wire" "$planned" "$sent" $((planned * 103 / 100))
  echo "$1: $planned bytes a step planned between the nodes, $sent on the wire"
}

# Flat sends, then some algorithms: these send `saved` bytes a step less, and the losses are the same.
compare() { # name, saved, options of sluice optimize; algorithms in `some`
  local algorithm flat
  for algorithm in flat "${some[@]}"; do
    make_plan vgg11 "$1-$algorithm" "${links[@]}" --multicast "$algorithm" "${@:3}"
    train_and_count "$1-$algorithm" "$algorithm"
    [ "$algorithm" != flat ] || flat=$planned
    h5diff "$1-flat.h5" "$1-$algorithm.h5" /steps/loss || fail "$1: $algorithm changes the losses"
    case $algorithm in flat | mpi) continue ;; esac
    expect_equal "$1: saved by $algorithm" "$2" $((flat - planned))
  done
}

make_dataset
make_profile vgg11 16
compare two-consumers "$two_consumers_save" "${two_consumers[@]}"
expect_between '100 times flat sends over one for both consumers' 194 \
  $((100 * sent_by_first[two-consumers-flat] / sent_by_first[two-consumers-hierarchical])) 206
compare replicated-owners "$replicated_owners_save" "${replicated_owners[@]}"
compare cooperative "$cooperative_save" "${cooperative[@]}"

make_profile lenet5 8
for algorithm in ring hierarchical; do
  make_plan lenet5 "sums-$algorithm" "${links[@]}" --worker-replicas 4 --forward-cuts '' --all-reduce "$algorithm"
  cp "sums-$algorithm-plan.h5" "again-$algorithm-plan.h5"
  train "sums-$algorithm" 4
  train "again-$algorithm" 4
  h5diff "sums-$algorithm.h5" "again-$algorithm.h5" /steps/loss || fail "all-reduce by $algorithm does not repeat"
done
h5diff --relative=1e-5 sums-ring.h5 sums-hierarchical.h5 /steps/loss || fail 'the all-reduces differ'
