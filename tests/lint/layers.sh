#!/usr/bin/env bash
# layers.sh BUILD [PART WORD...] - inside a part, files stand in layers: no file is used by what it uses. The rows `layers` of
# parts.txt name the parts and say, as PART and WORDs do for one part, what is required:
#   files     no circle among the .c files
#   folders   no circle among the folders (a file of the part's own folder stands for itself); a folder with a row in parts.txt
#             uses only what the row lists; and no folder hands the address of a function to another folder, which would call
#             upwards with it, but those of its row `callbacks`
#   FOLDER/   the folders in this one stand for themselves
#   !FOLDER   what lies there is of another library, and left out
#   off       nothing yet
# What a file uses is what its object refers to (nm), functions and variables alike: a layer that reads a variable of a higher
# one depends on it. Addresses are read from machine code, of x86-64 only: that of a function, or of a table that holds
# functions of its file. An address that stays in registers is handed to what is called with it; one that is stored is handed
# to all that the function calls. A function of the same folder that gets an address hands it to all that it calls, unless it
# calls addresses itself.
# Called by tests/run.sh; layers_test.sh is its test.
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/../lib/lib.sh"
cd "${LAYERS_ROOT:-$(dirname "${BASH_SOURCE[0]}")/../..}"
build=${1:-build}
shift || true
table=tests/lint/parts.txt
command -v objdump >/dev/null || skip "no nm and no objdump (package binutils)"

