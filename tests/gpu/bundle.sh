#!/usr/bin/env bash
# bundle.sh - one folder that runs on a machine with an NVIDIA GPU and without network, packages or a build: the product, trainers and samples compiled by nvcc,
# the Debian libraries that these need, and first.sh, which runs the checks and writes the report; and the same as FOLDER.tar.xz, to be copied there.
# README.md beside this script says how to use it.
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
most_bytes=$((12 << 20)) # of FOLDER.tar.xz
needed_bytes=$((300 << 20)) # free, where FOLDER is made

usage() {
    cat <<'HELP'
Usage: bash tests/gpu/bundle.sh [options] FOLDER
Makes FOLDER, which must not exist: all that a machine with an NVIDIA GPU needs to run the checks of ddprun. FOLDER.tar.xz is the
same as one file of at most 12 MiB. There, run FOLDER/first.sh.

  --no-archive   FOLDER alone
  --build BUILD  the build to take (default: build)
  --rehearse     programs and libraries of the stand-in in place of nvcc's and NVIDIA's, to try the bundle out without a GPU
  --help         print this
HELP
}

fail() { # CODE MESSAGE
    printf 'bundle.sh: %s\n' "$2" >&2
    exit "$1"
}

build=$root/build
rehearse=0 archive=1
while [ $# -gt 0 ]; do
    case $1 in
    --build)
        [ $# -ge 2 ] || fail 2 '--build wants a folder; --help lists the options'
        build=$2
        shift
        ;;
    --rehearse) rehearse=1 ;;
    --no-archive) archive=0 ;;
    --help)
        usage
        exit 0
        ;;
    -*) fail 2 "$1: unknown option; --help lists them" ;;
    *) break ;;
    esac
    shift
