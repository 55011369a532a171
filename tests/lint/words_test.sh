#!/usr/bin/env bash
# words_test.sh - words.sh finds each riddle that is planted into a message, also across two literals, or into a document; it is silent
# about the same words in comments, in plain messages, and where "behind" is a place. Called by tests/run.sh.
set -euo pipefail
source "$(dirname "$0")/planted/lib.sh"
cd "$work"
mkdir -p .ci base bucketing cmake comm docs interpose launcher samples softgpu tests tools
touch CMakeLists.txt CMakePresets.json README.md CONTRIBUTING.md

# expect PATTERN WHAT: words.sh says a line that matches PATTERN, or passes if it is empty.
expect() {
    finds "$1" "$2" env "WORDS_ROOT=$work" WORDS_STRINGS=1 bash "$lint/words.sh" build
}

message() {
    printf '/* A comment with a " in it: ranks by turns, of which one is none. */\nconst char c = %s, *text = %s;\n' "'\"'" "$1" >launcher/code.c
}

message '"ranks wait after step %d; the object is behind the allocation; \"quoted\""'
expect '' 'a plain message'
while IFS= read -r riddle; do
    message "\"$riddle\""
    expect '^launcher/code.c: ' "a message: $riddle"
    message "\"${riddle%% *} \" /* and a comment */
    \"${riddle#* }\""
    [ "${riddle%% *}" = "$riddle" ] || expect '^\^ a riddle: ' "a message in two literals: $riddle"
done <<'END'
a trial begins behind a step of the plan
rank 3 waits behind step %d
cores of its own, which nothing does here
memory that is annotated as nothing
the rank runs still, or was killed
3 steps, of which one is averaged
ranks compute batches by turns
a job of one rank has none, nor has one that ended
of what it waits, the mean
rank 0 goes on alone
make the plan anew: ddprun scout
the type of a1 cannot be told
its results are not in proportion to the gradients
memory that must be alike on all ranks
memory 2 is called a sum, and each step adds to it
cannot read what was recorded
its last lines, and what it did last
the type of the gradient, as DDP_TYPE_OF has it
two runs of one rank differ as much: as its floor
each rank prints figures of its share
up to 64 ranks are worth it
kernels run 2 ms longer per step while collectives run
bucket 0 with it had been averaged
END
message '"plain"'
printf 'Averages travel behind each step.\n' >docs/page.md
expect '^docs/page.md:1:' 'a document'
printf 'The object lies behind the allocation. Batches are computed by turns.\n' >docs/page.md
expect '' 'a place in a document'
: >launcher/code.c
expect '^only 0 strings' 'no string'
finish 'each riddle is found, and no plain message'
