#!/usr/bin/env bash
# files.sh BUILD - behind libddprun-files.so programs and shell tools see every change that they make, the user's folder stays as it
# is, and all that was written is in the private folder; without a private folder, and on excepted paths, nothing is redirected.
# Files and clocks are noted where that is asked for, and the date and random bytes are what is asked for.
set -euo pipefail
source "$(dirname "$0")/../../lib/lib.sh"
build=$(realpath "$1")
here=$(cd "$(dirname "$0")" && pwd)
library=${FILES_LIBRARY:-$build/lib/libddprun-files.so}
shim=$build/lib/libddprun.so
helpers=$build/tests/tools/sandbox
work=$(realpath "$(mktemp -d)")
at_exit 'chmod -R u+rwX "$work" && rm -rf "$work"'
chmod 755 "$work"

# What the programs expect to find.
make_folder() {
    mkdir -p "$1/sub/deep" "$1/listed/d" "$1/threads"
    echo kept >"$1/kept"
    echo one >"$1/sub/one"
    echo two >"$1/sub/two"
    echo three >"$1/sub/deep/three"
    echo four >"$1/sub/deep/four"
    echo untouched >"$1/untouched"
    echo r >"$1/read_only"
    echo r >"$1/also_read"
    echo a >"$1/listed/a"
    echo b >"$1/listed/b"
    echo started >"$1/threads/log"
    ln -s sub/one "$1/to_file"
    ln -s "$1/sub" "$1/to_sub"
    touch -d '2001-02-03 04:05:06' "$1/kept" "$1/sub/one" "$1/sub"
}

# Everything of a folder: names, kinds, modes, owners, times, contents.
describe() {
    (cd "$1" && find . -printf '%p %y %m %U %G %s %T@ %i %l\n' | sort && find . -type f -print0 | sort -z | xargs -0 sha256sum)
}

# case_of NAME COMMAND... - COMMAND, with FOLDER for the folder, behind the library; the folder must not change.
run_over() {
    local name=$1
    shift
    rm -rf "${work:?}/it" "$work/private"
    make_folder "$work/it"
    mkdir -m 700 "$work/private"
    describe "$work/it" >"$work/before"
    check "$name" env ${preload:-LD_PRELOAD="$library"} _DDPRUN_FILES_DIR="$work/private" _DDPRUN_FILES_EXCEPT="${except:-}" \
        "${@//FOLDER/"$work/it"}"
    describe "$work/it" >"$work/after"
    check "$name: the folder is as it was" diff "$work/before" "$work/after"
}

# The same without a private folder, which changes the folder.
run_bare() {
    local name=$1
    shift
    rm -rf "$work/it"
    make_folder "$work/it"
    check "$name, without a private folder" env LD_PRELOAD="$library" "${@//FOLDER/"$work/it"}"
    rm -rf "$work/it"
    make_folder "$work/it"
    check "$name, without the library" "${@//FOLDER/"$work/it"}"
}

has_written() { # PATH... all in the private folder
    local path
    for path; do
        [ -e "$work/private/written$work/it/$path" ] || return 1
    done
}

# ---- programs ----
for program in calls cxx; do
    run_bare "$program" "$helpers/files_$program" FOLDER
    run_over "$program" "$helpers/files_$program" FOLDER
done
check "what C++ wrote is in the private folder" has_written made kept log.txt sub/step_1/weights.bin copy/step_1/weights.bin untouched
check "what C++ removed is marked" test -f "$work/private/removed$work/it/to_file"

