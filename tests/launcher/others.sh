#!/bin/bash
# others.sh BUILD - what another user of the machine prepares: folders that it may change, files and links in folders that all may write
# to. ddprun neither works in them nor writes into them, and its message names them. As root, who can play two users.
source "$(dirname "$0")/lib.sh"
work=$top
[ "$(id -u)" -eq 0 ] || skip "only root can play two users"
command -v setpriv >/dev/null || skip "there is no setpriv (Debian: util-linux)"
victim=54321 other=54322 # no users of any machine
chmod 755 "$top" "$top/tmp"
sticky=$top/sticky
install -d -m 1777 "$sticky"
install -d -o $victim -g $victim -m 700 "$top/home" "$top/home/tmp"
as() { setpriv --reuid="$1" --regid="$1" --groups "$1${groups:-}" "${@:2}"; }

# victim TMPDIR ARGS...: ddprun of the victim.
victim() {
    run_in_front as $victim env HOME="$top/home" TMPDIR="$1" timeout -k 1 "$limit" "$ddprun" "${@:2}"
}

# ---- places ----
moved='^ddprun: another user can replace .*, so temporary files are not in .*, but in (/dev/shm|/tmp)$'
place() { # NAME FOLDER: the job folder is elsewhere
    gives "$1" 0 "$err" "$moved" "$out" '^_DDPRUN_JOB_DIR=(/dev/shm|/tmp)/ddprun-' -- victim "$2" -n 2 "$fake" env _DDPRUN_JOB_DIR
}
victim "$top/home/tmp" -n 2 "$fake" env _DDPRUN_JOB_DIR
report "a TMPDIR of the victim's own" "$(expect 0 "$out" "^_DDPRUN_JOB_DIR=$top/home/tmp/ddprun-")$(grep replace "$err")"
for mode in 1777 755 777; do
    as $other mkdir -m $mode "$sticky/theirs-$mode"
    chmod $mode "$sticky/theirs-$mode"
    place "a TMPDIR of another user, mode $mode" "$sticky/theirs-$mode"
done
install -d -o 0 -g $other -m 2770 "$top/project"
groups=,$other place "a TMPDIR that a group of others may write to" "$top/project"
as $other mkdir -m 755 "$sticky/way"
install -d -o $victim -m 700 "$sticky/way/own"
place "a TMPDIR in a folder of another user" "$sticky/way/own"

# ---- files ----
foreign='it, or a link to it, belongs to another user, in a folder that others may write to'
untouched() { [ "$(cat "$1")" = theirs ] || echo "$1 was written into "; }
prepare() { # FILE: another user's, which all may write
    as $other sh -c 'echo theirs >"$1" && chmod 666 "$1"' sh "$1"
}
as $other ln -s "$top/home" "$sticky/folder" # a link on the way
for option in --summary-json --metrics --failure-report --page; do
    file=$sticky/file$option
    prepare "$file"
    victim "$top/home/tmp" -n 2 $option "$file" "$fake" exit 0
    report "$option: a file of another user" "$(expect 2 "$err" "^ddprun: cannot write to $file, in $option: $foreign")$(untouched "$file")"
    victim "$top/home/tmp" -n 2 $option "$sticky/folder/new" "$fake" exit 0
    report "$option: a link of another user on the way" "$(expect 2 "$err" "$foreign")$([ ! -e "$top/home/new" ] || echo "it was followed ")"
done
install -d -o $victim -m 1777 "$sticky/printed"
prepare "$sticky/printed/rank-1.err"
victim "$top/home/tmp" -n 2 --output "files=$sticky/printed" "$fake" exit 0
report "--output: a file of another user" "$(expect 1 "$err" "cannot write $sticky/printed/rank-1.err, in --output: $foreign")$(untouched "$sticky/printed/rank-1.err")"

# ---- and files of the victim's own, there ----
for option in --summary-json --metrics; do
    as $victim sh -c 'echo old >"$1"' sh "$sticky/own$option"
    victim "$top/home/tmp" -n 2 $option "$sticky/own$option" "$fake" exit 0
    report "$option: a file of one's own in such a folder" "$(expect 0)$(grep -qx old "$sticky/own$option" && echo "it is as it was ")"
done

# ---- a job under way ----
# denied NAME COMMAND...: the other user can neither do it nor see anything by it.
denied() {
    local can=
    as $other "${@:2}" >"$top/seen" 2>/dev/null && can='it can '
    report "a job under way: $1" "$can$(head -c 60 "$top/seen")"
}
install -d -o $victim -m 700 "$top/home/pids"
as $victim env HOME="$top/home" TMPDIR="$sticky" timeout -k 1 "$limit" "$ddprun" -n 2 --metrics "$sticky/under-way" \
    "$fake" stage 3 pid "$top/home/pids" step 1 await "$top/home/go" exit 0 >"$out" 2>"$err" </dev/null &
job=$!
within 20 files_in "$top/home/pids" 2
within 20 test -e "$sticky/under-way"
folder=$(echo "$sticky"/ddprun-$victim-*)
for command in ls rmdir 'rm -r' 'chmod 777' "chown $other" 'touch -d 2001-01-01'; do
    denied "$command its folder" $command "$folder"
done
denied "move its folder" mv "$folder" "$sticky/elsewhere"
denied "a file into its folder" cp /etc/hostname "$folder/new"
denied "a link into its folder" ln -s /etc "$folder/new"
for file in "$folder"/*; do
    for command in 'head -c 1' 'truncate -s 0' 'rm -f'; do
        denied "$command ${file##*/}" $command "$file"
    done
done
for command in 'truncate -s 0' 'rm -f' 'chmod 666'; do
    denied "$command its metrics" $command "$sticky/under-way"
done
ranks=$(cat "$top/home/pids"/*)
for pid in $(pgrep -P "$job") $ranks; do
    denied "end process $pid" kill -TERM "$pid"
    denied "stop process $pid" kill -STOP "$pid"
    denied "limit process $pid" prlimit --pid "$pid" --nofile=3
    for file in environ maps mem fd/ cwd/ root/; do
        denied "read $file of process $pid" sh -c ": </proc/$pid/$file"
    done
done
as $victim touch "$top/home/go"
wait "$job"
rc=$?
report "a job under way: it ends as if alone" "$(expect 0)"
report "nothing is left" "$([ -z "$(ls -A "$top/home/tmp")" ] || ls "$top/home/tmp")"
finish
