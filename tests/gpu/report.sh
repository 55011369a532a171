# shellcheck shell=bash disable=SC2154,SC2034 # $report, $log, $log_differs are of first.sh
# report.sh - what first.sh has seen, as report.json and report.md. Sourced by first.sh.
#
# A row is NAME, EXPECTED, SEEN, VERDICT and LOG with tabs between them. Verdicts: ok, differs, measured (a figure without a bar),
# "not run". LOG is the folder below logs/ of the command that it is of, "-" if there was none.

# report_row NAME EXPECTED SEEN VERDICT: one more row, and both files anew: whatever ends the script, they are complete so far.
report_row() {
    local field line=''
    for field in "$@" "${log:+logs/${log##*/}}"; do
        field=${field:--}
        field=${field//$'\t'/ }
        line+=${line:+$'\t'}${field//$'\n'/ }
    done
    printf '%s\n' "$line" >>"$report/rows"
    printf '%-9s %s: %s\n' "$4" "$1" "$3"
    [ "$4" != differs ] || log_differs=1
    report_write
}

# report_condition NAME VALUE: what the machine is.
report_condition() {
    printf '%s\t%s\n' "$1" "${2//$'\n'/; }" >>"$report/conditions"
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
        }' "$report/rows" >"$report/report.json.part"
    mv "$report/report.json.part" "$report/report.json"
    {
        printf '# ddprun on a GPU: the first checks\n\n| | |\n| --- | --- |\n'
        sed 's/|/\\|/g; s/\t/ | /; s/^/| /; s/$/ |/' "$report/conditions"
        printf '\n| verdict | check | expected | seen | log |\n| --- | --- | --- | --- | --- |\n'
        sed 's/|/\\|/g' "$report/rows" | awk -F '\t' '{ printf "| %s | %s | %s | %s | %s |\n", $4, $1, $2, $3, $5 }'
    } >"$report/report.md.part"
    mv "$report/report.md.part" "$report/report.md"
}

# report_differs: how many rows differ.
report_differs() {
    awk -F '\t' '$4 == "differs"' "$report/rows" | wc -l
}
