#!/usr/bin/env bash
# plan_auto.sh BUILD - `ddprun --plan auto`: the first start scouts, proves, and keeps the plan; the second does neither; other arguments,
# another data file, another model and another build are scouted anew. Kept plans that are damaged, or of another
# version, are made anew; a folder or a file that others could have written is an error. It asks at a terminal, and is refused where
# there is none. What cannot take turns is refused by name. On whatever way, the bits are those of `--plan FILE`.
source "$(dirname "$0")/../../end_to_end/lib.sh"
watch_leftovers
plans=$XDG_CACHE_HOME/ddprun/plans
head -n 1440 "$data" >"$work/digits.csv"
cd "$work" || exit 1
cp "$build/samples/digits_plain" trainer

# auto ARGS...: the options, the program and its arguments. What it says of scouting is $made.
auto() {
    run "$ddprun" -n 2 --device softgpu --share-gpu --timeout 60 --plan auto "$@"
    made=$(sed -nE 's/^ddprun: plan: .* is scouted, .*/scouted/p' "$work/stderr" | tr '\n' ' ')
}

# ends NAME CODE PATTERN MADE: how it ended, and what it did before.
ends() {
    check "$1: exit code $2, not $code" test "$code" -eq "$2"
    check "$1: says so" grep -Eq -- "$3" "$work/stderr"
    check "$1: did '$4' before, not '${made% }'" test "${made% }" = "$4"
    check "$1: leaves nothing" test -z "$(ls -A "$TMPDIR")"
    check "$1: leaves no process" within 5 none_left
}
kept() { find "$plans" -name '*.json' | wc -l; }
digits=(./trainer --data digits.csv --batch 24 --quiet)
starts() { # NAME CODE PATTERN MADE: digits, once more
    auto --yes --slow "${digits[@]}" --steps 60
    ends "$@"
}

# ---- the first start, the second, others ----
run "$ddprun" -q --device softgpu scout --prove --json plan.json "${digits[@]}" --steps 120
run "$ddprun" -n 2 --device softgpu --share-gpu --timeout 60 --plan plan.json "${digits[@]}" --steps 120 --save by_file.par
check "by a file: trained" test "$code" -eq 0
auto --yes --slow "${digits[@]}" --steps 120 --save auto.par
ends "first start" 0 'bitwise identical' scouted
check "the bits of --plan FILE" cmp auto.par by_file.par
check "one plan is kept" test "$(kept)" -eq 1
check "mode 0700 and 0600" test "$(stat -c %a "$plans" "$plans"/*.json | tr '\n' ' ')" = '700 600 '
for text in 'averaged over 2 ranks, before .* at .*:[0-9]+' 'gradient +a[0-9]+\[[0-9]+:[0-9]+\], .* allocated at .*:[0-9]+' \
    'compared on all ranks; all bits must be the same' 'parameter +a[0-9]+' 'proof .d.: passed' '2 ranks train 2 whole batches of the unchanged program at once, which make one update' \
    'the program prints the loss of each batch, from the rank' \
    'forecast: 2 ranks take [0-9.e+]+ ms for 2 batches, one process [0-9.e+]+ ms: [0-9.]+ times as fast' 'not proved: that later batches' 'state bitwise identical on all ranks' \
    '2 ranks took [0-9.e+]+ ms for 2 batches \(forecast: [0-9.e+]+ ms\), [0-9.]+ times as fast'; do
    check "it is said: $text" grep -Eq "$text" "$work/stderr"
