#!/usr/bin/env bash
# The virtual cluster itself: nodes take part, and the interface counters
# see what crosses a node's border. A cluster leaves nothing behind, however its command ends.
source "$(dirname "$0")/lib.sh"

expect_equal 'nodes that answer' 'node1 node2' "$(on_head srun --nodes=2 hostname | sort | xargs)"

bytes=4000000
before=$(sent_by node2)
# shellcheck disable=SC2016 # SLURMD_NODENAME is the node's
received=$(on_head srun --nodes=2 bash -c '[ $SLURMD_NODENAME = node1 ] || head -c '$bytes' /dev/zero' | wc -c)
expect_equal 'bytes through srun' $bytes "$received"
expect_between 'bytes on the wire of node2' $bytes "$(($(sent_by node2) - before))" $((bytes * 108 / 100))

cluster rate node2 10mbit
on_head tc qdisc show dev node2 | grep -q 'rate 10Mbit' || fail 'the link of node2 was not limited'
cluster rate node2 1gbit

# A power cut. Slurm begins the job again, on the node that is left.
job=$(on_head sbatch --parsable --nodelist=node2 --output=/dev/null --wrap='sleep 600')
until [ "$(on_head squeue --noheader --job="$job" --format=%T)" = RUNNING ]; do sleep 0.1; done
cluster kill-node node2
on_head timeout 1 bash -c '</dev/tcp/node2/6818' 2>/dev/null && fail 'node2 still answers'
[[ $(on_head sinfo --noheader --partition=main --nodes=node2 --format=%T) == down* ]] || fail 'Slurm does not know that node2 is down'
expect_equal 'state of its job' PENDING "$(on_head squeue --noheader --job="$job" --format=%T)"
on_head scancel "$job"
cluster start-node node2 1gbit
expect_equal 'the node that came back' node2 "$(on_head srun --nodelist=node2 hostname)"

# Another cluster, whose command fails while a job runs.
export SLUICE_CLUSTER_DIR=$SLUICE_CLUSTER_DIR-2
code=0
cluster with 1 off bash -c "'$tests/cluster.sh' run sbatch --quiet --output=/dev/null --wrap='sleep 600'; exit 3" || code=$?
expect_equal 'exit code of the command' 3 "$code"

nothing_is_left() {
  [ ! -e "$SLUICE_CLUSTER_DIR" ] || fail "$SLUICE_CLUSTER_DIR is still there"
  expect_equal 'processes left' '' "$(pgrep --full --list-full "$SLUICE_CLUSTER_DIR" || true)"
}
nothing_is_left

# And one that is ended from outside, with a lock that nobody may be left to hold. `timeout` signals twice, the process
# and its group; here the second signal comes while the first one's cleaning up goes on.
exec 9>lock
flock 9
"$tests/cluster.sh" with 1 off sleep 600 >with.log &
with=$!
until grep -q 'nodes up' with.log; do sleep 0.1; done
kill "$with"
sleep 0.02
kill "$with" 2>/dev/null || true
wait "$with" && fail 'the command was not ended'
nothing_is_left
exec 9>&-
flock --nonblock lock true || fail 'something still holds the lock'
