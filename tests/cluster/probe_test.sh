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
