#!/usr/bin/env bash
# action.sh WHEEL HEADERS - the steps of action.yml and of Containerfile, but for apt-get, in a root folder of their own: a container with this
# system's programs and nothing of the machine's folders. What they export then compiles and runs a program. Needs root and namespaces;
# skipped by name where they are missing.
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/../lib/lib.sh"
softgpu=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
wheel=$1 headers=$2
[ "$(id -u)" -eq 0 ] || skip "only root can make a root folder of its own"
python3 -m pip --version >/dev/null 2>&1 || skip "no pip (package python3-pip)"
namespaces=(unshare --mount --pid --fork --kill-child=KILL --mount-proc --propagation private)
"${namespaces[@]}" true 2>/dev/null || skip "no namespaces here"
work=$(mktemp -d "${TMPDIR:-/tmp}/softgpu-action.XXXXXX")
at_exit 'rm -rf --one-file-system "$work"'
shown=$work/out
root=$work/root
mkdir -p "$root"/{dev,proc,tmp,opt/context,opt/cuda/include,runner}

cat >"$root/opt/context/train.cu" <<'END_CU'
#include <cstdio>
__global__ void add(int *x) { *x += 2; }
int main()
{
    int *x, host = 40;
    cudaMalloc(&x, sizeof(int));
    cudaMemcpy(x, &host, sizeof(int), cudaMemcpyHostToDevice);
    add<<<1, 1>>>(x);
    cudaMemcpy(&host, x, sizeof(int), cudaMemcpyDeviceToHost);
    std::printf("the answer is %d\n", host);
}
END_CU
cp "$wheel" "$root/opt/context/"

# The run lines of the action's step, as the runner's shell has them: then a step of the user's.
{
    sed -n '/^    run: |$/,$s/^      //p' "$softgpu/action.yml"
    cat <<'END_SH'
set -a && source "$GITHUB_ENV" && set +a
export PATH=$(paste -sd: "$GITHUB_PATH"):$PATH
test -s "$CUDA_HOME/include/cuda_runtime.h"
cd /tmp
nvcc -O0 /opt/context/train.cu -o train && ./train
"$CMAKE_CUDA_COMPILER" --version
softgpu-cc --version
END_SH
} >"$root/opt/action.sh"
# The recipe: COPY, ENV and RUN, of which apt-get's is left out.
{
    echo 'set -euo pipefail'
    sed -nE '/apt-get/d; s/^RUN //p; s/^ENV /export /p; s,^COPY ([^ ]+) (.*),cp /opt/context/\1 \2,p' "$softgpu/Containerfile"
    cat <<'END_SH'
cd /tmp
nvcc -O0 /opt/context/train.cu -o train && ./train
END_SH
} >"$root/opt/recipe.sh"

# The headers that the links name are not there, nor a toolkit of the system: the message says what to do, and that helps.
cat >"$root/opt/dangling.sh" <<'END_SH'
cd /tmp
toolkit=/runner/softgpu/softgpu/lib/softgpu/toolkit
ln -sfn /gone/include "$toolkit/include"
unset CUDA_HOME
! "$toolkit/bin/nvcc" -O0 /opt/context/train.cu -o train || exit 1
CUDA_HOME=/opt/cuda PYTHONPATH=/runner/softgpu python3 -m softgpu toolkit
"$toolkit/bin/nvcc" -O0 /opt/context/train.cu -o train && ./train
END_SH

# in_root SCRIPT VARIABLE=value...: in the root, with these variables alone. pip has no network: it takes the wheel, and the headers that
# NVIDIA's wheels would bring are those of CUDA_HOME.
in_root() {
    HEADERS=$headers ROOT=$root timeout -k 1 "$(patient 100)" "${namespaces[@]}" bash -euc '
        for folder in usr etc bin lib lib64 sbin; do
            if [ -L "/$folder" ]; then
                [ -e "$ROOT/$folder" ] || cp -P "/$folder" "$ROOT/"
            elif [ -d "/$folder" ]; then
                mkdir -p "$ROOT/$folder"
                mount --bind -o ro "/$folder" "$ROOT/$folder"
            fi
        done
        mount -t proc proc "$ROOT/proc"
        touch "$ROOT"/dev/{null,urandom}
        mount --bind /dev/null "$ROOT/dev/null"
        mount --bind /dev/urandom "$ROOT/dev/urandom"
        mount --bind -o ro "$HEADERS" "$ROOT/opt/cuda/include"
        [ -z "${HIDDEN:-}" ] || mount -t tmpfs tmpfs "$ROOT$HIDDEN"
        exec chroot "$ROOT" env -i PATH=/usr/local/bin:/usr/bin:/bin HOME=/tmp PIP_NO_INDEX=1 PIP_NO_DEPS=1 CUDA_HOME=/opt/cuda "${@:2}" bash "$1"' \
        bash "$@" <"/dev/null" >"$work/out" 2>&1
}
says() { grep -qF -- "$1" "$work/out"; }

check "the action's steps end well" in_root /opt/action.sh "SOFTGPU_WHEEL=/opt/context/${wheel##*/}" RUNNER_TEMP=/runner \
    GITHUB_ENV=/runner/env GITHUB_PATH=/runner/path
check "and a later step runs a kernel" says 'the answer is 42'
check "its wheel is the user's choice" grep -q 'inputs.wheel' "$softgpu/action.yml"
check "the recipe's steps end well" in_root /opt/recipe.sh
check "and its image runs a kernel" says 'the answer is 42'
HIDDEN=/usr/local check "where the headers have gone, there is a way out" in_root /opt/dangling.sh
check "the message names the link" says 'toolkit/include (a link to /gone/include)'
check "and what to do" says 'then `python3 -m softgpu toolkit`'
check "after which a kernel runs" says 'the answer is 42'
check "nothing of the machine is mounted still" [ -z "$(grep -F "$root" /proc/mounts)" ]
finish
