#!/usr/bin/env bash
# density.sh BUILD [--report | --write] - finds code that a stranger must read twice. The check reminds; a reader decides: code that passes
# may still be dense. It looks at C sources and headers of the product, and finds in a function, a macro or a table
#   nested   a conditional expression inside another,
#   chain    more than five && and || in one expression: the largest around them; each item of an initializer is one by itself,
#   assigns  an assignment in the condition of if, while, for, do or ?:. Allowed is `while ((x = next()))`: the condition is one assignment
#            of a call's result, or compares that assignment, on the left, with an expression. C has no other form of this loop that calls
#            next() in one place.
# A call of a macro is one leaf: its arguments are an expression by themselves, and a nested expression or an assignment in its definition
# is found at the definition. Only a chain counts the operators of definitions, too. Definitions in base/, in a folder common/ and outside
# the product never count.
#
# tests/lint/density.txt lists the code that was dense when the table was made, and only shrinks. These fail: dense code that has no row; a
# row whose code is no longer dense; a row that a change has put in, committed or not, after the commit that brought the table. (A shallow
# clone has no changes to look at.) --write takes out rows whose code is no longer dense, and adds none. Where there is no table, --write
# makes it, with a row for all dense code.
#
# --report also prints figures by folder: lines and cognitive complexity (clang-tidy) of functions, and how often 100 lines of code have
# ?:, && and ||, and the above. Figures fail nothing.
#
# density.query has the matchers, density.py reads the matches. Of a file that is compiled several times the first compilation is read.
# Called by tests/run.sh; density_test.sh is its test.
set -euo pipefail
lint=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
source "$lint/../lib/lib.sh"
source "$lint/../lib/compile_commands.sh"
cd -P "${DENSITY_ROOT:-$lint/../..}"
commands=${1:-build}/compile_commands.json action=${2:-}
table=tests/lint/density.txt
product=(base bucketing comm interpose launcher tools softgpu samples)

# stop WHY: the check cannot be made.
stop() {
    complain "$1"
    exit 1
}
[[ $action =~ ^(|--report|--write)$ ]] || stop "density.sh: $action: unknown option; there are --report and --write"
for tool in clang-query python3; do
    command -v "$tool" >/dev/null || stop "no $tool: bash cmake/setup.sh --tests installs it"
done
[ -e "$commands" ] || stop "$commands does not exist: configure first"
mapfile -t files < <(product_sources "$commands")
[ ${#files[@]} -gt 0 ] || stop "no file found in $commands"
folder=$(mktemp -d)
at_exit 'rm -rf "$folder"'
clang_commands "$commands" >"$folder/compile_commands.json"

# over_files OUTPUT COMMAND...: runs it with the product's files as further arguments, many at a time, and puts together what it prints.
over_files() {
    printf '%s\0' "${files[@]}" |
        xargs -0 -P "$(nproc)" -n 24 bash -c '"${@:2}" >"$(mktemp "$1.part.XXXXXX")" 2>>"$1.errors"' over_files "$folder/$1" "${@:2}" ||
        stop "$(tail -qn 2 "$folder/$1".*)"$'\n'"^ $2"
    cat "$folder/$1".part.* >"$folder/$1"
}

# Each place on one line, with its range and with all macros that it comes from. clang-query passes over a file with an error.
over_files matches clang-query -p "$folder" -f "$lint/density.query" --extra-arg=-w --extra-arg=-fno-caret-diagnostics \
    --extra-arg=-fmacro-backtrace-limit=0 --extra-arg=-fdiagnostics-print-source-range-info
! grep . "$folder/matches.errors" || stop "^ clang-query"
python3 "$lint/density.py" "${product[@]}" <"$folder/matches" >"$folder/found" || stop "^ density.py"

if [ "$action" = --report ]; then
    check=readability-function-cognitive-complexity
    over_files complexity clang-tidy -p "$folder" --quiet --checks="-*,$check" --header-filter='.*' --config="{CheckOptions: [
        {key: $check.Threshold, value: 0}, {key: $check.DescribeBasicIncrements, value: false}, {key: $check.IgnoreMacros, value: true}]}"
    python3 "$lint/density.py" --report "$folder/complexity" "${product[@]}" <"$folder/matches"
fi

export LC_ALL=C # of sort and comm
summary=$(head -n 1 "$folder/found")
tail -n +2 "$folder/found" | cut -f 1 | sort -u >"$folder/dense"
rows() { grep -v '^#' "$table" || true; }
head_of_table='# The code that was dense when this table was made: folder, function (or macro, or table), kind (tests/lint/density.sh). The table only
# shrinks: bash tests/lint/density.sh BUILD --write takes out the rows of code that has become clear.'
if [ "$action" = --write ]; then
    if [ -e "$table" ]; then
        rows | comm -12 - "$folder/dense" >"$folder/rows"
    else
        cp "$folder/dense" "$folder/rows"
    fi
    { printf '%s\n' "$head_of_table" && cat "$folder/rows"; } >"$table"
fi
[ -e "$table" ] || stop "no $table: bash tests/lint/density.sh BUILD --write makes it"

rows | sort -cu || stop "^ $table: its rows are sorted (LC_ALL=C sort), each once"
rows | comm -13 - "$folder/dense" >"$folder/new"
! awk -F '\t' 'NR == FNR { new[$0]; next } $1 in new { print $2 }' "$folder/new" "$folder/found" | grep . ||
    complain "^ dense, and not in $table, which takes no new rows"
! rows | comm -23 - "$folder/dense" | sed 's/$/: no longer dense/' | grep . ||
    complain "^ take these rows out of $table: bash tests/lint/density.sh BUILD --write"

# The rows that changes have put into the table: changes in the history, to which the commit that brought the table does not belong, and
# those that are not committed.
put_in() {
    {
        git log --first-parent -m --diff-filter=M -p -U0 --format= --no-color --no-ext-diff -- "$table"
        git diff --diff-filter=M -U0 --no-color --no-ext-diff HEAD -- "$table"
    } 2>/dev/null | sed -n 's/^+\([^+#]\)/\1/p' | sort -u
}
! rows | comm -12 - <(put_in) | sed 's/$/: a row that was put in after the table was made/' | grep . ||
    complain "^ take these rows out of $table, and make the code clear"
finish "${#files[@]} files, $summary; $(rows | wc -l) rows in $table"
