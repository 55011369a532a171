#!/usr/bin/env bash
# turns.sh BUILD - how many batches ranks that take turns train in the time of one: N ranks beside one process, in the same minute, on the
# stand-in, where a copy takes time and no CPU (turns_rank.cu). Medians of 3 pairs. Copies from and to the host run on all ranks: the last
# column is what they allow.
set -euo pipefail
build=$(cd "$1" && pwd)
program=$build/bench/turns_rank

# one COPY_US READS BATCHES; ranks N COPY_US READS BATCHES: milliseconds a batch.
one() { SOFTGPU_COPY_US=$1 LD_LIBRARY_PATH=$build/lib/softgpu "$program" --reads "$2" --batches "$3"; }
ranks() { SOFTGPU_COPY_US=$2 "$build/bin/ddprun" -q -n "$1" --device softgpu "$program" --reads "$3" --batches "$4"; }

printf '%-8s %-22s %5s %12s %12s %8s %8s\n' 'copy us' 'in each batch' ranks 'one, ms' 'ranks, ms' times 'at most'
for us in 2000 100; do
    batches=$((us == 2000 ? 91 : 431))
    for reads in 0 1; do
        for n in 2 3; do
            for _ in 1 2 3; do
                alone=$(one "$us" "$reads" "$batches")
                together=$(ranks "$n" "$us" "$reads" "$batches")
                awk -v a="$alone" -v t="$together" 'BEGIN { print a / t, a, t }'
            done | sort -n | sed -n 2p | {
                read -r times alone together
                most=$(awk -v n="$n" -v r="$reads" 'BEGIN { printf "%.2f", n * (11 + r) / (10 + n * (1 + r)) }')
                what='nothing is read'
                [ "$reads" = 0 ] || what='the loss is copied'
                printf '%-8s %-22s %5s %12.2f %12.2f %8.2f %8s\n' "$us" "$what" "$n" "$alone" "$together" "$times" "$most"
            }
        done
    done
done
printf '%s processors, load %s\n' "$(nproc)" "$(cut -d ' ' -f 1 /proc/loadavg)"
