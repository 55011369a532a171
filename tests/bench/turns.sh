#!/usr/bin/env bash
# turns.sh BUILD - how many batches N ranks train in the time of one process, by turns and by dividing each batch: they run after each other, in the
# same minute, on the stand-in, where a copy takes time and no CPU (turns_rank.cu). Medians of 3. Copies from and to the host run on all ranks: the
# last column is what they allow.
set -euo pipefail
build=$(cd "$1" && pwd)
program=$build/bench/turns_rank

# one COPY_US READS BATCHES; ranks N COPY_US READS BATCHES DIVIDES: milliseconds a batch.
one() { SOFTGPU_COPY_US=$1 LD_LIBRARY_PATH=$build/lib/softgpu "$program" --reads "$2" --batches "$3"; }
ranks() { SOFTGPU_COPY_US=$2 "$build/bin/ddprun" -q -n "$1" --device softgpu "$program" --reads "$3" --batches "$4" --divides "$5"; }

# median COLUMN FILE
median() { cut -d ' ' -f "$1" "$2" | sort -n | sed -n 2p; }

figures=$(mktemp)
trap 'rm -f "$figures"' EXIT
printf '%-8s %-22s %5s %10s %10s %8s %10s %8s %8s\n' 'copy us' 'in each batch' ranks 'one, ms' 'turns, ms' times 'divided' times 'at most'
for us in 2000 100; do
    batches=$((us == 2000 ? 91 : 431))
    for reads in 0 1; do
        what='nothing is read'
        [ "$reads" = 0 ] || what='the loss is copied'
        for n in 2 3; do
            for _ in 1 2 3; do
                alone=$(one "$us" "$reads" "$batches")
                turns=$(ranks "$n" "$us" "$reads" "$batches" 0)
                divided=$(ranks "$n" "$us" "$reads" "$batches" 1)
                awk -v a="$alone" -v t="$turns" -v d="$divided" 'BEGIN { print a, t, a / t, d, a / d }'
            done >"$figures"
            most=$(awk -v n="$n" -v r="$reads" 'BEGIN { print n * (13 + r) / (12 + n * (1 + r)) }')
            printf '%-8s %-22s %5s %10.2f %10.2f %8.2f %10.2f %8.2f %8.2f\n' "$us" "$what" "$n" "$(median 1 "$figures")" "$(median 2 "$figures")" \
                "$(median 3 "$figures")" "$(median 4 "$figures")" "$(median 5 "$figures")" "$most"
        done
    done
done
printf '%s processors, load %s\n' "$(nproc)" "$(cut -d ' ' -f 1 /proc/loadavg)"