done
sed -nE 's/.*ranks t[ao]o?ke? .* ([0-9.]+) times as fast.*/\1/p' "$work/stderr" >speeds
check "an impossible speed-up is said to be one" test "$(awk '$1 > 2' speeds | wc -l)" -eq "$(grep -c 'this is impossible' "$work/stderr")"
rm auto.par
auto --yes --slow "${digits[@]}" --steps 120 --save auto.par
ends "second start" 0 'bitwise identical' ''
check "second start: the same bits" cmp auto.par by_file.par
run "$ddprun" -n 2 --device softgpu --share-gpu --timeout 60 --plan "$(echo "$plans"/*.json)" "${digits[@]}" --steps 120 --save kept.par
check "a kept plan is a plan of --plan FILE" cmp kept.par by_file.par
starts "other arguments" 0 'bitwise identical' scouted
check "they have a plan of their own" test "$(kept)" -eq 2
starts "the same again" 0 'bitwise identical' ''
SOFTGPU_COPY_US=800 auto -q --yes --bucket-mb 1 "${digits[@]}" --steps 60
ends "other options have a plan of their own, and -q is short" 0 'plan: 2 ranks took' scouted
check "... beside the others" test "$(kept)" -eq 3
process=$(sed -nE 's/.*plan: 2 ranks took ([0-9.]+) ms .* ([0-9.]+) times as fast .*/\1 \2/p' "$work/stderr" | awk '{ print $1 * $2 }')
check "one process takes at least 2.7 ms of its 3.2 ms of copies for two batches: $process" awk "BEGIN { exit !($process >= 2.7) }"
check "-q: no preview" test -z "$(grep averaged "$work/stderr")"
a_host_far_ahead() {
    # A host that waits for nothing is far ahead of its device: a batch has two copies there, of 2 ms each.
    SOFTGPU_COPY_US=2000 auto --yes --slow "$build/tests/tools/scout/periods" copied
    ends "a host that waits for nothing" 0 'bitwise identical' scouted
    batch=$(sed -nE 's/.* take ([0-9.e+]+) ms for 2 batches, one process ([0-9.e+]+) ms: .*/\1 \2/p' "$work/stderr")
    check "it takes what its device takes: $batch" awk "BEGIN { split(\"$batch\", ms, \" \"); exit !(ms[1] >= 3.9 && ms[2] >= 7.9) }"
}
slower_than_one_process() {
    # The kept plan has the ratio; its ranks are slower by far over such a link, and so it is refused at each start.
    export SOFTGPU_LINK=latency_us=150000,gbytes_per_s=1
    run "$ddprun" -n 2 --device softgpu --share-gpu --timeout 60 --plan auto --yes --bucket-mb 2 "${digits[@]}" --steps 60
    made=
    ends "slower than one process, unasked" 2 '2 ranks are slower than one process: 0.[0-9]+ to 0.[0-9]+ times as fast.*; --slow trains all the same' ''
    unset SOFTGPU_LINK
    run "$ddprun" -n 2 --device softgpu --share-gpu --timeout 60 --plan auto --yes --bucket-mb 2 "${digits[@]}" --steps 60
    ends "... once more" 2 '2 ranks are slower than one process' ''
    auto --yes --slow --bucket-mb 2 "${digits[@]}" --steps 60
    ends "... with --slow" 0 'bitwise identical' ''
}
touch -d '2001-01-01' digits.csv
starts "another data file, an argument" 0 'is outdated: the program, a file that it reads, or ddprun has changed' scouted
data_that_no_argument_names() {
    mkdir -p samples/data # where chargpt looks for its data
    head -c 200000 "$(dirname "$data")/shakespeare.txt" >samples/data/shakespeare.txt
    chargpt=("$build/samples/chargpt_plain" --layers 1 --heads 2 --context 16 --batch 4 --steps 60)
    auto --yes --slow "${chargpt[@]}" --width 16
    ends "chargpt" 0 'bitwise identical' scouted
    touch -d '2001-01-01' samples/data/shakespeare.txt
    auto --yes --slow "${chargpt[@]}" --width 16
    ends "another data file, which no argument names" 0 'is outdated: the program, a file that it reads, or ddprun has changed' scouted
    auto --yes --slow "${chargpt[@]}" --width 32
    ends "another model" 0 'bitwise identical' scouted
}
for each in a_host_far_ahead slower_than_one_process data_that_no_argument_names; do
    in_turn 3 && $each
done
objcopy --remove-section .note.gnu.build-id trainer bare 2>/dev/null && cp bare trainer
cmp -s bare trainer && auto --yes --slow "${digits[@]}" --steps 60
ends "another build" 0 'is outdated: the program, a file that it reads, or ddprun has changed' scouted

