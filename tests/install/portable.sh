#!/usr/bin/env bash
# portable.sh BUILD - the tarball and the wheel for other systems: no program or library in them asks for a newer glibc than 2.28 or for any other library, and
# none shows more than the build's own, so that nothing of what is linked in meets the trainer's. The same build makes the same bytes; with DDPRUN_SOAK=1 so do
# the same sources in another folder. What is unpacked trains to the same bits as the build. old_roots.sh runs them on older systems.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
source tests/lib/lib.sh
source tests/install/kernels.sh
source tests/install/sizes.sh
build=$(realpath "${1:?usage: portable.sh BUILD}")
[ -e "$build/portable/bin/ddprun" ] || skip "no static libraries here; the target portable says which"
work=$(mktemp -d "${TMPDIR:-/tmp}/ddprun-portable.XXXXXX")
at_exit 'rm -rf "$work"'
shown=$work/out
glibc=2.28

# make BUILD FOLDER: the packages.
make() {
    python3 cmake/package/wheel.py "$1" "$2" "$glibc" >"$work/out" 2>&1
}

# packages FOLDER: the hashes of what is in it.
packages() {
    (cd "$1" && sha256sum ddprun-*.tar.xz ddprun-*.whl)
}

# ---- two builds, the same bytes ----
export SOURCE_DATE_EPOCH=1700000000 PACKAGE_LEVEL=1
check "the packages are made" make "$build" "$work/first"
(umask 077 && make "$build" "$work/second")
packages "$work/first" >"$work/hashes"
check "two packages" [ "$(wc -l <"$work/hashes")" -eq 2 ]
check "the same build makes the same bytes" cmp "$work/hashes" <(packages "$work/second")
if [ "${DDPRUN_SOAK:-0}" = 1 ]; then
    mkdir -p "$work/elsewhere/build"
    git ls-files -z | xargs -0 cp --parents -t "$work/elsewhere"
    [ ! -d build/cuda ] || ln -s "$PWD/build/cuda" "$work/elsewhere/build/cuda"
    grep -E '^(DDPRUN_GPU_ARCHITECTURES|CMAKE_BUILD_TYPE)' "$build/CMakeCache.txt" | sed 's/^/-D/' >"$work/options"
    mapfile -t options <"$work/options"
    if (cd "$work/elsewhere" && cmake -S . -B build "${options[@]}" && cmake --build build --target portable -j "$(nproc)") >"$work/out" 2>&1 </dev/null; then
        check "the same sources in another folder make the same bytes" cmp "$work/hashes" <(packages "$work/elsewhere/build/portable")
    else
        not_ok "the same sources in another folder" "their build fails"
    fi
fi

# ---- what they need, and show ----
# shows FILE: its names that others can see, but for copies of glibc's data
shows() {
    nm -D --defined-only "$1" | awk '$3 !~ /@GLIBC_/ { print $2, $3 }' | LC_ALL=C sort
}
mkdir "$work/packed"
tar xf "$work"/first/*.tar.xz -C "$work/packed"
bytes=$(bytes_without_kernels "$work/packed") documented=$(documented_bytes)
# A quarter more or less is what compilers of other releases may make.
check "the tarball's $bytes bytes without kernels are those of docs/install.md, $documented, but for a quarter: bash docs/refresh.sh BUILD --install" \
    bash -c '((3 * $2 <= 4 * $1 && 4 * $1 <= 5 * $2))' - "$bytes" "${documented:-0}"
check "the tarball has one folder" [ "$(tar tf "$work"/first/*.tar.xz | cut -d / -f 1 | uniq)" = "$(basename "$work"/first/*.tar.xz .tar.xz)" ]
mkdir "$work/root"
tar xf "$work"/first/*.tar.xz -C "$work/root" --strip-components=1
root=$work/root
objects=0
for file in "$root"/bin/ddprun "$root"/lib/ddprun/*.so; do
    name=${file##*/}
    objects=$((objects + 1))
    newest=$(readelf -VW "$file" | grep -o 'GLIBC_2[0-9.]*' | sed 's/GLIBC_//' | sort -uV | tail -n 1)
    check "$name asks for glibc $newest, at most $glibc" [ "$(printf '%s\n' "$glibc" "$newest" | sort -V | tail -n 1)" = "$glibc" ]
    needed=$(readelf -dW "$file" | sed -n 's/.*(NEEDED).*\[\(.*\)\]/\1/p' | grep -vE '^(lib(c|m|dl|rt|pthread|anl)\.so\.[0-9]|ld-linux-.*)$' | tr '\n' ' ' || true)
    case $name in
    libddprun-pmix.so) check "$name needs PMIx alone" [ "$needed" = 'libpmix.so.2 ' ] ;;
    *) check "$name needs glibc alone" [ -z "$needed" ] ;;
    esac
    shows "$file" >"$work/shows"
    if [ "$name" = ddprun ]; then : >"$work/meant"; else shows "$build/lib/$name" >"$work/meant"; fi
    check "$name shows what the build's does" cmp "$work/meant" "$work/shows"
done
check "a program and six libraries" [ "$objects" -eq 7 ]
has_kernels "$root/lib/ddprun"
check "none names the folder it was built in" [ -z "$(grep -rlF "$build" "$root")" ]
for library in json-c hwloc unwind dw elf zlib1g ssl; do
    check "the licence of $library is there" [ -s "$(echo "$root"/share/doc/ddprun/licences/*"$library"-dev)" ]
done

# ---- they work ----
check "without a stand-in it says that it has none" bash -c \
    "! '$root/bin/ddprun' --device softgpu -n 1 true 2>'$work/none' && grep -q '^ddprun: this ddprun has no stand-in (softgpu): ' '$work/none'"
ln -s "$build/lib/softgpu" "$root/lib/softgpu"
train() {
    timeout -k 1 "$(patient 100)" "$1" -n 2 "$build/samples/digits" --data samples/data/digits.csv --batch 32 --steps 20 --save "$2" </dev/null >"$work/out" 2>&1
}
check "the build trains" train "$build/bin/ddprun" "$work/here"
check "what is unpacked trains" train "$root/bin/ddprun" "$work/unpacked"
check "to the same bits" cmp "$work/here" "$work/unpacked"
if python3 -m pip --version >/dev/null 2>&1 && python3 -m venv --without-pip "$work/venv" >/dev/null 2>&1; then
    check "pip installs the wheel" python3 -m pip --python "$work/venv/bin/python" --isolated --quiet install --no-index --no-deps "$work"/first/*.whl
    check "python -m ddprun starts it" [ "$("$work/venv/bin/python" -m ddprun --version)" = "$("$build/bin/ddprun" --version)" ]
fi
finish
