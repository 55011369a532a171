#!/usr/bin/env bash
# python.sh BUILD - what Python asks for beside gradients: parameters averaged after an update inside backward, also in a group and after
# every fifth update only, and reductions of every type and operation, give N ranks what one process has.
source "$(dirname "$0")/lib.sh"
command -v python3 >/dev/null || skip "no python3"
here=$(cd "$(dirname "$0")" && pwd)
export PYTHONPATH=$here/../../interpose/python PYTHONDONTWRITEBYTECODE=1

for kind in parameters group reduce; do
    works "$kind, alone" env "LD_LIBRARY_PATH=$build/lib/softgpu" python3 "$here/python_kinds.py" "$kind"
    cp "$work/stdout" "$work/alone-$kind"
    for ranks in 1 2 4; do
        works "$kind, $ranks ranks" "$ddprun" -n "$ranks" --device softgpu python3 "$here/python_kinds.py" "$kind"
        check "$kind, $ranks ranks: what one process prints" cmp "$work/stdout" "$work/alone-$kind"
    done
done
# Workers of a data loader are processes of the rank that are not the rank: they ask, and get answers.
for method in fork spawn forkserver; do
    [ "$method" = forkserver ] || in_turn 2 || continue
    works "workers by $method, alone" env "LD_LIBRARY_PATH=$build/lib/softgpu" python3 "$here/python_workers.py" "$method"
    cp "$work/stdout" "$work/alone-workers"
    works "workers by $method" "$ddprun" -n 2 --timeout 30 --device softgpu python3 "$here/python_workers.py" "$method"
    check "workers by $method: what one process prints" cmp <(sed 's/^\[1\] //' "$work/stdout" | sort -u) "$work/alone-workers"
    check "workers by $method: their shares are counted" grep -q 'DDP_SHARD divides a batch of 8 items' "$work/stderr"
done
# The update is linear, so averages after each fifth update, and at the end, give the same weights.
works "after each fifth update" "$ddprun" -n 2 --device softgpu python3 "$here/python_kinds.py" fifth
check "after each fifth update: what one process prints" cmp "$work/stdout" "$work/alone-parameters"
finish
