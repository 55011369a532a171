#!/usr/bin/env bash
# relu.sh BUILD - a ReLU whose input is zero up to rounding, late, is a discrete decision near zero, which further runs of one rank show,
# and the program is equal; what ranks do to the same elements, then or three steps later, is a difference.
source "$(dirname "$0")/../../end_to_end/lib.sh"
source "$(dirname "$0")/lib.sh"
decision='^ignored: in step 32 gradient 1 of 1, '

checked 2 "--steps 38" "$build/tests/tools/check/relu" nothing
report "a ReLU near zero" "$(why_not 0 null -)"
check "a ReLU near zero: what it says" grep -q "$decision" "$work/stdout"
check "a ReLU near zero: the others differ by rounding" grep -Eq '^equal: .* differ by at most [0-9.]+e-0[6-9]' "$work/stdout"
checked 2 "--steps 38" "$build/tests/tools/check/relu" rank
report "a rank that adds to the same row" "$(why_not 1 "update tensor" 'gradient 1 g')"
check "a rank that adds to the same row: no decision" bash -c "! grep -q '$decision' '$work/stdout'"
checked 2 "--steps 38" "$build/tests/tools/check/relu" both
report "a rank that adds behind the ReLU" "$(why_not 1 "update tensor" 'gradient 1 g')"
check "a rank that adds behind the ReLU: where" grep -q '^different: in step 35 ' "$work/stdout"
finish
