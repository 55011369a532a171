#!/usr/bin/env bash
# old_glibc.sh FOLDER NEWEST CC - makes FOLDER, with which `CC -B FOLDER/ -L FOLDER` links programs that run with glibc NEWEST (2.28)
# and later, whichever is on this machine.
#
# A symbol of glibc has one or more versions, and the linker takes the newest. So FOLDER has libraries with glibc's names that
# hold nothing but symbols: those of this machine's glibc, without the versions after NEWEST. What such a program needs that has
# come since is in old_start.c and newer_calls.c, which are linked into it.
#
# Since 2.34 libc has what were libpthread, libdl and others before. A program has to name the library that had a symbol: the loader
# of a glibc before 2.30 refuses it where the named library does not. A symbol that moved has a version from after NEWEST, too, and its
# name tells where it was.
set -euo pipefail
folder=$1 newest=$2 cc=$3
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
mkdir -p "$folder"

die() {
    echo "old_glibc: $*" >&2
    exit 1
}

# symbols LIBRARY: lines LIBRARY ADDRESS SIZE TYPE BINDING NAME VERSION LINKED, by address: the library of glibc NEWEST that has a symbol of
# this machine's LIBRARY, and whether the linker takes this version of it. Names that it no longer takes at all are kept for old
# programs: libc_nonshared.a has some of them, and newer_calls.c calls those of stat.
symbols() {
    local real
    real=$("$cc" -print-file-name="$1")
    [[ $real == /* ]] || die "$cc does not find $1"
    LC_ALL=C readelf -W --dyn-syms "$real" | awk '$7 != "UND" && $8 ~ /@GLIBC_2[.0-9]+$/ { print $2, $3, $4, $5, $8 }' | LC_ALL=C sort |
        awk -v newest="$newest" -v library="$1" '
        function number(version, part) {
            split(version, part, ".")
            return part[1] * 1e6 + part[2] * 1e3 + part[3]
        }
        function home(name) {
            if (library != "libc.so.6" || !moved[name] || name == "__libc_start_main") return library
            if (name ~ /^dl/) return "libdl.so.2"
            if (name ~ /^_*(aio|lio|mq|shm|timer)_/) return "librt.so.1"
            if (name ~ /^_*(pthread|sem|thrd|mtx|cnd|tss)_|^call_once/) return "libpthread.so.0"
            if (name ~ /^ns_/) return "libresolv.so.2"
            if (name ~ /^(forkpty|openpty|log(in|out|wtmp))/) return "libutil.so.1"
            return name ~ /^(gai_|getaddrinfo_a)/ ? "libanl.so.1" : library
        }
        $5 ~ /@@/ || $5 ~ /^__[fl]?xstat/ { taken[substr($5, 1, index($5, "@") - 1)] = 1 }
        { name = version = $5; sub(/@.*/, "", name); sub(/.*GLIBC_/, "", version) }
        number(version) > number(newest) { moved[name] = 1; next }
        {
            line[++count] = $1 " " $2 " " $3 " " $4; names[count] = name; versions[count] = version
            if (number(version) > number(latest[name])) latest[name] = version
        }
        END {
            for (i = 1; i <= count; ++i)
                print home(names[i]), line[i], names[i], versions[i], taken[names[i]] && versions[i] == latest[names[i]]
        }'
}

# stub LIBRARY: FOLDER/LIBRARY, of the lines that name it. Data are as large as they are, and names of one address stay so: a
# program that takes a copy of `environ` takes `__environ`, too.
stub() {
    awk -v library="$1" -v map="$folder/$1.map" '
        $1 != library { next }
        $2 != address {
            if (address != "") print ".space " room
            print ($4 == "TLS" ? ".section .tbss,\"awT\",@nobits" : $4 == "OBJECT" ? ".bss" : ".text") "\n.balign 16"
            address = $2
            room = 16
        }
        {
            if ($4 == "TLS" || $4 == "OBJECT") room = room "+" $3 # enough for the largest; the assembler reads what is hexadecimal
            printf ".%s s%d\n.type s%d, @%s\n.size s%d, %s\ns%d:\n", $5 == "WEAK" ? "weak" : "globl", NR, NR,
                $4 == "TLS" ? "tls_object" : $4 == "OBJECT" ? "object" : "function", NR, $3, NR
            printf ".symver s%d, %s%sGLIBC_%s\n", NR, $6, $8 ? "@@" : "@", $7
            if (!nodes[$7]++) printf "GLIBC_%s {%s };\n", $7, node++ ? "" : " local: s[0-9]*;" > map
        }
        END { print ".space " room }' "$folder/symbols" >"$folder/$1.s"
    "$cc" -shared -nostdlib -Wl,-soname,"$1" -Wl,--version-script="$folder/$1.map" -x assembler "$folder/$1.s" -o "$folder/$1"
}

{ symbols libc.so.6 && symbols libm.so.6; } >"$folder/symbols"
grep '^libpthread\.so\.0 .* pthread_create ' "$folder/symbols" >/dev/null ||
    die "this machine's glibc is older than 2.34: its libc has no pthread_create"
libraries=$(cut -d ' ' -f 1 "$folder/symbols" | LC_ALL=C sort -u)
for library in $libraries; do
    stub "$library"
done
ln -sf libm.so.6 "$folder/libm.so"

# What `-lc` means: as on this machine, with these libraries for its own, and before them what is linked in.
for source in old_start newer_calls; do
    "$cc" -O2 -fPIC -fvisibility=hidden -D_GNU_SOURCE -std=gnu17 -Wall -Wextra -Werror \
        -c "$here/$source.c" -o "$folder/$source.o"
done
rm -f "$folder/libnewer.a"
ar crD "$folder/libnewer.a" "$folder/old_start.o" "$folder/newer_calls.o"
stubs=
for library in $libraries; do
    [ "$library" = libc.so.6 ] || stubs+=" $folder/$library"
done
sed "s,/[^ ]*/libc\.so\.6,$folder/libnewer.a $folder/libc.so.6 AS_NEEDED ($stubs )," "$("$cc" -print-file-name=libc.so)" >"$folder/libc.so"