# ---- what is kept ----
for_each_plan() { for plan in "$plans"/*.json; do "$@" "$plan"; done; }
cut_short() { truncate -s 2000 "$1"; }
damage_all() { # HOW
    case $1 in
    cut) for_each_plan cut_short ;;
    changed) for_each_plan sed -i 's/"made_by":"turn"/"made_by":"last"/' ;;
    'of another version') for_each_plan sed -i 's/"cache":{"subject":{"version":"[0-9]*/"cache":{"subject":{"version":"0/' ;;
    esac
}
while IFS='|' read -r how pattern; do
    in_turn 3 || continue
    damage_all "$how"
    starts "plans: $how" 0 "$pattern" scouted
done <<'END'
cut|the kept plan .* is damaged; it is removed
changed|the kept plan .* is damaged; it is removed
of another version|is outdated: .* ddprun has changed
END
for i in $(seq 300); do echo {} >"$plans/old-$i.json"; done
touch -d '2001-01-01' "$plans"/old-*.json
before=$(kept)
rm -f "$(ls -t "$plans"/*.json | head -n 1)" # the next run makes a plan
auto --yes --slow "${digits[@]}" --steps 60
check "a plan that is made takes the place of the oldest of more than 256" test "$(kept)" -eq $((before - 1))
rm "$plans"/old-*.json
refused() { # NAME PATTERN
    starts "$1" 2 "$2" ''
    check "$1: one line" test "$(wc -l <"$work/stderr")" -eq 1
}
foreign='belongs to another user, is a link, or others may write to it'
for_each_plan chmod 666
refused "a plan that others may write to" "$foreign"
for_each_plan chmod 600
chmod 777 "$plans"
refused "a folder that others may write to" "$foreign"
chmod 700 "$plans"
if [ "$(id -u)" -eq 0 ]; then
    chown 1 "$plans"
    refused "another user's folder" "$foreign"
    chown 0 "$plans"
    for_each_plan chown 1
    refused "another user's plan" "$foreign"
fi
mv "$plans" elsewhere
ln -s "$work/elsewhere" "$plans"
refused "a link to a folder" "$foreign"
rm "$plans"
(
    export XDG_CACHE_HOME=$work/digits.csv
    refused "a folder that cannot be made" 'cannot make the folder .*, for plans of --plan auto'
    exit $((failures > 0))
) || not_ok "a folder that cannot be made"

# ---- a question ----
auto "${digits[@]}" --steps 60
ends "no terminal" 2 'there is no terminal to ask at; add --yes' ''
check "no terminal: one line" test "$(wc -l <"$work/stderr")" -eq 1
cat >terminal.py <<'END'
import os, pty, sys
pid, terminal = pty.fork()
if pid == 0:
    os.execvp(sys.argv[2], sys.argv[2:])
seen, answered = b"", False
while True:
    try:
        got = os.read(terminal, 4096)
    except OSError:
        break
    if not got:
        break
    seen += got
    if not answered and b"[y/N] " in seen:
        answered = True
        os.write(terminal, sys.argv[1].encode() + b"\n")
sys.stderr.buffer.write(seen.replace(b"\r\n", b"\n"))
sys.exit(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
END
on_terminal() { # ANSWER
    run python3 -IS terminal.py "$1" "$ddprun" -n 2 --device softgpu --share-gpu --timeout 60 --progress off --plan auto "${digits[@]}" --steps 60
    made=
}
on_terminal y
ends "yes" 0 'train like this' ''
check "yes: trained" grep -q 'bitwise identical' "$work/stderr"
for answer in n ''; do
    on_terminal "$answer"
    ends "answer '$answer'" 1 'nothing is started' ''
done

statistics_of_batches() {
    auto --yes --slow "$build/tests/tools/scout/habits" batch-norm
    ends "batch-norm" 0 'bitwise identical' scouted
    check "batch-norm: names the kernel" grep -q 'before adam at habits.cu:[0-9]' "$work/stderr"
    check "batch-norm: cuts the longest list" grep -q 'and [0-9]* more, .* in all' "$work/stderr"
    check "batch-norm: names what ranks average besides" test -n "$(grep -A 1 'statistics of batches, averaged over the ranks' "$work/stderr" | grep ' state  *a')"
}
# ---- what cannot take turns ----
for plan in auto plan.json; do
    run "$ddprun" -n 1 --device softgpu --plan "$plan" --yes "${digits[@]}" --steps 60
    made=
    ends "one rank, --plan $plan" 2 '--plan is for two ranks or more, and this job has one' ''
done
several_groups() {
    auto --by gradients --yes "$build/tests/matrix/gan_shared"
    ends "several groups, by gradients" 1 'gradients are averaged in 2 places' 'scouted'
    auto --yes --slow "$build/tests/matrix/gan_shared"
    ends "several groups" 0 'the ranks average state and not gradients: .*gradients are averaged in 2 places' scouted
}
for each in statistics_of_batches several_groups; do
    in_turn 2 && $each
done
before=$(kept)
auto --yes --slow "$build/tests/trainers/ladder" --steps 3
check "a program that is too short: refused" test "$code" -eq 1
check "no plan of those is kept" test "$(kept)" -eq "$before"
finish
