#!/usr/bin/env bash
# A real Slurm cluster of virtual nodes on one machine, for the tests. Needs root.
#
#   start NODES [RATE]  boot head and nodes; RATE limits each node's link both ways (e.g. 1gbit)
#   with NODES RATE COMMAND...  start, run the command, stop, whatever happens
#   run COMMAND...      on the head node, in the same working directory
#   on NODE COMMAND...  on that node, likewise
#   rate NODE|all RATE  changes the limit of links (off: none)
#   kill-node NODE      as a power cut would: its link and all its processes are gone, and Slurm is told
#   start-node NODE [RATE]  boots it again, until Slurm may use it
#   running             succeeds if the head is up
#   counters            one line a node: name, bytes sent, bytes received
#   logs                the last lines of every daemon's log
#   stop                end everything; the state folder goes too
#
# The head and each node live in their own network, host name, IPC, mount and PID
# namespaces; the nodes nest in the head. So killing one process, the head's
# `unshare --kill-child`, ends every daemon, job and link, and nothing of the
# cluster is seen or can be left over on the machine itself.
# SLUICE_CLUSTER_DIR holds state and logs; SLUICE_CLUSTER_PRELOAD is a library
# preloaded into every task (mpich_shim.c).
set -euo pipefail
here=$(realpath "$(dirname "$0")")
dir=${SLUICE_CLUSTER_DIR:-/tmp/sluice-cluster}
preload=${SLUICE_CLUSTER_PRELOAD:-}

die() { echo "cluster: $*" >&2; exit 1; }
skip() { echo "cluster: skipped: $*"; exit 77; } # CTest takes 77 for "skipped"

require_machine() {
  local tool
  [ "$(id -u)" = 0 ] || skip 'needs root'
  for tool in slurmctld slurmd munged srun unshare nsenter ip tc; do
    command -v "$tool" >/dev/null || skip "no $tool (make setup)"
  done
  unshare --net --pid --mount --fork true 2>/dev/null || skip 'this machine does not allow namespaces'
}

# The pid of the head's unshare, if it still is ours: a reused pid would not carry our folder.
guardian() {
  local pid
  pid=$(cat "$dir/head.pid" 2>/dev/null) && grep -qsz "^$dir\$" "/proc/$pid/cmdline" && echo "$pid"
}

head_pid() {
  local pid
  pid=$(guardian) && pid=$(cat "/proc/$pid/task/$pid/children" 2>/dev/null) && [ -n "$pid" ] && echo "${pid%% *}"
}

on_head() {
  local pid
  pid=$(head_pid) || die "not running (see: $0 logs)"
  nsenter --target "$pid" --mount --uts --ipc --net --pid env --chdir="$PWD" SLURM_CONF="$dir/slurm.conf" "$@"
}

on_node() { # node command...
  on_head nsenter --target "$(<"$dir/$1.init")" --mount --uts --ipc --net --pid env --chdir="$PWD" "${@:2}"
}

# In the background, its output in the head's log. Holds none of the caller's descriptors, or CTest, or who waits for a
# lock, would wait for the cluster to end.
detached() { # command...
  # shellcheck disable=SC2016 # expands there
  bash -c 'for file in "/proc/$$/fd"/*; do ((${file##*/} < 3)) || eval "exec ${file##*/}>&-"; done; exec setsid "$@"' - \
    "$@" </dev/null >>"$dir/log/head.log" 2>&1 &
}

idle_nodes() { on_head sinfo --noheader --Node --partition=main --format=%T 2>/dev/null | grep -c '^idle$' || true; }

start() { # nodes [rate]
  local nodes=$1 rate=${2:-off} deadline=$((SECONDS + 60))
  require_machine
  stop
  "$here/configure.sh" "$dir" "$nodes" "$preload"
  detached unshare --net --uts --ipc --mount --pid --fork --kill-child --mount-proc "$here/head.sh" "$dir" "$nodes" "$rate"
  echo $! >"$dir/head.pid"
  disown
  while ((SECONDS < deadline)); do
    [ "$(idle_nodes)" = "$nodes" ] && { echo "cluster: $nodes nodes up, state in $dir"; return; }
    sleep 0.1
  done
  logs >&2
  stop
  die 'the nodes were not idle after 60 s'
}

with() { # nodes rate command...
  command= # not local: the trap reads it
  # A second signal (`timeout` sends one to the process and one to its group) must not end the cleaning up.
  trap 'trap "" TERM INT; kill $command 2>/dev/null || true; stop' EXIT
  trap 'trap "" TERM INT; exit 143' TERM # while bash waits for a command in the foreground, it hears nothing
  trap 'trap "" TERM INT; exit 130' INT
  start "$1" "$2"
  "${@:3}" &
  command=$!
  wait $command
}

ended() { [ ! -e "/proc/$1" ] || grep -q '^State:.*Z' "/proc/$1/status" 2>/dev/null; }

stop() {
  local pid first
  if pid=$(guardian); then
    first=$(head_pid) || true
    kill -KILL "$pid"
    # Process 1 of the head ends last: until then others may still write.
    until ended "$pid" && { [ -z "$first" ] || ended "$first"; }; do sleep 0.05; done
  fi
  rm -rf "$dir"
}

rate() { # node, rate
  local node nodes=$1
  [ "$1" != all ] || nodes=$(on_head sinfo --noheader --Node --partition=main --format=%N)
  for node in $nodes; do on_head "$here/limit.sh" "$dir" "$node" "$2"; done
}

state_of() { on_head sinfo --noheader --Node --partition=main --nodes="$1" --format=%T; }

# The link first: who talked to the node hears nothing more of it, no end of a connection either. By itself Slurm
# would find out after SlurmdTimeout.
kill_node() { # node
  on_head ip link delete "$1"
  on_head kill -KILL "$(<"$dir/$1.init")"
  on_head scontrol update nodename="$1" state=down reason='power cut'
}

start_node() { # node [rate]
  local deadline=$((SECONDS + 60))
  detached nsenter --target "$(head_pid)" --mount --uts --ipc --net --pid "$here/boot.sh" "$dir" "${1#node}" "${2:-off}"
  wait $! || { logs >&2; die "$1 did not boot"; }
  until [[ $(state_of "$1") =~ ^(idle|mixed|allocated)$ ]]; do # jobs may wait for it
    ((SECONDS < deadline)) || die "$1 is $(state_of "$1") 60 s after it was started"
    sleep 0.1
  done
}

counters() { # seen from the head, a node's bytes arrive: rx there is sent here
  # shellcheck disable=SC2016 # expands on the head
  on_head bash -c 'cd /sys/class/net && for node in node*; do
    echo "$node $(<"$node/statistics/rx_bytes") $(<"$node/statistics/tx_bytes")"; done'
}

logs() { tail -n 8 "$dir"/log/* 2>/dev/null || true; }

case ${1:-} in
  start | with | rate | counters | logs | stop) "$@" ;;
  on) on_node "${@:2}" ;;
  kill-node) kill_node "$2" ;;
  start-node) start_node "${@:2}" ;;
  running) head_pid >/dev/null ;;
  run) on_head "${@:2}" ;;
  *) sed -n '4,14p' "$0" && exit 2 ;;
esac
