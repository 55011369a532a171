#!/usr/bin/env bash
# random.sh BUILD [FIRST-SEED [SEEDS [OPERATIONS]]] - the same random file operations have the same results on a folder and behind
# libddprun-files.so, and there the folder stays as it is. See random_operations.c.
set -euo pipefail
source "$(dirname "$0")/../../lib/lib.sh"
build=$(realpath "$1")
first=${2:-1} seeds=${3:-25} operations=${4:-500}
library=$build/lib/libddprun-files.so
program=$build/tests/tools/sandbox/files_random
work=$(mktemp -d)
at_exit 'rm -rf "$work"'

# Root may do everything: then another user makes the operations.
as_user=()
if [ "$(id -u)" -eq 0 ] && command -v setpriv >/dev/null; then
    as_user=(setpriv --reuid=65534 --regid=65534 --clear-groups)
fi

make_folder() {
    mkdir -p "$1/sub/deep/sub" "$1/deep" "$1/locked/sub"
    echo one >"$1/a"
    echo two >"$1/sub/a"
    echo three >"$1/sub/deep/b"
    echo four >"$1/sub/deep/sub/c"
    echo five >"$1/locked/a"
    echo six >"$1/deep/c"
    ln -s sub/a "$1/to_file"
    ln -s "$1/sub" "$1/to_sub"
    ln -s ../deep "$1/sub/to_sub"
    ln -s nothing/here "$1/sub/nowhere"
    ln -s nowhere "$1/nowhere"
    chmod 444 "$1/deep/c"
    chmod 640 "$1/sub/deep/b"
    if [ ${#as_user[@]} -gt 0 ]; then chown -R 65534:65534 "$1"; fi
    chmod 555 "$1/locked"
}

# What a folder holds: names, kinds, modes, contents, times.
describe() {
    (cd "$1" && find . -printf '%p %y %m %s %T@ %l\n' | sort && find . -type f -print0 | sort -z | xargs -0 sha256sum)
}

chmod 755 "$work"
for ((seed = first; seed < first + seeds; ++seed)); do
    at=$work/$seed
    mkdir "$at"
    make_folder "$at/bare/it"
    make_folder "$at/over/it"
    mkdir -m 700 "$at/private"
    if [ ${#as_user[@]} -gt 0 ]; then chown 65534:65534 "$at/private"; fi
    describe "$at/over/it" >"$at/before"
    "${as_user[@]}" "$program" "$at/bare/it" "$seed" "$operations" >"$at/bare.txt" || complain "seed $seed: the program fails"
    "${as_user[@]}" env LD_PRELOAD="$library" _DDPRUN_FILES_DIR="$at/private" "$program" "$at/over/it" "$seed" "$operations" \
        >"$at/over.txt" || complain "seed $seed: the program fails in the overlay"
    describe "$at/over/it" >"$at/after"
    diff "$at/before" "$at/after" >"$at/changed" || complain "seed $seed: the real folder has changed: $(head -n 10 "$at/changed")"
    diff "$at/bare.txt" "$at/over.txt" >"$at/differs" ||
        complain "seed $seed: < on the folder, > in the overlay: $(head -n 10 "$at/differs")"
    chmod -R u+rwX "$at" 2>/dev/null || true
    rm -rf "$at"
    [ "$failures" -eq 0 ] || break
done
finish "$seeds sequences of $operations operations"
