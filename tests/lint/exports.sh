#!/usr/bin/env bash
# exports.sh BUILD - the shim stays what any process can bear: it needs libc only, starts nothing when it is loaded, shows
# exactly the names of its linker script, and asks for no CUDA symbol; and no file of ddprun takes libraries from the
# current folder. Called by tests/run.sh.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
build=${1:-build}
shim=$build/lib/libddprun.so
map=$build/interpose/exports.map
bad=0

complain() {
    printf '%s: %s\n' "$shim" "$*"
    bad=1
}

for tool in readelf nm; do
    command -v "$tool" >/dev/null || {
        echo "skipped: no $tool (package binutils)"
        exit 77
    }
done
[ -e "$shim" ] || {
    echo "$shim does not exist: the build did not make it"
    exit 1
}

# A library that it needs is a library that every child of the trainer loads.
dynamic=$(readelf -dW "$shim")
while read -r library; do
    case $library in
    libc.so.6 | libdl.so.2 | ld-linux-*.so.*) ;;
    *) complain "needs $library; allowed are libc, libdl and the loader" ;;
    esac
done < <(sed -n 's/.*(NEEDED).*\[\(.*\)\]/\1/p' <<<"$dynamic")
grep -q '(NEEDED).*libc\.so\.6' <<<"$dynamic" || complain "does not even need libc: is this the right file?"
! grep -E '\((RPATH|RUNPATH)\)' <<<"$dynamic" || complain "has a search path for libraries"
! grep -E '\(TEXTREL\)' <<<"$dynamic" || complain "has text relocations"

# The compiler's own start-up function (frame_dummy), and that of interpose/shim/stdout.c.
constructors=$(sed -n 's/.*(INIT_ARRAYSZ)[^0-9]*\([0-9]*\).*/\1/p' <<<"$dynamic")
[ "${constructors:-0}" -le 16 ] || complain "has $((constructors / 8)) functions in INIT_ARRAY: another constructor came in"
destructors=$(sed -n 's/.*(FINI_ARRAYSZ)[^0-9]*\([0-9]*\).*/\1/p' <<<"$dynamic")
[ "${destructors:-0}" -le 8 ] || complain "has $((destructors / 8)) functions in FINI_ARRAY: a destructor came in"

symbols=$(nm -D "$shim")
shown=$(awk 'NF == 3 && $2 ~ /[A-TV-Zi]/ { print $3 }' <<<"$symbols" | sed 's/@.*//' | LC_ALL=C sort -u)
meant=$(sed 's/#.*//; s,/\*.*\*/,,' "$map" | awk '/global:/ { on = 1; sub(/.*global:/, "") } /local:/ { on = 0 } on' |
    tr -d ' \t' | tr ';' '\n' | grep -v '^$' | LC_ALL=C sort -u)
[ -n "$meant" ] || complain "$map names no export"
while read -r name; do
    [ -z "$name" ] || complain "shows $name, which $map does not name"
done < <(LC_ALL=C comm -23 <(echo "$shown") <(echo "$meant"))
while read -r name; do
    [ -z "$name" ] || complain "does not define $name, which $map names"
done < <(LC_ALL=C comm -13 <(echo "$shown") <(echo "$meant"))

while read -r name; do
    complain "asks the loader for $name"
done < <(awk '$1 ~ /^[Uw]$/ { print $2 }' <<<"$symbols" | grep -E '^(cu[A-Z]|cuda|cublas|cudnn|nccl|PMIx|json_|unw_|_ULx86)' || true)

# Built here, it must load in a container with the oldest glibc that CUDA's programs still meet.
oldest=2.17
newest=$(readelf -VW "$shim" | grep -o 'GLIBC_[0-9.]*' | sed 's/GLIBC_//' | sort -uV | tail -n 1)
[ "$(printf '%s\n' "$oldest" "$newest" | sort -V | tail -n 1)" = "$oldest" ] ||
    complain "asks for glibc $newest; $oldest is the newest allowed: see interpose/shim/old_glibc.h"

for program in /bin/true /bin/ls; do
    LD_PRELOAD=$(realpath "$shim") timeout -k 1 10 "$program" / </dev/null >/dev/null 2>"$build/lint-preload.err" ||
        complain "$program fails with it preloaded: $(head -n 1 "$build/lint-preload.err")"
    [ ! -s "$build/lint-preload.err" ] ||
        complain "$program is not left in peace: $(head -n 1 "$build/lint-preload.err")"
done
# Behind the runtime of a sanitizer, which looks up what it intercepts when nothing of libc can be called yet.
runtime=$(gcc -print-file-name=libasan.so 2>/dev/null || true)
if [[ $runtime == */* ]]; then
    LD_PRELOAD=$runtime:$(realpath "$shim") ASAN_OPTIONS=detect_leaks=0 timeout -k 1 10 /bin/true </dev/null \
        2>"$build/lint-preload.err" || complain "/bin/true fails with AddressSanitizer's runtime and it preloaded"
fi
rm -f "$build/lint-preload.err"

# In a search path an empty entry, or a relative one, is the current folder of the process that starts the program.
for file in "$build"/bin/* "$build"/lib/*.so "$build"/lib/softgpu/*.so*; do
    [ "$(head -c 4 "$file" | tail -c 3)" = ELF ] || continue # what `-lcudart` means is a linker script
    path=$(readelf -dW "$file" 2>/dev/null | sed -n 's/.*(\(RPATH\|RUNPATH\)).*\[\(.*\)\]/\2/p')
    while [ -n "$path" ] && IFS= read -r -d : entry; do
        case $entry in
        /* | \$ORIGIN*) ;;
        *) complain "$file searches libraries in '$entry', which is the current folder's ($path)" ;;
        esac
    done <<<"$path:"
done

[ "$bad" -eq 0 ] && printf 'needs libc only, as of glibc %s, shows the %s names of %s\n' "$newest" "$(wc -l <<<"$meant")" "$map"
exit "$bad"
