#!/usr/bin/env bash
# table.sh [BUILD] - docs/softgpu.md is what conformance.txt says; the tests that the list names exist, and it names every
# test of softgpu/cc and every environment variable that the sources read. Called by the test softgpu/table with the build folder; `--write` brings the document up to date.
set -euo pipefail
build=${1:-build}
[ "$build" = --write ] || build=$(realpath "$build")
cd "$(dirname "${BASH_SOURCE[0]}")/.."
list=conformance.txt
document=docs/softgpu.md

table() {
    cat <<'END'
# What the stand-in has of CUDA
<!-- Generated from conformance.txt by docs/table.sh --write. -->
```sh
softgpu-cc train.cu -lcublas -o train
```

`softgpu-cc` takes nvcc's place. It compiles CUDA sources for the CPU and links libraries with the names and interfaces of
CUDA's. The features below give the results that CUDA defines; tests compare them with a model on the host. Others are
refused at compile time, with file, line and an alternative, or by an error that names them.
END
    awk -F' *[|] *' '
        # Of a section: its features as a list, then a table of the others.
        function close_section() {
            if (others != "")
                printf "\n| not supported | instead |\n| --- | --- |\n%s", others
            others = ""
        }
        /^#/ || /^$/ { next }
        /^== / { close_section(); printf "\n## %s\n", substr($0, 4) }
        /^== Environment/ { printf "| variable | values | default | meaning |\n| --- | --- | --- | --- |\n" }
        /^== / { next }
        { sub(/^ */, "", $1) }
        $1 == "there" { printf "- %s\n", $2; next }
        $1 == "tested" || $1 == "outside" { next }
        $1 == "refused" || $1 == "absent" { others = others sprintf("| %s | %s |\n", $2, $3); next }
        $1 == "setting" { gsub(/[^ ,]+/, "`&`", $2); printf "| %s | %s | %s | %s |\n", $2, $3, $4, $5; next }
        { printf "conformance.txt:%d: a row begins with there, tested, refused, absent, setting or outside\n", NR >"/dev/stderr"; exit 1 }
        END { close_section() }
    ' "$list"
}

expected=$(table)
if [ "$build" = --write ]; then
    printf '%s\n' "$expected" >"$document"
    exit 0
fi
if ! diff <(printf '%s\n' "$expected") "$document"; then
    echo "$document is not what $list says; bash docs/table.sh --write fixes it"
    exit 1
fi

known=$(ctest --test-dir "$build" -N | sed -n 's/^ *Test *#[0-9]*: //p'; sed -n 's/^outside | //p' "$list")
named=$(awk -F' *[|] *' '/^(there|tested)/ { print $3 } /^absent/ { print $4 } /^refused/ { print "softgpu/cc/refusals" }' "$list" | tr ' ' '\n' | sort -u)
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
mapfile -t sources < <(find . -path ./tests -prune -o -path ./build -prune -o -name '*.[ch]' -print)
read_names=$(cat "${sources[@]}" | grep -E 'getenv|option\(|define .*VARIABLE' | grep -oE '"(SOFTGPU|NCCL|CUDA|NVCC)_[A-Z_]+"' | tr -d '"' | sort -u)
rows=$(awk -F' *[|] *' '/^setting/ { gsub(/,/, "", $2); print $2 }' "$list" | tr ' ' '\n' | sort -u)
if ! diff <(cat <<<"$read_names") <(cat <<<"$rows"); then
    echo "$list: '<' is read by the sources and has no row 'setting', '>' has a row and is not read"
    bad=1
fi
[ $bad -eq 0 ] || exit 1
printf '%d rows, %d tests\n' "$(grep -cE '^(there|tested|refused|absent)' "$list")" "$(wc -l <<<"$named")"
