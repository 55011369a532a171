#!/usr/bin/env bash
# first_command.sh [--bare] - how long README's first command takes: `bash samples/run.sh` in a fresh clone of the last commit, on two cores,
# three times (RUNS). Each line has seconds, seconds of CPU, and the load of the machine before; figures count on a quiet machine only.
#
# Without --bare the machine has the packages that the command needs. With it each run is in a new Debian 12 that has nothing but its
# minimum: the command installs the packages, and downloads CUDA's headers. That needs root, debootstrap and a mirror.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
source tests/lib/lib.sh
source tests/install/bare.sh
runs=${RUNS:-3}
suite=bookworm
cores=()
[ "$(nproc)" -le 2 ] || cores=(taskset -c '0,1')

# timed FOLDER COMMAND...: runs it in FOLDER, and prints a line.
timed() {
    local folder=$1 load code=0 TIMEFORMAT='%R %U %S'
    shift
    read -r load _ </proc/loadavg
    { time (cd "$folder" && "${cores[@]}" "$@") </dev/null >"$work/out" 2>&1; } 2>"$work/time" || code=$?
    grep -q '^Success: ' "$work/out" || {
        tail -n 20 "$work/out" >&2
        printf 'first_command.sh: the command failed, exit code %s; its last lines are above\n' "$code" >&2
        exit 1
    }
    awk -v load="$load" '{ printf "%8.0f %8.0f %8s\n", $1, $2 + $3, load }' "$work/time" | tee -a "$work/lines"
}

with_packages() {
    local run
    for ((run = 0; run < runs; ++run)); do
        git clone --quiet --no-hardlinks "file://$PWD" "$work/clone"
        timed "$work/clone" bash samples/run.sh
        rm -rf "$work/clone"
    done
}

# in_root COMMAND...: with nothing of the environment but what apt needs to reach the mirror.
in_root() {
    env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root LC_ALL=C DEBIAN_FRONTEND=noninteractive \
        ${http_proxy:+http_proxy="$http_proxy"} ${https_proxy:+https_proxy="$https_proxy"} chroot "$root" "$@"
}

in_bare_debian() {
    local run file base=$work/base mirror=$1 sources=$2
    debootstrap --variant=minbase "$suite" "$base" "$mirror" >"$work/out" 2>&1
    sed -E 's/^([^ ]+) (.*)$/deb \2 \1 main/' "$sources" >"$base/etc/apt/sources.list"
    apt-config dump | grep -E '^Acquire::https?::' >"$base/etc/apt/apt.conf.d/99mirror" || true
    printf '#!/bin/sh\nexit 101\n' >"$base/usr/sbin/policy-rc.d" # nothing is started in there
    chmod +x "$base/usr/sbin/policy-rc.d"
    for ((run = 0; run < runs; ++run)); do
        root=$work/root$run
        cp -a "$base" "$root"
        git clone --quiet --no-hardlinks "file://$PWD" "$root/ddprun"
        for file in /etc/resolv.conf /etc/pip.conf; do # how the machine reaches mirrors
            [ ! -e "$file" ] || cp -L "$file" "$root/etc/"
        done
        bare_mounts
        timed / in_root bash -c 'cd /ddprun && bash samples/run.sh'
    done
}

say_what_was_measured() {
    printf '\n%s cores of %s, commit %s, %s. README says:\n' "$([ "$(nproc)" -le 2 ] && nproc || echo 2)" \
        "$(sed -n 's/^model name.*: //p' /proc/cpuinfo | head -n 1)" "$(git rev-parse --short HEAD)" "$1"
    grep -F 'bash samples/run.sh' README.md
}

if [ "${1:-}" = --bare ] && [ -z "$work" ]; then
    bare_needs "debootstrap, util-linux, git" git
    apt-get indextargets --format '$(RELEASE) $(REPO_URI)' 'Created-By: Packages' 2>/dev/null | sort -u | grep "^$suite" >"$work/sources" ||
        skip "apt has no source of Debian 12 ($suite)"
    mirror=$(sed -n "s,^$suite \(.*[^/]\)/*\$,\1,p" "$work/sources" | sed -n 1p)
    bare_answers "$mirror" "$suite" || skip "no mirror of Debian 12 answers"
    bare_run tests/bench/first_command.sh --bare "$mirror"
fi
printf '%8s %8s %8s\n' seconds 'CPU, s' load
if [ "${1:-}" = --bare ]; then
    in_bare_debian "$2" "$work/sources"
    say_what_was_measured "a Debian 12 without packages"
else
    work=$(mktemp -d "${TMPDIR:-/tmp}/ddprun-first.XXXXXX")
    at_exit 'rm -rf "$work"'
    with_packages
    say_what_was_measured "packages are there"
fi
finish "$runs runs"
