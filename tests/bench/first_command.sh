#!/usr/bin/env bash
# first_command.sh [--bare] - does README's first command, `bash samples/run.sh`, take the time that README says? README states a range,
# because machines differ. The command runs in a fresh clone of the last commit, on two cores, three times (RUNS). Each line has seconds,
# seconds of CPU, and the load of the machine before the run. Exit code 1: a run took a fifth more than the range's end, or a fifth less
# than its begin. Figures count on a quiet machine only: on another one a line has its load.
#
# Without --bare the machine has the packages that the command needs. With it each run is in a new Debian 12 that has nothing but its
# minimum: the command installs the packages, and downloads CUDA's headers. That needs root, debootstrap and a mirror.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
source tests/lib/lib.sh
source tests/install/bare.sh
runs=${RUNS:-3}
suite=bookworm
quiet_load=0.5 # of the last minute, before the first run; its runs are the load of the others
cores=()
[ "$(nproc)" -le 2 ] || cores=(taskset -c '0,1')

# seconds_stated: the seconds of README's line, least and most, with packages and without them
seconds_stated() {
    sed -nE 's/^bash samples\/run\.sh +# ([0-9]+) to ([0-9]+) seconds, or ([0-9]+) to ([0-9]+) with packages to install: .*/\1 \2 \3 \4/p' README.md
}

fail() {
    printf 'first_command.sh: %s\n' "$1" >&2
    exit 1
}

# timed FOLDER COMMAND...: runs it in FOLDER, and prints a line.
timed() {
    local folder=$1 load code=0 TIMEFORMAT='%R %U %S'
    shift
    read -r load _ </proc/loadavg
    printf 'first_command.sh: run %d of %d began at %(%H:%M:%S)T; its output: %s\n' "$((run + 1))" "$runs" -1 "$work/out" >&2
    { time { (cd "$folder" && "${cores[@]}" "$@") </dev/null >"$work/out" 2>&1 || code=$?; }; } 2>"$work/time"
    [ -s "$work/time" ] || fail "the shell has not measured the time"
    grep -q '^Success: ' "$work/out" || {
        tail -n 20 "$work/out" >&2
        fail "the command failed, exit code $code; its last lines are above"
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
        mkdir -p "$root/usr/local/share/ca-certificates" # which ca-certificates takes when it is installed
        cp -L /usr/local/share/ca-certificates/*.crt "$root/usr/local/share/ca-certificates/" 2>/dev/null || true
        bare_mounts
        timed / in_root bash -c 'cd /ddprun && bash samples/run.sh'
    done
}

# off_by LEAST MOST FILE: the runs that are more than a fifth away from the stated seconds; nothing if there are none
off_by() {
    awk -v least="$1" -v most="$2" '$1 < 0.8 * least || $1 > 1.2 * most { printf "%srun %d took %d", separator, NR, $1; separator = ", " }' "$3"
}

# judge LEAST MOST WHERE: each run against README's seconds
judge() {
    printf '\n%s cores of %s, commit %s, %s\n' "$([ "$(nproc)" -le 2 ] && nproc || echo 2)" \
        "$(sed -n 's/^model name.*: //p' /proc/cpuinfo | head -n 1)" "$(git rev-parse --short HEAD)" "$3"
    awk -v least="$1" -v most="$2" '{ sum += $1 }
        END { printf "README says %d to %d seconds; the mean of %d runs is %d\n", least, most, NR, sum / NR }' "$work/lines"
    awk -v most="$quiet_load" 'NR == 1 && $3 > most {
        printf "others used this machine: load %s before the first run; measure again on a quiet one\n", $3 }' "$work/lines"
    report "each run takes the seconds that README says, within a fifth" "$(off_by "$1" "$2" "$work/lines")"
}

[ $# -eq 0 ] || [ "$1" = --bare ] || {
    echo 'Usage: [RUNS=3] bash tests/bench/first_command.sh [--bare]' >&2
    exit 2
}
read -r least most bare_least bare_most < <(seconds_stated) ||
    fail 'README.md has no line "bash samples/run.sh # A to B seconds, or C to D with packages to install: ..."'
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
    judge "$bare_least" "$bare_most" "a Debian 12 without packages"
else
    work=$(mktemp -d "${TMPDIR:-/tmp}/ddprun-first.XXXXXX")
    at_exit 'rm -rf "$work"'
    with_packages
    judge "$least" "$most" "packages are there"
fi
finish "$runs runs"
