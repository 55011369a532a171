#!/usr/bin/env bash
# stacks.sh BUILD - stacks in a report name functions, inlined ones too, with file and line; a rank that a fault ends has one, and ends as
# it would without: signal, exit code, core file. A handler of the program's own wins, and a forked child is no rank.
source "$(dirname "$0")/lib.sh"
hangs=$build/tests/trainers/hangs
source=$(dirname "$0")/../trainers/hangs.cu

# train WAY OPTIONS...: two ranks, of which rank 1 goes wrong in that way.
train() {
    local way=$1
    shift
    run "$ddprun" -n 2 --bucket-mb 0.02 "$@" "$hangs" --how "$way"
}
# line_of TEXT: where it stands in the trainer.
line_of() {
    grep -n -m 1 -F -- "$1" "$source" | cut -d : -f 1
}
# shows NAME PATTERN...: lines below "its threads:", in this order; the thread that has crashed is the first.
shows() {
    local name=$1 text pattern
    shift
    text=$(sed -n '/^    its threads:/,$p' "$work/stderr")
    for pattern in "$@"; do
        if ! grep -Eq -- "$pattern" <<<"$text"; then
            not_ok "$name" "no line matches /$pattern/ in: $text"
            return
        fi
        text=$(sed -E "0,/${pattern//\//\\/}/d" <<<"$text")
    done
    ok "$name"
}

train falls
if grep -q 'ptrace is not permitted' "$work/stderr"; then
    skip "$(grep -m 1 'ptrace is not permitted' "$work/stderr")"
fi
check "a fault in a function that an inlined one calls: exit code" [ "$code" -eq 139 ]
shows "a fault in a function that an inlined one calls: functions, files and lines" \
    '^ +thread [0-9]+ \(hangs\) received SIGSEGV:' \
    "^ +[^ ]*fall[^ ]*\+0x[0-9a-f]+ \(hangs\+0x[0-9a-f]+\) at hangs\.cu:$(line_of '/* falls */')\$" \
    "^ +fall_inlined \(inlined\) at hangs\.cu:$(line_of '/* is called */')\$" \
    "^ +(go_wrong|train|main).* at hangs\.cu:[0-9]+\$"
check "the stack begins where the signal came, not in its handler" [ "$(grep -c 'crash\.c' "$work/stderr")" -eq 0 ]

train host --hang-timeout "$(patient 3)"
check "a hang: exit code" [ "$code" -eq 1 ]
shows "a hang: file and line of the program's own frame" "^ +.* at hangs\.cu:$(line_of 'pthread_join(thread, NULL);')\$"

train abort
check "abort(): exit code" [ "$code" -eq 134 ]
shows "abort(): its stack" 'received SIGABRT:' "at hangs\.cu:$(line_of 'abort();')\$"
check "abort(): the first line names the program's own frame, not one of libc's" \
    grep -qE "^ddprun: rank [01] was ended by SIGABRT .* at hangs\.cu:$(line_of 'abort();'), in " "$work/stderr"
check "abort(): _start is at no line of the program" bash -c "grep -q '_start' '$work/stderr' && ! grep -qE ' _start.* at [^ ]*\.cu:' '$work/stderr'"

train own
check "a handler of the program's own ends it" [ "$code" -eq 3 ]
check "a handler of the program's own: no signal" [ "$(grep -c 'received SIG' "$work/stderr")" -eq 0 ]

train child
succeeded "a forked child that falls"
check "a forked child that falls: by its signal" grep -q 'the child was ended by signal 11' "$work/stdout"
check "a forked child that falls: no stack" [ "$(grep -c 'received SIG' "$work/stderr")" -eq 0 ]

train traced
check "a rank that another process traces: exit code" [ "$code" -eq 139 ]
check "a rank that another process traces: the report says that there is no stack" \
    grep -Eq 'thread [0-9]+ \(hangs\): cannot be read|ptrace is not permitted' "$work/stderr"

run "$ddprun" -n 1 "$hangs" --how falls --rank 0
check "one rank: exit code" [ "$code" -eq 139 ]
shows "one rank: its stack" "fall[^ ]*\+0x[0-9a-f]+ \(hangs.* at hangs\.cu:$(line_of '/* falls */')\$"

if [ "$sanitized" -eq 0 ]; then
    train overflow
    check "a stack that is full: exit code" [ "$code" -eq 139 ]
    shows "a stack that is full: its stack" 'received SIGSEGV:' "overflow[^ ]*\+0x[0-9a-f]+ \(hangs.* at hangs\.cu:[0-9]+\$"

    pattern=$(cat /proc/sys/kernel/core_pattern)
    if [[ $pattern == [\|/]* ]]; then
        ok "a core file # not looked at: they go to $pattern"
    else
        (cd "$work" && ulimit -c unlimited && "$ddprun" -n 1 --failure-report - "$hangs" --how falls --rank 0 >out 2>&1)
        check "a core file" [ -n "$(find "$work" -maxdepth 1 -name 'core*')" ]
    fi
fi
finish
