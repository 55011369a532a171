#!/usr/bin/env bash
# drawn.sh BUILD - the axes that page.js draws: no value is cut (drawn.js, by node where it is installed). And that this is seen: with an
# axis that is cut at three times the median it fails.
source "$(dirname "$0")/../../end_to_end/lib.sh"
command -v node >/dev/null || skip "there is no node here, which runs the page's script"
program=$(dirname "$0")/drawn.js
script=$(dirname "$0")/../../../tools/page/page.js
check "no value is cut" node "$program" "$script"
sed 's/high = greatest \* 1.1/high = median * 3/' "$script" >"$work/cut.js"
check "... and an axis that cuts is seen" bash -c "! cmp -s '$script' '$work/cut.js' && ! node '$program' '$work/cut.js' >/dev/null"
finish
