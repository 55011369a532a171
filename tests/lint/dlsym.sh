#!/usr/bin/env bash
# dlsym.sh - the shim overrides dlsym(), so its own sources must not call it: the call would come back to the override, and
# RTLD_NEXT would mean something else. They use dlvsym() or their own look-up. Called by tests/run.sh.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
source tests/lib/lib.sh
files=(interpose/shim/*.c interpose/shim/libraries/*.c)
[ -e "${files[0]}" ] || complain "interpose/shim holds no C file: the check looked in the wrong place"
for file in "${files[@]}"; do
    # Without comments and strings, any use of the name: a call, or its address taken.
    ! cc -fpreprocessed -dD -E -P "$file" 2>/dev/null | sed -E 's/"([^"\\]|\\.)*"/""/g' | grep -nwF dlsym || complain "^ $file uses dlsym"
done
finish "no use of dlsym in ${#files[@]} files"
