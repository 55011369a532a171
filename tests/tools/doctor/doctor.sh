#!/bin/bash
# doctor.sh BUILD - `ddprun doctor` finds what was broken on purpose, says what to do about it, and runs nothing of the program.
#
# Each case prints `ok - name`, `not ok - name (why)` or `skip - name (why)`; exits 1 if one is not ok. Needs no GPU: a stub plays
# NVML and the driver. Programs are linked here, as users would link them wrong. All files are in one temporary folder.
sources=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
cc=${CC:-cc}
if ! command -v "$cc" >/dev/null; then
    echo "skipped: no C compiler"
    exit 77
fi
source "$sources/../../launcher/lib.sh"
mkdir "$top/p"
cp "$helpers/liblauncher_stub_nvml.so" "$top/gpu/libcuda.so.1"

# examine ARGS...: ddprun doctor ARGS, in the folder of the programs, with $searched as PATH, and $preload preloaded into
# ddprun; what it prints becomes lines "section|state|subject|text|advice".
examine() {
    (cd "$top/p" && timeout -k 1 "$limit" env PATH="${searched:-$top/none}" LD_PRELOAD="${preload:-}" "$ddprun" doctor "$@") >"$top/text" 2>"$top/err" </dev/null
    rc=$?
    awk '
    function put(advice) {
        if (line != "")
            print line "|" advice
        if (line != "" && (state == "ok") != (advice == ""))
            print "advice of what is " state ": " advice
        line = ""
    }
    /^ +-> / { sub(/^ +-> /, ""); put($0); next }
    { put("") }
    /^[^ ]/ { section = /^this machine$/ ? "machine" : "program"; next }
    {
        state = $1
        sub(/^ +(ok|note|warning|problem) +/, "")
        line = section "|" state "|" substr($0, 1, index($0, ": ") - 1) "|" substr($0, index($0, ": ") + 2)
    }
    END { put("") }' "$top/text" >"$top/findings"
    ! grep '^advice of' "$top/findings" || rc=malformed
}
# finds RC REGEX...: prints what does not hold of the findings.
finds() {
    [ "$rc" = "$1" ] || echo -n "exit code $rc, not $1: $(head -c 300 "$top/err") "
    shift
    local regex
    for regex in "$@"; do
        if [[ $regex == !* ]]; then
            grep -qE -- "${regex#!}" "$top/findings" && echo -n "there is /${regex#!}/: $(grep -E -- "${regex#!}" "$top/findings" | head -2) "
        else
            grep -qE -- "$regex" "$top/findings" || echo -n "no /$regex/ in: $(grep -E "^program|problem" "$top/findings" | head -c 1500) "
        fi
    done
}
# diagnosed NAME RC REGEX... -- ARGS...: examine ARGS finds this; RC: any, where this machine decides.
diagnosed() {
    local name=$1 wanted=$2 regexes=()
    shift 2
    while [ "$1" != -- ]; do
        regexes+=("$1")
        shift
    done
    examine "${@:2}"
    [ "$wanted" != any ] || wanted=$rc
    report "$name" "$(finds "$wanted" "${regexes[@]}")"
}
# The exit code without a program: a GPU of this machine's may lack something by itself.
well() { if [ -e /dev/nvidia0 ]; then echo "$rc"; else echo 0; fi; }
link() { "$cc" -O1 -w "$@" 2>"$top/cc" || echo "not ok - link $* ($(head -c 300 "$top/cc"))"; }

# ---- its command line ----
timeout -k 1 "$limit" "$ddprun" doctor --frobnicate >"$top/out" 2>"$top/err" </dev/null
rc=$? why=
[ $rc = 2 ] || why="exit code $rc "
[ "$(grep -c "^ddprun: unknown option --frobnicate of doctor; see ddprun doctor --help" "$top/err")" = 1 ] && [ ! -s "$top/out" ] || why+="said $(cat "$top/err")"
report "doctor --frobnicate" "$why"
examine
report "no program" "$(finds "$(well)" '^machine\|ok\|ddprun\|' '^machine\|ok\|engine' '^machine\|ok\|PMIx\|OpenPMIx [0-9].* for jobs of srun, mpirun' '^machine\|ok\|job folder\|can be made in' \
    '^machine\|(ok|warning)\|/dev/shm' '!open files' '!^program')"
report "nothing is left in TMPDIR" "$(ls -A "$TMPDIR")"
mv "$top/lib/libddprun-pmix.so" "$top"
examine
report "no PMIx is no problem" "$(finds "$(well)" '^machine\|note\|PMIx\|cannot open PMIx, .*\|for such jobs install PMIx')"
PMIX_NAMESPACE=job PMIX_RANK=1 diagnosed "but under a launcher" 1 '^machine\|problem\|PMIx\|cannot open PMIx, .*\|for such jobs install PMIx' \
    '^machine\|ok\|launcher\|.*one of several, by PMIX_NAMESPACE and PMIX_RANK' --
mv "$top/libddprun-pmix.so" "$top/lib"
timeout -k 1 "$limit" "$ddprun" doctor >"$top/out" 2>&1 </dev/null
report "for people, without colour in a pipe" "$(head -1 "$top/out" | grep -vx 'this machine')$(grep -c $'\033' "$top/out" | grep -vx 0)$(
    tail -1 "$top/out" | grep -vE '^[0-9]+ ok, [0-9]+ notes?, [0-9]+ warnings?, [0-9]+ problems?$')"
