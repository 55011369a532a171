#!/usr/bin/env bash
# mutants.sh BUILD - the tests would notice: engines that are broken on purpose (base/mutant.h) must fail the same training that the real
# one passes.
# shellcheck source=tests/end_to_end/lib.sh
source "$(dirname "$0")/lib.sh"
limit=90
options=(--layers 8 --width 48 --batch 24 --steps 12 --streams 2)

# install FOLDER ENGINE: a copy of what a user has, with another engine. The launcher finds its libraries beside itself.
install() {
    mkdir -p "$1/bin" "$1/lib"
    cp "$ddprun" "$1/bin/"
    ln -s "$build/lib/libddprun.so" "$build/lib/softgpu" "$1/lib/"
    ln -s "$2" "$1/lib/libddprun-engine.so"
}

# trains_well FOLDER: three ranks, with delays wherever order is not enforced, equal to each other and to the serial run.
trains_well() {
    local rank
    rm -f "$work"/rank-*
    SOFTGPU_CHAOS=7 SOFTGPU_LINK=latency_us=2000,gbytes_per_s=1 run \
        "$1/bin/ddprun" -n 3 --bucket-mb 0.02 --check-every 1 --timeout 20 "$ladder" "${options[@]}" --save "$work/rank-%d"
    [ "$code" -eq 0 ] || return 1
    for rank in 1 2; do
        cmp -s "$work/rank-0" "$work/rank-$rank" || return 1
    done
    "$compare" --quiet "$work/rank-0" "$work/serial" 1e-5 >/dev/null
}

run "$ladder" "${options[@]}" --save "$work/serial"
succeeded "the serial run"
install "$work/real" "$build/lib/libddprun-engine.so"
check "the real engine passes" trains_well "$work/real"

names=("" "no wait at the boundary" "no wait for the producers" "a gradient left out of its bucket" "sum instead of mean"
    "another order of buckets on odd ranks" "ready one touch too early")
for mutant in 1 2 3 4 5 6; do
    install "$work/mutant-$mutant" "$build/tests/mutants/libddprun-engine-$mutant.so"
    if trains_well "$work/mutant-$mutant"; then
        not_ok "mutant $mutant, ${names[mutant]}, is caught" "it trained as well as the real one"
    else
        ok "mutant $mutant, ${names[mutant]}, is caught: $(sed -n 's/^ddprun: //p' "$work/stderr" | head -n 1 | cut -c 1-120)"
    fi
done
finish
