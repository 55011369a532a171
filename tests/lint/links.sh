#!/usr/bin/env bash
# links.sh [BUILD] - what the documents name is there: files and headings that they link to, paths of the repository and of the build
# folder, and tests. Called by tests/run.sh with the build folder.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
source tests/lib/lib.sh
build=${1:-build}
tops='base|bucketing|cmake|comm|docs|interpose|launcher|samples|softgpu|tests|tools|unit|end_to_end'
mapfile -t pages < <(find README.md CONTRIBUTING.md base bucketing cmake comm docs interpose launcher samples softgpu tests tools -name '*.md' ! -path tests/gpu/README.md | sort)
folders=$(find . -path ./build -prune -o -type d -not -path '*/.*' -printf '%p/\n')
sources=$(find base bucketing comm interpose launcher samples softgpu tests tools -name '*.[ch]')$'\n'
count=0

# there PATH: whether something has this path, which may be a pattern.
there() {
    if [[ $1 == *'*'* ]]; then compgen -G "$1" >/dev/null; else [ -e "$1" ]; fi
}

# headings PAGE: what can stand behind its name and a #, one a line.
headings() {
    awk '/^```/ { code = !code } !code && /^#+ /' "$1" | sed -E 's/^#+ //' | tr '[:upper:]' '[:lower:]' | sed -E 's/[^a-z0-9 _-]//g; s/ /-/g'
}

check_link() { # PAGE TARGET
    local page=$1 file=${2%%#*} heading=${2#*#} target
    target=$page
    [ -z "$file" ] || target=$(dirname "$page")/$file
    if [ ! -e "$target" ]; then
        complain "$page links to $2, which is not there"
    elif [[ $2 == *#* ]] && ! headings "$target" | grep -qxF -- "$heading"; then
        complain "$page links to $2, but nothing there has that heading"
    fi
}

# Made by the build, so it may not be there yet; then the build knows of it.
check_built() { # PAGE PATH, from the build folder on
    local path=${2#build/}
    path=${path%/}
    there "$build/$path" || grep -qsF -- "$path" "$build/build.ninja" || grep -qF -- "/build/$path" CMakePresets.json ||
        complain "$1 names $2, which the build does not make"
}

tests=
# A test, or the begin of tests' names, as ctest -R and --filter want it.
is_test() {
    [ -n "$tests" ] || tests=$(ctest --test-dir "$build" -N 2>/dev/null | sed -nE 's/^ *Test +#[0-9]+: //p')
    grep -qE -- "^$1(_|\$)" <<<"$tests"
}

# Each alternative of a pattern for ctest -R, such as unit/test_(wire|hash)|comm/, finds a test.
check_pattern() { # PAGE PATTERN
    local braces word words
    if [[ ! $2 =~ ^[a-z0-9_/|()]+$ ]]; then
        complain "$1: ctest -R $2: only names, ( | and ) are understood"
        return
    fi
    is_test . || true # reads the names of all tests
    braces=${2//|/,} braces=${braces//(/\{} braces=${braces//)/\}}
    eval "words=({$braces,})"
    for word in "${words[@]}"; do
        grep -qF -- "$word" <<<"$tests" || complain "$1 names the test $word, and there is none"
    done
}

check_path() { # PAGE PATH
    # softgpu/ is a project of its own: its pages name its files from there on.
    [[ $1 != softgpu/* ]] || ! there "softgpu/$2" || return 0
    there "$2" || is_test "$2" || complain "$1 names $2, which is neither a file nor a test"
}

for page in "${pages[@]}"; do
    while IFS= read -r target; do
        check_link "$page" "$target"
        count=$((count + 1))
    done < <(grep -oE '\]\([^)]+\)' "$page" | sed -E 's/^\]\(|\)$//g' | grep -vE '^https?:' | sort -u)
    while IFS= read -r pattern; do
        check_pattern "$page" "$pattern"
        count=$((count + 1))
    done < <(grep -oE "ctest --test-dir build -R ('[^']*'|[a-z0-9_/]+)" "$page" | sed -E "s/.* -R //; s/'//g" | sort -u)
    text=$(sed -E "s/ctest --test-dir build -R ('[^']*'|[a-z0-9_\/]+)//" "$page")
    while IFS= read -r path; do
        case $path in
        build/*) check_built "$page" "$path" ;;
        *) check_path "$page" "$path" ;;
        esac
        count=$((count + 1))
    done < <(grep -oE "(^|[^A-Za-z0-9_./-])($tops|build)/[A-Za-z0-9_./*-]*" <<<"$text" | sed -E 's/^[^a-z]//; s/[.]$//' | grep -vxE 'unit/|end_to_end/' | sort -u)
    # A folder inside of one: `cluster/`.
    while IFS= read -r folder; do
        [[ $folders == *"/$folder"* ]] || complain "$page names $folder, and there is no such folder"
        count=$((count + 1))
    done < <(grep -oE '`[a-z_]+/`' "$page" | tr -d '`' | grep -vxE '(build|unit)/' | sort -u)
    # A source by its name alone.
    while IFS= read -r name; do
        [[ $sources == *"/$name"$'\n'* ]] || complain "$page names $name, and there is no such file"
        count=$((count + 1))
    done < <(grep -oE '`[a-z_0-9]+\.[ch]`' "$page" | tr -d '`' | sort -u)
done
[ "$count" -gt 150 ] || complain "only $count names were found: the check looked in the wrong place"
finish "$count names in ${#pages[@]} pages are there"
