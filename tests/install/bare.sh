# shellcheck shell=bash disable=SC2034,SC2154 # the scripts that source it use its variables, and it those of lib.sh
# bare.sh - what tests in a bare root folder share: the script runs a second time, in namespaces of its own. Whatever ends it, no mount
# and no process is left, and its folder holds nothing of the machine's when it is removed. Sourced after lib.sh, at the repository's root.
work=${BARE_INSIDE:-} # set: this is the second run

# bare_needs PACKAGES "TOOL..." OPTION...: skips where a tool or a namespace (OPTIONs of unshare) is missing; makes $work.
bare_needs() {
    local tool
    [ "$(id -u)" -eq 0 ] || skip "only root can make a root folder of its own"
    for tool in debootstrap unshare python3 $2; do
        command -v "$tool" >/dev/null || skip "no $tool (packages $1)"
    done
    namespaces=(--mount --pid --fork "${@:3}")
    unshare "${namespaces[@]}" true 2>/dev/null || skip "no namespaces here"
    work=$(mktemp -d "${TMPDIR:-/tmp}/ddprun-bare.XXXXXX")
    at_exit 'rm -rf --one-file-system "$work"'
    trap 'exit 130' INT
    trap 'exit 143' TERM
}

# bare_answers URI SUITE: whether this mirror has the suite
bare_answers() {
    timeout 60 /usr/lib/apt/apt-helper download-file "$1/dists/$2/InRelease" "$work/release" </dev/null >"$work/out" 2>&1
}

# bare_run SCRIPT ARGUMENT...: the second run; the script ends as it does, and fails if a case failed before.
bare_run() {
    local code=0
    # In the background, so that a signal is not left waiting for it; with --kill-child it leaves no process.
    BARE_INSIDE=$work unshare "${namespaces[@]}" --propagation private --kill-child=KILL --mount-proc bash "$@" </dev/null &
    child=$!
    at_exit 'kill "$child" 2>/dev/null; wait "$child" 2>/dev/null'
    wait "$child" || code=$?
    [ "$failures" -eq 0 ] || code=1
    finished=yes # inside, or its exit code says why not
    exit "$code"
}

# bare_mounts: what programs need of the machine, in $root
bare_mounts() {
    mount -t proc proc "$root/proc"
    mount --bind -o ro /sys "$root/sys"
    mount -t tmpfs -o mode=1777 tmpfs "$root/dev/shm"
}
