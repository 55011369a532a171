#!/usr/bin/env bash
# two_hosts_torchrun.sh BUILD - the real torchrun on two hosts starts ddprun for each of four ranks, by its static and its c10d
# rendezvous: they train as `ddprun -n 4`, bit by bit; after a failure torchrun starts all of them again, and they meet again. Runs with
# DDPRUN_SOAK=1, where torch is installed (Debian: python3-torch).
source "$(dirname "$0")/cluster.sh"
[ "${DDPRUN_SOAK:-0}" != 0 ] || skip "only with DDPRUN_SOAK=1"
for python in python3 /usr/bin/python3; do
    "$python" -c 'import torch.distributed.run' 2>/dev/null && break
    python=
done
[ -n "$python" ] || skip "no torch (Debian: python3-torch)"
export HOME=$work/home OMP_NUM_THREADS=1
mkdir -m 700 "$HOME"
limit=300
note_quiet
digits_alone

# torchrun OPTIONS... COMMAND...: on both hosts. torch 1.13 reads its --redirects by a loop over flags, in which Python 3.11 has no zero.
cat >"$work/run.py" <<END
from torch.distributed.elastic.multiprocessing.api import Std
from torch.distributed.run import main
Std.from_str = staticmethod(lambda text: Std(int(text)))
main()
END
cat >"$work/torchrun" <<END
#!/bin/bash
pids=() code=0
for node in 0 1; do
    "$hosts_runner" "h\$((node + 1))" "$python" "$work/run.py" --nnodes 2 --node_rank "\$node" --nproc_per_node 2 --log_dir "$work/logs" "\$@" &
    pids+=(\$!)
done
for pid in "\${pids[@]}"; do wait "\$pid" || code=\$?; done
exit "\$code"
END
chmod +x "$work/torchrun"
port=21000
for kind in static c10d; do
    port=$((port + 40))
    options=(--master_addr h1 --master_port "$port")
    [ "$kind" = static ] || options=(--rdzv_backend c10d --rdzv_endpoint "h1:$port" --rdzv_id "job$port")
    digits_equal "torchrun, $kind" "$work/torchrun" "${options[@]}" --no_python "$ddprun" --interface eth0
    run "$work/torchrun" "${options[@]}" --max_restarts 1 --no_python "$ddprun" --device softgpu --unannotated \
        sh -c 'echo "attempt $TORCHELASTIC_RESTART_COUNT of $RANK"; sleep 1; [ "$RANK.$TORCHELASTIC_RESTART_COUNT" != 2.0 ]'
    succeeded "torchrun, $kind: one restart"
    check "torchrun, $kind: all four ranks again" [ "$(grep -c 'attempt 1 of [0-3]' "$work/stdout")" -eq 4 ]
    clean "torchrun, $kind: one restart"
done
finish
