#!/usr/bin/env bash
# libtorch.sh BUILD [--rounds N] [--epochs N] [--hidden N,N,...] [--rate RATE] - samples/torch on two hosts, beside the same training in Python by
# torch's DistributedDataParallel (DDP) over gloo (tests/samples/torch/ddp.py).
#
#   --rounds N        rounds of the four jobs, which follow each other (5)
#   --epochs N        of each job; of two ranks an epoch has 29 steps, of one process 59; as many steps as half of the ranks' are measured, the last (8)
#   --hidden N,N,...  neurons of the hidden layer, which decide the size of the gradients (48,8192: 0.014 and 2.3 MiB)
#   --rate RATE       of the link, both ways, as tc writes it (1gbit)
#
# The hosts are network namespaces of this machine (tests/cluster/hosts.sh), with a rank each. The jobs of a round: one process in C++, and in
# Python, each with the batch of a rank; two ranks of ddprun; two ranks of DDP. Each has one thread for its computation. Printed are the
# minimum, the median and the maximum over the rounds, of the median time of a step on rank 0 and of ratios within a round. Both pairs of
# ranks have to end with the same parameters. Needs libtorch, and torch in Python with gloo (Debian: libtorch-dev, python3-torch).
#
# Run it on a machine that does nothing else.
set -euo pipefail
refuse() {
    echo "libtorch.sh: $*; libtorch.sh --help lists the options" >&2
    exit 2
}
[ "${1:-}" != --help ] || { sed -n '2,/^set/ { /^set/d; s/^# \{0,1\}//; p }' "$0" && exit; }
for program in samples/torch_digits samples/compare bin/ddprun; do
    [ -x "${1:-}/$program" ] || refuse "${1:-no build folder}/$program is not built"
done
options=("${@:2}") rounds=5 epochs=8 sizes=48,8192 rate=1gbit
for ((i = 0; i < ${#options[@]}; i += 2)); do
    value=${options[i + 1]:-}
    case ${options[i]} in
    --rounds) rounds=$value ;;
    --epochs) epochs=$value ;;
    --hidden) sizes=$value ;;
    --rate) rate=$value ;;
    *) refuse "unknown option ${options[i]}" ;;
    esac
done
[[ $rounds,$epochs,$sizes =~ ^([1-9][0-9]*,)+[1-9][0-9]*$ ]] || refuse "--rounds, --epochs and --hidden take whole numbers from 1 on"

source "$(dirname "$0")/../cluster/hosts.sh"
hosts_enter "$0" "$@"
root=$(cd "$(dirname "$0")/../.." && pwd)
build=$(cd "$1" && pwd)
python=
for candidate in python3 /usr/bin/python3; do
    ! "$candidate" -c 'import torch; torch._C._distributed_c10d.ProcessGroupGloo' 2>/dev/null || python=$candidate
done
[ -n "$python" ] || skip "no Python here has torch with gloo"
command -v tc >/dev/null || skip "no command tc (iproute2)"
hosts_up
for host in h1 h2; do
    hosts_on "$host" tc qdisc add dev eth0 root tbf rate "$rate" burst 128kb latency 50ms || refuse "--rate $rate: tc does not take it"
done
cores=$(nproc)
export OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 GLOO_SOCKET_IFNAME=eth0
work=$hosts_work
data=$root/samples/data/digits.csv
steps=$((29 * epochs / 2))
port=21000

# on_hosts COMMAND...: of each host, where {rank} and {host} stand for the host's; prints the time of rank 0.
on_hosts() {
    local rank pids=() code=0
    for rank in 0 1; do
        (hosts_exec "h$((rank + 1))" timeout -k 5 600 "${@//'{rank}'/$rank}" </dev/null >"$work/out.$rank" 2>&1) &
        pids+=($!)
    done
    for rank in 0 1; do wait "${pids[rank]}" || code=$?; done
    [ "$code" -eq 0 ] || { cat "$work"/out.? >&2 && exit 1; }
    sed -n 's/^step \([0-9.]*\) ms$/\1/p' "$work/out.0"
}
# figures HIDDEN: of the jobs of a round, in a line: C++ alone, ddprun, Python alone, DDP.
figures() {
    local train=("$build/samples/torch_digits" --data "$data" --epochs "$epochs" --hidden "$1" --time "$steps")
    local python_train=("$python" "$root/tests/samples/torch/ddp.py")
    local python_options=(--epochs "$epochs" --hidden "$1" --time "$steps")
    local one two python_one python_two
    port=$((port + 8))
    one=$(hosts_on h1 "${train[@]}" --batch 30 | sed -n 's/^step \([0-9.]*\) ms$/\1/p')
    two=$(on_hosts "$build/bin/ddprun" -q --device softgpu --nnodes 2 --node-rank '{rank}' --master "h1:$port" -n 1 --interface eth0 "${train[@]}" --save "$work/of-%d")
    python_one=$(hosts_on h1 "${python_train[@]}" 0 1 "$data" "$work/python.one" "${python_options[@]}" --batch 30 | sed -n 's/^step \([0-9.]*\) ms$/\1/p')
    python_two=$(on_hosts "${python_train[@]}" '{rank}' 2 "$data" "$work/python" "${python_options[@]}" --meet "10.77.0.1:$((port + 4))")
    "$build/samples/compare" --quiet "$work/of-0" "$work/python" 1e-4 >"$work/difference" || { cat "$work/difference" >&2 && exit 1; }
    echo "$one $two $python_one $python_two"
}
# show NAME UNIT: minimum, median and maximum of the numbers on stdin.
show() {
    sort -g | awk -v name="$1" -v unit="$2" '{ value[NR] = $1 } END {
        printf "%-52s %9.4g %9.4g %9.4g  %s\n", name, value[1], (value[int((NR + 1) / 2)] + value[int(NR / 2) + 1]) / 2, value[NR], unit }'
}

echo "stand-in, $cores cores, load $(cut -d ' ' -f 1 /proc/loadavg) before; two hosts, $rate; $steps steps of $epochs epochs measured; rounds: $rounds; Python's torch: $("$python" -c 'import torch; print(torch.__version__)')"
printf '%-52s %9s %9s %9s  %s\n' figure minimum median maximum unit
for hidden in ${sizes//,/ }; do
    for ((round = 0; round < rounds; ++round)); do figures "$hidden"; done >"$work/figures"
    name="$(awk -v n="$hidden" 'BEGIN { printf "%.3g", (75 * n + 10) / 262144 }') MiB"
    cut -d ' ' -f 1 "$work/figures" | show "$name: one process, C++" ms
    cut -d ' ' -f 2 "$work/figures" | show "$name: two ranks, ddprun" ms
    cut -d ' ' -f 3 "$work/figures" | show "$name: one process, Python" ms
    cut -d ' ' -f 4 "$work/figures" | show "$name: two ranks, DDP over gloo" ms
    awk '{ print $2 / $1 }' "$work/figures" | show "$name: ddprun over one process, C++" ratio
    awk '{ print $4 / $3 }' "$work/figures" | show "$name: DDP over one process, Python" ratio
    awk '{ print ($2 - $1) / ($4 - $3) }' "$work/figures" | show "$name: what ddprun adds over what DDP adds" ratio
    awk '{ print $2 / $4 }' "$work/figures" | show "$name: ddprun over DDP" ratio
done
finish
