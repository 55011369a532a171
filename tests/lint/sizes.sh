#!/usr/bin/env bash
# sizes.sh [BUILD] [--write] - no folder has more lines of code than tests/lint/sizes.txt allows, nor many fewer: lines that are gone
# do not come back unseen. With --write the table takes the lines of today. And a ratchet: a sum is lowered, never raised, unless an
# issue has its number. Tests are held by what they do, and have no sum. sizes_test.sh is its test. Called by tests/run.sh.
set -euo pipefail
cd "${SIZES_ROOT:-$(dirname "${BASH_SOURCE[0]}")/../..}"
table=tests/lint/sizes.txt
write=0
[ "${*: -1}" != --write ] || write=1
slack=100 # lines that a folder may stay below its row

# Code is what people write and read as such: no documents, no data, nor what is written to measure this project.
sources() {
    local folders=(base bucketing comm interpose launcher samples softgpu tests tools) folder
    for folder in "${folders[@]}"; do
        [ ! -d "$folder" ] || find "$folder" -type f ! -path 'tests/fuzz/corpus/*' ! -path 'tests/held/*' \
            \( -name '*.[chS]' -o -name '*.cu' -o -name '*.cuh' -o -name '*.cpp' -o -name '*.def' -o -name '*.map' -o -name '*.in' \
            -o -name '*.sh' -o -name '*.awk' -o -name '*.bash' -o -name '*.py' -o -name '*.cmake' -o -name CMakeLists.txt \
            -o -name '*.js' -o -name '*.css' -o -name '*.html' \)
    done
}

# before: the last commit of the issue before the table's own. None: there is no history, or it is not that old.
before() {
    local commit issue
    issue=$(sed -n 's/^issue //p' "$table")
    git rev-parse --is-inside-work-tree >/dev/null 2>&1 || return 0
    for commit in $(git log --format=%H -- "$table"); do
        [ "$(git show "$commit:$table" 2>/dev/null | sed -n 's/^issue //p')" = "$issue" ] || {
            echo "$commit"
            return
        }
    done
}

count_lines() {
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
            if (split(line, word) == 0 || line ~ /^(#|issue )/)
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
                         ". Delete what no user needs, or raise the row in this commit and say in its message what was deleted for it")
            else if (!write && actual[row] + slack < allowed[row])
                complain(row ": " actual[row] " lines; lower its row in " table ", " allowed[row])
        for (name in sum_allowed)
            if (!write && sum[name] > sum_allowed[name])
                complain("all of " name ": " sum[name] " lines, " table " allows " sum_allowed[name])
        if (write) {
            printf "" > table
            for (i = 1; i <= count; ++i) {
                split(lines[i], word)
                if (word[1] in actual)
                    printf "%-28s %-14s %6d\n", word[1], word[2], actual[word[1]] > table
                else if (word[1] == "sum")
                    print "sum " word[2] " " sum[word[2]] > table
                else
                    print lines[i] > table
            }
        }
        printf "core %d lines, of them launcher %d; tools %d, stand-in %d, samples %d, tests %d\n", \
            sum["core"], sum["core/launcher"], sum["tool"], sum["stand-in"], sum["sample"], sum["test"]
        exit bad
    }'
}

# hold_rows COMMIT: a row that stands higher than in that commit is explained by one since then, in a line "sizes FOLDER: what was deleted for it".
hold_rows() {
    awk -v table="$table" -v messages="$(git log --format=%B "$1..HEAD" | sed -n 's/^sizes \([^ ]*\): .*/\1/p' | tr '\n' ' ')" '
    /^#/ || NF < 3 || $1 == "sum" || $1 == "allow" { next }
    FILENAME == table { row[$1] = $3; next }
    { had[$1] = $3 }
    END {
        for (folder in row)
            if (folder in had && row[folder] > had[folder] && index(" " messages, " " folder " ") == 0) {
                print folder ": " row[folder] " lines in " table ", " had[folder] \
                      " before this issue; no commit has a line \"sizes " folder ": what was deleted for it\""
                bad = 1
            }
        exit bad
    }' <(git show "$1:$table") "$table"
}

# versions: the commits that have changed the table, the newest first, as far as sums are never raised in it.
versions() {
    local commit
    git rev-parse --is-inside-work-tree >/dev/null 2>&1 || return 0
    for commit in $(git log -n 50 --format=%H -- "$table"); do
        ! git show "$commit:$table" 2>/dev/null | grep -q '^allow ' || return 0
        echo "$commit"
    done
}

# hold_sums: none is above what the table had in one of these, but for what the message of a later one says: "sum NAME: LINES, issue ISSUE".
hold_sums() {
    local commit
    for commit in $(versions); do
        git show "$commit:$table" | grep '^sum '
        git log -1 --format=%B "$commit" | sed -n 's/^sum \([^ ]*\): [0-9]*, issue [^ ].*/raised \1/p'
    done | awk -v table="$table" '
    FILENAME == table { if ($1 == "sum") now[$2] = $3; next }
    $1 == "raised" { is_over[$2] = 1; next }
    !is_over[$2] && (!($2 in least) || $3 < least[$2]) { least[$2] = $3 }
    END {
        for (name in now)
            if (name in least && now[name] > least[name]) {
                print "all of " name ": " now[name] " lines in " table ", which had " least[name] ". A sum is never raised: delete " \
                      "as many lines first; or, where an issue has the number, say so in this commit: sum " name ": " now[name] ", issue ISSUE"
                bad = 1
            }
        exit bad
    }' - "$table"
}

bad=0
commit=$(before)
[ "$write" -eq 1 ] || [ -z "$commit" ] || hold_rows "$commit" || bad=1
[ "$write" -eq 1 ] || hold_sums || bad=1
count_lines || bad=1
exit "$bad"
