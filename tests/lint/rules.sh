#!/usr/bin/env bash
# rules.sh - each rule of `ddprun check`, and each refusal of `ddprun scout`, is in tests/tools/rules.txt with a program of the tests that shows
# it, or with the reason why none does; and no rule is there that is gone. Called by tests/run.sh.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
source tests/lib/lib.sh
command -v python3 >/dev/null || skip "no python3"
said=$(python3 -IS tests/lint/rules.py) || complain "$said"
finish "$said"
