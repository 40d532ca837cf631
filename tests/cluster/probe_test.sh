#!/usr/bin/env bash
# The job script that measures, on two nodes x two ranks: two link classes, of
# which the network is the limited one, and a profile by all ranks of a node.
source "$(dirname "$0")/lib.sh"

submit --nodes=2 --ntasks-per-node=2 "$source_tree/jobscripts/probe-profile.sbatch" cluster.h5 profile.h5 \
  --model lenet5 --image 28 --channels 1 --classes 10 --microbatch 8

expect_equal 'nodes' 'node1 node2' "$(column cluster.h5 /nodes/name | xargs)"
expect_equal 'node of each rank' '0 0 1 1' "$(column cluster.h5 /ranks/node | xargs)"
mapfile -t bandwidth < <(column cluster.h5 /links/bandwidth_bytes_per_s | xargs printf '%.0f\n')
# 1 Gbit/s less headers, and a burst that may pass unlimited.
expect_between 'inter-node bandwidth' 20000000 "${bandwidth[1]}" 140000000
expect_between 'intra-node bandwidth' "${bandwidth[1]}" "${bandwidth[0]}" 1000000000000
expect_equal 'ranks that measured at once' 2 "$(h5dump --attribute=/concurrent_ranks profile.h5 | sed -n 's/.*(0): //p')"

# The algorithms of collectives, each by its own times, for each size of messages; a plan for this cluster is priced by
# them.
column cluster.h5 /algorithms/collective >collectives.txt
algorithms=$(column cluster.h5 /algorithms/algorithm | paste -d ' ' collectives.txt - | sort -u)
expect_equal 'algorithms' '2 all_reduce 2 all_to_all 7 multicast' "$(cut -d ' ' -f 1 <<<"$algorithms" | uniq -c | xargs)"
column cluster.h5 /algorithms/segmented >segmented.txt
smallest=$(column cluster.h5 /algorithms/from_bytes | paste -d ' ' segmented.txt - | grep -cx '0 0')
expect_equal 'costs of the smallest payloads' 11 "$smallest"
grep --only-matching 'all collectives: predicted against measured: .*' sluice-measure-*.log || fail 'no word on how well times are told'
"$build/bin/sluice" optimize --profile profile.h5 --cluster cluster.h5 --microbatches 4 -o plan.h5
for figures in median_error inter_node_bandwidth_bytes_per_s segmented from_bytes; do
  expect_equal "the plan's $figures" "$(column cluster.h5 /algorithms/$figures)" "$(column plan.h5 /plan/cluster/algorithms/$figures)"
done
