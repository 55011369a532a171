#!/usr/bin/env bash
# abi.sh BUILD - the table of interface versions: programs that were built with each ddprun.h so far (ddprun_old.h) run alone and on two
# ranks, under a shim of each version. A shim serves all versions up to its own, with the same results; an older one ends the job, and
# says what the program was built with. A shim of an older version is today's with that number: the interface grows at its end, and
# the test compares the old headers' part with today's header.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../../.."
source tests/lib/lib.sh
build=$(realpath "${1:?usage: abi.sh BUILD}")
work=$(mktemp -d "${TMPDIR:-/tmp}/ddprun-abi.XXXXXX")
at_exit 'rm -rf "$work"'
shown=$work/out
header=interpose/include/ddprun.h
newest=$(sed -n 's/^#define DDP_INTERFACE_VERSION \([0-9]*\)$/\1/p' "$header")

# fields HEADER [OPTION]: the members of struct ddp_interface, one a line
fields() {
    gcc -E -P "${@:2}" "$1" | sed '/^struct ddp_interface {/,/^};/!d; s/^ *//; /^struct/d; /^}/d'
}

# what each version's macros do on one rank and on two (abi.cu), in the order of its lines
results() {
    local lines=(
        '1 gradient 1 1.5' '1 parameter -2 -3.5' '1 mean 1 1.5' '1 ranks 1 2' '1 host 0 0' '1 share 6 3'
        '2 buffer 1 1' '2 group -29 -44' '3 label 1 1.5' '3 state 1 1' '4 sum 1 3' '4 direct -2 -3.5'
    )
    printf '%s\n' "${lines[@]}" | awk -v version="$1" -v ranks="$2" '$1 <= version { print $2, $(2 + ranks) }'
    [ "$1" -lt 5 ] || echo "double $([ "$2" -eq 1 ] && echo 1 || echo 1.5), type 2"
    [ "$1" -lt 6 ] || echo "any 1 0, flags 1 0"
}

# run COMMAND...: its exit code and output
run() {
    code=0
    timeout -k 1 "$(patient 100)" "$@" </dev/null >"$work/out" 2>&1 || code=$?
}

# ---- programs and shims of each version ----
members=1 # of the version before; the number of the version is one
for ((version = 1; version <= newest; ++version)); do
    old=tests/interpose/abi/ddprun_old.h
    [ "$version" -lt "$newest" ] || old=$header
    fields "$old" "-DDDP_INTERFACE_VERSION=$version" >"$work/fields"
    check "the interface of version $version has more members than the one before" [ "$members" -lt "$(wc -l <"$work/fields")" ]
    members=$(wc -l <"$work/fields")
    check "today's interface begins as that of version $version" cmp "$work/fields" <(fields "$header" | head -n "$members")
    check "a program of version $version is built" "$build/bin/softgpu-cc" -Xcompiler -O0 -I. "-DHEADER=\"$old\"" "-DDDP_INTERFACE_VERSION=$version" \
        -o "$work/program$version" tests/interpose/abi/abi.cu

    shim=$work/$version/lib
    mkdir -p "$work/$version/bin" "$shim" "$work/include/$version/interpose/include"
    cp "$build/bin/ddprun" "$work/$version/bin/"
    ln -s "$build"/lib/* "$shim/"
    [ "$version" -lt "$newest" ] || continue
    sed "s/^#define DDP_INTERFACE_VERSION .*/#define DDP_INTERFACE_VERSION $version/" "$header" >"$work/include/$version/$header"
    rm "$shim/libddprun.so"
    gcc -std=gnu17 -D_GNU_SOURCE -O1 -fPIC -fvisibility=hidden -ftls-model=initial-exec "-I$work/include/$version" -I. "-isystem$build/lib/softgpu/toolkit/include" \
        -c interpose/shim/annotations.c -o "$work/annotations.o"
    mapfile -t objects < <(find "$build/interpose/CMakeFiles/shim.dir" -name '*.o' ! -name 'annotations.c.o')
    gcc -shared -o "$shim/libddprun.so" "$work/annotations.o" "${objects[@]}" -Wl,--version-script="$build/interpose/exports.map" -Wl,-Bsymbolic -Wl,-z,now -Wl,-z,defs
done

# ---- the table ----
for ((program = 1; program <= newest; ++program)); do
    run "$work/program$program"
    check "program $program alone" cmp "$work/out" <(results "$program" 1)
    row=
    for ((shim = 1; shim <= newest; ++shim)); do
        run "$work/$shim/bin/ddprun" -n 2 --quiet --output rank0 "$work/program$program"
        if [ "$program" -le "$shim" ]; then
            check "program $program on shim $shim" cmp <(grep -v '^ddprun: ' "$work/out") <(results "$program" 2)
            row+=' yes'
        else
            line="the program was built with a newer ddprun.h (interface $program) than this ddprun serves ($shim); use the ddprun that the header came with"
            check "program $program on shim $shim ends" [ "$code" -eq 1 ]
            check "and says why" grep -qF "$line" "$work/out"
            row+=' no'
        fi
    done
    printf '# program %d:%s\n' "$program" "$row"
done

# ---- turns, which go with no share and no weight ----
run "$work/program$newest" turns
check "turns alone" diff "$work/out" <(printf 'computed 5, updates 5\nturns -10\n')
run "$work/$newest/bin/ddprun" -n 2 --quiet --output rank0 "$work/program$newest" turns
check "turns of two ranks" diff <(grep -v '^ddprun: ' "$work/out") <(printf 'computed 3, updates 3\nturns -5\n')
finish
