#!/usr/bin/env bash
# Every algorithm's multicasts on all kinds of placements: contents are right everywhere, and each byte enters a node
# once, by the node's own network interface (traffic_check.cpp). Flat and MPI's own are shown beside.
source "$(dirname "$0")/lib.sh"
check=$build/tests/traffic_check

# Most bytes that entered a node which should get one copy, in copies, by algorithm.
worst() { # file
  awk '!/^#/ && $8 > 0 { share = $6 / $8; if (share > most[$1]) most[$1] = share }
       END { for (name in most) printf " %s %.3f", name, most[name]; print "" }' "$1"
}

wire() { # name, launcher and arguments
  on_head SLUICE_WAIT_LIMIT=60 "${@:2}" >"$1.txt" || fail "$1: $*"
  echo "$1: copies into a node:$(worst "$1.txt")"
}

step=(srun --mpi=pmi2 --kill-on-bad-exit=1)
wire 4x2 "${step[@]}" --nodes=4 --ntasks-per-node=2 "$check"
wire 2x4 "${step[@]}" --nodes=2 --ntasks-per-node=4 "$check"
wire cyclic "${step[@]}" --nodes=4 --ntasks=8 --distribution=cyclic "$check"
wire permuted "${step[@]}" --nodes=4 --ntasks-per-node=2 "$check" 5
wire 2+2+2+1 "${step[@]}" --nodes=4 --ntasks=7 --distribution=block "$check"
wire 3+1+2+2 salloc --quiet --nodes=4 mpiexec -hosts node1:3,node2:1,node3:2,node4:2 "$check"
# Here MPI takes every rank for a node of its own, and Slurm has to tell.
printf 'node%s\n' 1 3 1 2 4 2 3 1 >hosts
wire arbitrary env SLURM_HOSTFILE=hosts "${step[@]}" --nodes=4 --ntasks=8 --distribution=arbitrary "$check"
