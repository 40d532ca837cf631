#!/usr/bin/env bash
# Writes docs/planner-comparison.md: PipeDream's planner and ours on PipeDream's profiles. A few minutes.
# Usage: tests/bench/planner_comparison.sh [BUILD] (default: build), after ninja -C BUILD pipedream_comparison
set -euo pipefail
cd "$(dirname "$0")/../.."
build=${1:-build}
microbatches=48 # a step; 2, 3, 4, 6, 8, 12 and 16 replicas share them evenly
tables=$("$build/bin/pipedream_comparison" tests/data/pipedream "$microbatches")
cat > docs/planner-comparison.md << END
# PipeDream's planner and ours

Made by \`tests/bench/planner_comparison.sh\`. Milliseconds per minibatch (PipeDream's minibatch is our micro-batch), on
nodes of one rank with 10 Gb/s between them, and on 4 nodes of 4 ranks with 100 Gb/s inside. Ours: 1f1b,
M = $microbatches micro-batches a step, memory without limits.

- **T**: what PipeDream's published planner minimises, errors included (\`optimizer/solver/pipedream_levels.h\` lists them); it
  leaves out the traffic between stages unless asked for it (**T with activations**).
- **its plan here**: the bottleneck of that plan as we price it (\`core/stage_pricing.h\`): full duplex links, stashes, gradients
  and weights, each node's NIC shared by its ranks. Of plans with equal T, of which there are often several, the one met first.
- **joint**, **independent**: the least bottleneck with one cut vector, over sets of layers that hold all their predecessors
  (Inception: intervals), and with two over intervals of the order. ° marks what was not proven optimal within 10 s a search.
- **best**: of all plans in the row, PipeDream's among them.
- **ideal**: the sum of all times over the ranks.
$tables
END
