# shellcheck shell=bash disable=SC2034,SC2154 # judge.sh sources it
# place.sh - beside place.txt: gradients that alone differ, and a cudart inside the program.
place=$build/tests/tools/check/place

after() {
    # Some steps clip own gradients: by chance the mean is a multiple of one process's gradient there, but no update differs.
    checked 2 "" "$place" norm 0.2
    check "clipping before DDP_STEP is a difference of gradients alone" [ "$code, $(grep 'DIFFERS$' "$work/stdout" | cut -c 1-9)" = "1, gradient " ]

    checked 2 "" "$place" life
    check "a factor of later steps is a further cause beside noise" grep -q \
        'also: in step 6 `gradient` .*: argument 5 is 24 on each rank.*from step 6 on every gradient is about 0.5 times' "$work/stdout"

    # A cudart inside the program is no part of it: what is said is the same as with a shared one, also where all copies are made by a function of a function.
    cat >"$work/deep.h" <<'C'
#include <cuda_runtime.h>
#define COPIES(name, inner) \
    static int name(void *to, const void *from, size_t bytes, enum cudaMemcpyKind kind) { return inner(to, from, bytes, kind); }
COPIES(copy_1, cudaMemcpy)
COPIES(copy_2, copy_1)
#define cudaMemcpy (cudaError_t)copy_2
C
    mkdir "$work/inside" "$work/shared"
    root=$here/../../..
    cc=("$build/bin/softgpu-cc" -O0 -g -D_GNU_SOURCE "-I$root" "-I$root/samples" "-I$root/interpose/include" -lcublas)
    works "compiled" "${cc[@]}" -include "$work/deep.h" -c "$root/tests/tools/check/place.cu" -o "$work/place.o"
    works "linked with a shared cudart" "${cc[@]}" "$work/place.o" -o "$work/shared/place"
    works "linked with a cudart inside" "${cc[@]}" "$work/place.o" "$build/tests/trainers/cudart.o" "$build/lib/softgpu/libsoftgpu.so" \
        -o "$work/inside/place"
    mkdir "$work/stripped" # only places have lines; the operation is the same
    strip -o "$work/stripped/place" "$work/inside/place"
    for cudart in shared inside stripped; do
        run "$ddprun" check -n 2 "$work/$cudart/place" divisor
        check "cudart $cudart: a difference" [ "$code" -eq 1 ]
        cp "$work/stdout" "$work/said.$cudart"
    done
    check "the same place with a cudart inside" diff "$work/said.shared" "$work/said.inside"
    operation() { grep -m 1 -o 'first operation that differs.*argument [0-9]*' "$work/said.$1"; }
    check "the same operation without symbols" [ "$(operation stripped)" = "$(operation shared)" ]
}
