#!/bin/bash
# seen.sh BUILD - what a user sees of a job: the progress line on a terminal and off it, -v, the summary as a file.
#
# The real ddprun with tests/launcher/fake_trainer, which writes the ranks' records itself. Each case prints `ok - name` or
# `not ok - name (why)`; exits 1 if one is not ok. A case waits for conditions with a deadline, never for a time.
set -u

build=$(cd "${1:?usage: seen.sh BUILD}" && pwd)
helpers=$build/tests/launcher
top=$(mktemp -d)
trap 'rm -rf "$top"' EXIT
export TMPDIR=$top/tmp XDG_CONFIG_HOME=$top/config
mkdir -p "$top/tmp" "$top/bin" "$top/lib/softgpu"
cp "$build/bin/ddprun" "$top/bin/ddprun"
cp "$helpers/liblauncher_stub_library.so" "$top/lib/libddprun.so"
cp "$helpers/liblauncher_stub_library.so" "$top/lib/libddprun-engine.so"
ddprun=$top/bin/ddprun
fake=$helpers/launcher_fake_softgpu
unset CUDA_VISIBLE_DEVICES SOFTGPU_DEVICES LD_PRELOAD LD_LIBRARY_PATH NO_COLOR XDG_RUNTIME_DIR
export LSAN_OPTIONS=suppressions=$top/lsan:print_suppressions=0
printf 'leak:libpmix\nleak:libhwloc\nleak:libevent\n' >"$top/lsan"
out=$top/out err=$top/err
failures=0

# report NAME WHY: ok if WHY is empty.
report() {
    if [ -z "$2" ]; then
        echo "ok - $1"
    else
        echo "not ok - $1 ($2)"
        failures=$((failures + 1))
    fi
}
# run COMMAND...: sets rc; what it prints is in $out and $err.
run() {
    timeout -k 1 60 "$@" >"$out" 2>"$err" </dev/null
    rc=$?
}
# expect RC [FILE REGEX]...: prints what does not hold.
expect() {
    [ "$rc" = "$1" ] || echo -n "exit code $rc, not $1: $(head -c 300 "$err" | tr '\n' '|') "
    shift
    while [ $# -gt 1 ]; do
        grep -aqE -- "$2" "$1" || echo -n "no /$2/ in: $(head -c 600 "$1" | tr '\n' '|') "
        shift 2
    done
}

# ---- the progress line on a terminal ----
# Rank 0 writes to the terminal itself: before, while and after the line is there, whole lines and parts of lines.
# on_screen LINES OPTIONS...: trains until the progress line was seen, which is after so many lines of rank 0 (with --progress off
# or -q: at once). What the screen shows in the end is in $out.
on_screen() {
    local i before=() after=() watch=(--watch "ddprun: step 1, loss 0.25" "$top/seen")
    for ((i = 1; i <= $1; ++i)); do before+=(say "line $i"$'\n'); done
    for ((; i <= 45; ++i)); do after+=(say "line $i"$'\n'); done
    shift
    rm -f "$top/seen"
    case "$*" in *off* | *-q*) touch "$top/seen" && watch=() ;; esac
    run "$helpers/launcher_screen" "${watch[@]}" "$ddprun" -n 2 "$@" "$fake" stage 3 mean loss 0.25 step 1 \
        @0 "${before[@]}" say "a line in " await "$top/seen" say "two halves"$'\n' "${after[@]}" \
        @1 await "$top/seen" @all step 2 stage 4
}
on_screen 9 --progress off
why=$(expect 0 "$out" '^line 45$' "$out" '^a line in two halves$' "$out" 'ddprun: 2 ranks, 2 steps')
report "a terminal without the line" "$why"
cp "$out" "$top/plain"
on_screen 9
report "the progress line spoils nothing that rank 0 writes, and is gone in the end" \
    "$(expect 0)$(diff "$top/plain" "$out" | head -5)"
on_screen 30 --progress off
cp "$out" "$top/plain"
on_screen 30
report "also when the terminal is full before it comes" "$(expect 0)$(diff "$top/plain" "$out" | head -5)"

[ "$failures" = 0 ]
