#!/usr/bin/env bash
# passes.sh BUILD - how often a step goes through the gradients: a bucket that is sent before DDP_STEP is packed, compared and committed once
# each, which is 5 bytes for each byte of gradient (tests/comm/test_bytes.c); what --no-overlap sends is packed and written back once. The
# calls are counted by a debugger, in 20 steps.
source "$(dirname "$0")/lib.sh"
command -v gdb >/dev/null || skip "no gdb, which counts the calls"
limit=120
passes=(wire_pack_digested wire_compare wire_pack wire_unpack wire_scale wire_clear)
gradients=4 # of the trainer; each is a bucket
{
    echo "set pagination off
set breakpoint pending on
set debuginfod enabled off
handle SIG61 nostop noprint pass"
    for i in "${!passes[@]}"; do
        printf 'break %s\nignore %d 1000000\n' "${passes[i]}" $((i + 1))
    done
    echo "run
info breakpoints"
} >"$work/gdb"

# count STEPS OPTION...: prints how often both ranks together have called each of them, one a line.
count() {
    run "$ddprun" -n 2 --device softgpu --check-every 0 --bucket-mb 0.06 "${@:2}" gdb -q -batch -x "$work/gdb" --args \
        "$build/tests/trainers/deviates" none --steps "$1"
    awk -v passes="${passes[*]}" '
        BEGIN { n = split(passes, names, " ") }
        { rank = $1 ~ /^\[[0-9]+\]$/ ? $1 : "first" } # lines of ranks may come in any order
        / in wire_[a-z_]* / { match($0, / in wire_[a-z_]*/); name[rank] = substr($0, RSTART + 4, RLENGTH - 4) }
        /already hit/ { for (i = 1; i <= NF; ++i) if ($i == "hit") calls[name[rank]] += $(i + 1) }
        END { for (i = 1; i <= n; ++i) print calls[names[i]] + 0 }' "$work/stdout"
}

# makes NAME EXPECTED OPTION...: in a step a rank calls each of them so often for each bucket.
makes() {
    local few many i found=()
    mapfile -t few < <(count 40 "${@:3}")
    mapfile -t many < <(count 60 "${@:3}")
    for i in "${!passes[@]}"; do
        found+=("${passes[i]}:$(((many[i] - few[i]) * 100 / (2 * 20 * gradients)))")
    done
    check "$1: hundredths of a call a bucket: ${found[*]}" [ "${found[*]}" = "$2" ]
}

makes "buckets that are sent before DDP_STEP" \
    "wire_pack_digested:100 wire_compare:100 wire_pack:0 wire_unpack:100 wire_scale:0 wire_clear:0"
makes "buckets that are sent at DDP_STEP" \
    "wire_pack_digested:0 wire_compare:0 wire_pack:100 wire_unpack:100 wire_scale:0 wire_clear:0" --no-overlap
finish
