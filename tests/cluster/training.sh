# shellcheck shell=bash disable=SC2154 # lib.sh sets build
# Training on two nodes x two ranks, for the scripts that study its traffic: a small VGG-11 (or LeNet-5) and plans
# in which several ranks of one node want the same tensor. Sourced after lib.sh.
microbatches=4

# 400 images of 32 x 32, cut out of the pixels of smaller ones: what they show does not matter here.
make_dataset() {
  excerpt() { zcat "$images-$1.gz" 2>/dev/null | tail -c "+$2" | head -c "$3" || true; } # part, first byte, bytes
  { printf '\0\0\10\3\0\0\1\220\0\0\0\40\0\0\0\40' && excerpt images-idx3-ubyte 17 409600; } >images.idx
  { printf '\0\0\10\1\0\0\1\220' && excerpt labels-idx1-ubyte 9 400; } >labels.idx
  on_head "$build/bin/sluice-dataset" idx --train-images images.idx --train-labels labels.idx \
    --test-images images.idx --test-labels labels.idx -o data.h5 >/dev/null
}

make_profile() { # model, micro-batch
  on_head "$build/bin/sluice-run" profile --model "$1" --microbatch "$2" --image 32 --channels 1 --classes 10 \
    --device host --threads 1 --repeats 2 -o "$1.h5" >/dev/null
}

make_plan() { # model, name, options of sluice optimize
  on_head "$build/bin/sluice" optimize --profile "$1.h5" --ranks 4 --microbatches "$microbatches" "${@:3}" \
    -o "$2-plan.h5" >"$2-plan.log" 2>&1 || { cat "$2-plan.log"; fail "planning $2"; }
}

train() { # name, steps
  on_head SLUICE_WAIT_LIMIT=60 srun --mpi=pmi2 --kill-on-bad-exit=1 --nodes=2 --ntasks-per-node=2 \
    "$build/bin/sluice-run" train --threads 1 --plan "$1-plan.h5" --data data.h5 --steps "$2" --seed 7 \
    --learning-rate 0.01 --momentum 0.9 -o "$1.h5" >"$1.log" 2>&1 || { cat "$1.log"; fail "training $1"; }
}

planned_between_nodes() { # name: bytes of a step
  column "$1.h5" /run/predicted/ranks/sent_inter_node_bytes | sum
}

# Options that make these plans for VGG-11, with micro-batches of 16, and what a node-aware multicast saves of
# the bytes of a step between the nodes: all that the second consumer on a node would be sent.
relu3_1=$((16 * 8 * 8 * 256 * 4)) # its output: 1 MiB
conv1_1=$((4 * (9 * 64 + 64))) conv2_1=$((4 * (9 * 64 * 128 + 128)))
conv3_1=$((4 * (9 * 128 * 256 + 256))) conv3_2=$((4 * (9 * 256 * 256 + 256)))
conv4_1=$((4 * (9 * 256 * 512 + 512))) conv4_2=$((4 * (9 * 512 * 512 + 512)))
# shellcheck disable=SC2034 # used by the scripts
{
  # The output of relu3_1 is wanted by the forward of conv3_2 and by its backward, on two ranks of the other node, and
  # nothing else goes that way.
  two_consumers=(--schedule 1f1b --cuts independent --forward-cuts '3,8,13' --backward-cuts '3,7,8')
  two_consumers_save=$((microbatches * relu3_1))
  # conv3_2 runs forward on both ranks of one node, and is updated on the other.
  replicated_owners=(--schedule 1f1b --cuts independent --worker-replicas '2,2' --forward-cuts 11 --backward-cuts 8)
  replicated_owners_save=$conv3_2
  # Each rank fetches the weights of all others, but for those of the last stage.
  cooperative=(--schedule cooperative --forward-cuts '6,11,16')
  cooperative_save=$((conv1_1 + conv2_1 + conv3_1 + conv3_2 + conv4_1 + conv4_2))
}
