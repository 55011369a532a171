#!/usr/bin/env bash
# refresh.sh BUILD [--install] - writes the parts of the documents that a program makes: in docs/samples.md the difference of the two programs
# of samples/digits, and in docs/performance.md the figures of bench/partition, which is arithmetic and prints the same everywhere. With
# --install also the sizes and the build time of docs/install.md: it builds all of the tree's files anew, with kernels for all
# architectures, in a temporary folder. Prints at last how many words a newcomer reads up to the first success, a number to keep below
# 900. Run by people; tests/install/portable.sh compares the sizes.
set -euo pipefail
shopt -s inherit_errexit
[ $# -eq 1 ] || [ "$*" = "$1 --install" ] || {
    echo 'Usage: bash docs/refresh.sh BUILD [--install]' >&2
    exit 2
}
build=$(cd "$1" && pwd)
cd "$(dirname "${BASH_SOURCE[0]}")/.."
source tests/install/sizes.sh

# replace_block PAGE MARKER BLOCK: the block of code that follows the line MARKER becomes BLOCK.
replace_block() {
    local page=$1 marker=$2 block=$3 text
    grep -qxF -e "$marker" "$page" || {
        echo "refresh.sh: $page has no line: $marker" >&2
        exit 1
    }
    text=$(MARKER=$marker BLOCK=$block awk '
        $0 == ENVIRON["MARKER"] { print; print ENVIRON["BLOCK"]; replacing = 1; next }
        replacing && !inside && /^```/ { inside = 1; next }
        replacing && inside { if (/^```$/) { replacing = 0; inside = 0 } next }
        { print }' "$page")
    printf '%s\n' "$text" >"$page"
}

# replace_line PAGE BEGIN LINE: the one line that begins with BEGIN becomes LINE.
replace_line() {
    local page=$1 begin=$2 text
    [ "$(grep -cF -e "$begin" "$page")" -eq 1 ] || {
        echo "refresh.sh: $page has not one line that begins with: $begin" >&2
        exit 1
    }
    text=$(BEGIN=$begin LINE=$3 awk 'index($0, ENVIRON["BEGIN"]) == 1 { print ENVIRON["LINE"]; next } { print }' "$page")
    printf '%s\n' "$text" >"$page"
}

# user_and_system FILE: seconds of CPU in what `times` has printed: of the shell in its first line, of its children in the second.
user_and_system() {
    awk 'NR == 2 { for (i = 1; i <= 2; ++i) { split($i, part, /[ms]/); cpu += 60 * part[1] + part[2] } } END { print cpu }' "$1"
}

# megabytes FILE
megabytes() {
    awk -v bytes="$(stat -c %s "$1")" 'BEGIN { printf "%.1f", bytes / 1e6 }'
}

# What docs/install.md says of a build: its CPU time, and the sizes of what it packs.
install_figures() {
    local work tree
    work=$(mktemp -d "${TMPDIR:-/tmp}/ddprun-refresh.XXXXXX")
    tree=$work/tree
    mkdir -p "$tree/build"
    git ls-files -z | xargs -0 cp --parents -t "$tree"
    [ ! -d build/cuda ] || cp -r build/cuda "$tree/build/"
    (
        cd "$tree"
        unset GPU_ARCHITECTURES SOURCE_DATE_EPOCH PACKAGE_LEVEL
        bash cmake/build.sh release
        times >"$work/times"
        cmake --build build --target portable
    ) >&2
    mkdir "$work/root"
    tar xf "$tree"/build/portable/ddprun-*.tar.xz -C "$work/root"
    printf '%s %.0f minutes of CPU time. With kernels for GPUs, which need `nvcc`, the [tarball](#on-clusters-a-tarball-and-a-wheel) has %s MB, the wheel %s MB. <!-- unpacked %s bytes without kernels -->' "$build_figures" \
        "$(awk -v cpu="$(user_and_system "$work/times")" 'BEGIN { print cpu / 60 }')" \
        "$(megabytes "$tree"/build/portable/ddprun-*.tar.xz)" "$(megabytes "$tree"/build/portable/ddprun-*.whl)" \
        "$(bytes_without_kernels "$work/root")"
    rm -rf "$work"
}

# The difference without names of files and numbers of lines.
sample_diff() {
    printf '```diff\n'
    diff -U1 samples/digits/main_plain.c samples/digits/main.c | tail -n +3 | sed 's/^@@ .*/@@/' || true
    printf '```\n'
}

# All figures but those of single models.
partition_figures() {
    printf '```\n'
    "$build/bench/partition" | sed 's/ *$//' | sed -E '/^(resnet50|bert-large|gpt2-124m|small-tensors), |^all models, one bucket/d'
    printf '```\n'
}

# The README up to the end of the block in which the user's own program is checked, and the first part of docs/annotations.md.
words_to_first_success() {
    local way page
    way=$(awk '{ print } /^```/ { code = !code; if (!code && found) exit } code && /ddprun check \.\/train/ { found = 1 }' README.md | wc -w)
    page=$(awk '/^## / && ++parts == 2 { exit } { print }' docs/annotations.md | wc -w)
    echo "$((way + page)) words to the first success: README.md $way, docs/annotations.md $page"
}

replace_block docs/samples.md '<!-- diff of samples/digits/main_plain.c and main.c: written by docs/refresh.sh -->' "$(sample_diff)"
[ "${2:-}" != --install ] || replace_line docs/install.md "$build_figures" "$(install_figures)"
replace_block docs/performance.md '<!-- output of build/bench/partition: written by docs/refresh.sh -->' "$(partition_figures)"
words_to_first_success
