# shellcheck shell=bash disable=SC2034 # hosts_agent and others are for the scripts that source it
# hosts.sh - two simulated hosts, h1 and h2, or three, for tests that need more than one. Sourced; use it so:
#
#   source "$(dirname "$0")/hosts.sh"
#   hosts_enter "$0" "$@"            # starts the script anew where it may make hosts; the rest runs there
#   hosts_up                         # now there are h1 (10.77.0.1, fd00:77::1) and h2 (10.77.0.2, fd00:77::2), joined by a link
#   hosts_up_third                   # and h3 (10.77.0.3)
#   hosts_on h2 command...           # runs a command on a host, in the caller's folder if it is there; its exit code is the command's
#   hosts_exec h2 command... &       # the same in the background: $! is the command itself, which can be killed
#   timeout 60 "$hosts_runner" h2 command...   # the same for what wants a program
#   mpirun --mca plm_rsh_agent "$hosts_agent" --host h1:2,h2:2 ...   # started by hosts_on h1
#   hosts_link h2 down               # nothing passes between the hosts any more, without a notice; `up` restores the link
#   hosts_processes h2               # the ids of the processes on a host
#
# A host is a network namespace, a host name, an identity (boot_id), a /dev/shm, System V IPC and a TMPDIR of its own; the file
# system is the same on all of them, as on a cluster, and so are process ids: each is unique in the whole test. What a test
# writes goes to $hosts_work, which only it sees, on all hosts; but $hosts_work/tmp, their TMPDIR, is another on each.
#
# Nothing is left, whatever happens: the script is process 1 of a process namespace, so that all that it started ends with it;
# namespaces have no names and $hosts_work is in memory, so both vanish with the last process. Runs side by side do not see each
# other: each has its own network. Where this is not allowed the test is skipped by name.
# shellcheck source=tests/lib/lib.sh
source "$(dirname "${BASH_SOURCE[0]}")/../lib/lib.sh"

hosts_allowed() {
    unshare "$@" unshare --net --uts --mount true 2>&1
}

# hosts_enter SCRIPT ARGUMENTS...: returns in the namespaces; the first time, it starts the script there and does not return.
hosts_enter() {
    local command namespaces=(--pid --fork --kill-child --mount --mount-proc --ipc) reason
    if [ "${HOSTS_ENTERED:-}" = "$$" ]; then # process 1
        unset HOSTS_ENTERED
        hosts_make_work
        return
    fi
    for command in unshare nsenter ip mount; do
        command -v "$command" >/dev/null || skip "no command $command (util-linux, iproute2)"
    done
    # Who is not root, or root without the right, may be it in a namespace of users.
    hosts_allowed "${namespaces[@]}" >/dev/null || namespaces+=(--user --map-root-user)
    reason=$(hosts_allowed "${namespaces[@]}") || skip "namespaces are not allowed here: $reason"
    HOSTS_ENTERED=1 exec unshare "${namespaces[@]}" bash "$@"
}

# A folder in memory, over one that every system has and that is empty.
hosts_make_work() {
    local folder reason
    for folder in /media /srv /mnt; do
        [[ -d $folder && -z $(ls -A "$folder") ]] || continue
        reason=$(mount -t tmpfs -o mode=0700 tmpfs "$folder" 2>&1) || skip "no memory file system: $reason"
        hosts_work=$folder
        trap 'exit 143' TERM # process 1 hears only what it has a word for
        trap 'exit 130' INT
        return
    done
    skip "none of /media, /srv, /mnt is there and empty, to put a memory file system on"
}

# hosts_hold NAME: becomes the process that keeps a host alive.
hosts_hold() {
    exec unshare --net --uts --mount --ipc bash -ec '
        hostname "$1"
        mount --bind "$2/hosts" /etc/hosts
        mount -t tmpfs -o mode=1777 tmpfs /dev/shm
        mount -t tmpfs -o mode=1777 tmpfs "$2/tmp"
        mount --bind "$2/$1/boot_id" /proc/sys/kernel/random/boot_id
        ip link set lo up
        echo ready
        exec sleep infinity >/dev/null' hosts_hold "$1" "$hosts_work" 2>&1
}

