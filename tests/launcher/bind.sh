#!/bin/bash
# bind.sh BUILD - ranks run where --bind says, as the kernel reports it (/proc/self/status of each rank), never on a
# processor that ddprun itself may not use; and without --bind near their GPUs, where that is known.
#
# Each case prints `ok - name`, `not ok - name (why)` or `skip - name (why)`; exits 1 if one is not ok. Needs no GPU: a stub plays NVML,
# and hwloc is shown a machine with two GPUs and two nodes, whose processors are two of this one's.
mapfile -t processors < <(python3 -c 'import os; print(*sorted(os.sched_getaffinity(0)), sep="\n")')
if [ ${#processors[@]} -lt 2 ]; then
    echo "skipped: one processor only, or no python3 to count them"
    exit 77
fi
first=${processors[0]} second=${processors[1]}
source "$(dirname "$0")/lib.sh"

# Two nodes with a processor each; the GPU 0000:10:00.0, which NVML counts first, hangs on the second.
python3 - "$first" "$second" >"$top/machine.xml" <<'END'
import sys
a, b = int(sys.argv[1]), int(sys.argv[2])
def mask(*cpus):
    value = sum(1 << c for c in cpus)
    words = []
    while value or not words:
        words.insert(0, "0x%08x" % (value & 0xffffffff))
        value >>= 32
    return ",".join(words)
def sets(cpus, nodes):
    c, n = mask(*cpus), mask(*nodes)
    return f'cpuset="{c}" complete_cpuset="{c}" nodeset="{n}" complete_nodeset="{n}"'
def gpu(i, bus):
    return (f'<object type="Bridge" gp_index="{50 + i}" bridge_type="0-1" depth="0" bridge_pci="0000:[{bus:02x}-{bus:02x}]">'
            f'<object type="PCIDev" gp_index="{60 + i}" pci_busid="0000:{bus:02x}:00.0" pci_type="0302 [10de:2330] [10de:0000] a1" pci_link_speed="0.0"/></object>')
def package(i, cpu, bus):
    s = sets([cpu], [i])
    return (f'<object type="Package" os_index="{i}" {s} gp_index="{10 + i}">'
            f'<object type="NUMANode" os_index="{i}" {s} gp_index="{20 + i}" local_memory="1073741824"/>'
            f'<object type="Core" os_index="{i}" {s} gp_index="{30 + i}"><object type="PU" os_index="{cpu}" {s} gp_index="{40 + i}"/></object>'
            f'{gpu(i, bus)}</object>')
s = sets([a, b], [0, 1])
print('<?xml version="1.0" encoding="UTF-8"?>\n<!DOCTYPE topology SYSTEM "hwloc2.dtd">\n<topology version="2.0">'
      f'<object type="Machine" os_index="0" {s} allowed_cpuset="{mask(a, b)}" allowed_nodeset="{mask(0, 1)}" gp_index="1">'
      f'{package(0, a, 0x11)}{package(1, b, 0x10)}</object></topology>')
END

# ranks COMMAND...: runs it for two ranks that print their processors; sets rc, found ("LIST LIST" of ranks 0 and 1) and said.
ranks() {
    timeout -k 1 "$limit" "$@" -v -n 2 sed -n 's/^Cpus_allowed_list:\t//p' /proc/self/status >"$top/out" 2>"$top/err" </dev/null
    rc=$?
    found="$(grep -v '^\[1\]' "$top/out") $(sed -n 's/^\[1\] //p' "$top/out")"
    said=$(cat "$top/err")
}
# bound FOUND REGEX: prints what does not hold.
bound() {
    [ $rc = 0 ] || echo -n "exit code $rc: $said "
    [ "$found" = "$1" ] || echo -n "on $found, not $1 "
    grep -qE -- "$2" <<<"$said" || echo -n "no /$2/ in: $said"
}
# on NAME FOUND REGEX COMMAND...: the ranks of a command, ranks or each, are where they should be, and it is said.
on() {
    "${@:4}"
    report "$1" "$(bound "$2" "$3")"
}
# Two cores, whatever the kernel says of the two processors (they may be threads of one).
two_cores="core:2 pu:1(indexes=$first,$second)"
all=$(sed -n 's/^Cpus_allowed_list:\t//p' /proc/self/status)

{
    on "the stand-in: left alone" "$all $all" 'binding of ranks: none \(the stand-in' ranks "$ddprun" $soft
    on "--bind none" "$all $all" 'binding of ranks: none \(by --bind\)' ranks "$ddprun" $soft --bind none
    on "--bind core" "$first $second" 'binding of ranks: core' ranks env HWLOC_SYNTHETIC="$two_cores" "$ddprun" $soft --bind core
    on "--bind numa does not leave what ddprun was given" "$second $second" 'binding of ranks: numa' ranks taskset -c "$second" "$ddprun" $soft --bind numa
    ranks taskset -c "$second" "$ddprun" $soft --bind core
    report "--bind core refuses too few" "$([ $rc = 2 ] && grep -q '2 ranks would share 1' <<<"$said" || echo "$rc: $said")"
    on "--bind numa spreads ranks over nodes" "$first $second" 'binding of ranks: numa' ranks env HWLOC_SYNTHETIC="numa:2 core:1 pu:1(indexes=$first,$second)" "$ddprun" $soft --bind numa
    on "DDPRUN_BIND" "$first $second" 'core \(by --bind\)' ranks env DDPRUN_BIND=core HWLOC_SYNTHETIC="$two_cores" "$ddprun" $soft
    on "--bind goes before it" "$first $second" 'core \(by --bind\)' ranks env DDPRUN_BIND=none HWLOC_SYNTHETIC="$two_cores" "$ddprun" $soft --bind core
    ranks "$ddprun" $soft --bind somewhere
    report "--bind somewhere" "$([ $rc = 2 ] && grep -q "'somewhere' is not one of none, numa, core" <<<"$said" || echo "$rc: $said")"
}

if command -v mpirun >/dev/null; then
    mpirun="mpirun --allow-run-as-root --oversubscribe --bind-to none -n 2"
    # each COMMAND...: as `ranks`, where each rank has a ddprun of its own.
    each() {
        timeout -k 1 "$limit" "$@" sed -n 's/^Cpus_allowed_list:\t//p' /proc/self/status >"$top/out" 2>"$top/err" </dev/null
        rc=$?
        found=$(sed 's/^.*\[1\][^ ]* //' "$top/out" | sort -n | paste -sd ' ')
        said=$(cat "$top/err")
    }
    {
        on "under mpirun, which does not bind" "$first $second" 'binding of ranks: core' each $mpirun env HWLOC_SYNTHETIC="$two_cores" "$ddprun" $soft --bind core -v
        report "and it is said once" "$([ "$(grep -c 'binding of ranks' "$top/err")" = 1 ] || echo "$said")"
        each $mpirun taskset -c "$second" "$ddprun" $soft --bind core
        report "under mpirun, a binding in force stays, and ddprun reports it" "$(
            bound "$second $second" "binding of ranks: none \\(the cluster's launcher has bound")"
    }
else
    echo "skip - under mpirun (mpirun is not installed)"
fi

gpu="env STUB_GPUS=2 LD_LIBRARY_PATH=$top/gpu HWLOC_XMLFILE=$top/machine.xml"
{
    on "near the GPUs without being asked" "$second $first" 'binding of ranks: numa \(near the GPUs' ranks $gpu "$ddprun"
    on "GPUs by their UUIDs" "$first $second" 'numa' ranks $gpu CUDA_VISIBLE_DEVICES=GPU-1,GPU-0 "$ddprun"
    on "--gpus in another order" "$first $second" 'core' ranks $gpu "$ddprun" --gpus 1,0 --bind core
    on "ddprun that was bound itself leaves it at that" "$first $first" 'none \(ddprun itself was bound' ranks $gpu taskset -c "$first" "$ddprun"
    on "different GPUs, which CUDA counts by speed" "$all $all" 'none \(where the GPUs are is not known' ranks $gpu STUB_DIFFERENT=1 "$ddprun"
    on "different GPUs, counted by their place" "$second $first" 'numa' ranks $gpu STUB_DIFFERENT=1 CUDA_DEVICE_ORDER=PCI_BUS_ID "$ddprun"
    timeout -k 1 "$limit" $gpu "$ddprun" -n 2 --dry-run true >"$top/out" 2>&1 </dev/null
    report "streams with queues of their own: nothing is said" "$(! grep 'share one queue' "$top/out")"
    timeout -k 1 "$limit" $gpu CUDA_DEVICE_MAX_CONNECTIONS=1 "$ddprun" -n 2 --dry-run true >"$top/queue" 2>&1 </dev/null
    report "one queue for all streams is said" "$(grep -q '^ddprun: CUDA_DEVICE_MAX_CONNECTIONS=1: all streams .* share one queue' "$top/queue" || cat "$top/queue")"
    for line in '^# binding of ranks: numa (near the GPUs' "^# rank 1, on processors $first" "^taskset -c $second env "; do
        report "--dry-run shows it: $line" "$(grep -q "$line" "$top/out" || cat "$top/out")"
    done
}
timeout -k 1 "$limit" "$ddprun" --device softgpu --bind numa -n 1 grep -c 'prefer' /proc/self/numa_maps >"$top/out" 2>"$top/err" </dev/null
if grep -q 'node' <(timeout -k 1 "$limit" "$ddprun" --device softgpu --bind numa -v -n 1 true 2>&1 </dev/null) && [ -r /proc/self/numa_maps ]; then
    report "memory of the node" "$([ "$(cat "$top/out")" -gt 0 ] || cat "$top/out" "$top/err")"
else
    echo "skip - memory of the node (several nodes, or its policy may not be chosen here)"
fi
finish