done
[ $# -eq 1 ] || fail 2 'wants one folder to make; --help lists the options'
folder=${1%/}
for path in "$folder" "$folder.tar.xz"; do
    [ ! -e "$path" ] || fail 2 "$path exists; name a folder that does not"
done
[ -x "$build/bin/ddprun" ] && [ -e "$build/lib/libddprun-engine.so" ] ||
    fail 2 "no build in $build: run \`bash cmake/build.sh release tests\`, or name one with --build"
build=$(cd "$build" && pwd)

if [ "$rehearse" -eq 0 ]; then
    source "$root/tests/gpu/libraries.sh"
    gpu_nvcc_find || exit 2
    bash "$root/tests/gpu/programs.sh" "$build" || fail 2 'the programs for GPUs cannot be compiled; see above'
fi

mkdir -p "$(dirname "$folder")"
free_bytes=$(df -PB1 "$(dirname "$folder")" | awk 'NR == 2 { print $4 }')
[ "$free_bytes" -ge "$needed_bytes" ] ||
    fail 1 "$(dirname "$folder") has $((free_bytes >> 20)) MiB free, and the bundle needs $((needed_bytes >> 20)) while it is made"
part=$(mktemp -d "$(dirname "$folder")/.bundle-XXXXXX")
trap 'rm -rf "$part" "$folder.tar.xz.part"' EXIT
chmod 755 "$part"
mkdir -p "$part"/{build/bin,build/lib,build/gpu,build/samples,build/tests/{comm,gpu,interpose/libraries},debian/fallback,samples/data,tests/{gpu,lib},softgpu/tests/lib}

# ---- scripts and data ----
cp "$root/tests/lib/lib.sh" "$part/tests/lib/"
cp "$root"/softgpu/tests/lib/{lib,patience}.sh "$part/softgpu/tests/lib/"
cp -r "$root/tests/end_to_end" "$part/tests/"
rm -f "$part"/tests/end_to_end/*.[ch] "$part"/tests/end_to_end/CMakeLists.txt
cp "$root"/tests/gpu/{first,run,libraries,report,commands,blocks,checks,several}.sh "$root"/tests/gpu/README.md "$part/tests/gpu/"
cp "$root"/samples/data/{digits.csv,shakespeare.txt} "$part/samples/data/"
ln -s tests/gpu/README.md "$part/README.md"
printf '#!/usr/bin/env bash\nexec bash "$(dirname "$(realpath "$0")")/tests/gpu/first.sh" "$@"\n' >"$part/first.sh"
chmod 755 "$part/first.sh"

# ---- the product ----
cp "$build/bin/ddprun" "$part/build/bin/"
cp "$build"/lib/libddprun*.so "$part/build/lib/"
cp "$build/samples/compare" "$part/build/samples/"
cp "$build/tests/gpu/bandwidth" "$part/build/tests/gpu/"
grep '^DDPRUN_SANITIZE' "$build/CMakeCache.txt" >"$part/build/CMakeCache.txt" # the scripts ask for it

# ---- programs ----
# The shared shape of some is left out: no check wants it, and the bundle is to stay small.
names=(ladder habits graphs libraries values halves types_legacy types_per_thread thousands digits digits_plain chargpt chargpt_plain deviates deviates_own
    kmeans kmeans_plain probe launches tokens nccl_alone host_memory reduces sick arithmetic atomics atomics_clip ends features)
[ ! -e "$root/tests/gpu/gate.cu" ] || names+=(gate)
cp "$build"/tests/interpose/libraries/{test_library_*extents,librecorder.so} "$part/build/tests/interpose/libraries/"
cp "$build/tests/comm/libold_nccl_21701.so" "$part/build/tests/comm/"
if [ "$rehearse" -eq 0 ]; then
    cp "$build/gpu.cuda" "$part/build/"
    cp "$build"/gpu/ddprun{,-plan}-kernels*.fatbin "$part/build/lib/"
    cp "$build/gpu/libwrap_nccl.so" "$part/build/gpu/"
    for name in "${names[@]}"; do
        cp "$build/gpu/${name}_static" "$part/build/gpu/"
        case $name in host_memory | reduces | sick | arithmetic | atomics* | ends | features | gate) ;; *) cp "$build/gpu/$name" "$part/build/gpu/" ;; esac
    done
else
    for name in "${names[@]}"; do
        for place in tests/tools/plan tests/trainers samples tests/gpu; do # the later, where two have one name
            [ ! -x "$build/$place/$name" ] || cp "$build/$place/$name" "$part/build/gpu/$name"
            [ ! -x "$build/$place/${name}_static" ] || cp "$build/$place/${name}_static" "$part/build/gpu/"
        done
        [ -e "$part/build/gpu/$name" ] || fail 2 "no $name for the stand-in in $build; build the target tests"
        [ -e "$part/build/gpu/${name}_static" ] || ln -s "$name" "$part/build/gpu/${name}_static"
    done
    cp "$build/tests/end_to_end/libwrap_nccl.so" "$part/build/gpu/"
    mkdir "$part/build/lib/softgpu"
    cp "$build"/lib/softgpu/*.so.[0-9]* "$build"/lib/softgpu/lib{softgpu,ddprun-kernels,ddprun-plan-kernels}.so "$part/build/lib/softgpu/"
fi

# ---- libraries of this Debian, but for libc's own and what is NVIDIA's ----
mapfile -t files < <(find "$part/build" -type f \( -perm -100 -o -name '*.so*' \))
ldd "${files[@]}" 2>/dev/null | sed -n 's,^[[:space:]]*\([^ ]*\) => \(/[^ ]*\) .*,\1 \2,p' | sort -u >"$part/needed"
while read -r name path; do
    case $name in
    libopenblas* | libgfortran* | libquadmath*) # needed by the stand-in alone
        [ "$rehearse" -eq 0 ] || cp -L "$path" "$part/build/lib/softgpu/$name"
        ;;
    libc.so.* | libm.so.* | libdl.so.* | librt.so.* | libpthread.so.* | ld-linux*) ;;
    libcuda* | libcublas* | libnccl* | libcurand* | libsoftgpu* | libddprun*) ;;
    libstdc++* | libgcc_s*) cp -L "$path" "$part/debian/fallback/$name" ;; # a newer one of the machine serves better
    *) cp -L "$path" "$part/debian/$name" ;;
    esac
done <"$part/needed"
rm "$part/needed"

# The stand-in is no part of the archive.
mv "$part" "$folder"
if [ "$archive" -eq 0 ]; then
    printf '%s: on a machine with a GPU run %s/first.sh\n' "$folder" "$folder"
    exit
fi
XZ_OPT=${XZ_OPT:--9} tar -C "$(dirname "$folder")" --owner=0 --group=0 --sort=name --exclude=lib/softgpu -cJf "$folder.tar.xz.part" "$(basename "$folder")"
bytes=$(stat -c %s "$folder.tar.xz.part")
[ "$rehearse" -eq 1 ] || [ "$bytes" -le "$most_bytes" ] || {
    rm -r "$folder"
    fail 1 "the bundle would have $((bytes >> 10)) KiB, and may have $((most_bytes >> 10))"
}
mv "$folder.tar.xz.part" "$folder.tar.xz"
printf '%s.tar.xz: %d KiB; unpack it on a machine with a GPU, and run %s/first.sh there\n' "$folder" $(((bytes + 1023) >> 10)) "$(basename "$folder")"
