#!/usr/bin/env bash
# languages.sh BUILD CUDA_INCLUDE_DIR - the programs of docs/languages.md, and that of docs/libtorch.md in Rust, taken from the pages,
# compile and train: alone, with one rank and with several all print what the arithmetic of the page gives. A language whose compiler is missing is skipped by name.
source "$(dirname "$0")/lib.sh"
root=$(cd "$(dirname "$0")/../.." && pwd)
page=$root/docs/languages.md
includes=(-I "$root/interpose/include" -I "$2")
libraries=(-L "$build/lib/softgpu" -lcudart)
export PYTHONPATH=$root/interpose/python PYTHONDONTWRITEBYTECODE=1
# Column j is i * j / 2 for i in 0..7, with mean 1.75 j; each of 20 steps halves the distance.
expected=$(awk 'BEGIN { printf "w"; for (j = 0; j < 4; j++) printf " %.4f", 1.75 * j * (1 - 2 ^ -20); print "" }')

# block LANGUAGE: the program of the page.
block() {
    awk -v fence="\`\`\`$1" '$0 == fence { inside = 1; next } /^```/ { inside = 0 } inside' "$page"
}

# trains LANGUAGE COMMAND...: alone and under ddprun.
trains() {
    local language=$1 ranks
    shift
    run env "LD_LIBRARY_PATH=$build/lib/softgpu" "$@"
    check "$language, alone" [ "$(cat "$work/stdout")" = "$expected" ]
    for ranks in 1 2 4; do
        run "$ddprun" -n "$ranks" --device softgpu --check-every 1 "$@"
        check "$language, $ranks ranks" [ "$(cat "$work/stdout")" = "$expected" ]
        check "$language, $ranks ranks: 20 steps" grep -Eq "$ranks ranks?, 20 steps" "$work/stderr"
    done
}

# compiled LANGUAGE COMPILER COMMAND...: whether there is the compiler, and the command has made $work/train.
compiled() {
    local language=$1 compiler=$2
    shift 2
    if ! command -v "$compiler" >/dev/null; then
        printf 'skipped: %s: no %s\n' "$language" "$compiler"
        return 1
    fi
    rm -f "$work/train"
    check "$language: compiles" "$@"
    [ -x "$work/train" ]
}

for language in cpp python rust c fortran; do
    check "the page has a program in $language" [ -n "$(block "$language")" ]
done
cd "$work" || exit 1
block cpp >train.cpp
compiled C++ g++ g++ -Wall -Wextra -Werror "${includes[@]}" -o train train.cpp "${libraries[@]}" && trains C++ ./train

block python >train.py
if command -v python3 >/dev/null; then
    trains Python python3 train.py
else
    echo 'skipped: Python: no python3'
fi

block rust >train.rs
crate=(rustc -O -D warnings --edition 2021)
! command -v rustc >/dev/null || check "the crate compiles" "${crate[@]}" --crate-type rlib --crate-name ddprun "$root/interpose/rust/src/lib.rs"
compiled Rust rustc "${crate[@]}" --extern ddprun=libddprun.rlib "${libraries[@]:0:2}" -o train train.rs && trains Rust ./train

block c >ddprun_fortran.c
block fortran >train.f90
check "Fortran: its file in C compiles" gcc -Wall -Wextra -Werror "${includes[@]}" -c ddprun_fortran.c
compiled Fortran gfortran gfortran -Wall -o train train.f90 ddprun_fortran.o "${libraries[@]}" && trains Fortran ./train

# Without CUDA: memory of the host, by calls in C.
page=$root/docs/libtorch.md
block c >ddprun_calls.c
check "ddprun_calls.c compiles" gcc -Wall -Wextra -Werror "${includes[@]}" -shared -fPIC -o libddprun_calls.so ddprun_calls.c
block rust >train.rs
compiled "Rust by ddprun_calls.c" rustc rustc -O -D warnings -L . -C "link-arg=-Wl,-rpath,$work" -o train train.rs && trains "Rust by ddprun_calls.c" ./train
finish
