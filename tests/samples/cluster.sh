#!/usr/bin/env bash
# cluster.sh BUILD - the recipes of samples/cluster: objects for Kubernetes hold to its schema, and ddprun takes their commands with the
# variables that the controllers set; sbatch scripts start ddprun by srun; Dockerfile and definition for Apptainer name the
# tarball that the target portable makes. The images are not built here.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
source tests/lib/lib.sh
build=$(realpath "${1:?usage: cluster.sh BUILD}")
python3 -c 'import yaml' 2>/dev/null || skip "no YAML for Python (package python3-yaml)"
work=$(mktemp -d "${TMPDIR:-/tmp}/ddprun-recipes.XXXXXX")
at_exit 'rm -rf "$work"'
shown=$work/out
recipes=samples/cluster
head -c 32 /dev/urandom >"$work/secret"
chmod 600 "$work/secret"

# schema FILE
schema() {
    python3 tests/samples/kubernetes.py "$1" >"$work/out"
}

# ---- Kubernetes ----
for file in indexed_job pytorchjob trainjob; do
    check "$file holds to the schema" schema "$recipes/$file.yaml"
done
# what a schema has to notice
while IFS='|' read -r what from to; do
    sed "s/$from/$to/" "$recipes/indexed_job.yaml" >"$work/broken.yaml"
    check "it notices $what" eval '! schema "$work/broken.yaml"'
done <<'END'
a field of another name|completions:|completion:
a number that is a text|completions: 2|completions: "2"
a command that is no list|command: .*|command: ddprun
an argument that is a number|"2", --master|2, --master
a mode that Jobs have not|Indexed|Index
a pod that is killed too early|--grace, "60"|--grace, "90"
a pod with the usual limit|terminationGracePeriodSeconds.*|
a volume that is not there|name: ddprun, secret|name: other, secret
a pod without memory for NCCL|, {name: shm, mountPath: .dev.shm}|
END

# takes KIND VARIABLE...: ddprun plans what a pod of that kind runs: its host's ranks, with the sample as the trainer
takes() {
    local kind=$1 command
    shift
    command=$(sed -n "s/^$kind .* -- ddprun //p" "$work/commands" | sed -n 1p)
    read -ra words <<<"${command/.\/train/$build/samples/digits}"
    env "$@" DDPRUN_SECRET_FILE="$work/secret" timeout "$(patient 60)" "$build/bin/ddprun" --dry-run "${words[@]}" </dev/null >"$work/out" 2>&1
}
for file in indexed_job pytorchjob trainjob; do
    schema "$recipes/$file.yaml" && cat "$work/out"
done >"$work/commands"
check "four pods have the secret" [ "$(grep -c 'DDPRUN_SECRET_FILE=/secrets/secret' "$work/commands")" -eq 4 ]
check "a pod of the Indexed Job is a host" takes Job JOB_COMPLETION_INDEX=1
second_of_eight() { [ "$(grep -c '^# rank ' "$work/out") $(grep -cE '^# rank (8|15),' "$work/out")" = '8 2' ]; }
check "the second, with eight ranks" second_of_eight
check "a pod of the PyTorchJob is a host" takes PyTorchJob PET_NNODES=2 PET_NODE_RANK=1 PET_MASTER_ADDR=train-master-0 PET_MASTER_PORT=23456 PET_NPROC_PER_NODE=8
check "the second, with eight ranks, which no option counts" second_of_eight
trainer=(PET_NNODES=2 PET_NODE_RANK=1 PET_MASTER_ADDR=train-node-0-0.train PET_MASTER_PORT=29400 JOB_COMPLETION_INDEX=1)
check "a pod of the TrainJob is a host" takes TrainJob "${trainer[@]}" PET_NPROC_PER_NODE=8
check "the second of the TrainJob, with eight ranks" second_of_eight
# The doctor sees what the pod is; it ends with 1 without a GPU.
env "${trainer[@]}" PET_NPROC_PER_NODE=auto "$build/bin/ddprun" doctor </dev/null >"$work/out" 2>&1 || true
check "the doctor names the variables" grep -q 'PET_NNODES, PET_NODE_RANK and PET_MASTER_ADDR' "$work/out"
sed 's/kind: TrainingRuntime, name: ddprun/kind: TrainingRuntime, name: other/' "$recipes/trainjob.yaml" >"$work/other.yaml"
check "a TrainJob of another runtime has no pods here" [ -z "$(python3 tests/samples/kubernetes.py "$work/other.yaml")" ]

# ---- Slurm: srun is the script's argument list ----
mkdir "$work/bin"
printf '#!/bin/sh\necho "$@"\n' >"$work/bin/srun"
chmod +x "$work/bin/srun"
check "without PMIx" [ "$(PATH="$work/bin:$PATH" bash $recipes/train.sbatch ./train --batch 'two words')" = 'ddprun --grace 25 ./train --batch two words' ]
check "with PMIx" [ "$(PATH="$work/bin:$PATH" bash $recipes/train_pmix.sbatch ./train)" = '--mpi=pmix ddprun --grace 25 ./train' ]
check "neither sends a signal that a trainer without a handler does not survive" eval '! grep -h "^#SBATCH.*--signal" $recipes/*.sbatch'
check "both ask for the same" cmp <(grep '^#SBATCH' $recipes/train.sbatch) <(grep '^#SBATCH' $recipes/train_pmix.sbatch)

# ---- containers ----
tarball=ddprun-$("$build/bin/ddprun" --version | sed -E 's/^ddprun ([0-9.]+).*/\1/')-linux_$(uname -m)
for file in Dockerfile ddprun.def; do
    check "$file takes the tarball of this version" [ "$(grep -oE 'ddprun-[0-9.]+-linux_[a-z0-9_]+' "$recipes/$file" | sort -u)" = "$tarball" ]
done
finish
