#!/usr/bin/env bash
# sizes.sh [BUILD] [--write] - no folder has more lines of code than tests/lint/sizes.txt allows, nor many fewer: lines that are gone
# do not come back unseen. With --write the table takes the lines of today; sums stay as they are. Called by tests/run.sh.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
table=tests/lint/sizes.txt
write=0
[ "${*: -1}" != --write ] || write=1
slack=100 # lines that a folder may stay below its row

# Code is what people write and read as such: no pages, no data.
sources() {
    find base bucketing comm interpose launcher samples softgpu tests tools -type f ! -path 'tests/fuzz/corpus/*' \
        \( -name '*.[chS]' -o -name '*.cu' -o -name '*.cuh' -o -name '*.cpp' -o -name '*.def' -o -name '*.map' -o -name '*.in' \
        -o -name '*.sh' -o -name '*.awk' -o -name '*.bash' -o -name '*.py' -o -name '*.cmake' -o -name CMakeLists.txt \)
}

sources | LC_ALL=C sort | xargs -d '\n' wc -l | awk -v table="$table" -v write="$write" -v slack="$slack" '
    function complain(text) { print text; bad = 1 }

    # The longest row that the file lies below.
    function row_of(path) {
        while (sub("/[^/]*$", "", path))
            if (path in allowed)
                return path
        return ""
    }
    BEGIN {
        while ((getline line < table) > 0) {
            lines[++count] = line
            if (split(line, word) == 0 || line ~ /^#/)
                continue
            if (word[1] == "sum")
                sum_allowed[word[2]] = word[3]
            else {
                kind[word[1]] = word[2]
                allowed[word[1]] = word[3]
            }
        }
    }
    $2 == "total" { next }
    {
        row = row_of($2)
        if (row == "")
            complain($2 ": " table " has no row for its folder")
        actual[row] += $1
        sum[kind[row]] += $1
        for (name in sum_allowed)
            if (kind[row] ~ "^" name "(/|$)" && name != kind[row])
                sum[name] += $1
    }
    END {
        for (row in allowed)
            if (!(row in actual))
                complain(row ": in " table ", and has no file")
            else if (!write && actual[row] > allowed[row])
                complain(row ": " actual[row] " lines, " table " allows " allowed[row] \
                         ". Delete what no user needs, or raise the row in this commit and say why in its message")
            else if (!write && actual[row] + slack < allowed[row])
                complain(row ": " actual[row] " lines; lower its row in " table ", " allowed[row])
        for (name in sum_allowed)
            if (sum[name] > sum_allowed[name])
                complain("all of " name ": " sum[name] " lines, " table " allows " sum_allowed[name])
        if (write) {
            printf "" > table
            for (i = 1; i <= count; ++i) {
                split(lines[i], word)
                if (word[1] in actual)
                    printf "%-28s %-14s %6d\n", word[1], word[2], actual[word[1]] > table
                else
                    print lines[i] > table
            }
        }
        printf "core %d lines, of them launcher %d; tools %d, stand-in %d, samples %d, tests %d\n", \
            sum["core"], sum["core/launcher"], sum["tool"], sum["stand-in"], sum["sample"], sum["test"]
        exit bad
    }'
