#!/bin/bash
# run.sh BUILD - what is refused, and what a rank finds when it is started.
#
# The real ddprun, with helper programs for trainers and stubs for the libraries that it preloads. Exits 1 if a case is not ok. Needs no GPU.
source "$(dirname "$0")/lib.sh"

# ---- bad input: its exit code, one line on stderr, nothing on stdout ----
mkdir "$top/folder"
printf 'plain text\n' >"$top/text" && chmod 755 "$top/text"
printf '#!/bin/sh\n' >"$top/script" && chmod 644 "$top/script"
printf '#!/no/such/interpreter\n' >"$top/script_lost" && chmod 755 "$top/script_lost"
printf '#!/bin/sh\r\necho\r\n' >"$top/script_crlf" && chmod 755 "$top/script_crlf"
printf '#!%s\n' "$helpers/launcher_fake_static" >"$top/script_static" && chmod 755 "$top/script_static"
head -c 100 "$fake" >"$top/cut" && chmod 755 "$top/cut"
head -c 8192 "$fake" >"$top/cut_late" && chmod 755 "$top/cut_late"
cp "$fake" "$top/arm" && printf '\267' | dd of="$top/arm" bs=1 seek=18 conv=notrunc 2>/dev/null
cp "$fake" "$top/object" && printf '\001' | dd of="$top/object" bs=1 seek=16 conv=notrunc 2>/dev/null
# ddprun cannot ask the stand-in how many devices it makes at most.
most_devices=$(sed -n 's/^ *DEVICE_LIMIT = \([0-9]*\),$/\1/p' "$(dirname "${BASH_SOURCE[0]}")/../../softgpu/cuda/driver.h")
{
    bad "no program" 2 "no program" $soft -n 2
    bad "--env" 2 "--env is gone: .* write env NAME=VALUE before ddprun" --env A=7 "$fake"
    if [ -z "$asan" ]; then
        run_in_front sh -c 'ulimit -v 200000; exec timeout -k 1 "$limit" "$0" "$1"' "$ddprun" "$fake"
        report "no room for the stand-in" "$(expect 2 "$err" '^ddprun: the limit of address space is 195 MiB, and a rank on the stand-in needs')"
    fi
    DDPRUN_BUKET_MB=3 bad "a mistyped variable" 2 "DDPRUN_BUKET_MB, in the environment, is not a setting; did you mean DDPRUN_BUCKET_MB" "$fake"
    bad "-n 0" 2 "'0' is not a number of ranks" -n 0 "$fake"
    bad "-n 257" 2 "from 1 to 256" -n 257 "$fake"
    bad "-n without value" 2 "needs a value" -n
    bad "--bucket-mb 0" 2 "'0' is not a size" --bucket-mb 0 "$fake"
    bad "an argument that speaks to the terminal" 2 "'\?\[31mé\?\?' names no GPU" --gpus $'\033[31mé\302\233\377' "$fake"
    bad "--device tpu" 2 "'tpu' is not one of" --device tpu "$fake"
    bad "--timeout 0" 2 "'0' is not" --timeout 0 "$fake"
    bad "--gpus x" 2 "'x' names no GPU" --gpus x "$fake"
    bad "unknown long option" 2 "unknown or ambiguous option --frobnicate" --frobnicate "$fake"
    bad "a mistyped option" 2 "unknown option --no-overlapp, before the program; did you mean --no-overlap?" --no-overlapp "$fake"
    bad "a mistyped command" 127 "program chekc not found, in the folders of .PATH; did you mean ddprun check\\?" chekc "$fake"
    bad "a command that is gone" 127 "ddprun predict is gone; run with --page FILE, and compare runs by ddprun report A B" predict "$fake"
    bad "a program that is not there, and not nearly a command" 127 "program frobnicate not found, in the folders of .PATH; give its path" frobnicate
    bad "help of an unknown command" 2 "unknown command scuot, after help; did you mean scout?" help scuot
    bad "help of what is no command" 2 "unknown command frobnicate, after help; see ddprun help" help frobnicate
    bad "mpirun's letter" 2 "ddprun has no option -x; it is env NAME=VALUE before ddprun here" -x A "$fake"
    bad "torchrun's option" 2 "ddprun has no option --log_dir; it is --output files=DIR here" --log_dir=logs "$fake"
    bad "mpirun's letter for hosts" 2 "ddprun has no option -N; it is --nnodes N here" -N 2 "$fake"
    bad "torchrun's port" 2 "ddprun has no option --master_port; it is --master HOST:PORT here" --master_port 1 "$fake"
    bad "horovodrun's buckets" 2 "ddprun has no option --fusion-threshold-mb; it is --bucket-mb X here" --fusion-threshold-mb 8 "$fake"
    bad "horovodrun's float16" 2 "ddprun has no option --fp16-allreduce; it is --compress fp16 here" --fp16-allreduce "$fake"
    bad "horovodrun's timeline" 2 "ddprun has no option --timeline; it is --trace DIR, " --timeline "$top/t" "$fake"
    bad "mpirun's ranks above slots" 2 "ddprun has no option --oversubscribe; it is --share-gpu here" --oversubscribe "$fake"
    bad "mpirun's places" 2 "ddprun has no option --map-by; it is --bind core, and --gpus LIST here" --map-by slot "$fake"
    bad "deepspeed's GPUs" 2 "ddprun has no option --num_gpus; it is -n N, or --gpus LIST here" --num_gpus=2 "$fake"
    bad "DDP's buckets" 2 "ddprun has no option --bucket_cap_mb; it is --bucket-mb X here" --bucket_cap_mb 25 "$fake"
    gives "ranks after the program" 97 "$err" '^ddprun: -n 2 comes after the program, so the program gets it; for 2 ranks write ddprun -n 2 ' -- run "$fake" -n 2
    run -n 1 "$fake" -n 2
    report "ranks on both sides" "$(expect 97)$(grep 'comes after the program' "$err")"
    bad "a value where none belongs" 2 "takes no value" --no-overlap=3 "$fake"
    bad "no such program" 127 "cannot start $top/nowhere: No such file" "$top/nowhere"
    bad "no such command" 127 "not found, in the folders of .PATH" no-such-command-here
    bad "a folder" 127 "it is a folder" "$top/folder"
    bad "not executable" 127 "not executable" "$top/script"
    touch "$top/train.cu"
    touch "$top/train.py"
    bad "a Python script" 127 "it is a Python script; write python3 $top/train.py" "$top/train.py"
    bad "a mistyped folder" 127 "cannot start $top/nowhere/train: there is no folder $top/nowhere; check the path" "$top/nowhere/train"
    bad "a source" 127 "it is a source; compile it first, .*nvcc -o train $top/train.cu" "$top/train.cu"
    bad "neither program nor script" 127 "neither an ELF program nor a script" "$top/text"
    bad "script without interpreter" 127 "/no/such/interpreter" "$top/script_lost"
    bad "script with line ends of Windows" 127 "line ends of Windows" "$top/script_crlf"
    bad "script with a static interpreter" 127 "static executable" "$top/script_static"
    bad "static executable" 127 "static executable" $soft "$helpers/launcher_fake_static"
    bad "static position independent executable" 127 "static executable" $soft "$helpers/launcher_fake_static_pie"
    bad "shared library" 127 "is a shared library, which cannot be started; name the program" "$helpers/liblauncher_stub_library.so"
    bad "cut executable" 127 "damaged" "$top/cut"
    bad "a file of which the end is missing" 127 "cut_late is damaged: it was cut, or its ELF headers make no sense" "$top/cut_late"
    bad "another processor" 127 "another processor" "$top/arm"
    bad "object file" 127 "object file" "$top/object"
    bad "no NCCL there" 2 "cannot read /no/nccl.so, in --nccl" --nccl /no/nccl.so "$fake"
    bad "NCCL is a folder" 2 "is not a file, in --nccl" --nccl "$top/folder/" "$fake"
    bad "trace in no folder" 2 "in --trace" --trace "$top/no/such" "$fake"
    bad "trace is a file" 2 "in --trace, is not a writable folder" --trace "$top/text" "$fake"
    bad "GPU wanted for a stand-in's program" 2 "built by softgpu-cc and cannot use a GPU" --device gpu "$fake"
    bad "--gpus without devices to choose from" 2 "--gpus chooses among GPUs" --gpus 0,1 "$fake"
    SOFTGPU_DEVICES=2 bad "more ranks than the stand-in's devices" 2 "3 ranks want a GPU each, but there are 2" -n 3 "$fake"
    SOFTGPU_DEVICES=x bad "SOFTGPU_DEVICES=x" 2 "SOFTGPU_DEVICES='x'" "$fake"
    SOFTGPU_DEVICES=$((most_devices + 1)) bad "more devices than the stand-in makes" 2 "SOFTGPU_DEVICES='$((most_devices + 1))' is not a number of devices that the stand-in can make; set it to 1 to $most_devices" "$fake"
    SOFTGPU_DEVICES=4 bad "--gpus of the stand-in, mistyped" 2 "there is no GPU GPU-1234, in --gpus: the stand-in makes 4" --gpus 0,GPU-1234 "$fake"
    SOFTGPU_DEVICES=4 bad "--gpus of the stand-in, one in two ways" 2 "GPU 1 is named twice" --gpus 1,GPU-1 "$fake"
    SOFTGPU_DEVICES=4 CUDA_VISIBLE_DEVICES=2,3 bad "--gpus beyond what is visible" 2 "there is no GPU 3, in --gpus: 2 visible" --gpus 3 "$fake"
    SOFTGPU_DEVICES=4 CUDA_VISIBLE_DEVICES=7 bad "none of the stand-in's devices visible" 2 "leaves no GPU: its first entry is not one of the stand-in's" "$fake"
    DDPRUN_RANKS=300 bad "DDPRUN_RANKS=300" 2 "DDPRUN_RANKS: '300' is not a number of ranks from 1 to 256" "$fake"
    TMPDIR=$top/absent bad "TMPDIR absent" 1 "cannot use $top/absent" "$fake" exit 0
    OMPI_COMM_WORLD_SIZE=2 bad "started by mpirun -n 2" 2 "another launcher" -n 2 "$fake"
    WORLD_SIZE=2 bad "one of two, without a rank" 2 "but RANK and MASTER_ADDR are not set: each would train alone; .*; -n 4 does not count" -n 4 "$fake"
    PET_NNODES=2 bad "one pod of two" 2 "PET_NNODES=2 says that ddprun is one of several processes, but " "$fake"
    for words in check scout; do
        WORLD_SIZE=2 RANK=1 bad "ddprun $words as one of two" 2 "ddprun $words starts its own ranks: start it once; .*MASTER_ADDR is not set" "$words" "$fake"
    done
    WORLD_SIZE=2 RANK=1 MASTER_ADDR=h1 bad "ddprun scout as rank 1 of two" 2 "ddprun scout starts its own ranks: start it once; WORLD_SIZE, RANK and MASTER_ADDR mark it as one of several processes" scout "$fake"
    bad "--hosts, which is gone" 2 "ddprun has no option --hosts; it is mpirun -n 16 --host h1:8,h2:8 --bind-to none ddprun PROGRAM, or --nnodes" --hosts h1:2,h2:2 "$fake"
    bad "ddprun as the program" 2 "the program to start is ddprun itself" -n 2 "$ddprun" -n 2 "$fake"
}
# What a script in a rank may ask of ddprun, and what not. A sanitizer's runtime would have to come before ddprun's library.
if [ -z "$asan" ]; then
    for words in "" "check"; do
        run $soft -n 1 bash -c "'$ddprun' $words '$fake'"
        why=$(expect 2 "$err" '^ddprun: ddprun was started inside a rank of another ddprun \(_DDPRUN_JOB_DIR=')
        [ "$(wc -l <"$err")" = 2 ] || why+="$(wc -l <"$err") lines on stderr, not this one and the rank's exit code "
        report "ddprun $words inside a rank" "$why$(no_folders_left)"
    done
    run $soft -n 1 bash -c "'$ddprun' --version && '$ddprun' --help"
    report "--version and --help inside a rank" "$(expect 0 "$out" '^ddprun [0-9]' "$out" '^Usage: ddprun')"
