#!/usr/bin/env bash
# names.sh [BUILD] [--list N] - a name of a function stands in few files of the product: who searches for it finds what is meant, and not
# what another file calls the same. Counts functions that .c files define, static ones too; with --list it prints the N names that stand in
# most files, and where. Called by tests/run.sh.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
bound=5 # files that may define a function of one name
listed=0
[ "${*: -2:1}" != --list ] || listed=${*: -1}

# Lines NAME FILE. A definition's name begins its line, behind a line that has its type.
definitions() {
    find base bucketing comm interpose launcher tools -name '*.c' -print0 | LC_ALL=C sort -z |
        xargs -0 awk 'match($0, /^[a-z][A-Za-z0-9_]*\(/) { print substr($0, 1, RLENGTH - 1), FILENAME }' | LC_ALL=C sort -u
}

definitions | awk -v bound="$bound" -v listed="$listed" '
    { ++files[$1]; where[$1] = where[$1] " " $2 }
    END {
        for (name in files) {
            ++names
            several += files[name] > 1
            most = files[name] > most ? files[name] : most
            if (files[name] > bound) {
                printf "%s() is defined in %d files: a name with its subject tells them apart:%s\n", name, files[name], where[name]
                bad = 1
            }
        }
        for (count = most; count > 1 && listed > 0; --count)
            for (name in files)
                if (files[name] == count && listed-- > 0)
                    printf "%d %s:%s\n", count, name, where[name]
        printf "%d names of functions, %d of them in several files, each in %d at most\n", names, several, most
        exit bad
    }'
