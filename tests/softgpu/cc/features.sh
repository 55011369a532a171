#!/bin/bash
# features.sh SOFTGPU_CC [FLAG...] - each program of features/, behind managed.h, compiles and ends with exit code 0; nvcc ($NVCC) accepts all of them, and the C or C++ compiler
# with the toolkit's folder those in C and C++. The .cu files of one command line are compiled as one source, each in a namespace and with its main()
# renamed. Ordinarily a third of the programs (in_turn); with DDPRUN_SOAK=1 all, each also alone, optimised, and by nvcc. The first lines of a program say how it differs:
#   // flags: FLAG...     its command line
#   // global             it stands outside of namespaces, with names of its own
#   // refused: WORDS     it is refused with these words
cc=$1
features=$(realpath "$(dirname "${BASH_SOURCE[0]}")/features")
export NVCC_APPEND_FLAGS=${*:2}
source "$(dirname "${BASH_SOURCE[0]}")/../lib.sh"

flags_of() { sed -n 's,^// flags: ,,p' "$1"; }
is_global() { grep -q '^// global' "$1"; }

# together FILE...: one source of programs. Their system headers stand first; their macros end with them.
together() {
    local file program
    printf '#include "%s/managed.h"\n' "$features"
    sed -n 's/^# *include *<\(.*\)>.*/#include <\1>/p' "$@" | sort -u
    for file in "$@"; do
        program=$(basename "$file" .cu)
        printf '#define main program_%s\n' "$program"
        is_global "$file" || printf 'namespace feature_%s {\n' "$program"
        printf '#include "%s"\n' "$file"
        is_global "$file" || printf '}\nusing feature_%s::program_%s;\n' "$program" "$program"
        sed -n 's/^# *define *\([A-Za-z_0-9]*\).*/#undef \1/p' "$file"
        printf '#undef main\n'
    done
    printf 'int main() { int failed = 0, code;\n'
    for file in "$@"; do
        program=program_$(basename "$file" .cu)
        printf 'if ((code = %s()) != 0) failed = printf("%s ended with exit code %%d\\n", code);\n' "$program" "$program"
    done
    printf 'return failed != 0; }\n'
}

compile_and_run() { # SOURCE FLAG...
    run 0 "$cc" --extended-lambda "${@:2}" "$1" -o program
    if [ -x program ]; then
        run 0 ./program
        rm program
    fi
}

declare -A groups=()
for file in "$features"/*.cu; do
    in_turn 3 || continue
    if words=$(sed -n 's,^// refused: ,,p' "$file") && [ -n "$words" ]; then
        case_ "$(basename "$file")"
        run 1 "$cc" -include "$features/managed.h" -c "$file" -o refused.o
        says "$words"
    else
        groups["$(flags_of "$file") "]+=" $file"
    fi
done
for flags in "${!groups[@]}"; do
    read -ra files <<<"${groups[$flags]}"
    read -ra options <<<"$flags"
    case_ "${#files[@]} programs, flags: $flags"
    together "${files[@]}" >together.cu
    compile_and_run together.cu -G "${options[@]}"
    [ "${DDPRUN_SOAK:-0}" = 1 ] || continue
    for file in "${files[@]}"; do
        case_ "$(basename "$file")"
        compile_and_run "$file" "${options[@]}" -include "$features/managed.h"
        [ ! -x "${NVCC:-}" ] || grep -q -e --allow-removed "$file" ||
            run 0 "$NVCC" -arch=sm_90 --extended-lambda -std=c++17 "${options[@]}" -include "$features/managed.h" -c "$file" -o program.o
    done
done
libraries=$(realpath "$(dirname "$cc")/../lib/softgpu")
for file in "$features"/*.c "$features"/*.cpp; do
    in_turn 3 || continue
    case_ "$(basename "$file")"
    toolkit=$libraries/toolkit
    [[ $file != */removed_* ]] || toolkit+=/removed # with what CUDA 13 has removed
    compiler=(cc -std=c17)
    [[ $file == *.c ]] || compiler=(c++ -std=c++17)
    run 0 "${compiler[@]}" -Wall -Wextra -Werror -isystem "$toolkit/include" "$file" -L"$libraries" -Wl,-rpath,"$libraries" -lcudart -lcuda -o program
    run 0 ./program
done

case_ "a cudaDeviceProp without reserved numbers is said, and leaves no folder"
mkdir headers
echo 'struct cudaDeviceProp { int major; int reserved[7]; };' >headers/driver_types.h
cp "$libraries/toolkit/removed.cmake" .
run 0 cmake -DCUDA_INCLUDE_DIR="$work/headers" -P removed.cmake
says "no reserved numbers in cudaDeviceProp"
[ ! -e removed ] || fail "there is a folder"
finish "$cases cases"
