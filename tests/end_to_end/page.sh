#!/usr/bin/env bash
# page.sh BUILD - the page of a run: `ddprun report` and --page. page.py holds it to what it must be and to --summary-json; browser.py looks
# at it in headless Chromium, where that is installed.
source "$(dirname "$0")/lib.sh"
export SOFTGPU_LINK=latency_us=300,gbytes_per_s=1
here=$(dirname "$0")
shape=(--layers 6 --width 64 --batch 64)
trace=$work/trace
page=$work/page.html
command -v python3 >/dev/null || skip "there is no python3 here, which looks at pages"

# looked NAME [SUMMARY]: at $page.
looked() { check "$1: the page is as it must be" python3 "$here/page.py" look "$page" "${@:2}"; }

works "four ranks: ends well" "$ddprun" -n 4 --trace "$trace" --summary-json "$work/summary" "$ladder" "${shape[@]}" --steps 60
works "four ranks: a page is made" "$ddprun" report "$trace" -o "$page"
check "... without a message" [ ! -s "$work/stderr" ]
looked "four ranks" "$work/summary"
check "percentiles and the curve are those of the trace" python3 "$here/page.py" agree "$page" "$trace"
check "only the user may read it" [ "$(stat -c %a "$page")" = 600 ]
check "... and it names the program" grep -q '<h1>ladder</h1>' "$page"
check "... with its arguments" grep -q "<p class='code'>$ladder --layers 6 --width 64 --batch 64 --steps 60</p>" "$page"
check "arguments are in a trace once, in the launcher's line" [ "$(grep -c '"arguments":' "$trace"/rank-0.jsonl)" -eq 1 ]
run "$ddprun" report "$trace" -o -
check "a page on standard output is the same" cmp "$work/stdout" "$page"
cp "$page" "$work/four.html"

# A job that leaves no trace in the folder does not add its summary to another's.
lines=$(wc -l <"$trace/rank-0.jsonl")
run "$ddprun" -n 2 --device softgpu -q --unannotated --trace "$trace" true
check "another job's trace gets no summary" [ "$(wc -l <"$trace/rank-0.jsonl")" -eq "$lines" ]

# At the end of a run; its own trace goes.
mkdir "$work/tmp"
works "--page: ends well" env -u XDG_RUNTIME_DIR TMPDIR="$work/tmp" "$ddprun" -n 2 --page "$page" --summary-json "$work/summary" "$ladder" "${shape[@]}" --steps 20
looked "--page" "$work/summary"
check "--page: its trace is removed" [ -z "$(ls -A "$work/tmp")" ]
works "--page and --trace: ends well" "$ddprun" -n 2 --page "$page" --trace "$work/kept" "$ladder" "${shape[@]}" --steps 20
check "--page and --trace: the trace stays" [ -s "$work/kept/rank-1.jsonl" ]
looked "--page and --trace"
works "a program without steps keeps its exit code" "$ddprun" -n 2 --device softgpu -q --unannotated --page "$work/none.html" true
check "... and has no page" bash -c "[ ! -e '$work/none.html' ] && grep -q 'there is no page: ' '$work/stderr'"

# A job that failed has one, too, also before steps are measured.
for step in 1 4 40; do
    run "$ddprun" -n 2 --page "$page" "$ladder" "${shape[@]}" --steps 60 --fault crash --fault-rank 1 --fault-step $step
    check "a job that failed in step $step keeps its exit code" [ "$code" -eq 139 ]
    [ $step -ne 40 ] || looked "a job that failed"
    check "a job that failed in step $step: who, where, and the steps of each rank" python3 "$here/page.py" failed "$page" 1 $((step - 1))
done
cp "$page" "$work/failed.html"

# Of all ranks alike one line is enough; tensors of one name and line have the number of the call.
sed -i '/"end":true/d' "$work/kept"/rank-*.jsonl
run "$ddprun" report "$work/kept" -o "$page"
check "no rank has an end: one line" [ "$(grep -c 'the traces of 2 of 2 ranks have no end' "$work/stderr")" -eq 1 ]
check "tensors of one name and line have the number of the call" grep -q ', call 6<' "$page"