if command -v script >/dev/null; then
    TERM=xterm timeout -k 1 "$limit" script -qec "'$ddprun' doctor" /dev/null >"$top/out" 2>&1 </dev/null
    report "colour on a terminal" "$(grep -q $'\033\\[32mok' "$top/out" || head -c 200 "$top/out")"
    NO_COLOR=1 TERM=xterm timeout -k 1 "$limit" script -qec "'$ddprun' doctor" /dev/null >"$top/out" 2>&1 </dev/null
    report "NO_COLOR" "$(grep -q $'\033' "$top/out" && echo 'there is colour')"
else
    echo "skip - colour on a terminal (no script(1))"
fi

# ---- programs ----
cat >"$top/main.c" <<'END'
#include <stdio.h>
#include <stdlib.h>
static void trace(void) { FILE *f = fopen(getenv("TRACE"), "a"); if (f) fclose(f); }
__attribute__((constructor)) static void before(void) { trace(); }
const char *const names[] = {"libcuda.so.1", "cuGetProcAddress_v2"};
#ifdef ANNOTATED
#include <ddprun.h>
#endif
int main(int argc, char **argv)
{
    (void)argv;
    trace();
#ifdef ANNOTATED
    DDP_STEP(0);
#endif
    return names[argc & 1] == 0;
}
END
printf '%s\n' '#include <stdio.h>' '#include <stdlib.h>' \
    '__attribute__((constructor)) static void before(void) { FILE *f = fopen(getenv("TRACE"), "a"); if (f) fclose(f); }' \
    'int cudaMalloc(void) { return 0; }' >"$top/library.c"
printf 'extern int cudaMalloc(void);\nint main(void) { return cudaMalloc(); }\n' >"$top/calls.c"
export TRACE=$top/trace
include=$sources/../../../interpose/include
mkdir -p "$top/p/lib"
link -shared -fPIC -Wl,-soname,libcudart.so.13 -o "$top/p/lib/libcudart.so.13" "$top/library.c"
fake=$helpers/launcher_fake_softgpu

