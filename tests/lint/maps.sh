#!/usr/bin/env bash
# maps.sh - each room of the list has its README, of at most 250 words, and what it names in `...` is there:
#   a file without a folder   in the room or below it, or in a folder that the page names, too
#   a file with a path        from the room on, from the top on, or the end of a path in the room's part
#   name()                    a word of the sources
# A * stands for any part of a name. CONTRIBUTING.md has at most 1,300 words. Called by tests/run.sh; maps_test.sh is its test.
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/../lib/lib.sh"
cd "${MAPS_ROOT:-$(dirname "${BASH_SOURCE[0]}")/../..}"

rooms='base bucketing cmake comm docs
interpose interpose/include interpose/shim interpose/engine interpose/engine/core interpose/engine/graphs interpose/engine/measure
interpose/engine/memory interpose/engine/plan interpose/engine/report interpose/engine/send interpose/engine/step interpose/engine/verify
launcher launcher/cluster launcher/cluster/address launcher/cluster/pmix launcher/common launcher/options launcher/output launcher/report launcher/start launcher/watch
samples
softgpu softgpu/cc softgpu/cublas softgpu/cublaslt softgpu/cuda softgpu/cudart softgpu/curand softgpu/device softgpu/forward softgpu/include
softgpu/library softgpu/nccl softgpu/nvrtc softgpu/text
tests tests/cluster tests/faults tests/fuzz tests/lib tests/matrix tests/tools
tools tools/check tools/check/command tools/check/evidence tools/check/format tools/check/place tools/check/trainer tools/check/verdict
tools/common tools/doctor tools/near tools/page tools/plan tools/plan/command tools/plan/format tools/plan/trainer tools/record tools/sandbox
tools/scout tools/scout/command tools/scout/command/analysis tools/scout/command/proofs tools/scout/command/report tools/scout/format
tools/scout/trainer tools/trace'
rooms=${MAPS_ROOMS-$rooms}
most_words=250
contributing_words=1300

judge_words() { # PAGE MOST
    local words
    words=$(wc -w <"$1" | tr -d ' ')
    [ "$words" -le "$2" ] || complain "$1 has $words words: at most $2. A fact that another page has is a link."
}

pages=()
for room in $rooms; do
    if [ -s "$room/README.md" ]; then
        pages+=("$room/README.md")
        judge_words "$room/README.md" "$most_words"
    else
        complain "$room has no README.md: what comes in, what goes out, which file first, what it may call, how to test it, a recipe for a change"
    fi
done
[ ! -e CONTRIBUTING.md ] || judge_words CONTRIBUTING.md "$contributing_words"

# From all paths, and then the pages: a line for each file that is not there.
find_files='
function pattern_of(name) {
    gsub(/[.]/, "[.]", name)
    gsub(/[*]/, "[^/]*", name)
    return name
}
# Without "folder/../", and without "../" of a path that begins at the top.
function plain(path) {
    while (sub(/[^\/]+\/\.\.\//, "", path))
        ;
    return path
}
function is_file(pattern, i) {
    for (i = 1; i <= path_count; ++i)
        if (paths[i] ~ pattern)
            return 1
    return 0
}
# A folder or a path of the page, as a folder from the top on.
function note_folder(name) {
    sub(/[^\/]*$/, "", name)
    if (name == "")
        return
    folders[++folder_count] = name
    folders[++folder_count] = plain(room "/" name)
}
function is_in_a_folder(pattern, i) {
    for (i = 1; i <= folder_count; ++i)
        if (is_file("^" folders[i] "(.*/)?" pattern "$"))
            return 1
    return is_file("^" room "/(.*/)?" pattern "$")
}
function is_there(name, pattern, part) {
    pattern = pattern_of(name)
    if (name !~ /\//)
        return is_in_a_folder(pattern)
    if (is_file("^" pattern_of(plain(room "/" name)) "$") || is_file("^" pattern "$"))
        return 1
    part = room
    sub(/\/.*/, "", part)
    return is_file("^" part "/(.*/)?" pattern "$")
}
function close_page(i) {
    for (i = 1; i <= name_count; ++i)
        if (!is_there(names[i]))
            print room "/README.md names " names[i] ", which is not in " room " and in no folder that the page names"
    name_count = folder_count = 0
}
FILENAME == "-" { paths[++path_count] = $0; next }
FNR == 1 {
    close_page()
    room = FILENAME
    sub(/\/README.md$/, "", room)
}
{
    count = split($0, words, /[` ()|]+/)
    for (i = 1; i <= count; ++i) {
        sub(/[.,:;]+$/, "", words[i])
        if (words[i] ~ /^[A-Za-z0-9_.*\/-]+$/ && words[i] ~ /\//)
            note_folder(words[i])
    }
    line = $0
    while (match(line, /`[A-Za-z0-9_.*\/-]+[.](c|h|cu|cuh|sh|def|py|txt|cmake|awk|js|html|css|S)`/)) {
        names[++name_count] = substr(line, RSTART + 1, RLENGTH - 2)
        line = substr(line, RSTART + RLENGTH)
    }
}
END { close_page() }'

named=0
if [ ${#pages[@]} -gt 0 ]; then
    missing=$(find . -name build -prune -o -name .git -prune -o \( -type f -o -type l \) -printf '%P\n' | awk "$find_files" - "${pages[@]}")
    [ -z "$missing" ] || complain "$missing"

    # name() is a word of some source. Names that no source has are what is left of the list.
    mapfile -t functions < <(grep -ohE '`[A-Za-z_][A-Za-z0-9_]*\(' "${pages[@]}" | tr -d '`(' | LC_ALL=C sort -u)
    named=${#functions[@]}
    if [ "$named" -gt 0 ]; then
        unknown=$(grep -rhowF --include='*.[ch]' --include='*.cu' --include='*.def' --include='*.cmake' --include=CMakeLists.txt --include='*.sh' \
            -f <(printf '%s\n' "${functions[@]}") . --exclude-dir=build --exclude-dir=.git | LC_ALL=C sort -u |
            LC_ALL=C comm -13 - <(printf '%s\n' "${functions[@]}"))
        [ -z "$unknown" ] || complain "a README names $(paste -sd ' ' <<<"$unknown")(): no source has that word"
    fi
fi
finish "${#pages[@]} rooms have a map; $named functions that they name are there"
