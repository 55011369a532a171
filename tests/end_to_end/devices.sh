#!/usr/bin/env bash
# devices.sh BUILD - which devices a rank sees: its one GPU as device 0, and under each number up to its local rank. A program
# that chooses one of them trains, whichever way it asks CUDA; one that uses two is named, and ended before it has worked there.
source "$(dirname "$0")/lib.sh"
limit=60
devices=$build/tests/trainers/devices

# absent FILE TEXT: no line of the file has it.
absent() {
    ! grep -q "$2" "$1"
}

for ranks in 1 2 4; do
    works "cudaSetDevice(LOCAL_RANK), $ranks ranks" "$ddprun" -n "$ranks" "$devices" localrank
done
for mode in modulo driver loader; do
    works "$mode" "$ddprun" -n 4 "$devices" "$mode"
done
for mode in localrank driver; do
    works "$mode, static cudart" "$ddprun" -n 2 "${devices}_static" "$mode"
done
works "each rank has a GPU of its own" env SOFTGPU_DEVICES=2 "$ddprun" -n 2 --device softgpu "$devices" localrank

works "a program that asks about all devices" "$ddprun" -n 2 "$devices" ask
check "each rank counts local rank + 1 devices" test "$(grep -c ': softgpu' "$work/stdout")" -eq 3
works "a program that asks about all devices, --one-device" "$ddprun" -n 2 --one-device "$devices" ask
check "each rank counts one device" test "$(grep -c ': softgpu' "$work/stdout")" -eq 2

# Rank 0 counts one device, and waits for rank 1.
refused='rank 1 \(process [0-9]+\) uses devices 0 and 1 of the 2 that it counts, and all are its one GPU: use the one device LOCAL_RANK, or add --one-device'
for mode in all streams; do
    fails "$mode" 1 "$refused" "$ddprun" -n 2 "$devices" "$mode"
    check "$mode: nothing is allocated on device 1" absent "$work/stdout" 'allocated on device 1'
    works "$mode, --one-device" "$ddprun" -n 2 --one-device "$devices" "$mode"
done
fails "a second device after the training" 1 'rank 1 \(process [0-9]+\) uses devices 1 and 0 of the 2' "$ddprun" -n 2 "$devices" later
check "nothing is allocated on a second device" absent "$work/stdout" 'allocated on device 0 of 2'

fails "a program that chooses one GPU for all ranks" 1 'ranks 0 and 1 use the same GPU, 0000:[0-9a-f:.]+, which NCCL refuses; does a script or the program set' \
    env SOFTGPU_DEVICES=2 "$ddprun" -n 2 --device softgpu "$devices" visible
# A program that is built with AddressSanitizer wants its runtime before all other libraries.
if [ -e "${devices}_asan" ]; then
    works "AddressSanitizer in the program" "$ddprun" -n 2 "${devices}_asan" localrank
    works "AddressSanitizer, preloaded by the user" env LD_PRELOAD="$(gcc -print-file-name=libasan.so)" "$ddprun" -n 2 "${devices}_asan" localrank
    works "doctor on AddressSanitizer" "$ddprun" doctor "${devices}_asan"
    check "doctor: its runtime is no finding" grep -q 'preloading: libddprun.so comes after the sanitizer.s libasan' "$work/stdout"
fi
finish