# objects PART WORDS: a line SOURCE OBJECT for each C file of the part that the build has compiled. An object without a source is left from an earlier build.
objects() {
    local part=$1 words=" $2 " object source folder
    find "$build/${part%%/*}" -path '*/CMakeFiles/*.dir/*.c.o' | LC_ALL=C sort | while read -r object; do
        source=${object#"$build"/}
        source=${source%%CMakeFiles/*}${source#*/CMakeFiles/*.dir/}
        source=${source%.o}
        [[ $source == "$part"/* && $source != */test_*.c && $source != */tests/* ]] || continue
        folder=${source#"$part"/}
        while [[ $folder == */* ]]; do
            folder=${folder%/*}
            [[ $words != *" !$folder "* ]] || continue 2
        done
        if [ -e "$source" ] || [ -e "$build/$source" ]; then printf '%s %s\n' "$source" "$object"; fi
    done | LC_ALL=C sort -u -k 1,1
}

# facts WORDS LIST: what the awk program below reads of each line of objects(). One nm reads all objects: it starts for longer than it reads.
facts() {
    local source object
    # shellcheck disable=SC2046 # a word is an object
    nm -A $(cut -d ' ' -f 2 <<<"$2") | awk 'NR == FNR { source[$2] = $1; print "@source", $1; next }
        { at = index($0, ":"); object = substr($0, 1, at - 1) }
        object != last { print "@source", source[last = object] } { print "@nm " substr($0, at + 1) }' <(echo "$2") -
    [[ $1 != *folders* || $(uname -m) != x86_64 ]] || while read -r source object; do
        printf '@source %s\n' "$source"
        objdump -t "$object" | sed -n 's/^\([0-9a-f]*\) .\{6\}\([FO]\) /@symbol \1 \2 /p'
        objdump -r "$object" | grep -A 999999 '^RELOCATION RECORDS FOR \[\.data' || true
        objdump -dr --no-show-raw-insn "$object"
    done <<<"$2"
}

judge='
# The folder of a file below the part, or the file itself if it lies in the folder of the part.
function folder_of(file, path, i) {
    path = substr(file, length(part) + 2)
    for (i = 1; i <= how_count; ++i)
        if (hows[i] ~ /\/$/ && index(path, hows[i]) == 1)
            return part "/" hows[i] substr(path, length(hows[i]) + 1, index(substr(path, length(hows[i]) + 1) "/", "/") - 1)
    return path ~ /\// ? part "/" substr(path, 1, index(path, "/") - 1) : file
}
# The row of parts.txt that decides for a file: the longest part that is a prefix of its path.
function row_of(file, name, best) {
    for (name in row)
        if (index(file "/", name "/") == 1 && length(name) > length(best))
            best = name
    return best
}
function may_use(from, to, count, list, i, may) {
    count = split(row[row_of(from)], list, " ")
    for (i = 1; i <= count; ++i) {
        if (index("!" to "/", list[i] "/") == 1)
            return 0
        if (index(to "/", list[i] "/") == 1)
            may = 1
    }
    return may
}
function complain(text) {
    print text
    bad = 1
}
# Prints each group of nodes that reach each other in the graph edge[from, to] = symbols.
function circles(edge, nodes, kind, key, ends, from, to, via, count, seen, start) {
    split("", reach)
    for (key in edge)
        reach[key] = 1
    for (via in nodes)
        for (from in nodes)
            if ((from, via) in reach)
                for (to in nodes)
                    if ((via, to) in reach)
                        reach[from, to] = 1
    for (start in nodes) {
        if (start in seen || !((start, start) in reach))
            continue
        count = 0
        for (to in nodes)
            if (((start, to) in reach) && ((to, start) in reach)) {
                seen[to] = 1
                ++count
            }
        complain(part ": " count " " kind " use each other in a circle:")
        for (key in edge) {
            split(key, ends, SUBSEP)
            if (((start, ends[1]) in reach) && ((ends[1], start) in reach) && ((start, ends[2]) in reach) && ((ends[2], start) in reach))
                print "    " ends[1] " -> " ends[2] ":" edge[key] | "LC_ALL=C sort"
        }
        close("LC_ALL=C sort")
    }
}
# gcc makes several functions of one.
function plain(name) {
    sub(/\.(part|cold|constprop|isra).*/, "", name)
    return name
}
# What a relocation means: a symbol, or, for ".section+0x12", the symbol of this object that lies there.
function meant(text, bias, at, section, offset, i) {
    if (!match(text, /[-+]0x[0-9a-f]+$/)) {
        section = text
        offset = 0
    } else {
        section = substr(text, 1, RSTART - 1)
        offset = number(substr(text, RSTART + 3)) * (substr(text, RSTART, 1) == "-" ? -1 : 1)
    }
    if (section !~ /^\./)
        return section
    return inside(section, offset + bias)
}
function number(hex, i, sum) {
    sum = 0
    for (i = 1; i <= length(hex); ++i)
        sum = sum * 16 + index("0123456789abcdef", substr(hex, i, 1)) - 1
    return sum
}
function inside(section, offset, i) {
    for (i = 1; i <= symbols; ++i)
        if (symbol_section[i] == section && offset >= symbol_from[i] && offset < symbol_end[i])
            return symbol_name[i]
    return ""
}
# The function that is being read takes the address of a symbol into a register.
function take(name, register) {
    name = plain(name)
    if (name == "" || name == current)
        return
    ++takes
    take_source[takes] = source
    take_by[takes] = current
    take_name[takes] = name
    take_to[takes] = ""
    holder[register] = (instruction ~ /^cmov/ ? holder[register] " " : "") takes
    if (is_argument(register))
        pending[takes] = 1
}
function is_argument(register) {
    return register ~ /^%(rdi|rsi|rdx|rcx|r8|r9)$/
}
# The function that is being read calls a symbol, or an address: "*". What lies in registers for arguments goes there.
function call(name, i) {
    calls[source, current] = calls[source, current] " " plain(name)
    for (i in pending)
        take_to[i] = take_to[i] " " plain(name)
    split("", pending)
}
# An instruction that moves an address on, or overwrites it. holder[register] lists the takes that may be in a register.
function move(from, to, list, count, i) {
    if ((from in holder) && to !~ /^%r/) {
        count = split(holder[from], list, " ")
        for (i = 1; i <= count; ++i)
            in_memory[list[i]] = 1
    }
    if (from in holder)
        from = holder[from]
    else
        from = ""
    if (instruction ~ /^cmov/)
        from = from " " holder[to]
    delete holder[to]
    if (from !~ /[0-9]/ || to !~ /^%r/)
        return
    holder[to] = from
    count = split(from, list, " ")
    for (i = 1; i <= count; ++i)
        if (is_argument(to))
            pending[list[i]] = 1
}
# The file of a name that a file uses: its own one comes first, since names of static functions repeat.
function home_of(file, name) {
    return (file, name) in own ? file : home[name]
}
# A function of a file has an address, and hands it to one function, or to all that it calls.
function hand(file, by, name, targets, list, count, i, other, folder, where, key) {
    count = split(targets, list, " ")
    where = ""
    for (i = 1; i <= count; ++i) {
        other = home_of(file, list[i])
        folder = folder_of(other)
        if (other != "" && folder != folder_of(file) && folder != folder_of(home_of(file, name)) && index(where " ", " " folder " ") == 0)
            where = where " " folder
    }
    if (where == "")
        return
    used[folder_of(file), name] = 1
    if ((folder_of(file), name) in callback)
        return
    if (!((file, by, name) in complained))
        complain(file ": " by "() hands the address of " name " to another folder:" where)
    complained[file, by, name] = 1
}
function pass(file, by, name, targets, list, count, i, to, other) {
    count = split(targets, list, " ")
    for (i = 1; i <= count; ++i) {
        to = list[i]
        other = home_of(file, to)
        if (other != "" && folder_of(other) != folder_of(file))
            hand(file, by, name, to)
        else if (other != "" && !((other, to) in calls_addresses))
            hand(other, to, name, calls[other, to])
    }
}

