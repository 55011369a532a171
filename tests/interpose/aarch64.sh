#!/usr/bin/env bash
# aarch64.sh BUILD INCLUDE - the shim's assembly for aarch64: assembled, linked into a shim, and run under an emulator against a driver
# and an engine of the tests: hooks fire and forward all arguments, launches that miss stay in the hook, RTLD_NEXT keeps its
# caller, unknown versions are recorded. Without a cross compiler it is assembled by clang only; without either, skipped.
set -euo pipefail
build=$1 include=$2
root=$(cd "$(dirname "$0")/../.." && pwd)
cd "$root"
assembly=(interpose/shim/hooks_aarch64.S interpose/shim/look_up_aarch64.S)
protocol=$(sed -nE 's/^#define DDPRUN_PROTOCOL_VERSION ([0-9]+).*/\1/p' "$root/base/protocol.h")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

cc=aarch64-linux-gnu-gcc
if ! command -v $cc >/dev/null || ! command -v qemu-aarch64 >/dev/null; then
    command -v clang >/dev/null || {
        echo "skipped: no cross compiler for aarch64 and no clang"
        exit 77
    }
    for file in "${assembly[@]}"; do
        clang --target=aarch64-linux-gnu -I. -c "$file" -o "$work/out.o"
    done
    echo "skipped: assembled by clang, but there is no aarch64-linux-gnu-gcc and qemu-aarch64 to run it"
    exit 77
fi

flags=(-std=gnu17 -D_GNU_SOURCE -DCUDA_ENABLE_DEPRECATED -O2 -fPIC -fvisibility=hidden -Wall -Wextra -Werror -Wno-missing-field-initializers
    -I. -Iinterpose/include "-isystem$include")
$cc -E -P -x c -I. interpose/shim/exports.map -o "$work/exports.map"
# Without the hooks of cuBLAS, which are the same C on every machine.
sed -i '/cublas/d' "$work/exports.map"
$cc -I. -c interpose/shim/hooks_aarch64.S -o "$work/hooks.o"
$cc -I. -c interpose/shim/look_up_aarch64.S -o "$work/look_up.o"
$cc "${flags[@]}" -ftls-model=initial-exec -shared -o "$work/libddprun.so" \
    interpose/shim/{annotations,calls,execs,exempt,gate,hooks,original,rank,recorder,routes,state,threads}.c "$work/hooks.o" "$work/look_up.o" base/message.c \
    base/printable.c base/status_page.c tests/interpose/no_libraries.c -Wl,--version-script="$work/exports.map" -Wl,-Bsymbolic -Wl,-z,now -Wl,-z,defs
$cc "${flags[@]}" -fvisibility=default -I"$build/tests/interpose" -shared -o "$work/libcuda.so.1" tests/interpose/fake_driver.c \
    -Wl,-soname,libcuda.so.1 -Wl,-Bsymbolic
$cc "${flags[@]}" -shared -o "$work/libfake_engine.so" tests/interpose/fake_engine.c
$cc "${flags[@]}" -shared -o "$work/libnext_asker.so" tests/interpose/next_asker.c
$cc "${flags[@]}" -o "$work/plain" tests/interpose/plain.c interpose/engine/memory/filter_writer.c "$work/libnext_asker.so" -Wl,-rpath,"$work" -ldl

head -c 65536 /dev/zero >"$work/status"
_DDPRUN_PROTOCOL=$protocol _DDPRUN_JOB_DIR=$work _DDPRUN_ENGINE=$work/libfake_engine.so RANK=0 \
    LOCAL_RANK=0 LOCAL_WORLD_SIZE=1 _DDPRUN_STATUS_INDEX=0 _DDPRUN_STATUS_COUNT=1 \
    timeout -k 1 60 qemu-aarch64 -L /usr/aarch64-linux-gnu -E LD_PRELOAD="$work/libddprun.so" -E LD_LIBRARY_PATH="$work" \
    "$work/plain" </dev/null
