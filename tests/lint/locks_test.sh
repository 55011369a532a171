#!/usr/bin/env bash
# locks_test.sh BUILD - clang finds a write without the engine's lock, a read without it, a call without the issuer's role, one without
# the lock, and a call of CUDA or a wait for other ranks with it, each planted into a file of the engine, and finds nothing in the same
# file without them. It is not exempted from the analysis in more than eight functions. Called by tests/run.sh.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
build=${1:-build}
source tests/lint/planted/lib.sh
command -v clang >/dev/null || skip "no clang"

# How the engine is compiled, without the compiler, the source and the output.
flags=$(sed -n 's/^ *"command": "\(.*engine\/core\/state\.c\)",$/\1/p' "$build/compile_commands.json" | head -n 1 | sed 's/\\"/"/g; s/^[^ ]* //; s/ -Winvalid-pch -include [^ ]*//; s/ -o .*//')
[ -n "$flags" ] || {
    echo "$build/compile_commands.json does not say how the engine is compiled: configure first"
    exit 1
}

# planted PATTERN STATEMENTS: clang reports what matches the pattern, or nothing if it is empty.
planted() {
    printf '#include "interpose/engine/measure/measure.h"\nvoid planted(const struct group *group);\nvoid planted(const struct group *group)\n{\n(void)group;\n%s\n}\n' \
        "$2" >"$work/planted.c"
    finds "$1" "$2" clang -fsyntax-only -Wthread-safety -Wno-thread-safety-attributes $flags "$work/planted.c"
}
lock='engine_lock();' unlock='engine_unlock();'
planted '' "$lock ++memory_state.agreements; $unlock"
planted "writing variable 'agreements' requires" '++memory_state.agreements;'
planted "writing variable 'agreements' requires" "$lock $unlock memory_state.agreements = 0;"
planted "reading variable 'buffer_count' requires" 'if (memory_state.buffer_count > 0) return;'
planted '' 'role_take(); measure_wanted(group); role_give();'
planted "calling function 'measure_wanted' requires" 'measure_wanted(group);'
planted "calling function 'measure_wanted' requires" "$lock measure_wanted(group); $unlock"
planted '' "$lock (void)tensor_compared(0); $unlock"
planted "calling function 'tensor_compared' requires" '(void)tensor_compared(0);'
planted "still held at the end" "$lock"
planted '' 'CUDA("a test", cuCtxSynchronize);'
planted "cannot call function 'require_cuda' while mutex 'engine_mutex' is held" "$lock CUDA(\"a test\", cuCtxSynchronize); $unlock"
planted "cannot call function 'greatest_of_ranks' while mutex 'engine_mutex' is held" "$lock (void)greatest_of_ranks(\"a test\", 1); $unlock"

# What the issuer writes under the lock is read with either.
write='memory_state.groups[0].intervals = 1;' read='if (group->intervals > 0) return;'
planted "reading variable 'intervals' requires" "$read"
planted '' "$lock uint64_t seen = group->intervals; $unlock (void)seen;"
planted '' 'role_take(); uint64_t seen = group->intervals; role_give(); (void)seen;'
planted '' "role_take(); issuer_lock(); $write issuer_unlock(); role_give();"
planted "writing variable 'intervals' requires" "$lock $write $unlock"
planted "writing variable 'intervals' requires" "role_take(); $write role_give();"
planted "that is already held" "role_take(); $lock $unlock role_give();"

exempt=$(grep -rE '(^|[ *])NOT_ANALYSED\b' interpose/engine --include='*.[ch]' | grep -vc 'define NOT_ANALYSED')
[ "$exempt" -le 9 ] || complain "$exempt functions are exempt from the analysis; 9 may be"
finish "20 plants, $exempt functions exempt"