fi
TMPDIR=/dev/null gives "TMPDIR is no folder" 1 "$err" '^ddprun: cannot use /dev/null for temporary files: it is not a folder' -- run "$fake" exit 0
if [ "$(id -u)" = 0 ]; then
    cp "$fake" "$top/setuid" && chown 65534 "$top/setuid" && chmod 4755 "$top/setuid"
    bad "setuid program" 127 "other rights" "$top/setuid"
else
    echo "skip - setuid program (only root can make a file of another user)"
fi
# Rights that ddprun itself would lend to whatever it starts. Such a process cannot be looked into, also not for leaks.
if [ "$(id -u)" = 0 ] && command -v setpriv >/dev/null; then
    chmod 755 "$top" "$top/bin"
    for mode in 4755 2755; do
        if [ "$mode" = 2755 ] && ldd "$build/bin/ddprun" | grep -q libasan; then
            echo "skip - ddprun with mode 2755 (AddressSanitizer's runtime cannot read its options in such a process)"
            continue
        fi
        cp "$build/bin/ddprun" "$top/bin/other-rights" && chmod "$mode" "$top/bin/other-rights"
        run_in_front timeout -k 1 "$limit" env ASAN_OPTIONS=detect_leaks=0 setpriv --reuid=65534 --regid=65534 --clear-groups "$top/bin/other-rights" "$fake" exit 0
        report "ddprun with mode $mode" "$(expect 2 "$err" '^ddprun: ddprun has other rights than its user')"
    done
    cp "$build/bin/ddprun" "$top/bin/other-rights" && chmod 755 "$top/bin/other-rights"
    if setcap cap_net_raw+ep "$top/bin/other-rights" 2>/dev/null; then
        run_in_front timeout -k 1 "$limit" env ASAN_OPTIONS=detect_leaks=0 setpriv --reuid=65534 --regid=65534 --clear-groups "$top/bin/other-rights" "$fake" exit 0
        report "ddprun with a capability" "$(expect 2 "$err" '^ddprun: ddprun has other rights than its user')"
    else
        echo "skip - ddprun with a capability (no setcap, or not on this file system)"
    fi
    rm "$top/bin/other-rights"
