#!/usr/bin/env bash
# The walls of docs/architecture.md: which room may include which, the one room
# of each big dependency, and no circle of includes.
# Usage: check_walls.sh [SOURCE_TREE]; prints every breach, exit 1 if there is one.
set -euo pipefail
cd "${1:-.}"

# room: the rooms whose headers it may include. The longest matching room counts.
declare -A may_include=(
  [core]='core'
  [core/storage]='core/storage core'
  [core/command]='core/command core'
  [optimizer]='optimizer core/storage core'
  [optimizer/command]='optimizer/command optimizer results core/command core/storage core'
  [results]='results core/storage core'
  [datasets]='datasets core/command core/storage core'
  [runtime/device]='runtime/device core'
  [runtime/device/host]='runtime/device/host runtime/device core'
  [runtime/device/fake]='runtime/device/fake runtime/device core'
  [runtime/device/cuda]='runtime/device/cuda runtime/device core'
  [runtime/nn]='runtime/nn runtime/device core'
  [runtime/comm]='runtime/comm runtime/device core'
  [runtime/engine]='runtime/engine runtime/nn runtime/comm runtime/device core/storage core'
  [runtime/engine/command]='runtime/engine/command runtime/engine runtime/nn runtime/comm runtime/device runtime/device/host runtime/device/fake core/command core/storage core'
)

# header pattern: its one room.
declare -A only_in=(
  ['hdf5(_hl)?\.h|H5.*']='core/storage'
  ['mpi\.h']='runtime/comm'
  ['(cuda|cudnn|cublas|nccl|nvtx).*']='runtime/device/cuda'
  ['(oneapi/)?dnnl.*']='runtime/device/host'
  ['(coin(-or)?/)?(Cbc|Clp|Osi|Coin).*']='optimizer/solver/ilp'
)

room_of() { # path, name of the result: the innermost room that holds it, or none
  local folder=${1%/*}
  until [[ -v may_include[$folder] || $folder != */* ]]; do folder=${folder%/*}; done
  [[ -v may_include[$folder] ]] || folder=none
  printf -v "$2" %s "$folder"
}

includes() { # opening quotes -> "file header" lines of the product's sources
  find core optimizer results datasets runtime -regextype egrep -regex '.*\.(h|c|cpp|cuh?)' -exec \
    sed -nE "s/^[[:space:]]*#[[:space:]]*include[[:space:]]*$1([^\">]+)[\">].*/\1/;T;F;p" {} + | paste -d ' ' - -
}

check_rooms() {
  local file header from to
  while read -r file header; do
    [[ -f $header ]] || { echo "$file includes \"$header\", which is no file seen from the top of the source tree"; continue; }
    room_of "$file" from
    room_of "$header" to
    [[ " ${may_include[$from]:-} " == *" $to "* ]] || echo "$file: room $from may not include $header of room $to"
  done < <(includes '"')
}

check_dependencies() {
  local file header pattern room
  while read -r file header; do
    for pattern in "${!only_in[@]}"; do
      room=${only_in[$pattern]}
      if [[ $header =~ ^($pattern)$ && $file != "$room"/* ]]; then
        echo "$file: <$header> belongs into $room only"
      fi
    done
  done < <(includes '[<"]')
}

check_circles() {
  includes '"' | awk '$1 == $2 { print $1 " includes itself" }'
  # tsort orders "includer included" pairs, or names the loop that keeps it from doing so.
  includes '"' | { tsort 2>&1 >/dev/null || true; } | sed 's/^tsort: -:/circle of includes:/; s/^tsort:/  /'
}

breaches=$(check_rooms; check_dependencies; check_circles)
if [[ -n $breaches ]]; then
  echo "$breaches"
  exit 1
fi
echo "walls hold: $(includes '"' | wc -l) includes checked"
