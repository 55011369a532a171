#!/usr/bin/env bash
# tools.sh BUILD - what ddprun finds in a trainer whose kernels NVRTC makes when it starts is what it finds in the same trainer with kernels
# of softgpu-cc: scout's findings, a plan and its proof, `check`, and training by the plan on two ranks.
source "$(dirname "$0")/../../end_to_end/lib.sh"
here=$(cd "$(dirname "$0")" && pwd)
[ "$device" = softgpu ] || skip "its kernels are compiled for the stand-in"
watch_leftovers
limit=300
export SOFTGPU_NVRTC_CACHE=0 # each process compiles, with what ddprun preloads and watches
cp "$here"/trainer.cu "$here"/trainer_kernels.cuh "$work"
cd "$work" || exit 1
for way in ahead jit; do
    with=()
    [ $way = ahead ] || with=(-DJIT "-DKERNELS=\"$here/trainer_kernels.cuh\"" -lnvrtc -lcuda)
    works "$way: the trainer compiles" "$build/bin/softgpu-cc" -Xcompiler -O0,-g1 -o "$way" trainer.cu "${with[@]}"
    works "$way: alone" "./$way"
    cp stdout "$way.alone"
    run "$ddprun" --device softgpu --share-gpu scout -v --prove --json "$way.json" "./$way"
    check "$way: scout finds gradients and proves them" test "$code" -eq 0
    sed "s/\b$way\b/TRAINER/g" stdout >"$way.found"
    run "$ddprun" -n 2 --device softgpu --share-gpu --plan "$way.json" "./$way"
    check "$way: trains by the plan" test "$code" -eq 0
    sort stdout >"$way.trained"
    run "$ddprun" check -n 2 --device softgpu --share-gpu --plan "$way.json" "./$way"
    check "$way: check finds it equal" test "$code" -eq 0
    sed "s/\b$way\b/TRAINER/g" stdout >"$way.checked"
done
for what in alone found trained checked; do
    check "the same with kernels of NVRTC: $what" diff "ahead.$what" "jit.$what"
done
SOFTGPU_NVRTC_CACHE=$work/cache run "$ddprun" check -n 2 --device softgpu --share-gpu --plan jit.json ./jit
check "check fills NVRTC's cache: no file that a rank wrote" compgen -G "$work/cache/*.module" >"$work/kept"
check "no folder of a compilation stays" test -z "$(ls -A "$TMPDIR")"
finish