else
    echo "skip - ddprun with other rights (only root can make such a file, and setpriv leaves root)"
fi
run
report "without arguments it says what it is" "$(expect 2 "$err" '^ddprun: no program given; ddprun trains a single-GPU CUDA program' "$err" '^  ddprun -n 8')"
while IFS='|' read -r missing said; do
    mv "$top/lib/$missing" "$top/lib/gone"
    bad "missing $missing" 127 "$said: $top/lib/$missing" "$fake"
    mv "$top/lib/gone" "$top/lib/$missing"
done <<'END'
libddprun.so|is missing
libddprun-engine.so|is missing
softgpu|has no stand-in \(softgpu\)
END
mkdir "$top/a b" && cp -r "$top/bin" "$top/lib" "$top/a b"
ddprun="$top/a b/bin/ddprun" bad "blank in the folder's name" 127 "blank" "$fake"

# ---- GPUs, with a stub of NVML ----
gpu_run() {
    local gpus=$1
    shift
    run_in_front env STUB_GPUS="$gpus" LD_LIBRARY_PATH="$top/gpu" timeout -k 1 "$limit" "$ddprun" "$@"
}
if [ ! -e /dev/nvidia0 ]; then
    gives "no GPU: says what was looked for" 2 "$err" 'no NVIDIA driver \(libnvidia-ml.so.1.*--device softgpu' -- run "$plain" exit 0
    gives "a driver, but no GPU" 2 "$err" 'no GPU \(asked NVML\)' -- gpu_run 0 "$plain" exit 0