# ---- shell tools: each a process of its own, all in one overlay ----
cat >"$work/tools.sh" <<'TOOLS'
set -eu
cd "$1"
expect() { [ "$1" = "$2" ] || { echo "expected '$2', not '$1'"; exit 1; }; }
echo new >new
expect "$(cat new)" new
echo more >>kept
expect "$(cat kept)" "kept
more"
cp kept copied
cp -a sub copied_tree
expect "$(cat copied_tree/deep/four)" four
mv sub/one sub/renamed
[ ! -e sub/one ]
expect "$(ls sub)" "deep
renamed
two"
sed -i 's/two/TWO/' sub/two
expect "$(cat sub/two)" TWO
mkdir -p x/y/z
(
    cd x/y/z
    expect "$(pwd -P)" "$1/x/y/z"
    echo in >../in
)
expect "$(cat x/y/in)" in
expect "$(find x | sort | tr '\n' ' ')" "x x/y x/y/in x/y/z "
rm -r x
[ ! -e x ]
mv sub moved
expect "$(cat moved/deep/three to_sub/two 2>/dev/null)" three
ln -s moved/two link
ln untouched hard
expect "$(cat link hard)" "TWO
untouched"
expect "$(stat -c %h hard)" 2
touch -d '2010-01-01 00:00:00 UTC' untouched
expect "$(stat -c %Y untouched)" 1262304000
chmod 600 untouched
expect "$(stat -c %a untouched)" 600
rm -rf listed
mkdir listed
expect "$(ls -A listed)" ""
ls -la . moved >/dev/null
expect "$(readlink -f link)" "$1/moved/two"
tar cf t.tar moved
rm -r moved
tar xf t.tar
expect "$(cat moved/two)" TWO
dd if=/dev/zero of=big bs=1M count=3 2>/dev/null
expect "$(stat -c %s big)" 3145728
echo "echo ran" >run
chmod 755 run
expect "$(sh ./run)" ran
for i in 1 2 3 4 5 6 7 8; do (echo "$i" >>kept) & done; wait
expect "$(wc -l <kept)" 10
TOOLS
run_bare "tools" sh "$work/tools.sh" FOLDER
run_over "tools" sh "$work/tools.sh" FOLDER
check "what tools wrote is in the private folder" has_written new kept copied copied_tree/deep/four moved/deep/three t.tar

# A second tree of processes with its own private folder sees nothing of the first.
mkdir -m 700 "$work/second"
check "another overlay" env LD_PRELOAD="$library" _DDPRUN_FILES_DIR="$work/second" \
    sh -c "[ ! -e '$work/it/new' ] && [ -e '$work/it/sub/one' ]"

# ---- another process that writes the user's files, and keeps that from this one ----
# seen: the folder, as a process with the private folder sees it; but for the times of directories, which the overlay has none of.
seen() {
    (
        cd "$work/it"
        export LD_PRELOAD="$library" _DDPRUN_FILES_DIR="$work/private"
        find . -printf '%p %y %m %l\n' | sort && find . -type f -printf '%p %s %T@\n' | sort && find . -type f -print0 | sort -z | xargs -0 sha256sum
    )
}
# run_first NAME COMMAND... - COMMAND changes the folder; the other process sees the one that was there.
run_first() {
    local name=$1
    shift
    rm -rf "${work:?}/it" "$work/private" "$work/first"
    make_folder "$work/it"
    mkdir -p "$work/private/written" "$work/first"
    seen >"$work/before"
    check "$name" env LD_PRELOAD="$library" _DDPRUN_FILES_DIR="$work/first" _DDPRUN_FILES_OTHERS="$work/none:$work/private" \
        "${@//FOLDER/"$work/it"}"
    seen >"$work/after"
    check "$name: the other process does not see it" diff "$work/before" "$work/after"
}
cat >"$work/first.sh" <<'TOOLS'
set -eu
cd "$1"
mkdir -p new/folder
echo new >new/folder/file
echo more >>kept
: >untouched
rm sub/one
rm -r sub/deep
mv listed older
mkdir listed
echo c >listed/c
mv read_only moved
echo other >other
mv other also_read
ln -sfn kept to_file
ln kept hard
mkfifo pipe
truncate -s 0 sub/two
[ -e moved ] && [ -e older/d ] && [ ! -e sub/one ]
TOOLS
run_first "another process's tools" sh "$work/first.sh" FOLDER
check "the user's files are written" test -e "$work/it/older/a" -a "$(cat "$work/it/new/folder/file")" = new -a ! -e "$work/it/read_only"
check "nothing lies in the writer's own folder" test -z "$(ls -A "$work/first")"

