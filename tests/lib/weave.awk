# weave.awk - awk -v file=PATH -f weave.awk woven.txt SOURCE: the source with the mutants that woven.txt has for PATH. Exit code 1, with
# the lines: they do not stand in the source, or not once. Called by cmake/Weave.cmake.
function stripped(line) {
    gsub(/^[ \t]+|[ \t]+$/, "", line)
    return line
}
function fail(change, count) {
    printf "tests/lib/woven.txt: in %s this stands %d times, not once:\n%s", file, count, wanted[change] > "/dev/stderr"
    bad = 1
}
FNR == NR && /^#/ { next }
FNR == NR && /^[-+]/ {
    if (here && /^-/ && last != "-") {
        ++changes
        length_of[changes] = 0
    }
    last = substr($0, 1, 1)
    if (here && last == "-") {
        ++length_of[changes]
        wanted[changes] = wanted[changes] stripped(substr($0, 2)) "\n"
    } else if (here) {
        instead[changes] = instead[changes] stripped(substr($0, 2)) "\n"
    }
    next
}
FNR == NR {
    here = $0 == file
    last = ""
    next
}
{ line[++lines] = $0 }
END {
    for (c = 1; c <= changes; ++c) {
        count = 0
        for (i = 1; i + length_of[c] - 1 <= lines; ++i) {
            text = ""
            for (k = 0; k < length_of[c]; ++k)
                text = text stripped(line[i + k]) "\n"
            if (text == wanted[c]) {
                ++count
                at[i] = c
            }
        }
        if (count != 1)
            fail(c, count)
    }
    printf "#include \"tests/lib/mutant.h\"\n#line 1 \"%s\"\n", file
    for (i = 1; i <= lines; ++i) {
        if (i in at) {
            printf "%s", instead[at[i]]
            i += length_of[at[i]] - 1
            printf "#line %d\n", i + 1
        } else {
            print line[i]
        }
    }
    exit bad
}
