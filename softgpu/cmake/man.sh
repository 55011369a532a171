#!/usr/bin/env bash
# man.sh PAGE.in VERSION SOURCE - writes a man page to standard output. Its line @OPTIONS@ becomes what `SOURCE --help-all`, or `--help`, says of
# the program's options, a line @OPTIONS WORD@ what `SOURCE WORD --help` says, its line @MACROS@ what the header SOURCE says of its macros, its line
# @PAGE@ what the page of docs/ SOURCE says, but for its title and its list of contents: page and source always tell the same.
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

# The comment that stands right above a macro DDP_..., or above the #if of its first form; several macros may share one. An empty line in it
# begins a paragraph; lines set in by four blanks are an example, whose lines stay as they are.
macros() {
    awk '
        function flush() {
            if (names != "") printf "ITEM %s\n%s", names, comment
            names = ""
        }
        /^\/\*/ { flush(); comment = ""; open = 1; gap = example = 0 }
        open {
            line = $0
            sub(/^(\/\*| \*\/?) ?/, "", line)
            sub(/ *\*\/$/, "", line)
            if (comment == "")
                sub(/^DDP_[A-Z_]+\([^)]*\): /, "", line)
            if (line == "")
                gap = comment != ""
            else {
                if ((line ~ /^    /) != example) {
                    comment = comment (example ? "ROFF .fi\nROFF .IP\n" : "ROFF .IP\nROFF .nf\n")
                    example = !example
                } else if (gap)
                    comment = comment "ROFF .IP\n"
                comment = comment "TEXT " line "\n"
                gap = 0
            }
            if ($0 ~ /\*\/$/) { open = 0; ready = 1 }
            next
        }
        ready && /^#define DDP_[A-Z_]*[A-Z]\([^)]*\)/ && match($0, /DDP_[A-Z_]*[A-Z]\([^)]*\)/) {
            names = names (names != "" ? ", " : "") substr($0, RSTART, RLENGTH)
            next
        }
        ready && /^#(if|el|endif)/ { next }
        { flush(); ready = 0 }
        END { flush() }' "$source"
}

# Markdown as docs/ has it: headings, lists of two depths, code, links, which become their text.
markdown() {
    awk '
        function escape(text) {
            gsub(/\\/, "\\e", text)
            gsub(/-/, "\\-", text)
            sub(/^[.\047]/, "\\\\\\&&", text)
            return text
        }
        function inline(text,    out, code, bold, italic) {
            for (text = escape(text); text != "";) {
                if (text ~ /^`/) {
                    code = !code
                    out = out (code || bold ? "\\fB" : "\\fR")
                    text = substr(text, 2)
                } else if (!code && text ~ /^[*][*]/) {
                    bold = !bold
                    out = out (bold ? "\\fB" : "\\fR")
                    text = substr(text, 3)
                } else if (!code && text ~ /^[*]/) {
                    italic = !italic
                    out = out (italic ? "\\fI" : "\\fR")
                    text = substr(text, 2)
                } else if (!code && match(text, /^\[[^]]*\]\([^)]*\)/)) {
                    text = substr(text, 2, index(text, "](") - 2) substr(text, RLENGTH + 1)
                } else {
                    out = out substr(text, 1, 1)
                    text = substr(text, 2)
                }
            }
            return out
        }
        function flush() {
            if (text != "")
                print inline(text)
            text = ""
        }
        # inside(depth): of lists; what stands in one is set in by groff.
        function inside(wanted) {
            flush()
            for (; depth > wanted; --depth)
                if (depth > 1)
                    print ".RE"
            for (; depth < wanted; ++depth)
                if (depth > 0)
                    print ".RS 2"
        }
        /^```/ {
            flush()
            code = !code
            gap = !code
            print code ? ".PP\n.nf" : ".fi"
            next
        }
        code { print escape($0); next }
        /^# / || /^- \[[^]]*\]\(#[^)]*\)$/ { next }
        /^## / { inside(0); print ".SH " inline(toupper(substr($0, 4))); next }
        /^- / { inside(1); print ".IP \\(bu 2"; text = substr($0, 3); next }
        /^  - / { inside(2); print ".IP \\(bu 2"; text = substr($0, 5); next }
        /^$/ { flush(); gap = 1; next }
        {
            if (gap && text == "") {
                if ($0 !~ /^ /)
                    inside(0)
                print (depth > 0 ? ".IP" : ".PP")
            }
            gap = 0
            sub(/^ +/, "")
            text = text (text != "" ? " " : "") $0
        }
        END { inside(0) }' "$source"
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
        ROFF*) printf '%s\n' "${item#* }" ;;
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
    @PAGE@) markdown ;;
    *) printf '%s\n' "${line//@VERSION@/$version}" ;;
    esac
done <"$page"