# ---- what is not redirected ----
ln -s job "$work/to_job"
except=$work/none:$work/to_job run_over "excepted paths" sh -c '
    mkdir -p "$0/job" && echo x >"$0/to_job/x" && echo y >/dev/null && echo z >"$0/jobless" && [ "$(cat "$0/job/x")" = x ] &&
    mv "$0/it/kept" "$0/job/moved" && [ ! -e "$0/it/kept" ] && [ "$(cat "$0/job/moved")" = kept ]' "$work"
check "an excepted path is the real one" test -e "$work/job/x" -a -e "$work/job/moved"
check "what only begins like one is not" test ! -e "$work/jobless"
run_over "files of CUDA and NCCL" env HOME="$work" NCCL_DEBUG_FILE="$work/nccl.%h" sh -c '
    mkdir "$0/.nv" && echo x >"$0/.nv/x" && echo y >"$0/nccl.host.1" && ! mv "$0/it/none" "$0/.nv" 2>/dev/null' "$work"
check "CUDA's cache is the real one" test -e "$work/.nv/x"
mkdir -p "$work/cache/softgpu" "$work/.cache/softgpu"
for row in SOFTGPU_NVRTC_CACHE:chosen: XDG_CACHE_HOME:cache:/softgpu/nvrtc HOME:.:/.cache/softgpu/nvrtc; do
    IFS=: read -r variable folder below <<<"$row"
    run_over "NVRTC's cache by $variable" env -u SOFTGPU_NVRTC_CACHE -u XDG_CACHE_HOME "$variable=$work/$folder" sh -c '
        mkdir "$0" && echo x >"$0/x" && [ "$(cat "$0/x")" = x ]' "$work/$folder$below"
    check "NVRTC's cache by $variable is the real one" test -e "$work/$folder$below/x"
done
check "NCCL's file is the real one" test -e "$work/nccl.host.1"
mkfifo "$work/fifo"
run_over "a pipe" sh -c 'cat "$0/fifo" >"$0/it/from_pipe" & echo through >"$0/fifo"; wait; [ "$(cat "$0/it/from_pipe")" = through ]' "$work"

# ---- when the user may not write, the program may not ----
if [ "$(id -u)" -eq 0 ] && command -v setpriv >/dev/null; then
    user=(setpriv --reuid=65534 --regid=65534 --clear-groups)
    mkdir -m 777 "$work/theirs"
    check "what may not be written" "${user[@]}" env LD_PRELOAD="$library" _DDPRUN_FILES_DIR="$work/theirs" sh -c '
        ! (echo x >"$0/kept") 2>/dev/null && ! (echo x >"$0/new_one") 2>/dev/null && ! rm -f "$0/kept" 2>/dev/null &&
        ! mkdir "$0/d" 2>/dev/null && ! mv "$0/kept" "$0/k" 2>/dev/null && [ "$(cat "$0/kept")" = kept ]' "$work/it"
fi
check "a private folder that does not exist" env LD_PRELOAD="$library" _DDPRUN_FILES_DIR="$work/none/at/all" sh -c \
    '! (echo x >"$0/it/kept") 2>/dev/null' "$work"
check "and nothing was written for it" test "$(cat "$work/it/kept")" = kept

# ---- order: another library writes before this one is started; and together with the shim ----
for preload in "LD_PRELOAD=$helpers/libfiles_early.so:$library" "LD_PRELOAD=$library:$helpers/libfiles_early.so"; do
    run_over "a library that writes when it is loaded" env EARLY_FILE="$work/it/kept" sh -c '[ "$(tail -n 1 "$0/it/kept")" = early ]' "$work"
done
if [ -e "$shim" ]; then
    for preload in "LD_PRELOAD=$shim:$library" "LD_PRELOAD=$library:$shim"; do
        run_over "with the shim" "$helpers/files_calls" FOLDER
    done
fi
unset preload