# hosts_make NAME: a host without a network.
hosts_make() {
    local name=$1 answer fd
    mkdir -p "$hosts_work/$name" "$hosts_work/tmp"
    cat /proc/sys/kernel/random/uuid >"$hosts_work/$name/boot_id"
    exec {fd}< <(hosts_hold "$name")
    echo $! >"$hosts_work/$name/pid"
    read -r -t 60 -u "$fd" answer || answer="it does not answer"
    [ "$answer" = ready ] || skip "cannot make a host: $answer"
    exec {fd}<&-
    hosts_names+=("$name")
}

hosts_up() {
    local name number answer
    hosts_ipv6=yes # unless this machine's kernel has none
    hosts_names=()
    printf '127.0.0.1 localhost\n10.77.0.1 h1\n10.77.0.2 h2\n10.77.0.3 h3\n' >"$hosts_work/hosts"
    for name in h1 h2; do hosts_make "$name"; done
    answer=$(hosts_net h1 link add eth0 type veth peer name eth0 netns "$(cat "$hosts_work/h2/pid")" 2>&1) ||
        skip "no virtual network device: $answer"
    for number in 1 2; do
        hosts_net "h$number" address add "10.77.0.$number/24" dev eth0
        hosts_net "h$number" -6 address add "fd00:77::$number/64" dev eth0 nodad 2>/dev/null || hosts_ipv6=no
        hosts_net "h$number" link set eth0 up
        # Real hosts have a network of their own for containers or virtual machines, with the same address on all of them.
        hosts_net "h$number" link add bridge0 type veth peer name guest0
        hosts_net "h$number" address add 192.168.122.1/24 dev bridge0
        hosts_net "h$number" link set bridge0 up
        hosts_net "h$number" link set guest0 up
    done
    hosts_write_scripts
}

# A third host, h3 (10.77.0.3), after hosts_up: eth0 of h1 becomes a switch, with a wire to each of the others.
hosts_up_third() {
    local answer
    hosts_make h3
    hosts_net h1 link set eth0 down
    hosts_net h1 link set eth0 name wire2
    hosts_net h1 address flush dev wire2
    answer=$(hosts_net h1 link add eth0 type bridge 2>&1) || skip "no switch between three hosts: $answer"
    hosts_net h1 link add wire3 type veth peer name eth0 netns "$(cat "$hosts_work/h3/pid")"
    hosts_net h1 address add 10.77.0.1/24 dev eth0
    hosts_net h3 address add 10.77.0.3/24 dev eth0
    for answer in wire2 wire3; do
        hosts_net h1 link set "$answer" master eth0
        hosts_net h1 link set "$answer" up
    done
    hosts_net h1 link set eth0 up
    hosts_net h3 link set eth0 up
}

# hosts_exec as a program, and what mpirun takes for ssh: HOST COMMAND..., the command for a shell.
hosts_write_scripts() {
    hosts_runner=$hosts_work/on
    hosts_agent=$hosts_work/agent
    {
        echo '#!/bin/bash'
        echo "hosts_work=$hosts_work"
        declare -f hosts_exec
        echo 'hosts_exec "$@"'
    } >"$hosts_runner"
    printf '#!/bin/bash\nhost=$1; shift; exec "%s" "$host" sh -c "$*"\n' "$hosts_runner" >"$hosts_agent"
    chmod +x "$hosts_runner" "$hosts_agent"
}

# hosts_net NAME ARGUMENTS...: ip on a host.
hosts_net() {
    local name=$1
    shift
    nsenter --target "$(cat "$hosts_work/$name/pid")" --net ip "$@"
}

# hosts_exec NAME COMMAND...: does not return.
hosts_exec() {
    local name=$1
    shift
    exec nsenter --target "$(cat "$hosts_work/$name/pid")" --net --uts --mount --ipc \
        env -u XDG_RUNTIME_DIR -u HOSTNAME "TMPDIR=$hosts_work/tmp" bash -c 'cd "$0" 2>/dev/null || cd /; exec "$@"' "$PWD" "$@"
}

# hosts_on NAME COMMAND...
hosts_on() {
    (hosts_exec "$@")
}

# hosts_link NAME up|down
hosts_link() {
    hosts_net "$1" link set eth0 "$2"
}

# hosts_processes NAME: one id a line, without the one that keeps the host alive.
hosts_processes() {
    local keeper namespace process
    keeper=$(cat "$hosts_work/$1/pid")
    namespace=$(readlink "/proc/$keeper/ns/net")
    for process in /proc/[0-9]*; do
        [ "$process" = "/proc/$keeper" ] || [ "$(readlink "$process/ns/net" 2>/dev/null)" != "$namespace" ] || echo "${process#/proc/}"
    done
}