else
    echo "skip - no GPU: says what was looked for (this machine has one)"
    echo "skip - a driver, but no GPU (this machine has one)"
fi
gives "more ranks than GPUs" 2 "$err" '3 ranks want a GPU each, but there are 2' -- gpu_run 2 -n 3 "$plain" exit 0
gpu_run 2 "$plain" env CUDA_VISIBLE_DEVICES env NCCL_HOSTID env LD_LIBRARY_PATH
report "one rank per GPU by default" "$(expect 0 "$out" '^CUDA_VISIBLE_DEVICES=0' "$out" '^\[1\] CUDA_VISIBLE_DEVICES=1' \
    "$out" 'NCCL_HOSTID unset' "$out" "LD_LIBRARY_PATH=$top/gpu\$")"
gives "--gpus in its order" 0 "$out" '^CUDA_VISIBLE_DEVICES=6' "$out" '^\[2\] CUDA_VISIBLE_DEVICES=3' -- gpu_run 8 --gpus 6,2-3 "$plain" env CUDA_VISIBLE_DEVICES
CUDA_VISIBLE_DEVICES=5,3 gives "--gpus counts within CUDA_VISIBLE_DEVICES" 0 "$out" '^CUDA_VISIBLE_DEVICES=3' -- gpu_run 8 --gpus 1 -n 1 "$plain" env CUDA_VISIBLE_DEVICES
# What the driver says of a rank's GPU while the job runs.
touch "$top/when"
STUB_XID=79 STUB_XID_GPU=1 STUB_XID_WHEN=$top/when gpu_run 2 -n 2 "$plain" stage 2 stage 3 @1 exit 7
report "an Xid is in the reason of a failure" "$(expect 7 "$err" '^ddprun: the driver reports Xid 79 of GPU 0000:11:00.0, of rank 1: the GPU has fallen off the bus' \
    "$err" '^ddprun: rank 1 .*; the driver has reported Xid 79 of GPU 0000:11:00.0, of rank 1')"
