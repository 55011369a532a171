# shellcheck shell=bash disable=SC2154,SC2034 # $all, $gpus, $minutes, $nccls, $work and $report are of first.sh
# blocks.sh - which checks run together, in which order, and how long. Sourced by first.sh.
#
# What decides most comes first. A block ends after 90 s. Its name, the seconds that it takes on one GPU (with --minutes it runs if they are left),
# what it needs, and its checks. It needs: `mps`, the ranks that share a GPU are to run at the same time; `all`, more than two GPUs;
# `nccl`, other NCCLs.
blocks() {
    cat <<'TABLE'
start      | 30 | -    | doctor exit_order
nccl       | 70 | -    | own_nccl wrap_nccl deviate
all_start  | 60 | all  | topology equality_all deviate_all
all_sizes  | 80 | all  | all_reduce_all
all_steps  | 80 | all  | overlap_all check_every_all
all_ends   | 80 | all  | odd_ranks lost_rank same_gpu nccl_memory_all
memory     | 40 | -    | nccl_memory
tools      | 70 | -    | tools
features   | 40 | -    | features
commit     | 20 | -    | bandwidth
shared     | 80 | mps  | overlap all_reduce lt_verify tokens
other_nccl | 60 | nccl | nccls
gate       | 90 | -    | gate
price      | 70 | mps  | check_every
one        | 80 | -    | world_of_one
probes     | 40 | -    | waits handles addresses tensor_maps reading costs
numbers    | 60 | -    | reduces sums host_memory nonfinite
rounding   | 60 | -    | arithmetic atomics check
launches   | 30 | -    | launch_cost
scout      | 90 | -    | scout
plan       | 80 | -    | plan
plan_text  | 80 | -    | plan_text plan_sums
plan_ends  | 80 | -    | plan_ends
frames     | 90 | -    | frames
room       | 90 | mps  | room
TABLE
}
block_limit=${FIRST_BLOCK_SECONDS:-90} # for tests, it can be less

block_names=() all_checks=()
declare -A block_takes block_needs block_checks
while IFS='| ' read -r name takes needs checks; do
    block_names+=("$name")
    block_takes[$name]=$takes block_needs[$name]=$needs block_checks[$name]=$checks
    for check in $checks; do
        all_checks+=("$check")
    done
done < <(blocks)

# print_blocks: for --help
print_blocks() {
    local name
    for name in "${block_names[@]}"; do
        printf '  %-10s  %s\n' "$name" "${block_checks[$name]}"
    done
}

# seconds_left: of --minutes; without it, more than anything needs. The last seconds are for packing.
seconds_left() {
    if [ -n "$minutes" ]; then echo $((60 * minutes - SECONDS - 5)); else echo 100000; fi
}

# block_lacks NAME: why it cannot run here, or nothing.
block_lacks() {
    case ${block_needs[$1]} in
    all) [ "$all" -gt 2 ] || { echo "it needs more than two GPUs (or --ranks N)" && return; } ;;
    nccl) [ ${#nccls[@]} -gt 0 ] || { echo "no other NCCL was named (--nccl FILE)" && return; } ;;
    esac
    [ "$(seconds_left)" -ge "${block_takes[$1]}" ] || echo "of $minutes minutes too little was left"
}

# block_begin LIMIT NEEDS: its time begins, and MPS runs where it is to. One GPU alone is shared.
block_begin() {
    local left
    left=$(seconds_left)
    block_began=$SECONDS block_may=$(($1 < left ? $1 : left))
    [ "$rehearse" -eq 0 ] || [ -n "${FIRST_BLOCK_SECONDS:-}" ] || block_may=$(patient "$block_may")
    block_end=$((SECONDS + block_may))
    if [ "$2" != mps ]; then
        gpu_mps_stop
    elif [ "$with_mps" -eq 1 ] && [ "$gpus" -lt 2 ] && [ "$gpu_mps" -eq 0 ]; then
        gpu_mps_start "$work" "$programs/ladder_static" --steps 1 >"$work/mps" || with_mps=0
        report_condition "MPS" "$(cat "$work/mps")"
    fi
}

# block_finish NAME: what it took is said, and all that is known so far is packed.
block_finish() {
    report_condition "block $1" "$((SECONDS - block_began)) s of at most $block_may"
    block_end=0
    report_write
    report_pack
}