link -DANNOTATED -I"$include" -o "$top/p/plain" "$top/main.c"
STUB_GPUS=2 LD_LIBRARY_PATH=$top/gpu diagnosed "a program for GPUs, and two of them" any '^machine\|ok\|driver\|release 580.65.06, serves CUDA 13.0' \
    '^machine\|ok\|GPUs\|2: 0 Stub GPU \(80.0 GiB, 0000:10:00.0\), 1 Stub GPU' '^machine\|ok\|libcuda.so.1\|opens, and finds 2 GPUs' \
    '^program\|ok\|preloading\|libddprun.so comes before' '^program\|ok\|annotations\|the program uses' '!problem\|(preloading|GPUs|driver)' -- ./plain
[ ! -e /dev/nvidia-caps ] && caps='^machine\|note\|/dev/nvidia-caps\|.*\|.*NCCL_NVLS_ENABLE=0' || caps='!/dev/nvidia-caps'
STUB_GPUS=2 STUB_FABRIC=3 LD_LIBRARY_PATH=$top/gpu diagnosed "GPUs beside an NVSwitch" any '^machine\|ok\|NVSwitch\|2 GPUs are ready' "$caps" -- ./plain
STUB_GPUS=2 STUB_FABRIC=2 LD_LIBRARY_PATH=$top/gpu diagnosed "and a fabric that is not ready" any \
    '^machine\|warning\|NVSwitch\|of 2 GPUs, 2 are not ready in the fabric\|start nvidia-fabricmanager' -- ./plain
STUB_GPUS=1 STUB_CUDA=12020 STUB_MODE=2 LD_LIBRARY_PATH=$top/gpu diagnosed "an old driver, GPUs in a mode that prohibits computing" 1 \
    '^machine\|problem\|driver\|.*CUDA 12.2 only' '^machine\|problem\|compute mode' -- ./plain
STUB_GPUS=1 STUB_CUDA=12040 LD_LIBRARY_PATH=$top/gpu diagnosed "a driver that is not quite new" any '^machine\|warning\|driver\|.*CUDA 12.4' -- ./plain
link -shared -fPIC -Wl,-soname,libcudart.so.12 -o "$top/p/lib/libcudart.so.12" "$top/library.c"
link -o "$top/p/of_12" "$top/calls.c" "$top/p/lib/libcudart.so.12"
STUB_GPUS=1 STUB_CUDA=12040 LD_LIBRARY_PATH=$top/gpu:$top/p/lib diagnosed "the same driver serves a program of CUDA 12" any \
    '^machine\|ok\|driver\|.*CUDA 12.4' '!(warning|problem)\|driver' -- ./of_12
# Sanitizers make an exit code of the signal.
STUB_GPUS=1 STUB_CRASH=1 LD_LIBRARY_PATH=$top/gpu diagnosed "a driver that crashes" 1 \
    '^machine\|problem\|driver\|the query by NVML failed: it (was ended by SIGSEGV|ended with exit code [0-9]+)' -- ./plain
STUB_GPUS=1 STUB_INIT=802 LD_LIBRARY_PATH=$top/gpu diagnosed "a driver that refuses" 1 '^machine\|problem\|libcuda.so.1\|cuInit failed with error 802' -- ./plain
mkdir "$top/driver" && cp "$top/gpu/libcuda.so.1" "$top/driver/"
if [ ! -e /dev/nvidia0 ]; then # and so no NVML
    STUB_INIT=34 LD_LIBRARY_PATH=$top/driver diagnosed "a toolkit's stub in the driver's place, and no NVML" 1 \
        '^machine\|problem\|libcuda.so.1\|cuInit failed with error 34: it is the linker.s stub .*\|.*before any stubs/ folder' '!GPUs\|none' --
    STUB_GPUS=2 LD_LIBRARY_PATH=$top/driver diagnosed "a driver without NVML" any '^machine\|ok\|libcuda.so.1\|opens, and finds 2 GPUs' '!GPUs\|none' -- ./plain
    for nothing in STUB_INIT=100 STUB_GPUS=0; do
        LD_LIBRARY_PATH=$top/driver eval "$nothing" examine ./plain
        report "a driver without NVML and GPU, $nothing" "$(finds 1 '^machine\|problem\|GPUs\|none: ' '!problem\|libcuda')"
    done
