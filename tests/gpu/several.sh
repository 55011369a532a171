# shellcheck shell=bash disable=SC2154,SC2034 # variables are of first.sh and commands.sh
# several.sh - checks of first.sh: of NCCL as it may be on a machine, of the tools that programs run under, of what the stand-in has not, and
# of all GPUs. A function each, of the same name. Sourced by first.sh.

# ---- NCCL ----
# deviates_row NAME RANKS PROGRAM MODE [OPTIONS]: a trainer whose last rank leaves a touch out, and which knows every weight. A hang ends soon, and
# the row says where.
deviates_row() {
    rm -f "$work/barrier"
    ddprun 60 "$2" --bucket-mb 0.0325 --hang-timeout "$(patient 5)" --timeout "$(patient 7)" "${@:5}" "$programs/$3" "$4" --barrier "$work/barrier"
    expect_success "$1" "exit code 0: every weight is right" \
        "exit code 0, $(summary overlapped_steps) of $(summary steps) steps overlapped"
}

deviate() {
    local mode
    for mode in none mean sync after reduce barrier; do
        deviates_row "a rank deviates: $mode" 2 deviates_static "$mode"
    done
    CUDA_LAUNCH_BLOCKING=1 deviates_row "a rank deviates: mean, with CUDA_LAUNCH_BLOCKING=1" 2 deviates_static mean
}

own_nccl() {
    local name
    for name in deviates_own deviates_own_static; do
        deviates_row "a program that has used an NCCL of its own, $name" 2 "$name" own
    done
}

wrap_nccl() {
    local mode meets wrap=(--nccl "$programs/libwrap_nccl.so")
    for mode in none mean reduce; do
        WRAP_NCCL=thread deviates_row "an NCCL that calls the shared cudart: $mode" 2 deviates "$mode" "${wrap[@]}"
    done
    for meets in registered all; do
        WRAP_NCCL=$meets WRAP_FILE=$work/rounds-$meets deviates_row "an NCCL in whose all-reduces ranks meet, $meets: barrier" 2 deviates barrier "${wrap[@]}"
    done
}

nccls() {
    local path mode
    for path in "${nccls[@]}"; do
        for mode in none mean reduce; do
            deviates_row "$path: $mode" 2 deviates_static "$mode" --nccl "$path"
            report_condition "NCCL of $path" "$(sed -n 's/^  "nccl_version": "\(.*\)",$/\1/p' "$log/summary.json" 2>/dev/null)"
        done
    done
}

nccl_memory() { nccl_memory_of 2; }

nccl_memory_of() { # RANKS
    local mode connect
    for mode in after reduce; do
        for connect in 0 1; do
            NCCL_RUNTIME_CONNECT=$connect memory_of ddprun 60 "$1" "$programs/deviates_static" "$mode" --deviate 1000
            if [ "$code" -ne 0 ]; then
                expect_success "memory with NCCL_RUNTIME_CONNECT=$connect, deviates $mode" "exit code 0"
            elif [ -z "$memory_used" ]; then
                not_run "memory with NCCL_RUNTIME_CONNECT=$connect, deviates $mode" "MiB" "no nvidia-smi that says what the ranks' GPUs have in use"
            else
                report_row "memory that $1 ranks take, NCCL_RUNTIME_CONNECT=$connect, $([ "$mode" = after ] && echo without || echo with) DDP_REDUCE" \
                    "with 1 less than with 0" "$memory_used MiB" measured
            fi
        done
    done
}

# Questions of gate.cu, one a command, that few are lost where the block's time ends. The stand-in is asked the first alone.
gate() {
    local question questions=(a b c d d2 e f8 f1 f2)
    [ "$rehearse" -eq 0 ] || questions=(a)
    if [ ! -x "$programs/gate_static" ]; then
        not_run "gate" "whether the repair ends" "this bundle has no program gate"
        return
    fi
    for question in "${questions[@]}"; do
        run 60 "$programs/gate_static" "${gpu_library[libnccl.so.2]}" 3 "$question"
        rows "gate, question $question"
    done
}

# ---- tools that programs run under ----
# tool_find NAME: where NVIDIA's tool is; fails if it is nowhere.
tool_find() {
    local toolkit place
    command -v "$1" && return
    while read -r toolkit; do
        for place in "$toolkit/bin/$1" "$toolkit/compute-sanitizer/$1"; do
            [ ! -x "$place" ] || { echo "$place" && return; }
        done
    done < <(gpu_toolkits)
    for place in /opt/nvidia/nsight-compute/*/"$1" /opt/nvidia/nsight-systems/*/bin/"$1"; do
        [ ! -x "$place" ] || { echo "$place" && return; }
    done
    return 1
}