STUB_XID=31 STUB_XID_GPU=3 STUB_XID_WHEN=$top/when gpu_run 4 -n 2 "$plain" exit 7
report "an Xid of a GPU that no rank has" "$(expect 7)$(grep Xid "$err")"
gpu_run 2 -n 2 --interface 127.0.0.0/8 "$plain" env NCCL_SOCKET_IFNAME env NCCL_RAS_ENABLE
report "--interface by its network: NCCL gets its name; and no server" "$(expect 0 "$out" '^NCCL_SOCKET_IFNAME==lo$' "$out" '^NCCL_RAS_ENABLE=0$')"
NCCL_RAS_ENABLE=1 gpu_run 2 -n 2 --interface eth0.100 "$plain" env NCCL_SOCKET_IFNAME env NCCL_RAS_ENABLE
report "--interface by its name, and the user's NCCL_RAS_ENABLE" "$(expect 0 "$out" '^NCCL_SOCKET_IFNAME==eth0.100$' "$out" '^NCCL_RAS_ENABLE=1$')"
gpu_run 2 -n 2 --reserve 512 "$plain" env _DDPRUN_RESERVE
report "--reserve" "$(expect 0 "$out" '^_DDPRUN_RESERVE=512$')"
_DDPRUN_RESERVE=9 gpu_run 2 -n 1 --reserve 512 "$plain" env _DDPRUN_RESERVE
report "--reserve with one rank" "$(expect 0 "$out" '^_DDPRUN_RESERVE unset$')"
_DDPRUN_DEVICES=9 gpu_run 2 -n 2 "$plain" env _DDPRUN_DEVICES
report "a rank is shown local rank + 1 devices" "$(expect 0 "$out" '^_DDPRUN_DEVICES unset$' "$out" '^(\[1\] )?_DDPRUN_DEVICES=2$')"
_DDPRUN_DEVICES=9 gpu_run 2 -n 2 --one-device "$plain" env _DDPRUN_DEVICES
report "--one-device" "$(expect 0 "$out" '^_DDPRUN_DEVICES unset$')$(grep -F 'DEVICES=' "$out")"
gpu_run 2 -n 2 --gpus MIG-ab,MIG-cd "$plain" env NCCL_HOSTID env NCCL_MULTI_RANK_GPU_ENABLE
report "parts of a GPU share it by themselves" "$(expect 0 "$out" '^NCCL_(HOSTID|MULTI_RANK_GPU_ENABLE)=')"
gpu_run 4 -n 2 --share-gpu "$plain" env NCCL_HOSTID env NCCL_SOCKET_IFNAME
report "--share-gpu where no rank shares" "$(expect 0 "$out" 'NCCL_HOSTID unset' "$out" 'NCCL_SOCKET_IFNAME unset')"
NCCL_COMM_BLOCKING=0 NCCL_GRAPH_REGISTER=1 gpu_run 1 "$plain" env NCCL_COMM_BLOCKING env NCCL_GRAPH_REGISTER env NCCL_RUNTIME_CONNECT # of which 0 takes memory for nothing
report "NCCL in ranks" "$(expect 0 "$out" '^NCCL_COMM_BLOCKING=1' "$out" '^NCCL_GRAPH_REGISTER=1' "$out" 'NCCL_RUNTIME_CONNECT unset')"
gpu_run 1 --interface eth7 "$plain" env NCCL_SOCKET_IFNAME
report "NCCL uses the interface of --interface" "$(expect 0 "$out" '^NCCL_SOCKET_IFNAME==eth7')"
NCCL_SOCKET_IFNAME=ib0 gpu_run 1 --interface eth7 "$plain" env NCCL_SOCKET_IFNAME
report "unless NCCL has one" "$(expect 0 "$out" '^NCCL_SOCKET_IFNAME=ib0')"
gpu_run 2 -n 2 --nccl "$build/tests/comm/libfake_nccl_22403.so" "$plain" env NCCL_LOCAL_REGISTER env NCCL_NVLS_ENABLE
report "NCCL registers no memory" "$(expect 0 "$out" '^NCCL_LOCAL_REGISTER=0' "$out" 'NCCL_NVLS_ENABLE unset')"
gpu_run 2 -n 2 --nccl "$build/tests/comm/libfake_nccl_22105.so" "$plain" env NCCL_NVLS_ENABLE
report "an NCCL whose ranks meet in each call with NVLS has none" "$(expect 0 "$out" '^NCCL_NVLS_ENABLE=0')"
NCCL_NVLS_ENABLE=2 gpu_run 2 -n 2 --nccl "$build/tests/comm/libfake_nccl_22105.so" "$plain" env NCCL_NVLS_ENABLE
report "unless the user wants it" "$(expect 0 "$out" '^NCCL_NVLS_ENABLE=2')"
gpu_run 1 -n 2 --share-gpu "$plain" env CUDA_VISIBLE_DEVICES env NCCL_HOSTID env NCCL_SOCKET_IFNAME
why=$(expect 0 "$out" '^CUDA_VISIBLE_DEVICES=0' "$out" '^\[1\] CUDA_VISIBLE_DEVICES=0' "$out" '^NCCL_SOCKET_IFNAME=lo')
[ "$(grep -ao 'NCCL_HOSTID=.*' "$out" | sort -u | wc -l)" = 2 ] || why+="NCCL_HOSTID is not distinct"
report "--share-gpu" "$why"
gpu_run 1 -n 2 --share-gpu --nccl "$build/tests/comm/libfake_nccl_23203.so" "$plain" env NCCL_MULTI_RANK_GPU_ENABLE env NCCL_HOSTID
report "--share-gpu with an NCCL that has a setting for it" "$(expect 0 "$out" '^NCCL_MULTI_RANK_GPU_ENABLE=1' \
    "$out" '^\[1\] NCCL_MULTI_RANK_GPU_ENABLE=1' "$out" 'NCCL_HOSTID unset')"
gpu_run 1 -n 2 --share-gpu --nccl "$build/tests/comm/libfake_nccl_22809.so" "$plain" env NCCL_MULTI_RANK_GPU_ENABLE env NCCL_HOSTID
report "--share-gpu with an NCCL that has none" "$(expect 0 "$out" 'NCCL_MULTI_RANK_GPU_ENABLE unset' "$out" '^NCCL_HOSTID=')"
NCCL_SOCKET_IFNAME=eth7 gives "--share-gpu keeps the user's NCCL_SOCKET_IFNAME" 0 "$out" '^NCCL_SOCKET_IFNAME=eth7' -- gpu_run 1 -n 2 --share-gpu "$plain" env NCCL_SOCKET_IFNAME

# ---- the stand-in ----
run -n 2 "$fake" env LD_LIBRARY_PATH env SOFTGPU_DEVICES env CUDA_VISIBLE_DEVICES
report "a program's note chooses the stand-in" \
    "$(expect 0 "$out" "^LD_LIBRARY_PATH=$top/lib/softgpu\$" "$out" '^SOFTGPU_DEVICES=1' "$out" '^CUDA_VISIBLE_DEVICES unset')"
SOFTGPU_DEVICES=3 run "$fake" env CUDA_VISIBLE_DEVICES env SOFTGPU_DEVICES
report "SOFTGPU_DEVICES gives each rank one of them" \
    "$(expect 0 "$out" '^\[2\] CUDA_VISIBLE_DEVICES=2' "$out" '^\[1\] SOFTGPU_DEVICES=3')"