fi
printf '%s\n' '__attribute__((section(".nv_fatbin"), used)) static const char kernels[8] = "x";' >"$top/kernels.c"
link -o "$top/p/has_kernels" "$top/main.c" "$top/kernels.c"
STUB_GPUS=0 LD_LIBRARY_PATH=$top/gpu diagnosed "a driver, but no GPU" 1 '^machine\|problem\|GPUs\|none: the driver works' -- ./plain
STUB_GPUS=1 STUB_NAME=$'\033]0;x\a' LD_LIBRARY_PATH=$top/gpu diagnosed "a GPU's name cannot speak to the terminal" any '0 \?\]0;x\?' -- ./plain
printf 'of 13' >"$top/lib/ddprun-kernels.fatbin"
printf 'of 12' >"$top/lib/ddprun-kernels-cuda12.fatbin"
for case in 13000:13:kernels 12040:12:kernels-cuda12 13000:12:kernels-cuda12 12040:13:kernels; do
    IFS=: read -r version loaded file <<<"$case"
    STUB_GPUS=1 STUB_CUDA=$version STUB_LOADS="of $loaded" LD_LIBRARY_PATH=$top/gpu diagnosed "a driver of CUDA $version that loads kernels of CUDA $loaded" any \
        "^machine\|ok\|kernels for GPUs\|the driver loads $top/lib/ddprun-$file.fatbin" -- ./plain
done
for case in 13000:kernels 12040:kernels-cuda12; do
    STUB_GPUS=1 STUB_CUDA=${case%:*} LD_LIBRARY_PATH=$top/gpu diagnosed "a driver of CUDA ${case%:*} that loads none of the kernels" any \
        "^machine\|warning\|kernels for GPUs\|the driver does not load $top/lib/ddprun-${case#*:}.fatbin: error 209\|use a package" -- ./plain
done
mkdir "$top/lacking"
for lacks in cuDriverGetVersion cuDevicePrimaryCtxRetain cuCtxSetCurrent cuModuleLoadData; do
    link -shared -fPIC "-D$lacks=absent" -o "$top/lacking/libcuda.so.1" "$sources/../../launcher/stub_nvml.c"
    STUB_GPUS=1 STUB_LOADS='of 13' LD_LIBRARY_PATH=$top/lacking:$top/gpu diagnosed "a driver without $lacks" any \
        "^machine\|warning\|kernels for GPUs\|the driver lacks $lacks, which loads them\|install NVIDIA's driver" '!kernels for GPUs\|the driver loads' -- ./plain
done
rm "$top/lib"/ddprun-kernels*.fatbin
if [ ! -e /dev/nvidia0 ]; then
    diagnosed "a program for GPUs, and none" 1 '^machine\|problem\|GPUs\|none: .*the program needs one' -- ./has_kernels
    printf '#!/bin/sh\nexec ./plain\n' >"$top/p/starts_it" && chmod 755 "$top/p/starts_it"
    diagnosed "a script, and no GPU" 1 '^machine\|problem\|GPUs\|none: .*without --device softgpu ranks need one\|add --device softgpu' -- ./starts_it
    DDPRUN_DEVICE=softgpu diagnosed "a script for the stand-in, and no GPU" any '^machine\|ok\|GPUs\|no GPU; the stand-in' '!program\|problem' -- ./starts_it
fi
link -o "$top/p/bare" "$top/main.c"
diagnosed "no annotations" any '^program\|warning\|annotations\|no annotation found' -- ./bare

diagnosed "a program for the stand-in" 1 '^machine\|ok\|GPUs\|no GPU; the stand-in|^machine\|ok\|GPUs\|[0-9]' \
    '^program\|ok\|device\|built by softgpu-cc' '^machine\|problem\|NCCL\|not found: .*softgpu/libnccl.so.2' '^program\|ok\|preloading' -- "$fake"