# tool_row NAME OPTIONS...: six steps of two ranks, rank 0 under the tool.
tool_row() {
    local tool options=("${@:2}") name="six steps with rank 0 under $1"
    tool=$(tool_find "$1") || {
        not_run "$name" "exit code 0: every weight is right" "no $1 on this machine"
        return
    }
    # the shell's first argument is how many of the others are the tool's
    ddprun 80 2 --timeout 60 "${of_shell[@]}" sh -c 'count=$0; [ "$RANK" = 0 ] || shift "$count"; exec "$@"' $((1 + ${#options[@]})) \
        "$tool" "${options[@]}" "$programs/deviates_static" none --steps 6
    expect_success "$name" "exit code 0: every weight is right" "exit code 0, $(grep -c 'the weights are right' "$log/stdout") of 2 ranks"
}

tools() {
    tool_row compute-sanitizer --error-exitcode 9
    tool_row cuda-gdb -batch -return-child-result -ex run --args
    tool_row ncu --kernel-name regex:produce --launch-count 2
    tool_row nsys profile --trace cuda --force-overwrite true --output "$work/nsys"
}

# ---- what the stand-in has not ----
features() {
    local mode
    for mode in programmatic green memory-nodes; do
        ddprun 60 2 --bucket-mb 0.3 "$programs/features_static" "$mode"
        expect_success "feature: $mode" "exit code 0: every weight is right" "exit code 0, $(summary overlapped_steps) of $(summary steps) steps overlapped"
    done
    ddprun 60 2 "$programs/features_static" conditional
    if [ "$code" -eq 77 ]; then
        expect_success "feature: conditional" "-"
    else # the node is added by hand: ddprun may refuse the graph
        report_row "feature: conditional" "every weight is right, or the job ends by name" "exit code $code: $(why)" measured
    fi
}

# ---- all GPUs ----
# all_logs: the next commands' NCCL says what it does, in the report.
all_logs() {
    export NCCL_DEBUG=INFO NCCL_DEBUG_SUBSYS=$nccl_log NCCL_DEBUG_FILE=$report/machine/nccl-$now.%p.txt
}
no_logs() {
    unset NCCL_DEBUG NCCL_DEBUG_SUBSYS NCCL_DEBUG_FILE
}

topology() {
    ddprun 60 "$all" -v "$programs/deviates_static" none
    expect_success "$all ranks: start and end (machine/topology.txt)" "exit code 0"
    report_row "binding of ranks" "GPUs and cores that are near each other" \
        "$(grep -E '^ddprun: (binding of ranks|rank [0-9]+ is process)' "$log/stderr" | sed 's/^ddprun: //' | paste -sd ';')" measured
}

equality_all() {
    local options=(--data "$data/digits.csv" --batch $((12 * all)) --steps 100 --seed 5)
    run 60 "$programs/digits_plain_static" "${options[@]}" --save "$work/serial"
    expect_success "digits, bare: ends" "exit code 0"
    ddprun 60 "$all" --check-every 1 --bucket-mb 0.02 "$programs/digits_static" "${options[@]}" --save "$work/all-%d"
    expect_success "digits, $all ranks: ends, equal on all ranks after each step" "exit code 0"
    run 60 "$build/samples/compare" "$work/all-0" "$work/serial" 1e-4
    expect_success "digits, $all ranks: the parameters of one process" "at most 1e-4 off" "$(tail -n 1 "$log/stdout")"
}

deviate_all() {
    local register
    all_logs
    for register in 0 1; do
        NCCL_LOCAL_REGISTER=$register deviates_row "a rank of $all deviates: barrier, NCCL_LOCAL_REGISTER=$register" "$all" deviates_static barrier
    done
    no_logs
}

all_reduce_all() {
    all_logs
    all_reduce_of "$all" 1 16 64 256
    no_logs
}

overlap_all() {
    all_logs
    overlap_of "$all"
    no_logs
}

check_every_all() { check_every_of "$all"; }

nccl_memory_all() { nccl_memory_of "$all"; }

# Means of numbers of ranks that are no power of two, beside double precision.
odd_ranks() {
    local ranks
    for ranks in 3 5 6 7; do
        [ "$ranks" -le "$all" ] || continue
        ddprun 60 "$ranks" "$programs/values_static" separate mean none 5
        expect_success "means of all types, $ranks ranks" "exit code 0: every element is within its bound"
    done
}

# ends_with_row NAME EXPECTED CODE PATTERN: ok if the last command ended with CODE, and a line of ddprun's matches PATTERN.
ends_with_row() {
    local line verdict=differs
    line=$(grep -E -m 1 "^ddprun: .*$4" "$log/stderr")
    if [ "$code" -eq "$3" ] && [ -n "$line" ]; then
        verdict=ok
    fi
    report_row "$1" "$2" "exit code $code: ${line:-$(why)}" "$verdict"
}

# Killed while it trains: a GPU's ranks have started by then.
lost_rank() {
    local seconds=10
    [ "$rehearse" -eq 0 ] || seconds=3
    # shellcheck disable=SC2016 # the rank's shell expands it
    ddprun 60 "$all" "${of_shell[@]}" sh -c '[ "$RANK" != 1 ] || (sleep "$0"; kill -9 $$) & exec "$@"' "$seconds" \
        "$programs/ladder_static" --steps 1000000
    ends_with_row "rank 1 of $all is killed" "the job ends with exit code 137, and names rank 1" 137 'rank 1 was ended by SIGKILL'
}

# A script that gives all ranks the first GPU.
same_gpu() {
    local device=(--device gpu)
    if [ "$rehearse" -eq 1 ]; then
        local -x SOFTGPU_DEVICES=$all
        device=()
    fi
    ddprun 60 "$all" "${of_shell[@]}" sh -c 'CUDA_VISIBLE_DEVICES=0 exec "$@"' - "$programs/deviates_static" none
    ends_with_row "all ranks have one GPU by a script" "the job ends, and says that ranks 0 and 1 use the same GPU" 1 'use the same GPU'
}