# ---- what is noted, for `ddprun scout`, in the real folder and behind an overlay ----
noted=$work/noted
{
    printf 'reads %s 5\nreads %s 4\n' "$work/it/kept" "$work/it/sub/one"
    printf 'writes %s 0\nwrites %s 10\n' "$work/it/log.txt" "$work/it/untouched"
} | LC_ALL=C sort >"$noted"
notes() { # FOLDER
    _DDPRUN_FILES_NOTES=1 "$helpers/files_notes" "$1" "$helpers/libfiles_late.so" | LC_ALL=C sort | diff "$noted" -
}
export -f notes
export helpers noted
run_over "notes behind an overlay" bash -c 'notes FOLDER'
rm -rf "$work/it"
make_folder "$work/it"
check "notes alone" env LD_PRELOAD="$library" bash -c "notes '$work/it'"
check "what was written is in the folder" test -e "$work/it/log.txt"
check "nothing is noted that was not asked for" test -z "$(LD_PRELOAD=$library "$helpers/files_notes" "$work/it" "$helpers/libfiles_late.so")"

# ---- the date and random bytes of a run of `ddprun check` ----
dates() { # AHEAD [STANDS]: what it prints into $work/random
    rm -rf "$work/private" && mkdir "$work/private"
    LD_PRELOAD=$library _DDPRUN_FILES_DIR=$work/private _DDPRUN_FILES_DATE="1234567890000000 $1 ${2:-}" RANK=1 \
        "$helpers/files_dates" 1234567890000000 "$1" "$work/elsewhere/libfiles_late.so" ${2:+stands} >"$work/random" || {
        cat "$work/random"
        return 1
    }
}
mkdir "$work/elsewhere"
cp "$helpers/libfiles_late.so" "$work/elsewhere/"
check "dates" dates 0
cp "$work/random" "$work/random-0"
check "dates once more" dates 0
check "random bytes are the same" cmp "$work/random" "$work/random-0"
check "places that read them" test "$(cut -d ' ' -f 2- "$work/private/readings" | LC_ALL=C sort -u)" = "$(
    printf "%s $helpers/files_dates\n" /dev/urandom clock_gettime getrandom gettimeofday time timespec_get
)"
check "dates that stand" dates 0 1
for ahead in 1 -1; do
    check "dates, $ahead ahead" dates "$ahead"
    check "random bytes are $ahead ahead" awk -v ahead="$ahead" '
        NR == FNR { split($0, zero, " "); next }
        { for (i = 1; i <= NF; ++i) if ($i != zero[i] + ahead) exit 1 }
        END { exit NF != 32 }' "$work/random-0" "$work/random"
done

# ---- the library itself: libc only, no newer than glibc 2.17, and every hook shown ----
if command -v readelf >/dev/null; then
    needed=$(readelf -dW "$library" | sed -n 's/.*(NEEDED).*\[\(.*\)\]/\1/p' | grep -vE '^(libc\.so\.6|libdl\.so\.2|ld-linux.*)$' || true)
    check "needs libc only, not $needed" test -z "$needed"
    newest=$(readelf -VW "$library" | grep -o 'GLIBC_[0-9.]*' | sed 's/GLIBC_//' | sort -uV | tail -n 1)
    check "asks for glibc $newest" test "$(printf '%s\n2.17\n' "$newest" | sort -V | tail -n 1)" = 2.17
    meant=$(grep -oE 'HOOK\([a-z_0-9A-Z]+\)' "$here/../../../tools/sandbox/hooks.def" | sed 's/HOOK(\(.*\))/\1/' | LC_ALL=C sort)
    shown=$(nm -D "$library" | awk 'NF == 3 { print $3 }' | LC_ALL=C sort)
    meant=$(printf '%s\n' "$meant" _ZNSt13random_device9_M_getvalEv _ZNSt6chrono3_V212system_clock3nowEv \
        ddprun_files_date_reader ddprun_files_steps_begin ddprun_host_calls | LC_ALL=C sort)
    check "shows its hooks and nothing else" test "$meant" = "$shown"
fi
finish