SOFTGPU_DEVICES=$most_devices run -n 1 --gpus "$((most_devices - 1))" "$fake" env CUDA_VISIBLE_DEVICES
report "as many devices as the stand-in makes" "$(expect 0 "$out" "^CUDA_VISIBLE_DEVICES=$((most_devices - 1))")"
SOFTGPU_DEVICES=4 CUDA_VISIBLE_DEVICES=2,GPU-3 run --gpus 1,0 "$fake" env CUDA_VISIBLE_DEVICES
report "--gpus counts within CUDA_VISIBLE_DEVICES on the stand-in too" \
    "$(expect 0 "$out" '^CUDA_VISIBLE_DEVICES=3' "$out" '^\[1\] CUDA_VISIBLE_DEVICES=2')"

# ---- what a rank finds ----
run_in_front timeout -k 1 "$limit" env LD_PRELOAD="$asan:$helpers/liblauncher_stub_library.so" "$ddprun" -n 2 --bucket-mb 0.5 --no-overlap --check-every 7 --timeout 9 --nccl nccl.so \
    --trace "$top/trace" "$fake" env RANK env WORLD_SIZE env LOCAL_RANK env LOCAL_WORLD_SIZE env LD_PRELOAD env _DDPRUN_ENGINE \
    env _DDPRUN_PROTOCOL options
report "environment of a rank" "$(expect 0 "$out" '^\[1\] RANK=1' "$out" '^\[1\] WORLD_SIZE=2' "$out" '^\[1\] LOCAL_RANK=1' \
    "$out" '^LOCAL_WORLD_SIZE=2' "$out" "^LD_PRELOAD=$asan:$helpers/liblauncher_stub_library.so:$top/lib/libddprun.so\$" \
    "$out" '^bucket_bytes=524288$' "$out" '^overlap=0$' "$out" '^check_every=7$' "$out" '^timeout_s=9$' \
    "$out" '^nccl=nccl.so$' "$out" "^trace_dir=$top/trace\$" "$out" "^_DDPRUN_ENGINE=$top/lib/libddprun-engine.so" \
    "$out" '^verify=0$' "$out" '^stop_on_nan=0$' "$out" '^unannotated=0$' "$out" '^reduction=0$' "$out" '^compression=0$')"
report "the options have the version of the variables" "$(diff <(sed -n 's/^_DDPRUN_PROTOCOL=//p' "$out") <(sed -n 's/^protocol=//p' "$out"))"
# For programs that meet at a place of their own, as under torchrun; what the user has set stays.
run -n 2 "$fake" env MASTER_ADDR env MASTER_PORT env GROUP_RANK
report "a rendezvous for programs that ask" "$(expect 0 "$out" '^MASTER_ADDR=127.0.0.1' "$out" '^\[1\] MASTER_PORT=[0-9]+' "$out" '^GROUP_RANK=0')$(
    [ "$(sed 's/^\[1\] //' "$out" | grep -c "$(grep '^MASTER_PORT=' "$out")")" = 2 ] || echo "not one port: $(cat "$out")")"
MASTER_PORT=1234 run -n 1 "$fake" env MASTER_ADDR env MASTER_PORT
report "a rendezvous of the user's" "$(expect 0 "$out" '^MASTER_PORT=1234' "$out" '^MASTER_ADDR unset')"
# Threads of OpenMP: a rank's share of the processors, also where one of them is left.
first=$(taskset -cp $$ | sed 's/.*: \([0-9]*\).*/\1/') share=$(($(nproc) / 2))
[ "$share" -gt 0 ] || share=1
run -n 2 -v "$fake" env OMP_NUM_THREADS
report "OMP_NUM_THREADS is a rank's share" "$(expect 0 "$out" "^OMP_NUM_THREADS=$share\$" "$out" "^\[1\] OMP_NUM_THREADS=$share\$" \
    "$err" "^ddprun: OMP_NUM_THREADS is not set: each rank gets $share, its share of the processors of ")"
gives "two ranks on one processor" 0 "$out" '^OMP_NUM_THREADS=1$' -- \
    run_in_front taskset -c "$first" timeout -k 1 "$limit" "$ddprun" -n 2 "$fake" env OMP_NUM_THREADS
report "no line about OMP_NUM_THREADS where OpenMP is not needed" "$(grep OMP "$err")"
OMP_NUM_THREADS=7 run -n 2 -v "$fake" env OMP_NUM_THREADS
report "OMP_NUM_THREADS stays as it is set" "$(expect 0 "$out" '^OMP_NUM_THREADS=7$')$(grep OMP "$err")"
run -n 1 -v "$fake" env OMP_NUM_THREADS
report "one rank has all processors" "$(expect 0)$(grep OMP= "$out" "$err")"
DDPRUN_REDUCE=sum DDPRUN_OVERLAP=1 run --unannotated --verify --stop-on-nan "$fake" env DDPRUN_REDUCE options
report "a user's setting and what the engine gets have names of their own" "$(expect 0 "$out" '^DDPRUN_REDUCE=sum$' "$out" '^reduction=1$' \
    "$out" '^verify=1$' "$out" '^stop_on_nan=1$' "$out" '^unannotated=1$' "$out" '^overlap=1$' \
    "$out" '^nccl=libnccl.so.2$' "$out" '^trace_dir=$')"
