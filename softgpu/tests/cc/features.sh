#!/bin/bash
# features.sh SOFTGPU_CC [FLAG...] - each source of features/, after feature.h, compiles, and its features hold; nvcc ($NVCC) accepts all of them, and the C or C++
# compiler with the toolkit's folder those in C and C++. Ordinarily a third of the sources (in_turn); with TESTS_SOAK=1 all, also optimised and by nvcc. A first
# line `// flags: FLAG...` is a source's command line; `// needs: FILE of PACKAGE` leaves it out, with a line, where that file is not there.
cc=$1
features=$(realpath "$(dirname "${BASH_SOURCE[0]}")/features")
export NVCC_APPEND_FLAGS=${*:2}
source "$(dirname "${BASH_SOURCE[0]}")/../lib.sh"

for file in "$features"/*.cu; do
    in_turn 3 || continue
    read -r needed _ package < <(sed -n 's,^// needs: ,,p' "$file")
    if [ -n "$needed" ] && [ ! -e "$needed" ]; then
        echo "left out: $(basename "$file"): no $needed (package $package)"
        continue
    fi
    case_ "$(basename "$file")"
    read -ra options < <(sed -n '1s,^// flags: ,,p' "$file")
    options+=(--extended-lambda -include "$features/feature.h")
    for optimisation in -G ''; do
        [ -n "$optimisation" ] || [ "$tests_soak" = 1 ] || continue
        rm -f program
        run 0 "$cc" $optimisation "${options[@]}" "$file" -o program
        run 0 ./program
    done
    [ "$tests_soak" != 1 ] || [ ! -x "${NVCC:-}" ] || grep -q -e --allow-removed "$file" ||
        run 0 "$NVCC" -arch=sm_90 -std=c++17 "${options[@]}" -c "$file" -o program.o
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
