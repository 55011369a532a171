#!/usr/bin/env bash
# latecomers.sh BUILD - the page's table of buckets tells the network's time from the wait for a rank that comes late: a trace is written in
# which one rank is 70 ms late, and each figure is held against its events (latecomers.py); so are the bar of the whole run and the worst waits.
source "$(dirname "$0")/../../end_to_end/lib.sh"
command -v python3 >/dev/null || skip "there is no python3 here, which writes the trace"
program=$(dirname "$0")/latecomers.py
script=$(dirname "$0")/../../../tools/page/page.js
node=$(command -v node)

# compared NAME LACKING: `LACKING` is a rank whose file the trace lacks; or signs, of evaluations, checkpoints and what comes before backward;
# or none.
compared() {
    rm -rf "$work/trace"
    mkdir "$work/trace"
    python3 "$program" write "$work/trace" "$2"
    run "$ddprun" report "$work/trace" -o "$work/page.html"
    succeeded "$1: there is a page"
    check "$1: its figures are those of the events" python3 "$program" compare "$work/page.html" "$2"
    [ -z "$node" ] || check "$1: its bars are all of what they are parts of" "$node" "$(dirname "$0")/drawn.js" "$script" "$work/page.html"
}
compared "a rank that is late" none
compared "a rank whose times are not there" 1
compared "a trace of an older version" signs
finish