BEGIN {
    how_count = split(how, hows, " ")
    while ((getline line < table) > 0) {
        if (line ~ /^(#|kind |layers |$)/)
            continue
        if (line ~ /^callbacks /) {
            count = split(line, words, " ")
            for (i = 3; i <= count; ++i)
                callback[words[2], words[i]] = 1
        } else {
            split(line, words, "|")
            gsub(/ /, "", words[1])
            row[words[1]] = words[2]
        }
    }
}

$1 == "@source" {
    source = $2
    files[source] = 1
    folders[folder_of(source)] = 1
    symbols = 0
    mode = ""
    next
}
$1 == "@nm" {
    if ($(NF - 1) ~ /^[A-TX]$/ || ($(NF - 1) ~ /^[VW]$/ && NF == 4 && !($NF in home)))
        home[$NF] = source
    else if ($(NF - 1) ~ /^[Uwv]$/)
        uses[source] = uses[source] " " $NF
    next
}
$1 == "@symbol" {
    ++symbols
    symbol_section[symbols] = $4
    symbol_from[symbols] = number($2)
    symbol_end[symbols] = number($2) + number($5)
    symbol_name[symbols] = $NF
    own[source, plain($NF)] = 1
    if ($3 == "F")
        is_function[source, plain($NF)] = 1
    next
}
/^RELOCATION RECORDS FOR / {
    mode = substr($4, 2, length($4) - 3)
    next
}
mode ~ /^\.data/ && $2 ~ /^R_X86_64_64$/ {
    name = meant($3, 0)
    table_name = inside(mode, number($1))
    if ((source, plain(name)) in is_function) # a table of functions of other files alone calls upwards by no address
        holds_functions[source, table_name] = 1
    next
}
/^[0-9a-f]+ <.*>:$/ {
    settle()
    mode = "code"
    current = $2
    gsub(/[<>:]/, "", current)
    current = plain(current)
    split("", pending)
    split("", holder)
    next
}
mode == "code" && $2 ~ /^R_X86_64_/ {
    if (instruction ~ /^(call|j)/)
        call(meant($3, 4))
    else
        take(meant($3, 4), register)
    forget()
    next
}
mode == "code" && NF > 1 {
    settle()
    instruction = $2
    operands = $0
    sub(/ *#.*/, "", operands)
    sub(/^[^\t]*\t[^ ]* */, "", operands)
    register = operands
    sub(/.*,/, "", register)
    move(substr(operands, 1, length(operands) - length(register) - 1), register)
    if (instruction ~ /^(call|jmp)/ && $3 ~ /^\*/) {
        calls_addresses[source, current] = 1
        count = split(holder[substr($3, 2)], words, " ")
        for (i = 1; i <= count; ++i)
            take_to[words[i]] = take_to[words[i]] " *"
        call("*")
    } else if (instruction ~ /^(call|j)/ && $NF ~ /^<[^+]*>$/)
        local = substr($NF, 2, length($NF) - 2)
    else if (instruction == "jmp")
        jumps = 1
    else if (instruction == "lea" && $0 ~ /# [0-9a-f]+ <[^+>]*>$/)
        taken = substr($NF, 2, length($NF) - 2)
    next
}
# What an instruction without a relocation means is known when the next line is no relocation.
function settle() {
    if (local != "")
        call(local)
    if (taken != "")
        take(taken, register)
    if (jumps)
        split("", pending)
    forget()
}
function forget() {
    local = taken = ""
    jumps = 0
}

END {
    for (source in uses) {
        count = split(uses[source], words, " ")
        for (i = 1; i <= count; ++i) {
            name = words[i]
            other = home[name]
            if (other == "" || other == source)
                continue
            edge[source, other] = edge[source, other] " " name
            if (folder_of(source) == folder_of(other))
                continue
            wide[folder_of(source), folder_of(other)] = wide[folder_of(source), folder_of(other)] " " name
            if (how ~ /folders/ && !may_use(source, other))
                complain(source ": " row_of(source) " must not use " name " of " other)
        }
    }
    if (how ~ /files/)
        circles(edge, files, "files")
    if (how !~ /folders/)
        exit bad
    circles(wide, folders, "folders")
    for (i = 1; i <= takes; ++i) {
        source = take_source[i]
        other = home_of(source, take_name[i])
        if (!((other, take_name[i]) in is_function) && !((other, take_name[i]) in holds_functions))
            continue
        # A function that calls addresses itself has its tables for that.
        if (!((other, take_name[i]) in is_function) && ((source, take_by[i]) in calls_addresses))
            continue
        pass(source, take_by[i], take_name[i], take_to[i])
        if (i in in_memory || take_to[i] == "")
            hand(source, take_by[i], take_name[i], calls[source, take_by[i]])
    }
    for (key in callback) {
        split(key, words, SUBSEP)
        if (index(words[1] "/", part "/") == 1 && !(key in used))
            complain(table ": callbacks " words[1] ": " words[2] " is handed to no other folder")
    }
    exit bad
}'

files=0
held=()
while read -r part words; do
    [[ " $words " != *' off '* ]] || continue
    list=$(objects "$part" "$words")
    if [ -z "$list" ]; then
        complain "$part: the build has compiled no file of it"
        continue
    fi
    files=$((files + $(wc -l <<<"$list")))
    held+=("$part")
    facts "$words" "$list" | awk -v part="$part" -v how="$words" -v table="$table" "$judge" || complain "^ $part"
done < <(if [ $# -gt 0 ]; then echo "$*"; else sed -n 's/^layers //p' "$table"; fi)
[ ${#held[@]} -gt 0 ] || complain "$table: no row 'layers' is on"
finish "$files files stand in layers: ${held[*]}"