link -c -o "$top/note.o" "$sources/../../launcher/softgpu_note.c"
link -o "$top/p/wrong_library" "$top/calls.c" "$top/note.o" "$top/p/lib/libcudart.so.13" -Wl,--disable-new-dtags -Wl,-rpath,"$top/p/lib"
cp "$top/p/lib/libcudart.so.13" "$top/lib/softgpu/libcudart.so.13"
diagnosed "an RPATH that goes before the stand-in" 1 \
    "^program\|problem\|CUDA library\|libcudart.so.13 is found at $top/p/lib/libcudart.so.13, not in the stand-in" -- ./wrong_library
link -o "$top/p/right_library" "$top/calls.c" "$top/note.o" "$top/p/lib/libcudart.so.13" -Wl,--enable-new-dtags -Wl,-rpath,"$top/p/lib"
diagnosed "a RUNPATH that does not" 1 "^program\|ok\|CUDA library\|libcudart.so.13 is $top/lib/softgpu/" '!^program\|problem' -- ./right_library
DDPRUN_DEVICE=gpu diagnosed "--device gpu and a program for the stand-in" 1 \
    '^program\|problem\|device\|./right_library was built by softgpu-cc and cannot use a GPU.*\|build it with nvcc' \
    '!program\|(problem|warning)\|CUDA library' '!problem\|GPUs' -- ./right_library
link -o "$top/p/for_gpu" "$top/calls.c" "$top/p/lib/libcudart.so.13"
LD_LIBRARY_PATH=$top/lib/softgpu diagnosed "the stand-in's folder in the way" 1 '^program\|problem\|CUDA library\|.*found in the stand-in' -- ./for_gpu
DDPRUN_DEVICE=softgpu diagnosed "--device softgpu and kernels for GPUs" 1 \
    '^program\|problem\|device\|built for GPUs, with kernels of its own, which the stand-in cannot run\|build it with softgpu-cc' -- ./has_kernels
DDPRUN_COMPRESS=fp16 diagnosed "--compress without kernels for it" 1 '^machine\|problem\|kernels\|.*--compress does not work' -- "$fake"
link -shared -fPIC -Wl,-soname,libcudnn.so.77 -o "$top/p/libcudnn.so.77" "$top/library.c"
link -o "$top/p/lacks" "$top/calls.c" "$top/p/libcudnn.so.77"
diagnosed "a library that is not there" 1 '^program\|problem\|CUDA library\|libcudnn.so.77 is not found' -- ./lacks
link -DANNOTATED -I"$include" -shared -fPIC -o "$top/p/lib/libtrainer.so" "$top/main.c"
link -o "$top/p/in_library" "$top/main.c" -Wl,--no-as-needed "$top/p/lib/libtrainer.so" -Wl,-rpath,"$top/p/lib"
diagnosed "annotations in a library" any '^program\|ok\|annotations\|.*libtrainer.so uses' -- ./in_library
printf '#!/bin/sh\ntouch "%s"\n' "$TRACE" >"$top/p/loader" && chmod 755 "$top/p/loader"
link -o "$top/p/own_loader" "$top/main.c" -Wl,--dynamic-linker="$top/p/loader"
diagnosed "a loader of its own is not run" any '^program\|warning\|preloading\|the program has a loader of its own' -- ./own_loader
head -c 3000 "$top/p/plain" >"$top/p/cut" && chmod 755 "$top/p/cut"
examine ./cut
report "a file that is cut" "$(finds 1 '^program\|problem\|file\|')$(grep -c '^program' "$top/findings" | grep -vx 1)"
diagnosed "a static program" 1 '^program\|problem\|file\|.*static executable, .*\|link it without -static' -- "$helpers/launcher_fake_static"
diagnosed "no program there" 1 '^program\|problem\|file\|cannot start' -- ./nowhere
if [ "$(id -u)" = 0 ]; then
    cp "$top/p/plain" "$top/p/setuid" && chown 65534 "$top/p/setuid" && chmod 4755 "$top/p/setuid"
    diagnosed "a setuid program" 1 '^program\|problem\|file\|.*other rights.*\|use a copy' -- ./setuid
