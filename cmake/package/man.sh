#!/usr/bin/env bash
# man.sh PAGE.in VERSION SOURCE - writes a man page to standard output. Its line @OPTIONS@ becomes what `SOURCE --help-all`, or `--help`, says of
# the program's options, a line @OPTIONS WORD@ what `SOURCE WORD --help` says, its line @MACROS@ what the header SOURCE says of its macros: page and source always tell the same.
# Called by the build.
set -euo pipefail
page=$1
version=$2
source=$3

# roff: a backslash and a hyphen are escaped, a line never begins with a dot or a quote.
escape() {
    sed -e 's/\\/\\e/g' -e 's/-/\\-/g' -e "s/^[.']/\\\\\&&/"
}

# Lines of "TITLE text", "ITEM text", "ROW text", "TEXT text". An option's line begins with two blanks and a dash, or six blanks and two;
# what follows, deeper, is its description; a title stands at the margin and ends in a colon.
options() {
    { if [ $# -gt 0 ]; then "$source" "$@" --help; else "$source" --help-all 2>/dev/null || "$source" --help; fi; } | awk '
        /^[^ ].*:$/ { title = $0; sub(/:$/, "", title); inside = 0; next }
        /^(  -|      --)/ {
            if (title != "") { print "TITLE " title; title = "" }
            sub(/^ +/, "")
            at = match($0, /  +/)
            print "ITEM " (at ? substr($0, 1, at - 1) : $0)
            if (at) { rest = substr($0, at); sub(/^ +/, "", rest); print "TEXT " rest }
            inside = 1
            next
        }
        /^ / && inside {
            sub(/^ +/, "")
            at = match($0, /^[^ ]+  +/) ? index($0, " ") : 0 # a row of a list: a value, blanks, its meaning
            if (at) { print "ROW " substr($0, 1, at - 1); sub(/^[^ ]+ +/, "") }
            print "TEXT " $0
            next
        }
        { inside = 0 }'
}

# The comment that stands right above a macro DDP_..., for each of them; several macros may share one.
macros() {
    awk '
        function flush() {
            if (names != "") printf "ITEM %s\n%s", names, comment
            names = ""
        }
        /^\/\*/ { flush(); comment = ""; open = 1 }
        open {
            line = $0
            sub(/^(\/\*| \*\/?) ?/, "", line)
            sub(/ *\*\/$/, "", line)
            sub(/^DDP_[A-Z_]+\([^)]*\): /, "", line)
            if (line != "") comment = comment "TEXT " line "\n"
            if ($0 ~ /\*\/$/) { open = 0; ready = 1 }
            next
        }
        ready && /^#define DDP_[A-Z_]*[A-Z]\([^)]*\)/ && match($0, /DDP_[A-Z_]*[A-Z]\([^)]*\)/) {
            names = names (names != "" ? ", " : "") substr($0, RSTART, RLENGTH)
            next
        }
        { flush(); ready = 0 }
        END { flush() }' "$source"
}

format() {
    local item text
    while IFS= read -r item; do
        text=$(escape <<<"${item#* }")
        case $item in
        TITLE*) printf '.SS %s\n' "$text" ;;
        ITEM*) printf '.TP\n\\fB%s\\fR\n' "$text" ;;
        ROW*) printf '.br\n\\fB%s\\fR:\n' "$text" ;;
        TEXT*) printf '%s\n' "$text" ;;
        esac
    done
}

while IFS= read -r line; do
    case $line in
    @OPTIONS@) options | format ;;
    @OPTIONS\ *@)
        word=${line#@OPTIONS }
        options "${word%@}" | format
        ;;
    @MACROS@) macros | format ;;
    *) printf '%s\n' "${line//@VERSION@/$version}" ;;
    esac
done <"$page"