# What is whole is shown, the rest is named, on the page too.
{ head -n 20 "$trace/rank-2.jsonl" && printf '{"step":'; } >"$work/half"
mv "$work/half" "$trace/rank-2.jsonl"
rm "$trace/rank-3.jsonl"
works "a file is cut and another missing: a page is made" "$ddprun" report "$trace" -o "$page"
looked "cut and missing"
for text in 'rank-2.jsonl: line [0-9]* is cut or is not JSON' '1 of 4 ranks have no trace of this job in the folder; the first is rank 3'; do
    check "... it says: $text" grep -q "$text" "$page"
    check "... and so does a line" grep -q "$text" "$work/stderr"
done
cp "$page" "$work/before.html"
sed -i '1s/"ddprun_trace":1/"ddprun_trace":9/' "$trace"/rank-*.jsonl
run "$ddprun" report "$trace" -o "$page"
check "another version: refused" [ "$code" -eq 1 ]
check "... by number" grep -q 'has version 9, and this ddprun reads version 1' "$work/stderr"
check "... and the old page stays" cmp "$page" "$work/before.html"

# Names are text, whatever they are.
python3 "$here/page.py" write "$work/hostile" hostile
works "hostile names: a page is made" "$ddprun" report "$work/hostile" -o "$page"
looked "hostile names"
check "... with the names as text" grep -q '&lt;/script&gt;&lt;script&gt;alert(1)&lt;/script&gt;' "$page"
check "... and as data" grep -q '"\\u003c\\/script>\\u003cscript>alert(1)\\u003c\\/script>' "$page"
cp "$page" "$work/hostile.html"
python3 "$here/page.py" known "$work/known"
works "a late rank: a page is made" "$ddprun" report "$work/known" -o "$page"
check "a late rank: the figures are those of the trace" python3 "$here/page.py" straggler "$page"
python3 "$here/page.py" known "$work/punctual" 0 0
works "ranks that come together: a page is made" "$ddprun" report "$work/punctual" -o "$work/punctual.html"
# advised NAME PATTERN SED: with another line in the trace of punctual ranks, the page advises what the pattern says.
advised() {
    rm -rf "$work/advised"
    cp -r "$work/punctual" "$work/advised"
    sed -i "$3" "$work"/advised/*
    run "$ddprun" report "$work/advised" -o "$work/advised.html"
    check "advice: $1" grep -q "$2" "$work/advised.html"
    check "... and for nothing else" bash -c "! grep -q '$2' '$work/punctual.html'"
}
given='1s/"world"/"bucket_bytes":4096,"world"/'
advised "buckets of a given size" 'What may help: leave --bucket-mb out' "$given"
advised "many bytes, which take longer" 'What may help: --compress' \
    '1s/$/\n{"all_reduce_ns":[[4096,10000],[1048576,20000]],"at_ns":1500}/; s/"elements": *4, *"bytes": *16/"elements":262144,"bytes":1048576/'
advised "a NaN is first" 'Find the cause of the NaN or infinite value first' '1s/$/\n{"summary":{"exit_code":0,"nonfinite":{"text":"w has NaN"}},"at_ns":1}/'
sed -i "$given" "$work"/known/*
run "$ddprun" report "$work/known" -o "$work/late.html"
check "buckets of a given size, and a straggler: the straggler alone is named" bash -c "! grep -q 'leave --bucket-mb out' '$work/late.html'"
python3 "$here/page.py" known "$work/outlier" 500000
run "$ddprun" report "$work/outlier" -o "$page"
check "a long step is named, where the mean is far above the median" python3 "$here/page.py" long "$page"
python3 "$here/page.py" grouped "$work/grouped"
works "two groups: a page is made" "$ddprun" report "$work/grouped" -o "$page"
looked "two groups"
check "two groups: the figures are those of the trace" python3 "$here/page.py" groups "$page"
check "two groups: one step has the other group's, too" [ "$(grep -c '<td class=.text.>bucket 0[.]0</td>' "$page")" -eq 2 ]
works "a program with two groups: ends well" "$ddprun" -n 2 --page "$page" --summary-json "$work/summary" "$build/tests/matrix/gan_shared" --rhythm joint --streams 3 --steps 40
looked "a program with two groups" "$work/summary"
cp "$page" "$work/two.html"
check "... and both groups' buckets" bash -c "grep -q '<h3>Buckets of group 0' '$page' && grep -q '<h3>Buckets of group 1' '$page'"
python3 "$here/page.py" write "$work/long" long
works "8 ranks, 10,000 steps: a page is made" "$ddprun" report "$work/long" -o "$page"
looked "8 ranks, 10,000 steps"

looked_at "$work"/{four,failed,hostile}.html

# refused NAME CODE MESSAGE WORDS...
refused() { fails "$1" "$2" "$3" "$ddprun" "${@:4}"; }
works "two runs are compared" "$ddprun" report "$work/known" "$work/grouped"
check "... figure by figure" bash -c "grep -Eq '^ranks +4 +2 +-50.0 %$' '$work/stdout' && grep -Eq '^exposed communication per step +500.µs +800.µs +\\+60.0 %$' '$work/stdout'"
# A figure that one run does not know moves no other one to its row.
works "a trace and a page are compared" "$ddprun" report "$work/known" "$work/two.html"
check "... figure by figure, also of one that the trace does not know" bash -c \
    "grep -Eq '^ranks +4 +2 +-50.0 %$' '$work/stdout' && grep -Eq '^wall time +- +[0-9.]+.(s|ms) +-$' '$work/stdout' && grep -Eq '^p50 +[0-9.]+.(µs|ms) +[0-9.]+.(µs|ms) +[-+]' '$work/stdout'"
run "$ddprun" report "$work/two.html" "$work/known"
check "... and of one that the second does not know" grep -qE "^wall time .* - +-$" "$work/stdout"
sed 's/"ddprun_report":1/"ddprun_report":9/' "$work/two.html" >"$work/nine.html"
mkdir "$work/empty"
refused "no folder" 2 'no folder given, after report' report
refused "no file" 2 'no output file for the page' report "$work/kept"
refused "three folders" 2 'report takes one folder' report a b c
refused "a run that is not there" 2 'cannot read the trace in' report "$work/known" "$work/none"
refused "a page of another version" 1 'nine.html has no report of version 1; --page FILE and ddprun report' report "$work/nine.html" "$work/known"
refused "a file that is no page" 1 'summary has no report of version 1' report "$work/known" "$work/summary"
refused "an unknown option" 2 'unknown option --what of report' report --what
refused "a folder that is not there" 2 'cannot read the trace in' report "$work/none" -o "$work/t"
refused "an empty folder" 1 'no trace in' report "$work/empty" -o "$work/t"
refused "a file in no folder" 2 'cannot write to' report "$work/kept" -o "$work/none/t"
refused "--page in no folder, before anything starts" 2 'cannot write to .*, in --page' --page "$work/none/t" "$ladder"
refused "--page and --summary-json in one file" 2 '--page and --summary-json name one file, .*/t; give each a file of its own' --page "$work/t" --summary-json "$work/t" "$ladder"
refused "--metrics and --failure-report in one file" 2 '--metrics and --failure-report name one file' --metrics "$work/t" --failure-report "$work/t" "$ladder"
works "several outputs to a device" "$ddprun" -n 1 -q --device softgpu --page /dev/null --summary-json /dev/null "$ladder" "${shape[@]}" --steps 3
refused "check --page" 2 'page and check contradict each other' --page "$work/t" check "$ladder"
works "--help" "$ddprun" report --help
finish