else
    echo "skip - a setuid program (only root can make a file of another user)"
fi
printf '#!/bin/sh\nexec ./plain\n' >"$top/p/script" && chmod 755 "$top/p/script"
diagnosed "a script" any '^program\|note\|file\|a script for /bin/sh' -- ./script
cp "$helpers/liblauncher_stub_library.so" "$top/other.so"
preload=$asan:$top/other.so diagnosed "something preloaded before" any '^program\|note\|preloading\|.*after .*(other|libasan[.0-9]*).so' -- ./plain
report "no program's code has run" "$([ ! -e "$TRACE" ] || echo 'it has')"

# ---- the machine ----
TMPDIR=/nonexistent diagnosed "no place for the job's folder" 1 '^machine\|problem\|job folder\|cannot use /nonexistent.*\|set TMPDIR to a folder' --
(ulimit -n 256 && examine && cp "$top/findings" "$top/few")
report "few open files" "$(grep -qE '^machine\|warning\|open files\|at most 256' "$top/few" || cat "$top/few")"
SLURM_JOB_ID=7 SLURM_STEP_NUM_TASKS=4 SLURM_MPI_TYPE=none diagnosed "srun without PMIx" 1 '^machine\|ok\|Slurm\|inside allocation 7' \
    '^machine\|problem\|launcher\|SLURM_STEP_NUM_TASKS=4 says that ddprun is one of .*but SLURM_PROCID.*' --
mv "$top/lib/libddprun-engine.so" "$top/lib/gone"
diagnosed "no engine" 1 '^machine\|problem\|ddprun\|the engine of ddprun is missing' --
link -shared -fPIC -Wl,-soname,libneeded.so.1 -o "$top/libneeded.so.1" "$top/calls.c"
link -shared -fPIC -Wl,--no-as-needed -o "$top/lib/libddprun-engine.so" "$top/calls.c" "$top/libneeded.so.1"
diagnosed "an engine that lacks a library" 1 '^machine\|problem\|engine\|the loader does not find libneeded.so.1' --
mv "$top/lib/gone" "$top/lib/libddprun-engine.so"
cp "$helpers/liblauncher_stub_library.so" "$top/no_nccl.so"
(cd "$top/p" && timeout -k 1 "$limit" "$ddprun" --nccl "$top/no_nccl.so" doctor) >"$top/text" 2>"$top/err" </dev/null
rc=$?
report "a library that is no NCCL" "$(grep -q "no_nccl.so is not NCCL 2" "$top/text" || cat "$top/err")$([ $rc = 1 ] || echo "exit code $rc")"

# ---- what was really built ----
if [ -e "$build/samples/gpu/digits_static" ]; then
    diagnosed "a program as nvcc links it" any '^program\|ok\|device\|built for GPUs, with kernels' '^program\|ok\|annotations' '^program\|ok\|preloading' \
        -- "$build/samples/gpu/digits_static"
else
    echo "skip - a program as nvcc links it (no nvcc when this was built)"
fi
if [ -e "$build/lib/softgpu/libnccl.so.2" ] && [ -e "$build/lib/libddprun-engine.so" ]; then
    ddprun=$build/bin/ddprun
    diagnosed "the build, and a program for the stand-in" 0 '^machine\|ok\|engine\|' '^machine\|ok\|NCCL\|2\.[0-9]+\.[0-9]+' '!problem' -- "$fake"
else
    echo "skip - the build, and a program for the stand-in (not built)"
fi
finish
