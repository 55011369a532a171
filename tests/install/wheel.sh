#!/usr/bin/env bash
# wheel.sh BUILD - what users of pip install works: the wheel of the build, in an environment of its own, trains the sample in Python
# on two ranks by `python -m ddprun`, and has what `ddprun check` needs. The same build makes the same wheel. On a system that lacks
# libraries of the launcher the doctor lists them, each with its package. Removing the wheel leaves nothing. Called by tests/run.sh.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
source tests/lib/lib.sh
source tests/install/kernels.sh
repository=$PWD
build=$(realpath "${1:-build}")
for tool in python3 readelf; do
    command -v "$tool" >/dev/null || skip "no $tool"
done
work=$(mktemp -d "${TMPDIR:-/tmp}/ddprun-wheel.XXXXXX")
at_exit 'rm -rf "$work"'
unset PYTHONPATH PYTHONHOME VIRTUAL_ENV
export PYTHONDONTWRITEBYTECODE=1
python3 -m pip --version >"$work/out" 2>&1 || skip "no pip (package python3-pip): $(tail -n 1 "$work/out")"
python3 -m venv --without-pip "$work/venv" >"$work/out" 2>&1 || skip "python3 makes no environments (package python3-venv): $(tail -n 1 "$work/out")"
bin=$work/venv/bin
pip=(python3 -m pip --python "$bin/python" --isolated --quiet --disable-pip-version-check) # 22.3 and newer
libs=$(echo "$work"/venv/lib/python3*/site-packages)/ddprun.libs
shown=$work/out

# exits CODE COMMAND...: runs it, with its output in $work/out.
exits() {
    local wanted=$1 code=0
    shift
    timeout -k 1 "$(patient 100)" "$@" <"/dev/null" >"$work/out" 2>&1 || code=$?
    [ "$code" -eq "$wanted" ] || {
        echo "exit code $code: $*"
        return 1
    }
}

# says PATTERN: whether a line of that output matches.
says() {
    grep -qE -- "$1" "$work/out"
}

# ---- the wheel ----
export SOURCE_DATE_EPOCH=1700000000 PACKAGE_LEVEL=1
check "the wheel is made" exits 0 python3 cmake/package/wheel.py "$build" "$work/first"
wheel=$(tail -n 1 "$work/out")
(umask 077 && python3 cmake/package/wheel.py "$build" "$work/second" >/dev/null)
check "the same build makes the same wheel" cmp "$wheel" "$work/second/${wheel##*/}"
check "it is for this kind of machine" [ "${wheel##*-}" = "linux_$(uname -m).whl" ]
check "pip installs it" exits 0 "${pip[@]}" install --no-index --no-deps --no-compile "$wheel"
check "with man pages" [ -s "$work/venv/share/man/man7/ddprun-troubleshooting.7" ]
for library in '' -engine -check -scout -files -pmix; do
    check "with libddprun$library.so" [ -s "$libs/lib/ddprun/libddprun$library.so" ]
done
has_kernels "$libs/lib/ddprun"
check "without the stand-in" [ ! -e "$libs/lib/softgpu" ]

# ---- it trains ----
cp samples/python/train.py "$work/"
cat >"$work/where.py" <<'END'
import sys
import ddprun
print(ddprun.rank, sys.executable, ddprun.__file__, *sys.argv)
END
cd "$work"
check "without a launcher's rank the module does nothing" exits 0 "$bin/python" where.py
check "and is the one of the environment" says "^0 $bin/python ${libs%.libs}.py where.py\$"
check "without the stand-in it is refused by name" exits 127 "$bin/python" -m ddprun -n 2 --device softgpu train.py
check "and by its place" says "^ddprun: this ddprun has no stand-in \(softgpu\): $libs/lib/softgpu"
ln -s "$build/lib/softgpu" "$libs/lib/softgpu"
sample=(train.py --kernels "$build/samples/libdigits_kernels.so" --data "$repository/samples/data/digits.csv" --batch 32)
check "python -m ddprun trains a script" exits 0 "$bin/python" -m ddprun -n 2 --device softgpu "${sample[@]}" --steps 20
check "on two ranks" says '2 ranks, 20 steps'
check "ddprun check has its libraries" exits 0 "$bin/python" -m ddprun --device softgpu check --steps 3 "${sample[@]}" --steps 3
check "and finds the sample equal" says '^equal: 2 ranks compute what one process computes'
check "the command ddprun starts scripts, too" exits 0 "$bin/ddprun" -n 2 --device softgpu --unannotated where.py --flag
check "by the Python of the environment" says "^\[1\] 1 $bin/python ${libs%.libs}.py where.py --flag\$"
check "a script that is missing is one line" exits 127 "$bin/python" -m ddprun -n 2 --device softgpu gone.py
check "that names it" [ "$(cat "$work/out")" = 'ddprun: cannot read gone.py: No such file or directory; check the path' ]

# ---- a bare system: each library has another name than any that is there ----
launcher=$libs/bin/ddprun
cp "$launcher" "$work/launcher"
needed=$(readelf -d "$launcher" | sed -nE 's/.*\(NEEDED\).*\[(.*)\]/\1/p' | grep -vE '^(libc|libm)\.so|^ld-linux')
[ "$(wc -l <<<"$needed")" -gt 3 ] || complain "the launcher needs few libraries: $needed"
# take LIBRARY: the last letter of its name becomes an x.
take() {
    LC_ALL=C sed -i "s/${1//./\\.}/${1%?}x/g" "$launcher"
}
for library in $needed; do
    cp "$work/launcher" "$launcher"
    take "$library"
    check "without $library a job is refused" exits 127 "$bin/ddprun" -n 2 "${sample[@]}"
    check "and its package is named" says "^ddprun: libraries of the system are missing: ${library%?}x; install them \(Debian: apt-get install [a-z0-9-]+\)\$"
done
for library in $needed; do
    take "$library"
done
check "without all of them there is a doctor" exits 1 "$bin/python" -m ddprun doctor
for library in $needed; do
    check "who lists $library" says "^ddprun: libraries of the system are missing:.* ${library%?}x[,;]"
done

rm "$libs/lib/softgpu"
check "pip removes it" exits 0 "${pip[@]}" uninstall --yes ddprun
check "and leaves nothing" [ -z "$(find "$work/venv" -name '*ddprun*')" ]
finish
