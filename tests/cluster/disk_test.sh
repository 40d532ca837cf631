#!/usr/bin/env bash
# The disk of the checkpoints becomes full: training goes on and says which file could not be written and why, the
# checkpoint before it stands, a restart goes on from there, and once there is room again checkpoints are written.
source "$(dirname "$0")/lib.sh"
# shellcheck source=training.sh
source "$tests/training.sh"
# shellcheck source=resume.sh
source "$tests/resume.sh"
every=10
disk=$PWD/disk # 4 MiB, room for some checkpoints, that node1 alone has

train() { # in the background
  on_head SLUICE_WAIT_LIMIT=60 srun --mpi=pmi2 --kill-on-bad-exit=1 --nodes=1 --ntasks=4 --nodelist=node1 \
    "$build/bin/sluice-run" train --threads 1 --plan local-plan.h5 "${training[@]}" --checkpoint-every "$every" --resume \
    --checkpoints "$disk/checkpoints" -o run.h5 --save-weights run-weights.h5 >"$1" 2>&1 &
  job=$!
}
fill() { cluster on node1 dd if=/dev/zero of="$disk/filler" bs=4k status=none 2>/dev/null || true; }
warns() { grep -q "warning: .*$disk/checkpoints/step-.*No space left on device" "$1"; } # log
warns_of_two() { (($(grep -o "warning: .*$disk/checkpoints/step-[0-9]*" "$1" | grep -o 'step-[0-9]*' | sort -u | wc -l) > 1)); }

make_oracle
make_plan lenet5 local --nodes 1 --ranks-per-node 4 --intra-gbps 80 --inter-gbps 1 --schedule 1f1b \
  --cuts independent --forward-cuts 3,6,8 --backward-cuts 2,5,9
mkdir disk
cluster on node1 mount -t tmpfs -o size=4m tmpfs "$disk"
trap 'on_head scancel --quiet --name=sluice-run; sleep 1; cluster on node1 umount --lazy "$disk"' EXIT
# The node's folder, seen from here.
node1=$(pgrep --oldest --full "^[^ ]*bash [^ ]*/node.sh ${SLUICE_CLUSTER_DIR:-/tmp/sluice-cluster} 1$")
ln -s "/proc/$node1/root$disk/checkpoints" run.h5.checkpoints

train first.log
runs_until run $((2 * every))
fill
await 'warnings of two checkpoints' warns_of_two first.log
last=$(newest run)
"$build/bin/sluice" export weights run.h5.checkpoints -o last-weights.h5 || fail 'the checkpoint before the disk was full'
kill_rank '[0-9]*'
wait "$job" && fail 'the run was not killed'
expect_equal 'newest checkpoint of a full disk' "$last" "$(newest run)"
expect_readable run 'killed'

train second.log
await 'a warning after the restart' warns second.log
cluster on node1 rm "$disk/filler"
wait "$job" || fail "with room again: $(cat second.log)"
expect_equal 'step of the last checkpoint' "$steps" "$(newest run)"
expect_attempts run "0 $last"
expect_same_bits run
