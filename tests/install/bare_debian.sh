#!/usr/bin/env bash
# bare_debian.sh BUILD - on a Debian 12 that has nothing but its minimum, the packages install with no more than what they declare,
# and what they install works: ddprun says its version, its doctor says what is there, and a trainer that the installed
# softgpu-cc compiled trains on two ranks, as an ordinary user, to the same parameters. Removing them leaves nothing.
#
# Needs root, debootstrap and a mirror; takes minutes and some hundred MB of download, so it is a soak. The mirror is the one in the machine's own apt sources.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
source tests/lib/lib.sh
source tests/install/bare.sh
build=$(realpath "${1:?usage: bare_debian.sh BUILD}")
suite=bookworm

if [ -z "$work" ]; then
    bare_needs "debootstrap, dpkg-dev, util-linux, python3" dpkg-shlibdeps
    # "SUITE URI" of each of the machine's own sources
    apt-get indextargets --format '$(RELEASE) $(REPO_URI)' 'Created-By: Packages' 2>/dev/null | sort -u | grep "^$suite" >"$work/sources" ||
        skip "apt has no source of Debian 12 ($suite)"
    mirror=$(sed -n "s,^$suite \(.*[^/]\)/*\$,\1,p" "$work/sources" | sed -n 1p)
    bare_answers "$mirror" "$suite" || skip "no mirror of Debian 12 answers"
    bare_run tests/install/bare_debian.sh "$build" "$mirror"
fi

# ---- inside ----
mirror=$2
root=$work/root

# must WHAT COMMAND...: what everything after it needs
must() {
    local what=$1
    shift
    "$@" </dev/null >"$work/out" 2>&1 && return
    complain "$what failed ($?): $(tail -n 12 "$work/out")"
    exit 1
}

# in_root [OPTION] ROOT COMMAND...: with nothing of the environment but what apt needs to reach the mirror
in_root() {
    timeout -k 1 900 env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/tmp LC_ALL=C DEBIAN_FRONTEND=noninteractive \
        ${http_proxy:+http_proxy="$http_proxy"} ${https_proxy:+https_proxy="$https_proxy"} chroot "$@"
}

as_root() {
    in_root "$root" "$@"
}

as_user() {
    in_root --userspec=1234:1234 "$root" "$@"
}

install_packages() {
    must "installing $*" as_root apt-get install -y --no-install-recommends "$@"
}

