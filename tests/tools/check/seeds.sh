#!/usr/bin/env bash
# seeds.sh BUILD [ROW...] - shuffles that are seeded by a clock or by random bytes are found, whatever the call, and the place that
# reads them is named; programs that read them for something else, or agree on a seed, are equal. A ROW is its number.
source "$(dirname "$0")/../../end_to_end/lib.sh"
source "$(dirname "$0")/lib.sh"
wanted=("${@:2}")

# SEED | USE | ranks | exit code | cause | what the verdict says
rows=()
for way in time gettimeofday clock_gettime timespec_get; do
    rows+=("$way | shuffle | 2 | 1 | seeded | from the clock.*read by \`$way\` \(seeds\.cu:[0-9 a-z.:]+\)$")
done
rows+=(
    "system_clock | shuffle | 3 | 1 | seeded | from the clock.*read by \`std::chrono::system_clock::now\` \(seeds\.cu:[0-9 a-z.:]+\)$"
    "random_device | shuffle | 2 | 1 | seeded | from random bytes.*read by \`std::random_device\` \((seeds\.cu|random\.h):[0-9 a-z.:]+\)$"
    "stream | shuffle | 2 | 1 | seeded | from random bytes.*read by \`/dev/urandom\` \(seeds\.cu:[0-9 a-z.:]+\)$"
    "file | shuffle | 2 | 1 | seeded | from random bytes.*read by \`/dev/urandom\` \(seeds\.cu:[0-9 a-z.:]+\)$"
    "descriptor | shuffle | 2 | 1 | seeded | from random bytes.*read by \`/dev/random\` \(seeds\.cu:[0-9 a-z.:]+\)$"
    "getrandom | shuffle | 4 | 1 | seeded | from random bytes.*read by \`getrandom\`"
    "getentropy | shuffle | 2 | 1 | seeded | from random bytes.*read by \`getentropy\`"
    "random_device | epoch | 2 | 1 | seeded | in step 11 .*from random bytes, read by \`std::random_device\`"
    # Once there are steps the clock runs, and one rank does not repeat itself.
    "system_clock | epoch | 2 | 3 | not_repeatable | the clock: read by \`std::chrono::system_clock::now\`"
    "random_device | items | 2 | 3 | batch_dependent | are not its share of those that one process copies"
    "constant | shuffle | 2 | 0 | null | ^equal"
    "constant | nothing | 2 | 0 | null | ^equal"
)
for use in start rank0 lowest highest log; do
    for way in time random_device; do rows+=("$way | $use | 3 | 0 | null | ^equal"); done
done
rows+=("constant | wait | 2 | 0 | null | ^equal")

for ((row = 0; row < ${#rows[@]}; row++)); do
    if [ "${#wanted[@]}" -eq 0 ]; then chosen "$row" 5; else [[ " ${wanted[*]} " == *" $row "* ]]; fi || continue
    IFS='|' read -r way use ranks expected cause_wanted says <<<"${rows[row]// | /|}"
    mkdir -p "$work/logs"
    checked "$ranks" "" "$seeds" --seed "$way" --use "$use" --folder "$work/logs"
    why=$(why_not "$expected" "$cause_wanted" -)
    grep -Eq -- "$says" "$work/stdout" || why="${why:-it says $(grep -E '^(equal|different|not comparable)' "$work/stdout")}"
    if [ -z "$why" ]; then
        ok "$way, for $use: $code $cause"
    else
        not_ok "$way, for $use" "$why; again: bash tests/tools/check/seeds.sh BUILD $row"
    fi
done
[ "${#wanted[@]}" -gt 0 ] || check "what the program writes stays in the check" [ -z "$(ls "$work/logs")" ]

# A seed that a script takes from the clock. It prints no line of its source: the program that reads it is named.
if [ "${#wanted[@]}" -eq 0 ]; then
    printf '#!/bin/sh\nexec "%s" --seed "$(date +%%s)" --use "$1"\n' "$seeds" >"$work/train.sh"
    chmod +x "$work/train.sh"
    checked 2 "--device softgpu" "$work/train.sh" shuffle
    check "a script's seed" [ -z "$(why_not 1 seeded -)" ]
    check "a script's seed is read by date" grep -Eq 'read by .*\(date\+0x' "$work/stdout"
    checked 2 "--device softgpu" "$work/train.sh" nothing
    check "a script's seed that is not used" [ -z "$(why_not 0 null -)" ]
fi

# A reference has the date of the runs that wrote it, and the second command makes the runs with other dates.
if [ "${#wanted[@]}" -eq 0 ]; then
    works "a reference is written" "$ddprun" -q check -n 1 --reference "$work/reference" "$seeds" --seed system_clock --use shuffle
    checked 2 "--reference $work/reference" "$seeds" --seed system_clock --use shuffle
    check "two commands find a shuffle that is seeded by the clock" [ -z "$(why_not 1 seeded -)" ]
fi
finish
