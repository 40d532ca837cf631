#!/usr/bin/env bash
# Writes the virtual cluster's configuration. Usage: configure.sh DIR NODES [PRELOAD]
set -euo pipefail
dir=$1 nodes=$2 preload=${3:-}
cpus=4        # per node; may exceed the machine's, Slurm believes it (config_overrides)
memory=4096   # MiB per node, claimed and not reserved
gpus=2        # per node: devices like /dev/null, for Slurm to hand out

mkdir -p "$dir"/{log,state,spool}
chmod 755 "$dir"
(umask 077 && head -c 1024 /dev/urandom >"$dir/munge.key")

{
  echo '127.0.0.1 localhost'
  echo '10.77.0.254 head'
  for ((i = 1; i <= nodes; ++i)); do echo "10.77.0.$i node$i"; done
} >"$dir/hosts"

# What a prolog prints as "export NAME=VALUE" becomes the task's environment.
# UCX must take the veth link, and not look for others.
cat >"$dir/task_prolog.sh" <<END
#!/bin/sh
echo 'export UCX_NET_DEVICES=eth0'
[ -z '$preload' ] || echo 'export LD_PRELOAD=$preload'
END
chmod 755 "$dir/task_prolog.sh"

mkdir -p "$dir/dev"
for ((i = 0; i < gpus; ++i)); do mknod "$dir/dev/gpu$i" c 1 3; done
printf '%s\n' AutoDetect=off "NodeName=node[1-$nodes] Name=gpu File=$dir/dev/gpu[0-$((gpus - 1))]" >"$dir/gres.conf"

# Without these two slurmd 22.05 probes the machine's cgroups and may die of them.
printf '%s\n' CgroupPlugin=cgroup/v1 CgroupAutomount=no >"$dir/cgroup.conf"

# SlurmdTimeout: a busy machine answers late; 15 s gave false alarms.
# cred_expire: a requeued job waits that long (Slurm's default is 120 s).
# GraceTime: what a job of main is left with when one of urgent wants its nodes.
# Scheduler: try at once; the defaults batch up submissions for seconds.
cat >"$dir/slurm.conf" <<END
ClusterName=sluice
SlurmctldHost=head(10.77.0.254)
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
CredType=cred/munge
AuthInfo=socket=$dir/munge.socket,cred_expire=10
StateSaveLocation=$dir/state
SlurmdSpoolDir=$dir/spool/%n
SlurmctldPidFile=$dir/slurmctld.pid
SlurmdPidFile=$dir/%n.pid
SlurmctldLogFile=$dir/log/slurmctld.log
SlurmdLogFile=$dir/log/%n.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
TaskProlog=$dir/task_prolog.sh
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core_Memory
DefMemPerCPU=$((memory / cpus / 2))
SwitchType=switch/none
MpiDefault=none
MailProg=/bin/true
ReturnToService=2
SlurmdParameters=config_overrides
PropagateResourceLimits=NONE
SchedulerType=sched/backfill
SchedulerParameters=batch_sched_delay=0,sched_interval=2,sched_min_interval=100000,bf_interval=2
SlurmdTimeout=60
KillWait=5
MinJobAge=3600
JobRequeue=1
GresTypes=gpu
NodeName=node[1-$nodes] CPUs=$cpus CoresPerSocket=$cpus RealMemory=$memory Gres=gpu:$gpus State=UNKNOWN
PreemptType=preempt/partition_prio
PreemptMode=REQUEUE
PartitionName=main Nodes=node[1-$nodes] Default=YES MaxTime=INFINITE DefaultTime=60 GraceTime=60 State=UP
PartitionName=urgent Nodes=node[1-$nodes] MaxTime=INFINITE DefaultTime=60 PriorityTier=10 State=UP
END
