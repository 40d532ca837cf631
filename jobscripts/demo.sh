#!/usr/bin/env bash
# The whole path on this machine: Fashion-MNIST to a trained LeNet-5 over two
# local MPI ranks, by a plan made from a measured profile. `make demo` calls it.
#
# Usage: demo.sh [BUILD_FOLDER]
# Needs: the executables in BUILD_FOLDER/bin, two cores, and the data set's four idx.gz
# files in $SLUICE_FASHION_MNIST (default: where Debian's dataset-fashion-mnist puts them).
# Writes: BUILD_FOLDER/demo/. Succeeds if the test accuracy reaches 80 %.
set -euo pipefail
build=${1:-build}
bin=$build/bin
out=$build/demo
images=${SLUICE_FASHION_MNIST:-/usr/share/datasets/fashion-mnist}
least_percent=80

step() { printf '\n%s  %s\n' "$(date +%H:%M:%S)" "$*"; }
command -v mpiexec.mpich >/dev/null && mpiexec=mpiexec.mpich || mpiexec=mpiexec
[ -r "$images/train-images-idx3-ubyte.gz" ] || {
  echo "demo: no Fashion-MNIST in $images: install dataset-fashion-mnist, or set SLUICE_FASHION_MNIST" >&2
  exit 3
}
rm -rf "$out"
mkdir -p "$out"

step 'convert: Fashion-MNIST into one HDF5 file'
"$bin/sluice-dataset" idx -o "$out/fashion-mnist.h5" \
  --train-images "$images/train-images-idx3-ubyte.gz" --train-labels "$images/train-labels-idx1-ubyte.gz" \
  --test-images "$images/t10k-images-idx3-ubyte.gz" --test-labels "$images/t10k-labels-idx1-ubyte.gz"

step 'probe: how fast do the ranks talk?'
$mpiexec -n 2 "$bin/sluice-run" probe -o "$out/cluster.h5"

step 'profile: how long does each layer take?'
$mpiexec -n 2 "$bin/sluice-run" profile --model lenet5 --image 28 --channels 1 --classes 10 --microbatch 32 \
  --device host --threads 1 -o "$out/profile.h5"

step 'optimize: who computes what, and in which order?'
"$bin/sluice" optimize --profile "$out/profile.h5" --cluster "$out/cluster.h5" --ranks 2 --schedule 1f1b \
  --microbatches 8 --cuts independent -o "$out/plan.h5"

step 'train: two ranks, one thread each'
$mpiexec -n 2 "$bin/sluice-run" train --plan "$out/plan.h5" --data "$out/fashion-mnist.h5" --epochs 4 --seed 1 \
  --threads 1 --learning-rate 0.05 --momentum 0.9 -o "$out/results.h5"

step 'report'
"$bin/sluice" report "$out/results.h5" | tee "$out/report.txt"

accuracy=$(sed -nE 's/.*test accuracy[^0-9]*([0-9.]+) ?%.*/\1/p' "$out/report.txt" | tail -n 1)
awk -v accuracy="${accuracy:-0}" -v least="$least_percent" 'BEGIN { exit !(accuracy >= least) }' || {
  echo "demo: test accuracy ${accuracy:-not reported} %, wanted at least $least_percent %" >&2
  exit 1
}
step "done: test accuracy $accuracy % (at least $least_percent % wanted); all files are in $out"
