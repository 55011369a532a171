#!/usr/bin/env bash
# exports.sh BUILD - what the build's programs and libraries need and show. Each needs the libraries of its row in needed.txt, and
# takes no other names from them; none takes libraries from the current folder. And the shim stays what any process can bear: it
# starts nothing when it is loaded, and shows exactly the names of its linker script. Called by tests/run.sh.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
source tests/lib/lib.sh
build=${1:-build}
shim=$build/lib/libddprun.so
map=$build/interpose/exports.map
subject=tests/lint/needed.txt # what a complaint is about

blame() {
    complain "$subject: $*"
}

# any_of NAME PATTERN...: whether the name matches one of the shell patterns.
any_of() {
    local name=$1 pattern
    shift
    for pattern in "$@"; do
        # shellcheck disable=SC2053 # a pattern
        [[ $name != $pattern ]] || return 0
    done
    return 1
}

for tool in readelf nm; do
    command -v "$tool" >/dev/null || skip "no $tool (package binutils)"
done
[ -e "$shim" ] || {
    echo "$shim does not exist: the build did not make it"
    exit 1
}

declare -A libraries names
while IFS='|' read -r product needed taken; do
    read -r product <<<"$product"
    libraries[$product]+=" ${needed//glibc/libc.so.6 libm.so.6 libdl.so.2 libpthread.so.0 ld-linux-*}"
    names[$product]+=" $taken"
    [ -e "$build/$product" ] || blame "has $product, which the build did not make"
done < <(grep -v '^#' tests/lint/needed.txt)

# The names that a file takes from others, but those of glibc and the three that every link leaves open.
taken_by() {
    readelf -Ws --dyn-syms "$1" | awk '$7 == "UND" && $8 != "" && $8 !~ /@GLIBC_/ { sub(/@.*/, "", $8); print $8 }' | sort -u |
        grep -vxE '_ITM_(de)?registerTMCloneTable|__gmon_start__' || true
}

for file in "$build"/bin/* "$build"/lib/*.so "$build"/lib/softgpu/*.so*; do
    if [ -L "$file" ] || [ "$(head -c 4 "$file" | tail -c 3)" != ELF ]; then # what `-lcudart` means is a linker script
        continue
    fi
    subject=$file
    product=${file#"$build/"}
    [ -n "${libraries[$product]:-}" ] || blame "has no row in tests/lint/needed.txt"
    dynamic=$(readelf -dW "$file")
    read -ra may_need <<<"${libraries[$product]:-}"
    read -ra may_take <<<"${names[$product]:-}"
    while read -r library; do
        any_of "$library" "${may_need[@]}" || blame "needs $library, which its row in tests/lint/needed.txt does not have"
    done < <(sed -n 's/.*(NEEDED).*\[\(.*\)\]/\1/p' <<<"$dynamic")
    while read -r name; do
        any_of "$name" "${may_take[@]}" || blame "takes $name from others, which its row in tests/lint/needed.txt does not have"
    done < <(taken_by "$file")
    # In a search path an empty entry, or a relative one, is the current folder of the process that starts the program.
    path=$(sed -n 's/.*(\(RPATH\|RUNPATH\)).*\[\(.*\)\]/\2/p' <<<"$dynamic")
    while [ -n "$path" ] && IFS= read -r -d : entry; do
        case $entry in
        /* | \$ORIGIN*) ;;
        *) blame "searches libraries in '$entry', which is the current folder's ($path)" ;;
        esac
    done <<<"$path:"
done

subject=$shim
dynamic=$(readelf -dW "$shim")
grep -q '(NEEDED).*libc\.so\.6' <<<"$dynamic" || blame "does not even need libc: is this the right file?"
! grep -E '\((RPATH|RUNPATH)\)' <<<"$dynamic" || blame "has a search path for libraries"
! grep -E '\(TEXTREL\)' <<<"$dynamic" || blame "has text relocations"

# The compiler's own start-up function (frame_dummy), and that of interpose/shim/stdout.c.
constructors=$(sed -n 's/.*(INIT_ARRAYSZ)[^0-9]*\([0-9]*\).*/\1/p' <<<"$dynamic")
[ "${constructors:-0}" -le 16 ] || blame "has $((constructors / 8)) functions in INIT_ARRAY: another constructor came in"
destructors=$(sed -n 's/.*(FINI_ARRAYSZ)[^0-9]*\([0-9]*\).*/\1/p' <<<"$dynamic")
[ "${destructors:-0}" -le 8 ] || blame "has $((destructors / 8)) functions in FINI_ARRAY: a destructor came in"

symbols=$(nm -D "$shim")
shown=$(awk 'NF == 3 && $2 ~ /[A-TV-Zi]/ { print $3 }' <<<"$symbols" | sed 's/@.*//' | LC_ALL=C sort -u)
meant=$(sed 's/#.*//; s,/\*.*\*/,,' "$map" | awk '/global:/ { on = 1; sub(/.*global:/, "") } /local:/ { on = 0 } on' |
    tr -d ' \t' | tr ';' '\n' | grep -v '^$' | LC_ALL=C sort -u)
[ -n "$meant" ] || blame "$map names no export"
while read -r name; do
    [ -z "$name" ] || blame "shows $name, which $map does not name"
done < <(LC_ALL=C comm -23 <(echo "$shown") <(echo "$meant"))
while read -r name; do
    [ -z "$name" ] || blame "does not define $name, which $map names"
done < <(LC_ALL=C comm -13 <(echo "$shown") <(echo "$meant"))

# Built here, it must load in a container with the oldest glibc that CUDA's programs still meet.
oldest=2.17
newest=$(readelf -VW "$shim" | grep -o 'GLIBC_[0-9.]*' | sed 's/GLIBC_//' | sort -uV | tail -n 1)
[ "$(printf '%s\n' "$oldest" "$newest" | sort -V | tail -n 1)" = "$oldest" ] ||
    blame "asks for glibc $newest; $oldest is the newest allowed: see softgpu/cmake/portable/old_glibc.sh"
grep 'File: libdl\.so\.2 ' <<<"$(readelf -VW "$shim")" >/dev/null ||
    blame "takes dlopen from libc, where glibc has it since 2.34: see softgpu/cmake/portable/old_glibc.sh"

for program in /bin/true /bin/ls; do
    LD_PRELOAD=$(realpath "$shim") timeout -k 1 100 "$program" / </dev/null >/dev/null 2>"$build/lint-preload.err" ||
        blame "$program fails with it preloaded: $(head -n 1 "$build/lint-preload.err")"
    [ ! -s "$build/lint-preload.err" ] ||
        blame "$program is not left in peace: $(head -n 1 "$build/lint-preload.err")"
done
# Behind the runtime of a sanitizer, which looks up what it intercepts when nothing of libc can be called yet.
runtime=$(gcc -print-file-name=libasan.so 2>/dev/null || true)
if [[ $runtime == */* ]]; then
    LD_PRELOAD=$runtime:$(realpath "$shim") ASAN_OPTIONS=detect_leaks=0 timeout -k 1 100 /bin/true </dev/null \
        2>"$build/lint-preload.err" || blame "/bin/true fails with AddressSanitizer's runtime and it preloaded"
fi
rm -f "$build/lint-preload.err"

# A process of a cluster's job asks the library for one table.
shown=$(nm -D --defined-only "$build/lib/libddprun-pmix.so" | awk '{ print $3 }')
[ "$shown" = ddprun_pmix_member ] || blame "libddprun-pmix.so shows $shown"

finish "${#libraries[@]} products need what needed.txt allows; the shim needs glibc $newest and shows the $(wc -l <<<"$meant") names of $map"
