# shellcheck shell=bash
# compile_commands.sh - how clang's tools read what gcc compiles. Sourced by checks of tests/lint; starts nothing and makes no folder.

# product_sources COMMANDS: the C files of the product in a compile_commands.json, one a line, as absolute paths. What the build
# generates is not read by people, and tests are not of the product.
product_sources() {
    sed -n 's/^ *"file": "\(.*\.c\)".*/\1/p' "$1" | grep "^$PWD/" | grep -vE "^$PWD/(build|tests|softgpu/tests)/" | sort -u
}

# clang_commands COMMANDS [ALL]: prints a compile_commands.json without the precompiled headers of gcc (ddprun_parse_once), which clang
# cannot read. Each file is in it with its first compilation; with each, if ALL is 1.
clang_commands() {
    sed -E 's/ -Winvalid-pch -include [^ ]*cmake_pch\.h//' "$1" | awk -F '"file": ' -v RS='\n},?\n' -v all="${2:-0}" '
        NF == 2 && (all == 1 || !seen[$2]++) { print (n++ ? "," : "[") substr($0, index($0, "{")) "}" } END { print "]" }'
}
