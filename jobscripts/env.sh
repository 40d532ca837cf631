# shellcheck shell=bash
# The settings of your site, and the only file to edit for it. Source it before
# sbatch (submit.sh does so itself); every job script sources it again on the compute node.
# docs/slurm.md has a table of what can be set here.

# Modules of the MPI, HDF5, Boost and oneDNN that Sluice was built with, e.g.:
# module load gcc/12 mpich hdf5 boost onednn

# Where jobs go; sbatch reads these:
# export SBATCH_PARTITION=main
# export SBATCH_ACCOUNT=project

# How a step starts its MPI ranks. srun must speak the MPI's process-management
# protocol (MPICH: pmi2); if it does not, every rank thinks it is alone. Or Hydra: (mpiexec).
# shellcheck disable=SC2034 # used by the job scripts
launcher=(srun --mpi=pmi2)

# How often a training job may be started again, by itself or by Slurm, before it stops for good.
export SLUICE_MAX_RESTARTS=${SLUICE_MAX_RESTARTS:-100}

# Found from here, unless SLUICE_BIN is set: build/bin in the source tree, PREFIX/bin once installed.
SLUICE_JOBSCRIPTS=$(dirname "$(realpath "${BASH_SOURCE[0]}")")
for folder in ../build/bin ../../../bin; do
  [ -n "${SLUICE_BIN:-}" ] || [ ! -x "$SLUICE_JOBSCRIPTS/$folder/sluice-run" ] ||
    SLUICE_BIN=$(realpath "$SLUICE_JOBSCRIPTS/$folder")
done
export SLUICE_JOBSCRIPTS SLUICE_BIN=${SLUICE_BIN:?has no default: build or install Sluice first, or set it}
