#!/usr/bin/env bash
# Every kind of breach, planted in a small tree, must be found; the clean tree must pass.
# Usage: check_walls_test.sh CHECK_WALLS
set -euo pipefail
check=$(realpath "$1")
tree=$(mktemp -d)
trap 'rm -rf "$tree"' EXIT

plant() { # file, lines...
  mkdir -p "$tree/${1%/*}"
  printf '%s\n' "${@:2}" >"$tree/$1"
}

clean_tree() {
  rm -rf "${tree:?}"/*
  plant core/model.h '#include <vector>'
  plant core/plan.h '#include "core/model.h"'
  plant core/storage/file.cpp '#include <hdf5.h>' '#include "core/plan.h"'
  plant optimizer/solver.h '#include "core/plan.h"'
  plant datasets/idx.h '#include "core/model.h"'
  plant results/report.h '#include "core/plan.h"'
  plant runtime/device/device.h '#include "core/model.h"'
  plant runtime/comm/communicator.cpp '#include <mpi.h>' '#include "runtime/device/device.h"'
  plant runtime/nn/layer.h '#include "runtime/device/device.h"'
  plant runtime/engine/executor.cpp '#include "runtime/nn/layer.h"' '#include "core/plan.h"'
}

must_find() { # what the report must say
  local report
  if report=$("$check" "$tree") || ! grep -q "$1" <<<"$report"; then
    echo "not found: $1"
    echo "report: $report"
    exit 1
  fi
  clean_tree
}

clean_tree
"$check" "$tree"

plant core/bad.cpp '#include "runtime/device/device.h"'
must_find 'core/bad.cpp: room core may not include runtime/device/device.h'
plant core/bad.h '#include "core/storage/file.h"'
plant core/storage/file.h ''
must_find 'room core may not include core/storage/file.h'
plant runtime/comm/bad.cpp '#include "runtime/nn/layer.h"'
must_find 'room runtime/comm may not include'
plant optimizer/bad.cpp '  #  include "runtime/device/device.h"'
must_find 'room optimizer may not include'
plant runtime/engine/bad.cpp '#include <hdf5.h>'
must_find '<hdf5.h> belongs into core/storage only'
plant runtime/engine/bad.cpp '#include "mpi.h"'
must_find '<mpi.h> belongs into runtime/comm only'
plant runtime/nn/bad.cpp '#include <cuda_runtime.h>'
must_find '<cuda_runtime.h> belongs into runtime/device/cuda only'
plant runtime/nn/bad.cpp '#include <oneapi/dnnl/dnnl.hpp>'
must_find 'belongs into runtime/device/host only'
plant optimizer/solver/bad.cpp '#include <Cbc_C_Interface.h>'
must_find 'belongs into optimizer/solver/ilp only'
plant core/model.h '#include "core/plan.h"'
must_find 'circle of includes'
plant core/bad.h '#include "core/bad.h"'
must_find 'core/bad.h includes itself'
plant core/bad.cpp '#include "nowhere.h"'
must_find 'which is no file seen from the top'
plant core/bad.cpp '#include "tests/unit/helper.h"'
plant tests/unit/helper.h ''
must_find 'room none'
echo 'every planted breach was found'
