# shellcheck shell=bash
# near.sh - for scripts of this folder: files of numbers that are equal but for rounding.

# near FILE OF TOLERANCE: whether both have the same words, and the same numbers but for rounding.
near() {
    test -s "$1" && test "$(wc -l <"$1")" -eq "$(wc -l <"$2")" && paste -d ' ' "$1" "$2" | awk -v most="$3" '{
        if (NF % 2 != 0) exit 1
        for (i = 1; i <= NF / 2; ++i) {
            a = $i; b = $(i + NF / 2)
            if (a !~ /^-?[0-9.]+(e[-+]?[0-9]+)?$/) { if (a != b) exit 1; continue }
            d = a - b; size = b < 0 ? -b : b
            if (d < 0) d = -d
            if (d > most * (size + 0.05)) exit 1
        } }'
}
