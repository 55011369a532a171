#!/usr/bin/env bash
# page.sh WHEEL HEADERS - docs/ci.md is true: the files of its examples are written, the commands are run in the
# order of the page, and each line of a section's `text` is a part of what they print. The commands of the
# checks end with an error: they find the mistake. The sections before the first file need a network. The commands for a project with
# AddressSanitizer also find a mistake that is put into that project.
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
# commands SECTION: runs them, with their output in $work/out; sets code.
commands() {
    code=0
    timeout -k 1 "$(patient 100)" bash -e "$1/sh" <"/dev/null" >"$work/out" 2>&1 || code=$?
}

# Whether the section needs what this machine lacks.
left_out() {
    ! command -v meson >/dev/null && grep -q 'meson setup' "$1/sh" && return
    [ ! -e /usr/include/gtest/gtest.h ] && grep -q 'gtest\|ctest' "$1"/files/* "$1/sh" 2>/dev/null
}

# finds_mistake_in_project SECTION TOOL: the project's kernel writes one element too many; TOOL's command of the section shows it.
finds_mistake_in_project() {
    mkdir "$work/$2"
    grep -e '^export' -e "^$2" "$1/sh" >"$work/$2/sh"
    sed -i.right 's/if (i < n)/if (i <= n)/' saxpy.cu
    commands "$work/$2"
    mv saxpy.cu.right saxpy.cu
    check "$title, by $2: a mistake is found" [ "$code" -ne 0 ]
    check "$title, by $2: with its line" says saxpy.cu:7
}

run=0
began=
for section in "$work"/sections/*; do
    title=$(cat "$section/title")
    if [ -n "$(ls "$section/files")" ]; then
        began=yes
        cp "$section"/files/* .
    fi
    [ -n "$began" ] && [ -e "$section/sh" ] || continue
    if left_out "$section"; then
        echo "left out: $title: no GoogleTest or no Meson (packages libgtest-dev, meson)"
        continue
    fi
    run=$((run + 1))
    commands "$section"
    case $title in
    'Out of bounds' | Races | 'Uninitialised memory' | 'Kernels that do not end') check "$title: the mistake is found" [ "$code" -ne 0 ] ;;
    *) check "$title: the commands succeed" [ "$code" -eq 0 ] ;;
    esac
    if [ "$title" = 'The same in a project' ]; then
        finds_mistake_in_project "$section" cmake
        finds_mistake_in_project "$section" make
    fi
    while IFS= read -r line; do
        check "$title: they say $line" says "$line"
    done < <(cat "$section/text" 2>/dev/null)
done
check "the page has nine examples, three of them with GoogleTest, one with Meson" [ "$run" -ge 5 ]
finish "$run examples"