# A process that stays before its program is not waited for for ever, nor left behind.
new_pids
run_in_front timeout -k 1 "$limit" env LD_PRELOAD="$asan:$helpers/liblauncher_stop_before_exec.so" "$ddprun" -n 3 --timeout 3 "$fake" pid "$pids" hang
report "a process that is stopped before its program" \
    "$(expect 1 "$err" "^ddprun: the process of rank 1 has not started $fake within 3 s: it is stopped")$(no_folders_left)$(files_in "$pids" 1 || echo "rank 0 has not run ")$(within 10 all_gone "$pids" || echo "ranks are left ")"
# Nor does it keep the job from being ended.
has_stopped_child() {
    local child
    for child in $(cat "/proc/$1/task/$1/children"); do grep -q '^State:.T' "/proc/$child/status" && return 0; done
    return 1
}
new_pids
LD_PRELOAD="$asan:$helpers/liblauncher_stop_before_exec.so" start -n 3 --max-restarts 1 "$fake" pid "$pids" hang
within 20 has_stopped_child "$job"
kill -TERM "$job"
end_job
report "a start that is held up can be ended" \
    "$(expect 143 "$err" "^ddprun: SIGTERM while the process of rank 1 had not started $fake" "$err" '^ddprun: no restart')$(no_folders_left)$(within 10 all_gone "$pids" || echo "ranks are left ")"
