# shellcheck shell=bash disable=SC2034,SC2154 # judge.sh sources it
# seeds.sh - folders of logs, seeds of a script, and of two commands, beside seeds.txt.
prepare() { mkdir "$work/logs"; }

after() {
    check "what the program writes stays in the check" [ -z "$(ls "$work/logs")" ]

    # A seed that a script takes from the clock. It prints no line of its source: the program that reads it is named.
    printf '#!/bin/sh\nexec "%s" --seed "$(date +%%s)" --use "$1"\n' "$seeds" >"$work/train.sh"
    chmod +x "$work/train.sh"
    checked 2 "--device softgpu" "$work/train.sh" shuffle
    check "a script's seed" [ -z "$(why_not 1 seeded -)" ]
    check "a script's seed is read by date" grep -Eq 'read by .*\(date\+0x' "$work/stdout"
    checked 2 "--device softgpu" "$work/train.sh" nothing
    check "a script's seed that is not used" [ -z "$(why_not 0 null -)" ]

    # A reference has the date of the runs that wrote it, and the second command makes the runs with other dates.
    works "a reference is written" "$ddprun" -q check -n 1 --reference "$work/reference" "$seeds" --seed system_clock --use shuffle
    checked 2 "--reference $work/reference" "$seeds" --seed system_clock --use shuffle
    check "two commands find a shuffle that is seeded by the clock" [ -z "$(why_not 1 seeded -)" ]
}
