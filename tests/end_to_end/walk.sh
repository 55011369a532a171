#!/usr/bin/env bash
# walk.sh BUILD [--show] - a call of cuBLAS that writes a gradient asks for its gradient before any watcher is notified, and its way through
# engine and bucketing to the bucket that it completes is short. Calls of functions are counted as they are made (walk.c), watchers
# included. A room is a file; a stay is a stretch of calls in one room, a return a stay where the walk has been. --show prints the walk.
source "$(dirname "$0")/lib.sh"
stays_at_most=64 rooms_at_most=22 returns_at_most=40
engine=$build/tests/mutants/libddprun-engine.so
command -v addr2line >/dev/null || skip "no addr2line (package binutils)"
mkdir -p "$work/copy/bin" "$work/copy/lib"
cp "$ddprun" "$work/copy/bin/"
ln -s "$build/lib/libddprun.so" "$build/lib/softgpu" "$engine" "$work/copy/lib/"

# Rank 0 has all watchers.
run "$work/copy/bin/ddprun" -n 2 --device softgpu --bucket-mb 0.01 sh -c \
    '[ "$RANK" -ne 0 ] || export DDPRUN_TEST_WALK=$0; exec "$@"' "$work/walk" "$digits" --data "$data" --steps 20
succeeded "a job under the engine that counts"

# A line for each call: FUNCTION FILE. Functions of headers are part of their callers.
addr2line -f -e "$engine" <"$work/walk" | paste - - | sed -E 's/:[0-9?]+( .*)?$//; s,\t.*/(interpose|bucketing)/,\t\1/,' |
    grep -E $'\t(interpose|bucketing)/.*\.c$' >"$work/calls"
[ "${2:-}" != --show ] || cat "$work/calls"
read -r calls stays rooms < <(awk -F '\t' '$2 != last { ++stays } { last = $2; rooms += !seen[$2]++ }
    END { print NR, stays + 0, rooms + 0 }' "$work/calls")
printf '%s calls, %s stays, %s rooms, %s returns\n' "$calls" "$stays" "$rooms" $((stays - rooms))
check "the first that it enters is touches_begin()" [ "$(head -n 1 "$work/calls" | cut -f 1)" = touches_begin ]
check "it asks for its gradient before a watcher is notified" [ "$(grep -nm 1 '^hits_look' "$work/calls" | cut -d: -f1)" -lt \
    "$(grep -nm 1 -E '/(verify|report)/' "$work/calls" | cut -d: -f1)" ]
check "at most $stays_at_most stays" [ "$stays" -le "$stays_at_most" ]
check "at most $rooms_at_most rooms" [ "$rooms" -le "$rooms_at_most" ]
check "at most $returns_at_most returns" [ $((stays - rooms)) -le "$returns_at_most" ]
finish
