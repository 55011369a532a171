#!/usr/bin/env bash
# inert.sh BUILD - outside a job the shim and the macros do nothing: the annotated program prints byte for byte what the plain one
# prints, with the shim preloaded too, and a world of one changes no byte of the output either.
source "$(dirname "$0")/lib.sh"
options=(--data "$data" --batch 64 --steps $((sanitized ? 5 : 40)) --seed 3)

works "plain" "$digits_plain" "${options[@]}"
cp "$work/stdout" "$work/plain"
run "$digits" "${options[@]}"
check "annotated, without ddprun" cmp "$work/stdout" "$work/plain"
run env "LD_PRELOAD=${LD_PRELOAD:+$LD_PRELOAD:}$build/lib/libddprun.so" "$digits" "${options[@]}"
[ "${#runtime[@]}" -gt 0 ] || check "annotated, with the shim but outside a job" cmp "$work/stdout" "$work/plain"
run "$ddprun" -n 1 "$digits" "${options[@]}"
check "annotated, a world of one" cmp "$work/stdout" "$work/plain"
run "$ddprun" -n 2 --device "$device" sh -c 'echo "$RANK of $WORLD_SIZE, $LOCAL_RANK of $LOCAL_WORLD_SIZE"'
check "a program that uses no GPU" grep -qx '0 of 2, 0 of 2' "$work/stdout"
finish
