#!/usr/bin/env bash
# input.sh BUILD - what `ddprun check` does with what is wrong: each bad option, program or file gets one line on stderr and the exit code
# that the help names, no file of the user's is replaced or half-written, and nothing is left in TMPDIR. And what its options promise:
# a reference in two commands, files that are kept, a verdict as JSON. options.txt has the others.
source "$(dirname "$0")/../../end_to_end/lib.sh"
source "$(dirname "$0")/lib.sh"
user=$work/user # where the user is
export TMPDIR=$work/tmp
mkdir "$TMPDIR" "$user"
cd "$user" || exit 1
right=("$rows" report --steps 12)
quick=2
[ "$sanitized" -eq 0 ] || quick=15

# is_clean NAME: no folder of ddprun's is left, and no file that is not whole.
is_clean() {
    local left
    left=$(find "$TMPDIR" -mindepth 1 && find "$user" -name '*.new')
    if [ -z "$left" ]; then return 0; fi
    not_ok "$1" "left behind: $(head -n 3 <<<"$left" | tr '\n' ' ')"
    rm -rf "${TMPDIR:?}"/* "$user"/*.new
    return 1
}

# refused NAME CODE PATTERN WORDS...: `ddprun -q WORDS...` ends with CODE and one line that matches, prints no verdict, leaves nothing.
refused() {
    run "$ddprun" -q "${@:4}"
    is_clean "$1" || return
    if [ -s "$work/stdout" ]; then
        not_ok "$1" "it prints: $(head -n 1 "$work/stdout")"
    else
        failed_with "$1" "$2" "$3"
    fi
}

# judged NAME CODE CAUSES TENSOR RANKS OPTIONS PROGRAM...: checked() of lib.sh has this verdict, and leaves nothing.
judged() {
    local name=$1 why
    checked "$5" "$6" "${@:7}"
    is_clean "$name" || return
    why=$(why_not "$2" "$3" "$4")
    if [ -z "$why" ]; then ok "$name"; else not_ok "$name" "$why"; fi
}

# script NAME LINE...: a program of the user's.
script() {
    printf '#!/bin/sh\n' >"$1"
    printf '%s\n' "${@:2}" >>"$1"
    chmod +x "$1"
}

# ---- an installation without a part ----
part=$work/part
mkdir -p "$part/bin" "$part/lib"
cp "$ddprun" "$part/bin/"
ln -s "$build"/lib/{libddprun.so,libddprun-engine.so,libddprun-files.so,softgpu} "$part/lib/"
whole=$ddprun ddprun=$part/bin/ddprun
refused "no engine of its own" 127 "the engine that this run loads is missing: .*libddprun-check.so: .*build or install ddprun again" check "${right[@]}"
rm "$part/lib/libddprun-files.so"
refused "no library that keeps files apart" 127 "the library that keeps a check's files apart is missing: .*build or install ddprun again" check "${right[@]}"
ddprun=$whole

# ---- options ----
refused "no program" 2 "no program given, after check" check
refused "options and no program" 2 "no program given, after check" check -n 2 --steps 3
refused "--steps 0" 2 "'0' is not a number of steps" check --steps 0 "${right[@]}"
refused "--steps x" 2 "'x' is not a number of steps" check --steps x "${right[@]}"
refused "--tolerance 2" 2 "'2' is not a relative difference from 0 to 1, in --tolerance" check --tolerance 2 "${right[@]}"
refused "--alone with a quote that is not closed" 2 "close each quote" check --alone "a 'b" "${right[@]}"
refused "-n 1 without --reference" 2 "-n 1 compares one process with itself" check -n 1 "${right[@]}"
for option in --steps=3 --alone=x --reference=x --free --tolerance=0.1 --json=x; do
    refused "$option without check" 2 "${option%%=*} is an option of ddprun check" "$option" "${right[@]}"
done
refused "--max-restarts" 2 "--max-restarts and check contradict each other" --max-restarts 1 check "${right[@]}"
refused "--per-rank without a plan to make" 2 "--per-rank is for ddprun --plan auto, and ddprun check makes no plan" check --per-rank a1 "${right[@]}"
refused "--dry-run" 2 "--dry-run and check contradict each other" --dry-run check "${right[@]}"
refused "--trace" 2 "--trace and check contradict each other" check --trace traces "${right[@]}"
refused "no such program" 127 "cannot start ./nothing" check ./nothing
printf 'mine\n' >mine
refused "--json where nothing can be written" 2 "cannot write to ./no/folder/x, in --json" check --json ./no/folder/x "${right[@]}"
fails "--json without room" 2 "cannot write /dev/full, in --json: No space left" "$ddprun" -q check --json /dev/full "${right[@]}"
check "--json without room: the verdict is printed" grep -q '^equal: ' "$work/stdout"
run "$ddprun" -q check "${right[@]}"
check "no other file than mine is there" [ "$(ls)" = mine ]

# ---- programs that cannot be checked ----
run "$ddprun" -q check --steps 5 "$rows" --steps 2
check "fewer steps than are asked for: those that there are" grep -q '^equal: .*in 2 steps ' "$work/stdout"
check "it is reported" grep -q -- '--steps asks for 5 steps, and the program ends after 2: these are compared$' "$work/stderr"
refused "no DDP_STEP, and an end" 2 "ended without a DDP_STEP" check "$rows" --mistake step_missing
refused "no DDP_STEP, and no end" 2 "has not reached a DDP_STEP in $quick s" check --timeout "$quick" \
    "$rows" --steps 10000000 --mistake step_missing
refused "wrong options of the program" 2 "failed by itself, with exit code 2" check "$rows" --no-such-option
for code_of_program in 1 3 7; do
    script fails "exit $code_of_program"
    ends=$((code_of_program == 7 ? 7 : 4)) # check's own 1 and 3 mean something else
    refused "a program that ends with $code_of_program" "$ends" "failed by itself, with exit code $code_of_program, in the run of one process" \
        check --device softgpu ./fails
done
script fails 'kill -SEGV $$'
refused "a program that SIGSEGV ends" 139 "failed by itself.*SIGSEGV" check --device softgpu ./fails
script fails '[ "$WORLD_SIZE" = 1 ] || { echo "too many of us" >&2; exit 5; }' "exec '$rows'"
refused "a program that fails on two ranks alone" 5 "failed by itself, with exit code 5, in the run of 2 ranks" check --device softgpu ./fails
check "its last words are shown" grep -qx "too many of us" "$work/stderr"
script fails '[ "$WORLD_SIZE" = 1 ] || kill -SEGV $$' "exec '$rows'"
refused "a program that SIGSEGV ends on two ranks alone" 139 "failed by itself.*in the run of 2 ranks.*SIGSEGV" check --device softgpu ./fails
script fails '[ "$WORLD_SIZE" = 1 ] || set -- --steps 2' "exec '$rows' \"\$@\""
judged "fewer steps on two ranks alone" 1 stopped - 2 "--device softgpu" ./fails
script fails '[ "$RANK$WORLD_SIZE" != 12 ] || exit 0' "exec '$rows' report --steps 12"
judged "a rank that ends before its first call" 1 stopped - 2 "--device softgpu" ./fails
check "it is named" grep -q '^different: ddprun ended the run of 2 ranks: rank 1 ended without taking part' "$work/stdout"
rm fails

# ---- how far it is ----
script slow "'$rows' report --steps 5" "sleep 0.5"
begun=$SECONDS
works "progress: elsewhere than on a terminal" "$ddprun" check --device softgpu ./slow
check "progress: in a pipe at most a line a minute" test "$(grep -c 'check: run ., ' "$work/stderr")" -le $(((SECONDS - begun) / 60))
check "progress: in a pipe no line is written over" test "$(grep -c $'\r' "$work/stderr")" -eq 0
terminal=$(type -P script) # not the function above
if [ -n "$terminal" ]; then
    run env TERM=xterm "$terminal" -qec "stty cols 60; '$ddprun' check --device softgpu ./slow" /dev/null
    progress=$(tr '\r' '\n' <"$work/stdout")
    check "progress: the first run has no number of steps yet" grep -qE 'ddprun: check: run 1 of 2, step 5, [0-9]+ s: one process$' <<<"$progress"
    check "progress: the run, the step, the time" grep -qE 'ddprun: check: run 2 of 2, step 5 of 5, [0-9]+ s: 2 ranks$' <<<"$progress"
    check "progress: a line has room in its row" test "$(grep 'check: run ., ' <<<"$progress" | tr -d '\033' | sed 's/^\[K//' | wc -L)" -le 59
    check "progress: the verdict follows" grep -q 'equal.*: 2 ranks compute what one process computes' <<<"$progress"
    run env TERM=xterm "$terminal" -qec "'$ddprun' -q check --device softgpu ./slow" /dev/null
    check "progress: none with --quiet" test "$(grep -c 'check: run' "$work/stdout")" -eq 0
else
    echo "skip - progress on a terminal (no script(1))"
fi
rm slow

# ---- --reference ----
before=$(sha256sum mine)
refused "-n 1 --reference of a file of another kind" 2 "mine, in --reference, is there already and is not a reference" \
    check -n 1 --reference mine "${right[@]}"
refused "-n 2 --reference of a file of another kind" 2 "cannot use mine, in --reference: it is not a reference" \
    check -n 2 --reference mine "${right[@]}"
check "the file is as before" [ "$(sha256sum mine)" = "$before" ]
refused "--reference of a folder" 2 "is there already and is not a reference" check -n 1 --reference . "${right[@]}"
refused "--reference in no folder" 2 "cannot write .*No such file" check -n 1 --reference no/folder/x "${right[@]}"
run "$ddprun" -q check -n 1 --steps 12 --reference whole "${right[@]}" # a slow machine would make fewer
succeeded "-n 1 --reference"
check "-n 1 --reference writes" [ -s whole ]
refused "another number of steps" 2 "has 12 steps, and --steps asks for 4" check -n 2 --reference whole --steps 4 "${right[@]}"
refused "--free with a reference of steps that begin from it" 2 "was written without --free" check -n 2 --reference whole --free "${right[@]}"
refused "another program" 2 "is of another program" check -n 2 --reference whole "$digits" --data "$data" --batch 48 --steps 12 --quiet
refused "more tensors than one rank had" 2 "buffer 1 is .* has fewer" check -n 2 --reference whole "$rows" report batchnorm
refused "other tensors than one rank had" 2 "gradient 3 is .* 5 float32, and in the reference .* 80 float32" \
    check -n 2 --reference whole "$rows" report --mistake forgotten_gradient
for length in 0 7 40 5000 $(($(stat -c %s whole) - 1)); do
    head -c "$length" whole >damaged
    refused "a reference of which $length bytes are there" 2 "cannot use damaged, in --reference" check -n 2 --reference damaged "${right[@]}"
done
size=$(stat -c %s whole)
# Of headers and contents, and of what other runs have found, which is the last third. (Values that have the same bits are not read.)
for at in 9 20 45 300 $((size / 10)) $((size * 2 / 3)) $((size * 3 / 4)) $((size - 60)) $((size - 20)); do
    cp whole damaged
    # shellcheck disable=SC2059 # an octal escape is meant
    printf "\\$(printf %o $((255 - $(od -An -tu1 -j "$at" -N 1 damaged))))" | dd of=damaged bs=1 seek="$at" conv=notrunc status=none
    copied=$(sha256sum damaged)
    refused "a reference whose byte $at is damaged" 2 "damaged|another version|not a reference" check -n 2 --reference damaged "${right[@]}"
    [ "$(sha256sum damaged)" = "$copied" ] || not_ok "a damaged reference stays as it is" "byte $at"
done
run "$ddprun" -q check -n 2 --steps 12 "${right[@]}"
grep '^equal: ' "$work/stdout" >"$work/at_once"
judged "two commands: equal" 0 null - 2 "--reference whole" "${right[@]}"
check "two commands: the verdict of one" grep -qxFf "$work/at_once" "$work/stdout"
judged "two commands, four ranks" 0 null - 4 "--reference whole" "${right[@]}"
ln -s whole link
works "-n 1 --reference of a link to a reference" "$ddprun" -q check -n 1 --reference link "${right[@]}"
check "a link to a reference stays one" [ -L link ]
run "$ddprun" -q check -n 1 --reference wrong "$rows" report --mistake forgotten_gradient
judged "two commands: different" 1 tensor "parameter 3" 2 "--reference wrong" "$rows" report --mistake forgotten_gradient
run "$ddprun" -q check -n 1 --steps 5 --reference whole "${right[@]}"
judged "two commands of five steps" 0 null - 2 "--reference whole" "${right[@]}"
check "three tensors of each kind have a row" [ "$(grep -c '^gradient [0-9]' "$work/stdout")" -eq 3 ]
check "its steps are compared" grep -q ': in 5 steps ' "$work/stdout"
rm -f whole wrong damaged link

# ---- files ----
# The user's own files are as they were.
run "$rows" --steps 6 --checkpoint "$user/old" --save "$user/model-%d"
before=$(sha256sum -- *)
judged "a program that writes: equal" 0 null - 2 "" "$rows" --resume "$user/old" --checkpoint "$user/old"
check "the user's files are as before" [ "$(sha256sum -- *)" = "$before" ]

# Files that several ranks write by one name are a warning; those of one rank, or with the rank in the name, are none.
judged "one file of all ranks" 0 null - 3 "" "$rows" --steps 6 --save "$user/one"
check "one file of all ranks: a warning" grep -Fqx "warning: 3 of 3 ranks write $user/one" "$work/stdout"
check "one file of all ranks: what to do" grep -q '^what to do: save on rank 0 only, if (DDP_RANK() == 0)' "$work/stdout"
check "one file of all ranks: in --json" python3 -IS -c '
import json, sys
assert json.load(open(sys.argv[1]))["written_by_several"] == [{"path": sys.argv[2], "ranks": [0, 1, 2]}]' "$work/verdict.json" "$user/one"
judged "files of one rank each" 0 null - 2 "" "$rows" --steps 6 --save "$user/model-%d" --checkpoint "$user/old"
check "files of one rank each: no warning" bash -c "! grep -q '^warning:' '$work/stdout'"
check "files of several ranks: the user's files are as before" [ "$(sha256sum -- *)" = "$before" ]

# --json: all that docs/check.md names, and every tensor.
checked 2 "" "$rows" report --mistake forgotten_gradient
check "--json has all members" python3 -IS -c '
import json, sys
found = json.load(open(sys.argv[1]))
members = """ddprun_version verdict cause rule place_rule exit_code text advice ranks steps overlapped_steps tolerance
    largest_difference factor first_step tensor tensors""".split()
of_tensors = """role number group text file line elements type differs scratch first_step first_rank
    ranks_that_differ difference floor""".split()
assert set(members) <= set(found), set(members) - set(found)
assert all(set(of_tensors) <= set(tensor) for tensor in found["tensors"])
assert (found["verdict"], found["cause"], found["exit_code"], found["ranks"]) == ("different", "unannotated", 1, 2)
assert found["tensor"] in found["tensors"] and found["tensor"]["text"] == "t->value", found["tensor"]
roles = [tensor["role"] for tensor in found["tensors"]]
assert roles.count("parameter") == 4 and roles.count("gradient") == 3, roles' "$work/verdict.json"

# ---- no room ----
# small KIBIBYTES COMMAND...: with TMPDIR in a file system of that size, which only this command sees.
small() {
    run unshare -m sh -c 'mount -t tmpfs -o size="$1"k none "$2" && shift && TMPDIR=$1 && export TMPDIR && shift && exec "$@"' \
        sh "$1" "$TMPDIR" "${@:2}"
}
if ! unshare -m mount -t tmpfs none "$TMPDIR" 2>/dev/null; then
    printf '# left out: no room for the reference, which takes a file system of its own (root)\n'
else
    large=("$digits" --data "$data" --batch 48 --steps 100 --quiet)
    small 128 "$ddprun" -q check "${large[@]}"
    failed_with "no room for the reference" 2 "cannot write the reference .*No space left|the reference needs"
    check "no room for the reference: it prints no verdict" [ ! -s "$work/stdout" ]
    for words in {120,160,240,360}" check" {96,128}" scout" {128,192,256,512}" scout --prove"; do # not for all that is found
        small "${words%% *}" "$ddprun" -q ${words#* } "${right[@]}"
        check "$words: too little room is said, or there is enough" test "$code" -eq 0 -o -n "$(grep -E 'room|No space' "$work/stderr")"
    done
    small 2000 "$ddprun" -q check "${large[@]}"
    succeeded "room for fewer than 8 steps"
    check "room for fewer than 8 steps: it is reported" \
        grep -Eq '^only [0-9]+ steps were compared: more steps would take .* or fill more than half of the free space' "$work/stdout"
    mkdir "$user/small"
    run unshare -m sh -c 'mount -t tmpfs -o size=128k none small && "$@"; code=$?; ls small >&2; exit $code' sh \
        "$ddprun" -q check -n 1 --reference small/it "${large[@]}"
    failed_with "no room for --reference" 2 "cannot write the reference .*No space left|the reference needs"
    check "no room for --reference: no file is left there" [ "$(wc -l <"$work/stderr")" -eq 1 ]
fi
finish
