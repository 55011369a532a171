#!/usr/bin/env bash
# softgpu_table.sh [BUILD] - docs/softgpu.md is what softgpu/conformance.txt says; the tests that the list names exist, and it names every
# test of softgpu/cc and every environment variable that the sources read. Called by tests/run.sh with the build folder; `--write` brings the document up to date.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
list=softgpu/conformance.txt
document=docs/softgpu.md

table() {
    cat <<'END'
# What the stand-in has of CUDA
<!-- Generated from softgpu/conformance.txt by tests/lint/softgpu_table.sh --write. -->
`softgpu-cc train.cu -lcublas -o train` takes nvcc's place: kernels are compiled for the CPU, from source, and run on CPU
libraries with the names and interfaces of CUDA's. What is there gives the results that CUDA defines, and is compared
with a model on the host by the tests named here (`ctest --test-dir build -R NAME`). What is not there is refused: at
compile time with file and line, or by an error that names it.
END
    awk -F' *[|] *' '
        /^#/ || /^$/ { next }
        /^== Environment/ { printf "\n## Environment\n| variable | values | default | meaning |\n| --- | --- | --- | --- |\n"; next }
        /^== / { printf "\n## %s\n| feature | | tested by |\n| --- | --- | --- |\n", substr($0, 4); next }
        { sub(/^ */, "", $1) }
        $1 == "there" { gsub(/[^ ]+/, "`&`", $3); printf "| %s | there | %s |\n", $2, $3; next }
        $1 == "refused" { printf "| %s | refused at compile time; instead: %s | `softgpu/cc/refusals` |\n", $2, $3; next }
        $1 == "absent" { gsub(/[^ ]+/, "`&`", $4); printf "| %s | %s | %s |\n", $2, $3, $4; next }
        $1 == "setting" { gsub(/[^ ,]+/, "`&`", $2); printf "| %s | %s | %s | %s |\n", $2, $3, $4, $5; next }
        { printf "softgpu/conformance.txt:%d: a row begins with there, refused, absent or setting\n", NR >"/dev/stderr"; exit 1 }
    ' "$list"
}

expected=$(table)
if [ "${1:-}" = --write ]; then
    printf '%s\n' "$expected" >"$document"
    exit 0
fi
if ! diff <(printf '%s\n' "$expected") "$document"; then
    echo "$document is not what $list says; bash tests/lint/softgpu_table.sh --write fixes it"
    exit 1
fi

known=$(ctest --test-dir "${1:-build}" -N | sed -n 's/^ *Test *#[0-9]*: //p')
named=$(awk -F' *[|] *' '/^there/ { print $3 } /^absent/ { print $4 } /^refused/ { print "softgpu/cc/refusals" }' "$list" | tr ' ' '\n' | sort -u)
bad=0
while read -r test; do
    if ! grep -qxF -- "$test" <<<"$known"; then
        echo "$list: there is no test $test"
        bad=1
    fi
done <<<"$named"
while read -r test; do
    if ! grep -qxF -- "$test" <<<"$named"; then
        echo "$list: no row names the test $test"
        bad=1
    fi
done < <(grep '^softgpu/cc/' <<<"$known")
# What the sources read of the environment: names in quotes, as getenv or a function over it gets them.
mapfile -t sources < <(find softgpu -name '*.[ch]')
read_names=$(cat "${sources[@]}" | grep -E 'getenv|option\(|define .*VARIABLE' | grep -oE '"(SOFTGPU|NCCL|CUDA|NVCC)_[A-Z_]+"' | tr -d '"' | sort -u)
rows=$(awk -F' *[|] *' '/^setting/ { gsub(/,/, "", $2); print $2 }' "$list" | tr ' ' '\n' | sort -u)
if ! diff <(cat <<<"$read_names") <(cat <<<"$rows"); then
    echo "$list: '<' is read by the sources and has no row 'setting', '>' has a row and is not read"
    bad=1
fi
[ $bad -eq 0 ] || exit 1
printf '%d rows, %d tests\n' "$(grep -cE '^(there|refused|absent)' "$list")" "$(wc -l <<<"$named")"
