#!/usr/bin/env bash
# parts.sh - no part of the project uses another that it must not know. Holds every #include and every linked target of the
# CMake files to the table parts.txt. Called by tests/run.sh.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
source tests/lib/lib.sh
table=tests/lint/parts.txt

declare -A parts_of kinds_of used
parts=()
headers_of_kind=()
libraries_of_kind=()
while IFS= read -r line; do
    case $line in
    '#'* | '' | 'layers '* | 'callbacks '*) ;;
    'kind '*)
        read -r _ kind rest <<<"$line"
        headers_of_kind+=("$kind ${rest%%:*}")
        libraries_of_kind+=("$kind ${rest#*:}")
        ;;
    *)
        IFS='|' read -r part may kinds <<<"$line"
        part=${part// /}
        parts+=("$part")
        parts_of[$part]=" $may "
        kinds_of[$part]=" libc $kinds "
        used[$part]=' '
        ;;
    esac
done <"$table"

folders=()
for part in "${parts[@]}"; do
    [[ $part == */* || ! -d $part ]] || folders+=("$part")
done

# part_of FILE: sets `part`, the longest part that is a prefix of its path.
part_of() {
    part=$1
    while [ -z "${parts_of[$part]+set}" ] && [[ $part == */* ]]; do
        part=${part%/*}
    done
}

# may_use PART FILE-OR-FOLDER: does the table let PART use what lies there?
may_use() {
    local allowed may=1
    for allowed in ${parts_of[$1]}; do
        [[ "!$2" != "$allowed" && "!$2" != "$allowed"/* ]] || return 1
        [[ $2 != "$allowed" && $2 != "$allowed"/* ]] || may=0
    done
    return "$may"
}

# kind_of NAME ROW...: sets `kind` to the one in whose row a pattern matches NAME, or empty; a C++ header is a name without dot and slash.
declare -A kind_known
kind_of() {
    local name=$1 row pattern
    kind=${kind_known[$name]-unknown}
    [ "$kind" = unknown ] || return 0
    kind=
    shift
    set -f
    for row in "$@"; do
        for pattern in ${row#* }; do
            # shellcheck disable=SC2053 # it is a pattern
            [[ -n $kind || $name != $pattern ]] || kind=${row%% *}
        done
    done
    set +f
    [[ -n $kind || ! $name =~ ^[a-z_]+$ ]] || kind=c++
    kind_known[$name]=$kind
}

# resolve FILE NAME: sets `target` to the header that #include "NAME" in FILE means, from the root of the repository; empty if no such file exists.
declare -A found # a target's own include folder: the name is unique, or else the first one stands for it
while read -r name path; do
    [ -n "${found[$name]+set}" ] || found[$name]=$path
done < <(find "${folders[@]}" -type f | sort | awk '{ name = $0; while (sub(/^[^\/]*\//, "", name)) print name, $0 }')
resolve() {
    local folder=${1%/*}
    for target in "$folder/$2" "$2" "softgpu/include/$2" "softgpu/$2" "interpose/include/$2" "samples/$2"; do
        if [ -e "$target" ]; then
            [[ $target != *./* ]] || target=$(realpath --relative-to=. "$target")
            return
        fi
    done
    target=${found[$2]:-}
}

check_include() {
    local file=$1 line=$2 text=$3 part name target kind
    part_of "$file"
    # Unit tests beside the code that they test see what tests may see.
    if [[ $part != */tests* && (${file##*/} == test_* || $file == */tests/*) ]]; then part=tests; fi
    name=${text#*[<\"]}
    name=${name%%[>\"]*}
    resolve "$file" "$name"
    if [ -n "$target" ] && { [[ $text == *\"* ]] || [ "$name" = ddprun.h ] || [ "$name" = ddprun_torch.h ] || [[ $name == */* ]]; }; then
        may_use "$part" "$target" || complain "$file:$line: $part must not include $target"
    elif [[ $text == *\"* ]]; then
        # Generated headers are named *.inc or *_generated.h and belong to the part that includes them.
        [[ $name == *.inc || $name == *_generated.h ]] || complain "$file:$line: \"$name\" is no header of this repository"
    else
        kind_of "$name" "${headers_of_kind[@]}"
        if [ -z "$kind" ]; then
            complain "$file:$line: <$name> belongs to no kind of $table"
        elif [[ ${kinds_of[$part]} != *" $kind "* ]]; then
            complain "$file:$line: $part must not include <$name> ($kind)"
        fi
        used[$part]+="$kind "
    fi
}

include_count=0
while IFS=: read -r file line text; do
    check_include "$file" "$line" "$text"
    include_count=$((include_count + 1))
done < <(grep -rnE --include='*.[chS]' --include='*.cc' --include='*.cpp' --include='*.cu' --include='*.cuh' --include='*.in' \
    '^[[:space:]]*#[[:space:]]*include[[:space:]]*[<"]' "${folders[@]}" | grep -v '^softgpu/device/include/\|^tests/[^:]*/nvcc/')

# Targets: who defines each, then who names it in target_link_libraries() or in our functions' LIBRARIES.
declare -A home_of
while IFS=: read -r file text; do
    name=$(sed -E 's/.*\(\s*([A-Za-z0-9_.-]+).*/\1/' <<<"$text")
    home_of[$name]=$file
done < <(grep -rE --include=CMakeLists.txt '^\s*(add_library|ddprun_shared_library|softgpu_exports|softgpu_library)\(\s*[A-Za-z]' "${folders[@]}")

# What a target links: the calls of target_link_libraries() and of the functions that take LIBRARIES. A program may link what its
# first source may use, any other target what its folder may. A test's own call may name everything that tests may use.
check_call() {
    local file=$1 target=$2 word kind source
    shift 2
    source=$(grep -F "add_executable($target " "$file" || true)
    source=${source#*"$target "}
    part_of "${file%/*}/${source%%[ )]*}"
    for word; do
        if [ -n "${home_of[$word]:-}" ]; then
            may_use "$part" "${home_of[$word]}" || complain "$file: $part must not link $word of ${home_of[$word]%/*}"
        fi
        case $word in
        PkgConfig::* | Threads::Threads | cuda_headers)
            kind_of "$word" "${libraries_of_kind[@]}"
            [[ -n $kind && ${kinds_of[$part]} == *" $kind "* ]] || complain "$file: $part must not link $word (${kind:-of no kind})"
            used[$part]+="$kind "
            ;;
        esac
    done
}

for file in $(find "${folders[@]}" -name CMakeLists.txt | sort); do
    while read -r -a words; do
        [ ${#words[@]} -eq 0 ] || check_call "$file" "${words[@]}"
    done < <(sed 's/#.*//' "$file" | tr '\n' ' ' |
        grep -oE '(target_link_libraries|ddprun_shared_library|softgpu_exports|softgpu_library|add_dependencies)\([^)]*\)' |
        sed -E 's/^[a-z_]+\([[:space:]]*//; s/[)"]/ /g' | grep -v '^test_' || true)
done

# A row lists only what the files of its part use.
for part in "${parts[@]}"; do
    for kind in ${kinds_of[$part]}; do
        [[ $kind == libc || ${used[$part]} == *" $kind "* ]] || complain "$table: $part lists $kind, which no file of it uses"
    done
done

[ "$include_count" -gt 0 ] || complain "no #include found: the check looked in the wrong place"
finish "$include_count includes and ${#home_of[@]} targets hold to $table"