_DDPRUN_SUPERVISOR=/old _DDPRUN_STDOUT=/old _DDPRUN_ENGINE=/old run "$fake" env _DDPRUN_SUPERVISOR env _DDPRUN_STDOUT env _DDPRUN_ENGINE
report "old variables do not reach a rank" "$(expect 0 "$out" "_DDPRUN_SUPERVISOR=$TMPDIR/.*/supervisor" "$out" "_DDPRUN_ENGINE=$top/lib")$(grep /old "$out")"
PMIX_RANK=0 OMPI_COMM_WORLD_RANK=0 run "$fake" env PMIX_RANK env OMPI_COMM_WORLD_RANK
report "nor what says which process of a launcher ddprun is" "$(expect 0 "$out" '^PMIX_RANK unset' "$out" '^OMPI_COMM_WORLD_RANK unset')"
MASTER_ADDR=h1 WORLD_SIZE=1 gives "torch's variables that make no job of several" 0 "$out" '^MASTER_ADDR=h1' -- run -n 2 -v "$fake" env MASTER_ADDR
OMPI_MCA_btl=self gives "settings for an MPI in the trainer do" 0 "$out" '^OMPI_MCA_btl=self' -- run "$fake" env OMPI_MCA_btl
run $soft -n 1 sh -c 'grep -cE "libpmix|libevent" /proc/$PPID/maps
    for fd in /proc/$PPID/fd/*; do readlink "$fd"; done | sed -n "s/^socket:.\([0-9]*\).$/ \1 /p" >"$0"; cat /proc/net/tcp /proc/net/tcp6 | grep -cf "$0"; cat "$0"' "$top/sockets"
report "on one host ddprun opens no PMIx and no port" "$(expect 0)$([ "$(head -n 2 "$out" | tr '\n' ' ')" = '0 0 ' ] && [ "$(wc -l <"$out")" -gt 2 ] || cat "$out")"
rm "$top/lib/libddprun-pmix.so"
PMIX_NAMESPACE=x PMIX_RANK=0 bad "a cluster's job without PMIx's library" 127 "cannot open PMIx, .*libddprun-pmix.so: cannot open.*; for such jobs install PMIx" "$fake"
cp "$helpers/liblauncher_stub_library.so" "$top/lib/libddprun-pmix.so"
PMIX_NAMESPACE=x PMIX_RANK=0 bad "another library in its place" 127 "cannot open PMIx, .*undefined symbol: ddprun_pmix_member; for such jobs install" "$fake"
grep -E 'Sig(Blk|Ign)' /proc/self/status >"$top/wanted"
run $soft -n 2 grep -E 'Sig(Blk|Ign)' /proc/self/status
report "a rank's signals are those of a bare program" \
    "$(expect 0)$(diff <(sed 's/.*\] //' "$out" | sort) <(sort "$top/wanted" "$top/wanted") | head -3)"
run $soft -n 2 hostname
report "a program that has nothing to do with GPUs" "$(expect 0 "$out" "^$(hostname)\$" "$out" "^\[1\] $(hostname)\$" \
    "$err" '^ddprun: no rank used CUDA under ddprun: nothing was averaged, 2 copies ran side by side')$([ "$(wc -l <"$err")" = 1 ] || cat "$err")"
run $soft -q -n 2 hostname
report "the same with --quiet" "$(expect 0)$(cat "$err")"
run $soft -n 1 hostname
report "and with one rank: no word" "$(expect 0)$(cat "$err")"
run -n 16 "$helpers/launcher_fake_softgpu" env RANK
report "16 ranks" "$(expect 0 "$out" '^\[15\] RANK=15')$([ "$(wc -l <"$out")" = 16 ] || echo "not 16 lines")"
gives "--version" 0 "$out" '^ddprun [0-9]+\.[0-9]+\.[0-9]+ ' -- run --version
gives "--help" 0 "$out" '^  ddprun -n 8 ./train' "$out" '--share-gpu' -- run --help
gives "--help-all" 0 "$out" '^Exit codes:' "$out" '--share-gpu' -- run --help-all
gives "help" 0 "$out" '^Commands:' "$out" '^  check ' "$out" '^  doctor ' -- run help
for command in check doctor report scout trace; do
    run "$command" --help
    report "$command --help" "$(expect 0 "$out" "^Usage: ddprun .*$command" "$out" '^Exit codes: 0')$(cat "$err")"
    mv "$out" "$top/help"
    run help "$command"
    report "help $command" "$(expect 0)$(diff "$out" "$top/help")"
done

# ---- settings, and the program's surroundings ----
mkdir "$top/elsewhere"
DDPRUN_RANKS=2 DDPRUN_CHECK_EVERY=6 DDPRUN_BUCKET_MB=1 DDPRUN_TIMEOUT=40 run --timeout 50 "$fake" options
report "settings: environment, command line" "$(expect 0 "$out" '^\[1\] check_every=6' "$out" '^bucket_bytes=1048576' "$out" '^timeout_s=50')"
bad "--config is gone" 2 "unknown option --config" --config x "$fake" exit 0
WHO=me run -n 2 --subst "$fake" env WHO env RANK say 'at {local_rank} of {world_size} {other}'
report "variables and --subst" "$(expect 0 "$out" '\[1\] WHO=me$' "$out" '\[1\] RANK=1' "$out" 'at 1 of 2 \{other\}')"
bad "a mistyped option" 2 "did you mean --bucket-mb" --bukcet-mb 3 "$fake"

run $soft -n 2 --dry-run --subst --trace "$top/dry-trace" --output "files=$top/dry-files" sh -c 'echo $RANK "$0" "$1"' "it's" 'a  b{rank}'
why=$(expect 0 "$out" '^# rank 1, not bound to cores')
[ ! -e "$top/dry-trace" ] && [ ! -e "$top/dry-files" ] || why+="--dry-run made a folder "
[ ! -s "$err" ] || why+="said: $(cat "$err") "
! grep -E ' (-u PATH|PATH=)' "$out" || why+="PATH stays as it is, and need not be set "
sed -i 's/^env /env -u LD_PRELOAD /; s/LD_PRELOAD=[^ ]* //' "$out" # started by hand there is no job to join
sh "$out" >"$top/by-hand" 2>&1 || why+="what it prints does not run: $(tail -1 "$top/by-hand") "
[ "$(cat "$top/by-hand")" = "$(printf "0 it's a  b0\n1 it's a  b1")" ] || why+="by hand: $(cat "$top/by-hand") "
report "--dry-run prints commands that a shell runs" "$why"

bad "--dry-run: a file instead of the --trace folder" 2 "in --trace, is not a writable folder" --dry-run --trace "$top/text" "$fake"
bad "--dry-run: no place for the --output folder" 2 "in --output: No such file" --dry-run --output "files=$top/nowhere/out" "$fake"
bad "--dry-run: no place for --summary-json" 2 "cannot write to" --dry-run --summary-json "$top/nowhere/end.json" "$fake"
bad "--metrics in no folder" 2 "cannot write to" --metrics "$top/nowhere/metrics" "$fake"

# ---- limits ----
# A soft limit is raised for the job, and is the rank's again; a hard one is refused before a rank is started.
run_in_front timeout -k 1 "$limit" sh -c 'ulimit -Sn 40; exec "$@"' sh "$ddprun" --device softgpu -n 8 sh -c 'ulimit -Sn'
report "a soft limit of open files" "$(expect 0)$([ "$(sed 's/^\[.\] //' "$out" | sort -u)" = 40 ] || cat "$out")"
for kib in 64 128; do
    run_in_front timeout -k 1 "$limit" sh -c 'ulimit -s "$0"; exec "$@"' $kib "$ddprun" -n 2 "$fake" exit 0
    report "$kib KiB of stack" "$(expect 2 "$err" "^ddprun: the stack limit is $kib KiB, and ddprun needs 256 KiB; raise the limit")"
done
run_in_front timeout -k 1 "$limit" sh -c 'ulimit -s "$0"; exec "$@"' 256 "$ddprun" -n 2 "$fake" exit 0
report "256 KiB of stack" "$(expect 0)"
for files in 6 8 12 14 20 27 45; do
    run_in_front timeout -k 1 "$limit" sh -c 'ulimit -n "$0"; exec "$@"' "$files" "$ddprun" -n 8 "$fake" exit 0
    report "at most $files open files" "$(expect 1 "$err" '^ddprun: ddprun needs to open 64 files .*raise the limit')$(grep -v '^ddprun' "$err")$(no_folders_left)"
done

report "no folder is left" "$(no_folders_left)"
finish
