# shellcheck shell=bash disable=SC2154,SC2034 # $report is of first.sh, $log, $log_differs, $out_of_time are of commands.sh
# report.sh - what first.sh has seen, as report.json and report.md, and packed to be taken away. Sourced by first.sh.
#
# A row is NAME, EXPECTED, SEEN, VERDICT and LOG with tabs between them. Verdicts: ok, differs, measured (a figure without a bar),
# "not run". LOG is the folder below logs/ of the command that it is of, "-" if there was none.

# report_fails: the disk is full, most likely. What was written before is whole.
report_fails() {
    fail 1 "cannot write the report in $report: $(df -Ph "$report" 2>/dev/null | awk 'NR == 2 { print $4 " are free on " $1 }')"
}

# report_row NAME EXPECTED SEEN VERDICT: one more row, and both files anew: whatever ends the script, they are complete so far.
report_row() {
    local field line='' verdict=$4 seen=$3
    if [ -n "$out_of_time" ]; then
        verdict='not run' seen=$out_of_time
    fi
    for field in "$1" "$2" "$seen" "$verdict" "${log:+logs/${log##*/}}"; do
        field=${field:--}
        field=${field//$'\t'/ }
        line+=${line:+$'\t'}${field//$'\n'/ }
    done
    printf '%s\n' "$line" 2>/dev/null >>"$report/rows" || report_fails
    printf '%-9s %s: %s\n' "$verdict" "$1" "$seen"
    [ "$verdict" != differs ] || log_differs=1
    report_write 2>/dev/null || report_fails
}

# not_run NAME EXPECTED WHY: a row of a check that cannot run here, or for which no time is left.
not_run() {
    no_log
    report_row "$1" "$2" "$3" 'not run'
}

# report_condition NAME VALUE: what the machine is.
report_condition() {
    printf '%s\t%s\n' "$1" "${2//$'\n'/; }" 2>/dev/null >>"$report/conditions" || report_fails
}

report_write() {
    awk -F '\t' -v conditions="$report/conditions" '
        function text(s) {
            gsub(/\\/, "&&", s); gsub(/"/, "\\\"", s); gsub(/[\001-\037]/, " ", s)
            return "\"" s "\""
        }
        BEGIN {
            printf "{\n  \"conditions\": {"
            while ((getline line < conditions) > 0) {
                split(line, field, "\t")
                printf "%s\n    %s: %s", (n++ ? "," : ""), text(field[1]), text(field[2])
            }
            printf "\n  },\n  \"checks\": ["
        }
        { printf "%s\n    {\"name\": %s, \"expected\": %s, \"seen\": %s, \"verdict\": %s, \"log\": %s}",
              (NR > 1 ? "," : ""), text($1), text($2), text($3), text($4), text($5)
          count[$4]++ }
        END {
            printf "\n  ],\n  \"counts\": {\"ok\": %d, \"differs\": %d, \"measured\": %d, \"not run\": %d}\n}\n",
                count["ok"], count["differs"], count["measured"], count["not run"]
        }' "$report/rows" >"$report/report.json.part" || return
    mv "$report/report.json.part" "$report/report.json" || return
    {
        printf '# ddprun on a GPU: the first checks\n\n| | |\n| --- | --- |\n'
        sed 's/|/\\|/g; s/\t/ | /; s/^/| /; s/$/ |/' "$report/conditions"
        printf '\n| verdict | check | expected | seen | log |\n| --- | --- | --- | --- | --- |\n'
        sed 's/|/\\|/g' "$report/rows" | awk -F '\t' '{ printf "| %s | %s | %s | %s | %s |\n", $4, $1, $2, $3, $5 }'
    } >"$report/report.md.part" || return
    mv "$report/report.md.part" "$report/report.md"
}

# report_differs: how many rows differ.
report_differs() {
    awk -F '\t' '$4 == "differs"' "$report/rows" | wc -l
}

# report_pack: the whole report as one file beside its folder: $packed.
report_pack() {
    local how=J
    packed=$report.tar.xz
    if ! command -v xz >/dev/null; then
        how=z packed=$report.tar.gz
    fi
    tar -C "$(dirname "$report")" "-c${how}f" "$packed.part" "$(basename "$report")" 2>/dev/null && mv "$packed.part" "$packed" || {
        rm -f "$packed.part"
        report_fails
    }
}
