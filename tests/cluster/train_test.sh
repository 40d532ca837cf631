#!/usr/bin/env bash
# Training by job script over two nodes x two ranks, by a plan whose forward and
# backward cuts differ: every loss equals the sequential run's bit for bit, the
# payload between the nodes is what the plan says to the byte, and the nodes'
# network interfaces carried that and little more.
source "$(dirname "$0")/lib.sh"
steps=200
training=(--data data.h5 --steps "$steps" --seed 7 --learning-rate 0.02 --momentum 0.9)
optimize=("$build/bin/sluice" optimize --profile profile.h5 --microbatches 4)

make_fashion_dataset
on_head "$build/bin/sluice-run" profile --model lenet5 --image 28 --channels 1 --classes 10 --microbatch 8 \
  --device host --threads 1 -o profile.h5
"${optimize[@]}" --ranks 1 --schedule sequential -o sequential-plan.h5
"${optimize[@]}" --nodes 2 --ranks-per-node 2 --intra-gbps 80 --inter-gbps 1 --ranks 4 --schedule 1f1b \
  --cuts independent --forward-cuts 3,6,8 --backward-cuts 2,5,9 -o plan.h5

on_head "$build/bin/sluice-run" train --plan sequential-plan.h5 --threads 1 "${training[@]}" -o sequential.h5
before=$(sent_by_all)
submit --nodes=2 --ntasks-per-node=2 "$source_tree/jobscripts/train.sbatch" --plan plan.h5 "${training[@]}" -o results.h5
on_the_wire=$(($(sent_by_all) - before))

h5diff results.h5 sequential.h5 /steps/loss || fail 'losses differ from those of the sequential run'
expect_equal 'steps' $steps "$(column results.h5 /steps/loss | wc -l)"
planned=$(column results.h5 /run/predicted/ranks/sent_inter_node_bytes | sum)
payload=$(column results.h5 /ranks/sent_inter_node_bytes | sum)
[ "$planned" -gt 0 ] || fail 'the plan sends nothing between the nodes'
expect_equal 'payload between the nodes' $((planned * steps)) "$payload"
expect_between 'bytes on the wire' "$payload" "$on_the_wire" $((payload * 103 / 100))
echo "payload $payload bytes, on the wire $on_the_wire"
