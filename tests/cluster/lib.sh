# shellcheck shell=bash
# What the cluster tests share. A test's arguments: the build folder,
# and a scratch folder, visible from every node, that it is to start empty in.
set -euo pipefail
tests=$(realpath "$(dirname "${BASH_SOURCE[0]}")")
# shellcheck disable=SC2034 # used by the tests
source_tree=$(realpath "$tests/../..")

cluster() { "$tests/cluster.sh" "$@"; }
on_head() { cluster run "$@"; }
fail() { echo "FAILED: $*" >&2; exit 1; }

expect_equal() { # what, expected, actual
  [ "$2" = "$3" ] || fail "$1: expected $2, got $3"
}

expect_between() { # what, least, value, most
  (($2 <= $3 && $3 <= $4)) || fail "$1: $3 is not between $2 and $4"
}

# Bytes that a node has sent so far, as its network interface counts them.
sent_by() { cluster counters | awk -v node="$1" '$1 == node { print $2 }'; }
sent_by_all() { cluster counters | awk '{ print $2 }' | sum; }

# Fashion-MNIST's test images as data.h5, to train with and to test.
images=${SLUICE_FASHION_MNIST:-/usr/share/datasets/fashion-mnist}/t10k
make_fashion_dataset() {
  on_head "$build/bin/sluice-dataset" idx --train-images "$images-images-idx3-ubyte.gz" \
    --train-labels "$images-labels-idx1-ubyte.gz" --test-images "$images-images-idx3-ubyte.gz" \
    --test-labels "$images-labels-idx1-ubyte.gz" -o data.h5 >/dev/null
}

# A job script, submitted from here, until its end; its log if it fails.
submit() { # job script and arguments
  # shellcheck disable=SC2154 # build is set below
  on_head SLUICE_BIN="$build/bin" SLUICE_JOBSCRIPTS="$source_tree/jobscripts" sbatch --wait --quiet "$@" && return
  cat ./*.log
  fail "sbatch $*"
}

# One value of an HDF5 dataset a line.
column() { # file, dataset
  h5dump --noindex --width=1 --dataset="$2" --output=column.txt "$1" >/dev/null
  tr -d ', "' <column.txt | grep .
}
sum() { awk '{ total += $1 } END { printf "%.0f\n", total }'; } # %d ends at 2^31 in mawk

if ! cluster running; then
  echo 'skipped: the virtual cluster is not up (it needs root)'
  exit 77
fi

# shellcheck disable=SC2034 # used by the tests
build=$1
rm -rf "$2"
mkdir -p "$2"
cd "$2"
