#!/usr/bin/env bash
# A job of four ranks that writes a checkpoint at every step is killed again and again: a rank or all of them, at a
# random moment, or a rank in the middle of a call that changes a file. After each kill the newest checkpoint is not
# older than before and holds the weights of its step, the record can be read, and the job goes on; each time it reaches
# its end, losses and weights are those of a run on one rank that nobody interrupted.
# Usage: kill_test.sh BIN SCRATCH MPIEXEC DIE_AT_CALL KILLS [SEED]
set -euo pipefail
bin=$1 mpiexec=$3 preload=$4 kills=$5 seed=${6:-1}
images=${SLUICE_FASHION_MNIST:-/usr/share/datasets/fashion-mnist}/t10k
ranks=4
most_calls=300 # that change files, on a rank: some more than a run of all steps makes
half=20 steps=40 # a run ends after half of its steps, and is then continued to all of them

training=(--data data.h5 --seed 7 --momentum 0.9)

rm -rf "$2"
mkdir -p "$2"
cd "$2"
trap 'kill -KILL $(processes) 2>/dev/null || true' EXIT

fail() {
  echo "FAILED (seed $seed, kill $killed, $moment): $*" >&2
  tail -n 20 log >&2
  exit 1
}
draw() { drawn=$(((RANDOM * 32768 + RANDOM) % $1)); } # not in a subshell: that would have random numbers of its own
processes() { pgrep --full "^$bin/sluice-run train .*$PWD/run.h5" || true; }

make_inputs() {
  {
    "$bin/sluice-dataset" idx --train-images "$images-images-idx3-ubyte.gz" --train-labels "$images-labels-idx1-ubyte.gz" \
      --test-images "$images-images-idx3-ubyte.gz" --test-labels "$images-labels-idx1-ubyte.gz" -o data.h5
    "$bin/sluice-run" profile --model lenet5 --image 28 --channels 1 --classes 10 --microbatch 2 --repeats 1 -o profile.h5
    "$bin/sluice" optimize --profile profile.h5 --ranks "$ranks" --microbatches 4 --schedule 1f1b --cuts independent \
      --forward-cuts 3,6,8 --backward-cuts 2,5,9 -o plan.h5
    "$bin/sluice" optimize --profile profile.h5 --ranks 1 --microbatches 4 --schedule sequential -o sequential-plan.h5
  } >log 2>&1
}

train() { # steps
  exec "$mpiexec" -n "$ranks" "$bin/sluice-run" train --plan plan.h5 "${training[@]}" --checkpoint-every 1 --steps "$1" \
    -o "$PWD/run.h5" --save-weights run-weights.h5 --resume
}

newest() { # folder of the newest checkpoint of the run, relative; nothing if there is none
  local manifest
  for manifest in run.h5.checkpoints/step-*/manifest.h5; do
    [ ! -e "$manifest" ] || echo "${manifest%/manifest.h5}"
  done | tail -n 1
}

expect_checkpoint() { # not older than
  local now
  now=$(newest)
  [[ ! $now < $1 ]] || fail "the newest checkpoint was $1 and is '$now'"
  [ -n "$now" ] || return 0
  "$bin/sluice" export weights run.h5.checkpoints -o newest-weights.h5 >export.log 2>&1 || fail "$now: $(cat export.log)"
  ! grep -i 'damaged\|passed over' export.log || fail "$now is damaged"
  expect_weights newest-weights.h5 $((10#${now##*step-}))
}

expect_readable() {
  compgen -G 'run.h5' >/dev/null || compgen -G 'run.h5.parts/*header.h5' >/dev/null || return 0 # nothing recorded yet
  "$bin/sluice" report run.h5 >report.log 2>&1 || fail "the record cannot be read: $(cat report.log)"
}

# What training on one rank comes to, which nobody interrupts.
expect_weights() { # file, steps
  local oracle=oracle-$2
  [ -e "$oracle.h5" ] ||
    "$bin/sluice-run" train --plan sequential-plan.h5 "${training[@]}" --steps "$2" -o "$oracle.h5" \
      --save-weights "$oracle-weights.h5" >oracle.log 2>&1 || fail "the run of $2 steps: $(cat oracle.log)"
  h5diff "$1" "$oracle-weights.h5" /weights || fail "the weights after $2 steps are wrong"
}

expect_whole_run() { # steps
  expect_weights run-weights.h5 "$1"
  h5diff run.h5 "oracle-$1.h5" /steps/step || fail 'steps are missing or recorded twice'
  h5diff run.h5 "oracle-$1.h5" /steps/loss || fail "the losses of $1 steps are wrong"
}

# Lets the job run up to a kill or its end.
attempt() {
  local rank call delay_ms victims
  draw "$ranks" && rank=$drawn
  draw "$most_calls" && call=$((drawn + 1))
  draw "$whole_ms" && delay_ms=$drawn
  draw 4
  case $drawn in
    0) victims=all moment="all ranks after $delay_ms ms" ;;
    1) victims=one moment="rank $rank after $delay_ms ms" ;;
    *) victims=itself moment="rank $rank at call $call" ;;
  esac
  (
    if [ "$victims" = itself ]; then export LD_PRELOAD=$preload SLUICE_TEST_DIE="$rank $call $PWD/run.h5"; fi
    train "$goal"
  ) >log 2>&1 &
  job=$!
  if [ "$victims" != itself ]; then
    sleep "$((delay_ms / 1000)).$(printf %03d $((delay_ms % 1000)))"
    # shellcheck disable=SC2046 # words
    if [ "$victims" = all ]; then
      kill -KILL $(processes) 2>/dev/null || true
    else
      kill -KILL "$(processes | sed -n "$((rank + 1))p")" 2>/dev/null || true
    fi
  fi
  code=0
  wait "$job" || code=$?
  # What mpiexec makes of a killed rank varies: 9, 137, 15 of a rank that it ended itself, 255 if it was talking with it.
  [[ ! $code =~ ^(1|2|3|4|75)$ ]] || fail "exit code $code"
  for ((i = 0; i < 100; ++i)); do [ -z "$(processes)" ] || sleep 0.1; done
  [ -z "$(processes)" ] || fail 'ranks are left'
}

killed=0 moment=start
RANDOM=$seed
echo "seed $seed"
make_inputs || fail 'making the inputs'
begin_ms=$(date +%s%3N)
(train "$steps") >log 2>&1 || fail 'the run without kills'
whole_ms=$(($(date +%s%3N) - begin_ms))
expect_whole_run "$steps"
rm -r run.*

goal=$half finished=0 last=
while ((killed < kills)); do
  attempt
  ((code == 0)) || ((++killed))
  expect_checkpoint "$last"
  expect_readable
  last=$(newest)
  ((code == 0)) || continue
  expect_whole_run "$goal"
  ((++finished))
  if ((goal == half)); then
    goal=$steps
  else
    rm -r run.*
    rm -f run-weights.h5
    goal=$half last=
  fi
done
moment=end
(train "$goal") >log 2>&1 || fail 'going on after the last kill'
expect_whole_run "$goal"
echo "$killed kills, $((finished + 1)) runs reached their end"
