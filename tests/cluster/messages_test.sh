#!/usr/bin/env bash
# The communicator between real network interfaces: its own tests on two nodes x
# two ranks. (The node count that CTest sets for them is for one machine only.)
source "$(dirname "$0")/lib.sh"

for executable in comm_communicator_test comm_multicast_test; do
  on_head SLUICE_WAIT_LIMIT=60 srun --mpi=pmi2 --nodes=2 --ntasks-per-node=2 --kill-on-bad-exit=1 \
    "$build/tests/$executable" --gtest_brief=1 --gtest_filter='-*as_the_test_was_given*'
done
