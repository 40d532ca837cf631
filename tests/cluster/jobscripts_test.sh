#!/usr/bin/env bash
# Every job script: what ShellCheck and Slurm say of it, from the source tree and installed. Two plans as a job array.
# What each rank was given, and starts that cannot work, which are refused at once and say what to do.
source "$(dirname "$0")/lib.sh"
scripts=$source_tree/jobscripts

! command -v shellcheck >/dev/null || shellcheck "$scripts"/*
cmake --install "$build" --prefix installed >/dev/null
installed=$PWD/installed/share/sluice/jobscripts
for script in "$scripts"/*.s*; do
  [ "${script##*/}" = demo.sh ] || cmp "$script" "$installed/${script##*/}" || fail "${script##*/} is not installed"
done
for script in "$scripts"/*.sbatch "$installed"/*.sbatch; do
  on_head SLUICE_JOBSCRIPTS="${script%/*}" sbatch --test-only "$script" 2>said || fail "$script: $(cat said)"
  for option in job-name output=%x-% open-mode=append requeue signal=; do
    grep -q "^#SBATCH --$option" "$script" || fail "$script has no --$option"
  done
done

make_fashion_dataset
on_head "$build/bin/sluice-run" profile --model lenet5 --image 28 --channels 1 --classes 10 --microbatch 8 \
  --repeats 2 -o profile.h5 2>/dev/null
plan() { # schedule, options
  "$build/bin/sluice" optimize --profile profile.h5 --microbatches 4 --schedule "$1" "${@:2}" -o "$1.h5" >/dev/null
}
on_nodes=(--nodes 2 --ranks-per-node 2 --intra-gbps 80 --inter-gbps 1 --ranks 4 --exactly)
plan sequential --ranks 1
plan gpipe "${on_nodes[@]}"
plan 1f1b "${on_nodes[@]}"
training=(--data data.h5 --steps 20 --seed 7 --learning-rate 0.02)

# A sweep, by the installed scripts of a site whose MPI is started by Hydra.
sed -i 's/^launcher=.*/launcher=(mpiexec.mpich)/' "$installed/env.sh"
grep -q mpiexec.mpich "$installed/env.sh" || fail 'env.sh sets no launcher'
on_head "$build/bin/sluice-run" train --plan sequential.h5 "${training[@]}" -o sequential-results.h5 2>/dev/null
printf '%s\n' gpipe.h5 1f1b.h5 >plans.txt
on_head bash -c "source '$installed/env.sh' && sbatch --wait --quiet --array=1-2 --nodes=2 --ntasks-per-node=2 \
  '$installed/sweep.sbatch' sweep @plans.txt -- ${training[*]}" || { cat sluice-sweep*; fail 'the sweep'; }
for results in 1-gpipe 2-1f1b; do
  h5diff sweep/$results.h5 sequential-results.h5 /steps/loss || fail "losses of $results differ from those of one rank"
  grep -q "restart 0 .* 4 ranks on node" sluice-sweep-*_"${results%%-*}".log || fail "no log of $results"
done
submit "$scripts/report.sbatch" sweep
for results in 1-gpipe 2-1f1b; do grep -q "${results#*-}, " sweep/$results.h5.txt || fail "no report of $results"; done

code=0
on_head SLUICE_BIN="$build/bin" SLUICE_JOBSCRIPTS="$scripts" sbatch --wait --quiet --array=0 --output=element-0.log \
  --nodes=2 --ntasks-per-node=2 "$scripts/sweep.sbatch" sweep @plans.txt -- "${training[@]}" || code=$?
expect_equal 'exit code of an element without a plan' 2 "$code"
grep -q 'there are 2 plans: take --array=1-2' element-0.log || fail "element 0: $(cat element-0.log)"

# What Slurm gave each rank, and what a rank makes of it. No CUDA here: after the devices were chosen it ends with 4.
job() { # exit code expected, what the log must hold (none: sbatch's error), options of sbatch, --, of the training
  local options=() code=0 expected=$1 words=$2
  shift 2
  while [ "$1" != -- ]; do options+=("$1") && shift; done
  rm -f sluice-train-*.log
  on_head SLUICE_BIN="$build/bin" SLUICE_JOBSCRIPTS="$scripts" sbatch --wait --quiet "${options[@]}" "$scripts/train.sbatch" \
    --plan 1f1b.h5 "${training[@]}" -o given.h5 "${@:2}" || code=$?
  expect_equal "${options[*]}: exit code" "$expected" "$code"
  grep -Eq "$words" sluice-train-*.log || fail "${options[*]}: no '$words' in $(cat sluice-train-*.log)"
}
here='2 threads on CPUs [-0-9,]+'
job 4 "node2: rank 2: cuda 0 of 0,1, $here; rank 3: cuda 1 of 0,1, $here" \
  --nodes=2 --ntasks-per-node=2 --cpus-per-task=2 --gres=gpu:2 -- --device cuda
job 4 "node2: rank 2: cuda 0 of 0, .*; rank 3: cuda 0 of 1, " --nodes=2 --ntasks-per-node=2 --gpus-per-task=1 -- --device cuda
job 3 'node1: ranks 0-3 see 2 devices \(0,1\), .* --gpus-per-task=1' --nodes=1 --ntasks-per-node=4 --gres=gpu:2 -- --device cuda
job 3 'nodes 0,0,1,1, but the job.s ranks are on nodes 0,1,2,3: .*--remap' --nodes=4 --ntasks-per-node=1 --
job 3 'was made for 4 ranks, but the job has 3: .*srun --ntasks=4' --nodes=2 --ntasks=3 --

until_log_has() { # words
  local i
  for ((i = 0; i < 300; ++i)); do
    if grep -qs "$1" sluice-train-*.log; then return; fi
    sleep 0.1
  done
  fail "no '$1' in $(cat sluice-train-*.log)"
}

# Told to stop, by the ranks or by the batch shell: back into the queue, unless that happened too often.
requeued() { # most restarts, option of sbatch, what to signal
  local job
  rm -rf sluice-train-*.log stopped.h5*
  job=$(on_head SLUICE_BIN="$build/bin" SLUICE_JOBSCRIPTS="$scripts" SLUICE_MAX_RESTARTS="$1" sbatch --parsable "$2" \
    --nodes=2 --ntasks-per-node=2 "$scripts/train.sbatch" --plan 1f1b.h5 --data data.h5 --steps 1000000 -o stopped.h5)
  until_log_has 'step [0-9]*/'
  on_head scancel "${@:3}" "$job"
  until_log_has 'JOB REQUEUE\|ended with'
  sleep 1
  on_head scontrol --oneliner show job "$job" | grep -o 'JobState=[A-Z]*\|ExitCode=[0-9]*\|Restarts=[0-9]*' | xargs
  on_head scancel "$job"
}
expect_equal 'a job that is stopped' 'JobState=PENDING Restarts=1 ExitCode=0' "$(requeued 1 --requeue --signal=TERM)"
expect_equal 'one that may not be requeued' 'JobState=FAILED Restarts=0 ExitCode=75' "$(requeued 1 --no-requeue --signal=TERM)"
grep -q 'Slurm does not requeue it' sluice-train-*.log || fail "the log: $(cat sluice-train-*.log)"
expect_equal 'one that is stopped too often' 'JobState=FAILED Restarts=0 ExitCode=75' "$(requeued 0 --requeue --batch --signal=USR1)"
grep -q 'not requeued: it was restarted 0 times .* scontrol requeue' sluice-train-*.log || fail "the log: $(cat sluice-train-*.log)"

# A launcher that hides the ranks' 75, as Hydra sometimes does if SIGTERM reaches it as well.
cat >forgetful <<'END'
#!/usr/bin/env bash
mpiexec.mpich "$@" &
trap 'kill -USR1 $!' USR1
until wait; do :; done
END
chmod +x forgetful
sed -i "s|^launcher=.*|launcher=('$PWD/forgetful')|" "$installed/env.sh"
expect_equal 'one whose launcher ends with 0' 'JobState=PENDING Restarts=1 ExitCode=0' \
  "$(scripts=$installed && requeued 1 --requeue --batch --signal=USR1)"

# What squeue says while a node has not yet confirmed the signal of a time limit; the job is not among the running ones.
mkdir -p stub
printf '%s\n' '#!/bin/sh' 'case "$*" in *--states*) ;; *) echo SIGNALING ;; esac' >stub/squeue
chmod +x stub/squeue
expect_equal 'one whose signal is not confirmed' 'JobState=PENDING Restarts=1 ExitCode=0' \
  "$(PATH=$PWD/stub:$PATH && requeued 1 --requeue --signal=TERM)"

# Starts by hand.
start() { # exit code, what is said, launcher and its options
  local code=0
  on_head timeout 60 "${@:3}" "$build/bin/sluice-run" train --plan 1f1b.h5 "${training[@]}" -o by-hand.h5 >said 2>&1 || code=$?
  expect_equal "${*:3}: exit code" "$1" "$code"
  grep -q "$2" said || fail "${*:3}: $(cat said)"
}
alone='srun started 4 tasks, but MPI sees this one alone: .*srun --mpi=pmi2'
start 2 "$alone" srun --nodes=2 --ntasks=4
start 2 "$alone" srun --mpi=none --nodes=2 --ntasks=4
start 3 'was made for 4 ranks, but the job has 2: .*mpiexec -n 4' salloc --quiet --nodes=2 --ntasks=4 mpiexec.mpich -n 2
start 3 'ranks are on nodes 0,0,0,1' srun --mpi=pmi2 --nodes=2 --ntasks=4 --ntasks-per-node=3 --distribution=block
