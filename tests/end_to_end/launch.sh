#!/usr/bin/env bash
# launch.sh BUILD - what a user of ddprun sees of a job's start, course and end: programs that only ask who they are, and the
# benchmark of starting, in its shortest form.
source "$(dirname "$0")/lib.sh"
nccl_in_turn

# A program that asks for its rank, prints a help and ends leaves nothing unaveraged: no GPU was used.
works "ranks that join and leave" "$ddprun" -n 3 --device softgpu "$build/bench/launch_rank"
check "and are not said to have trained" grep -q 'no rank made a step' "$work/stderr"

# A program that uses CUDA and is started without ddprun's library is seen by whatever door, and if it runs for a millisecond; other
# programs are left alone, and those that cannot be started. (With a sanitizer none could be started so.)
export doors=$build/tests/trainers/doors work
alone="used the CUDA driver in a process that ddprun's library was not loaded into"
mkdir "$work/path"
ln -s "$doors" "$work/path/short"
cp "$doors" "$work/closed" && chmod a-x "$work/closed"
cp "$doors" "$work/changes_rights" && chmod u+s "$work/changes_rights"
for door in execv execve execl execle fexecve execveat execveat_fd posix_spawn vfork execvp execvpe execlp posix_spawnp; do
    [ "$sanitized" = 0 ] || break
    target=$doors
    [[ $door != *p && $door != *vpe ]] || target=short
    fails "a short program without the library, by $door" 1 "$alone" env PATH="$work:/:$PATH:$work/path" "$ddprun" -n 2 --device softgpu "$doors" "$door" "$target"
    run "$ddprun" -n 2 --device softgpu sh -c '"$doors" "$0" /bin/true && "$doors" "$0" "$work/changes_rights" && "$doors" kept "$doors" &&
        ! "$doors" "$0" "$work/closed" && ! "$doors" "$0" "$work/none"' "$door"
    succeeded "other programs, by $door"
done
if [ "$sanitized" = 0 ]; then
    fails "a trainer that names no library, and holds kernels" 1 "$alone" "$ddprun" -n 2 --device softgpu env -i "$build/tests/trainers/ladder_static" --steps 1
fi

# Nothing is written but what was asked for: all that a job opens for writing, makes, moves or removes lies in its own folder,
# or is one of the files of its options; and nothing is left.
around=$work/around
mkdir -p "$around"/{home,tmp,here,asked}
listing() { (cd "$around" && find home tmp here | sort) && find /dev/shm -mindepth 1 -newer "$around/asked" -user "$(id -u)" 2>/dev/null; }
before=$(listing)
watched=()
if command -v strace >/dev/null && [ "$sanitized" = 0 ] && strace -o /dev/null true 2>/dev/null; then
    watched=(strace -ff -qq -e signal=none -e "trace=open,openat,creat,mkdir,mkdirat,unlink,unlinkat,rename,renameat,renameat2,link,linkat,symlink,symlinkat,mknod,mknodat,chmod,fchmodat,truncate" -o "$work/strace")
fi
(cd "$around/here" && run "${watched[@]}" env -u XDG_RUNTIME_DIR -u XDG_CACHE_HOME HOME="$around/home" TMPDIR="$around/tmp" \
    "$ddprun" -n 2 --trace "$around/asked/trace" --output "files=$around/asked/out" \
    --summary-json "$around/asked/end.json" "$digits" --data "$data" --steps 12 --log-every 4 --save "$around/asked/saved-%d"
    exit "$code")
code=$?
succeeded "a job that writes all that can be asked for"
check "all of that is there" test -s "$around/asked/end.json" -a -s "$around/asked/trace/rank-1.jsonl" -a -s "$around/asked/out/rank-0.out"
check "the summary has the program's mean" grep -q '"name": *"loss"' "$around/asked/end.json"
check "its batch" grep -q '"batch_per_pass": *96,' "$around/asked/end.json"
check "and NCCL's version" grep -q '"nccl_version": *"2\.[0-9]*\.[0-9]*"' "$around/asked/end.json"
check "nothing else is left" [ "$(listing)" = "$before" ]
if [ ${#watched[@]} -gt 0 ]; then
    # Failed calls do not count, nor does opening to read, nor reaching into a folder by descriptor (job_folder.c), nor what a link
    # in the job folder leads to, which is a rank.
    cat "$work"/strace.* | grep -vE ' = -1 |O_RDONLY|O_PATH|unlinkat\([0-9]+,' | grep -oE '"[^"]*"' | tr -d '"' | sort -u |
        grep -vE "^($around/tmp/ddprun-|$around/asked/|/dev/(null|shm/|tty)|/proc/self/|[01]$)" >"$work/elsewhere"
    check "it did not even touch anything else for a moment" [ ! -s "$work/elsewhere" ]
    check "what it touched was recorded" grep -qs "$around/asked/" "$work"/strace.*
fi

if [ "$sanitized" = 0 ]; then
    limit=60 works "the benchmark of starting" python3 "$(dirname "$0")/../bench/launch.py" "$build" --runs 1 --ranks 2 --idle 0.1
    check "... prints figures" grep -Eq '^ddprun beside 2 ranks that wait +[0-9.e-]+ % of a core$' "$work/stdout"
fi

finish
