# shellcheck shell=bash disable=SC2034,SC2154 # the scripts that source it use its variables, and it theirs
# rows.sh - what the tables of scout share: the words of a row, and what `ddprun scout` finds in its program. Sourced after
# end_to_end/lib.sh. Two rows run at a time (rows_run).
export build ddprun work data
export TEXT=${data%/*}/shakespeare.txt

# words_of PROGRAM: its words, in the list $words, with files for DATA and TEXT, and the variables in front of it in $settings.
words_of() {
    local row=${1//DATA/$data}
    read -ra words <<<"${row//TEXT/$TEXT}"
    settings=()
    while [[ ${words[0]} == *=* ]]; do
        settings+=("${words[0]}")
        words=("${words[@]:1}")
    done
    words[0]=$build/${words[0]}
}

# verdict NAME PROGRAM: scouts the program, and prints in one line what was found: "right": each parameter and gradient is annotated as it was found, and each
# step stands where it has to; "N missing, M superfluous", if not; "P parameters, G gradients" of a program without annotations; or the reason of a refusal,
# without numbers of memory. "; noted" if the host may take part. What scout prints is in $work/out-NAME and $work/out-NAME.err. $scouts: another ddprun.
verdict() {
    local out=$work/out-$1 code=0 missing superfluous words settings
    words_of "$2"
    TMPDIR=$work env "${settings[@]}" timeout -k 2 300 "${scouts:-$ddprun}" -q --device softgpu scout -v --timeout 240 "${words[@]}" \
        >"$out" 2>"$out.err" </dev/null || code=$?
    if [ "$code" -ne 0 ]; then
        sed -n 's/^ddprun: \(no gradients found: \)\?/refused: /p' "$out.err" | head -n 1 |
            sed -E 's/ \((([^()]|\([^()]*\))*, )?[0-9]+ bytes, allocated at ([^()]|\([^()]*\))*\)//g; s/a[0-9]+\[[0-9]+:[0-9]+\]/MEMORY/g; s/ [0-9]+ / N /g'
        return
    fi
    missing=$(grep -c '^missing: ' "$out")
    superfluous=$(grep -c '^superfluous: ' "$out")
    if grep -q '^annotations: ' "$out"; then
        printf right
    elif [ "$missing" -gt 0 ] || [ "$superfluous" -gt 0 ]; then
        printf '%d missing, %d superfluous' "$missing" "$superfluous"
    else
        printf '%d parameters, %d gradients' "$(grep -c '^  parameter ' "$out")" "$(grep -c '^  gradient ' "$out")"
    fi
    if grep -q '^note: .*the host [a-z]' "$out"; then printf '; noted'; fi
    echo
}

# rows_run FUNCTION: calls FUNCTION NAME PROGRAM for each line NAME|PROGRAM|... of its input; what it prints is in $work/verdict-NAME.
rows_run() {
    export -f words_of verdict "${1?}"
    xargs -P 2 -d '\n' -I{} bash -c 'IFS="|" read -r name program _ <<<"$2"
        "$1" "$name" "$program" >"$work/verdict-$name"' _ "$1" {}
}