# all_there PACKAGE: its pages are, and the loader finds what its programs and libraries need
all_there() {
    local file
    while read -r file; do
        case $file in
        */man/*) [ -s "$root$file" ] || complain "no page $file" ;;
        esac
        [ -f "$root$file" ] && [ ! -L "$root$file" ] || continue
        [ "$(head -c 4 "$root$file" | tr -d '\0')" = $'\x7fELF' ] || continue
        as_root ldd "$file" >"$work/out" 2>&1 </dev/null || true
        ! grep 'not found' "$work/out" || complain "$1: $file lacks a library"
    done < <(as_root dpkg -L "$1")
}

must "building the packages" timeout -k 1 300 cpack --config "$build/CPackConfig.cmake" -B "$work/packages"
mkdir "$root"
must "debootstrap" timeout -k 1 1200 debootstrap --variant=minbase "$suite" "$root" "$mirror"
sed -E 's/^([^ ]+) (.*)$/deb \2 \1 main/' "$work/sources" >"$root/etc/apt/sources.list"
apt-config dump | grep -E '^Acquire::https?::' >"$root/etc/apt/apt.conf.d/99mirror" || true
printf '#!/bin/sh\nexit 101\n' >"$root/usr/sbin/policy-rc.d" # nothing is started in there
chmod +x "$root/usr/sbin/policy-rc.d"
bare_mounts
must "apt-get update" as_root apt-get update

# ---- the product ----
mkdir "$root/packages"
cp "$work"/packages/*.deb "$root/packages/"
product=$(cd "$root" && echo packages/ddprun_*.deb)
standin=$(cd "$root" && echo packages/ddprun-softgpu_*.deb)
cluster=$(cd "$root" && echo packages/ddprun-pmix_*.deb)
install_packages "/$product"
all_there ddprun
as_user ddprun --version </dev/null >"$work/out" 2>&1 || complain "ddprun --version: $(cat "$work/out")"
grep -q '^ddprun [0-9]' "$work/out" || complain "ddprun --version says: $(cat "$work/out")"

# No GPU, no driver and no stand-in: the doctor reports it, and its exit code agrees.
code=0 problems=0
as_user timeout -k 1 100 ddprun doctor </dev/null >"$work/doctor" 2>"$work/out" || code=$?
grep -q '^  problem ' "$work/doctor" && problems=1
[ "$code" -eq "$problems" ] || complain "ddprun doctor, exit code $code: $(tail -n 20 "$work/doctor" "$work/out")"
grep -q '^  ok *engine: ' "$work/doctor" || complain "the engine finds its libraries: $(cat "$work/doctor")"
grep -q '^  note *PMIx: ' "$work/doctor" || complain "PMIx is not there, and need not be: $(cat "$work/doctor")"

# ---- the stand-in, and a trainer compiled in there ----
install_packages "/$standin"
all_there ddprun-softgpu
mkdir -p "$root/usr/local/cuda" "$root/trainer/out"
cp -rL "$build/lib/softgpu/toolkit/include" "$root/usr/local/cuda/" # of the toolkit, which Debian does not have
cp -r samples "$root/trainer/"
chown -R 1234:1234 "$root/trainer"
cat >"$root/trainer/train.sh" <<'SHELL'
set -eu
cd /trainer/samples
softgpu-cc -O2 -D_GNU_SOURCE -I. digits/main.c digits/options.c digits/data.c digits/model.c digits/kernels.cu \
    common/parameter_file.c -lcublas -o /trainer/digits
cd ..
ddprun doctor ./digits
ddprun -n 2 ./digits --steps 40 --batch 32 --save out/rank%d
cmp out/rank0 out/rank1
SHELL
if as_user timeout -k 1 300 sh /trainer/train.sh </dev/null >"$work/out" 2>&1; then
    grep -q '2 ranks, 40 steps' "$work/out" || complain "it did not train on two ranks: $(tail -n 5 "$work/out")"
    [ -s "$root/trainer/out/rank0" ] || complain "it saved no parameters"
else
    complain "training failed ($?): $(tail -n 30 "$work/out")"
fi
left=$(find "$root/tmp" "$root/dev/shm" -mindepth 1)
[ -z "$left" ] || complain "the job has left: $left"

# ---- for clusters ----
install_packages "/$cluster"
all_there ddprun-pmix
as_user timeout -k 1 100 ddprun doctor </dev/null >"$work/out" 2>&1 || true
grep -q 'PMIx: OpenPMIx' "$work/out" || complain "the doctor says of PMIx: $(grep -A 1 PMIx "$work/out")"

# ---- and away again: purged, as dpkg itself keeps notes of packages that are only removed ----
as_root dpkg -L ddprun ddprun-pmix ddprun-softgpu | sed '/^$/d' | sort -u >"$work/files"
grep -q /bin/ddprun "$work/files" || complain "dpkg does not list what was installed"
must "removing them" as_root apt-get purge -y ddprun ddprun-pmix ddprun-softgpu
while read -r file; do
    [ ! -d "$root$file" ] || [ -L "$root$file" ] || as_root dpkg -S "$file" >/dev/null 2>&1 || complain "left behind: $file/"
    [ -d "$root$file" ] || { [ ! -e "$root$file" ] && [ ! -L "$root$file" ]; } || complain "left behind: $file"
done < <(grep -v '^/\.$' "$work/files")
left=$(cd "$root" && find . -xdev \( -path ./trainer -o -path ./packages -o -path ./proc -o -path ./sys -o -path ./var/log \) -prune -o \
    \( -name '*ddprun*' -o -name '*softgpu*' \) -print)
[ -z "$left" ] || complain "left behind: $left"

finish 'installed, used and removed on a bare Debian 12'
