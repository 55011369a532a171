#!/usr/bin/env bash
# page.sh WHEEL HEADERS - docs/ci.md is true: the files of its examples are written, the commands of the sections with files are run in the
# order of the page, and each line of a section's `text` is a part of what they print. The commands of the
# checks end with an error: they find the mistake. Sections without files need a network.
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/../lib/lib.sh"
page=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)/docs/ci.md
wheel=$1 headers=$2
for tool in cmake make; do
    command -v "$tool" >/dev/null || skip "no $tool"
done
work=$(mktemp -d "${TMPDIR:-/tmp}/softgpu-page.XXXXXX")
at_exit 'rm -rf "$work"'
shown=$work/out
source "$(dirname "${BASH_SOURCE[0]}")/installed.sh"
install_wheel "$wheel" "$headers"
variables=$(python3 -m softgpu env)
for variable in $variables; do
    export "${variable?}"
done

# A folder for each section, numbered: its title, its files below files/, its commands and its text.
awk -v to="$work/sections" '
    function start(title) {
        folder = sprintf("%s/%02d", to, ++sections)
        system("mkdir -p " folder "/files")
        print title >(folder "/title")
    }
    !block && /^##+ / { sub(/^#+ /, ""); start($0); next }
    !block && /^```(sh|text)$/ && folder { block = folder "/" substr($0, 4); next }
    !block && /^```[a-z]+ [A-Za-z_.]+$/ { block = folder "/files/" $2; next }
    !block && /^```/ { block = "/dev/null"; next }
    /^```$/ { close(block); block = ""; next }
    block { print >block }' "$page"
mkdir "$work/project"
cd "$work/project"
export CMAKE_BUILD_PARALLEL_LEVEL=1 CMAKE_BUILD_TYPE=Debug
run=0
for section in "$work"/sections/*; do
    title=$(cat "$section/title")
    [ -n "$(ls "$section/files")" ] || continue
    cp "$section"/files/* .
    [ -e "$section/sh" ] || continue
    if grep -q gtest "$section"/files/* && [ ! -e /usr/include/gtest/gtest.h ]; then
        echo "left out: $title: no GoogleTest (package libgtest-dev)"
        continue
    fi
    run=$((run + 1))
    code=0
    timeout -k 1 "$(patient 100)" bash -e "$section/sh" <"/dev/null" >"$work/out" 2>&1 || code=$?
    case $title in
    'Out of bounds' | Races | 'Uninitialised memory') check "$title: the mistake is found" [ "$code" -ne 0 ] ;;
    *) check "$title: the commands succeed" [ "$code" -eq 0 ] ;;
    esac
    while IFS= read -r line; do
        check "$title: they say $line" says "$line"
    done < <(cat "$section/text" 2>/dev/null)
done
check "the page has five examples" [ "$run" -ge 4 ]
finish "$run examples"
