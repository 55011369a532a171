#!/usr/bin/env bash
# old_roots.sh BUILD - the tarball on systems with an older glibc, in roots without development packages: Ubuntu 18.04 (glibc 2.27, older than the 2.28 that is
# promised) and 20.04 (2.31, with OpenPMIx 3). There `ddprun doctor` finds the parts of the tarball, a sample that was built here trains on two ranks to the
# bits of the build here, `scout` and `check` judge it as here, `--page` writes a page, and where there is an mpirun, its ranks meet by its PMIx.
#
# The stand-in and the sample are linked for an older glibc, too (CMakeLists.txt). Needs root, debootstrap and its mirrors, so it is a soak.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
source tests/lib/lib.sh
source tests/install/bare.sh
build=$(realpath "${1:?usage: old_roots.sh BUILD}")
old=$build/tests/install/old

if [ -z "$work" ]; then
    [ -e "$old/digits" ] || skip "the build has no static libraries to link for an older glibc"
    bare_needs "debootstrap, util-linux, python3" ""
    bare_run tests/install/old_roots.sh "$build"
fi

# ---- inside ----
shown=$work/err
runs=0

# Both sides run with this environment alone: variables of libraries may change the bits.
bare=(timeout -k 1 "$(patient 100)" env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/tmp LC_ALL=C SOFTGPU_ADDRESSES=real)

# in_root COMMAND...: as an ordinary user, in the tarball's folder
in_root() {
    "${bare[@]}" chroot --userspec=1234:1234 "$root" sh -c 'cd /opt/ddprun && exec "$@"' sh "$@" </dev/null >"$work/out" 2>"$work/err"
}

# says PATTERN: whether a line of its standard output matches
says() {
    grep -E -- "$1" "$work/out" >/dev/null
}

# here WHAT ARGUMENT...: the same by the build, whose output is in $work/here.WHAT
here() {
    local what=$1
    shift
    (cd "$old" && "${bare[@]}" "$build/bin/ddprun" "$@" </dev/null >"$work/here.$what" 2>"$work/err") ||
        complain "the build itself fails: $*: $(tail -n 3 "$work/err")"
}

# as_here WHAT: whether it says what the build says, but for what depends on how fast ranks are
as_here() {
    [ -s "$work/here.$1" ] && cmp <(grep -v '^not exercised' "$work/here.$1") <(grep -v '^not exercised' "$work/out")
}

python3 cmake/package/wheel.py "$build" "$work/packages" 2.28 >"$work/out" 2>&1 || complain "no packages: $(tail -n 1 "$work/out")"
cp samples/data/digits.csv "$work/digits.csv"
sample=(--data "$work/digits.csv" --batch 32 --steps 20)
here train -n 2 ./digits "${sample[@]}" --save "$work/here%d"
here check check --steps 5 ./digits "${sample[@]}"
here scout scout ./digits "${sample[@]}"

# suite NAME GLIBC [PACKAGE]: makes the root, with the package, and tries the tarball in it
suite() {
    root=$work/$1
    # The key of another distribution may not be there; nothing but this test uses the root.
    if ! timeout -k 1 600 debootstrap --variant=minbase --no-check-gpg --components=main,universe ${3:+"--include=$3"} "$1" "$root" </dev/null >"$work/out" 2>&1; then
        echo "# no root of $1: $(tail -n 1 "$work/out")"
        return
    fi
    runs=$((runs + 1))
    bare_mounts
    mkdir "$root/opt/ddprun" "$root/tmp/saved" "$root$work" -p
    tar xf "$work"/packages/*.tar.xz -C "$root/opt/ddprun" --strip-components=1
    cp -r "$build/softgpu/portable/lib/softgpu" "$root/opt/ddprun/lib/"
    cp "$old/digits" "$root/opt/ddprun/"
    cp "$work/digits.csv" "$root$work/"
    chmod 1777 "$root/tmp/saved"
    chmod -R a+rX "$root$work" "$root/opt/ddprun"

    in_root ldd --version || true
    check "$1: has glibc $2" says "[^0-9.]$2\$"
    in_root bin/ddprun doctor || true
    check "$1: doctor has no problem" says '^[0-9]+ ok, .* 0 problems'
    check "$1: doctor names the glibc" says "^  ok  *ddprun: .*, glibc $2\$"
    check "$1: and finds the engine's libraries" says '^  ok *engine: the loader finds all [0-9]+ libraries'
    check "$1: a sample trains" in_root bin/ddprun -n 2 ./digits "${sample[@]}" --save /tmp/saved/%d
    check "$1: to the same bits as here" cmp "$work/here0" "$root/tmp/saved/0"
    check "$1: on both ranks" cmp "$work/here1" "$root/tmp/saved/1"
    check "$1: check" in_root bin/ddprun check --steps 5 ./digits "${sample[@]}"
    check "$1: judges as here" as_here check
    check "$1: scout" in_root bin/ddprun scout ./digits "${sample[@]}"
    check "$1: finds what it finds here" as_here scout
    check "$1: a page" in_root bin/ddprun -n 2 --page /tmp/saved/page.html ./digits "${sample[@]}"
    check "$1: is whole" grep -q '</html>' "$root/tmp/saved/page.html"
    check "$1: wrong words are refused" [ "$(in_root bin/ddprun --nothing ./digits || echo $?)" = 2 ]
    if [ -n "${3:-}" ]; then
        in_root bin/ddprun doctor || true
        check "$1: doctor finds PMIx" says '^  ok *PMIx: (OpenPMIx )?3\.'
        check "$1: mpirun's ranks train" in_root mpirun --oversubscribe -n 2 bin/ddprun ./digits "${sample[@]}" --save /tmp/saved/pmix%d
        check "$1: to the same bits, on both" cmp "$root/tmp/saved/0" "$root/tmp/saved/pmix1"
    fi
    check "$1: and nothing is left" [ -z "$(find "$root/dev/shm" "$root/tmp" -name 'ddprun-[0-9]*')" ]
    umount "$root/proc" "$root/sys" "$root/dev/shm"
}

suite bionic 2.27
suite focal 2.31 openmpi-bin
[ "$runs" -gt 0 ] || skip "no mirror of an older system answers"
finish
