# shellcheck shell=bash disable=SC2034,SC2154 # the scripts that source it use its variables, and it theirs
# lib.sh - softgpu/tests/lib/lib.sh, by which cases are reported, and what else the scripts of ddprun's tests share: how the processes of
# a test are known. Sourced; starts nothing and makes no folder.
# shellcheck source=softgpu/tests/lib/lib.sh
source "$(dirname "${BASH_SOURCE[0]}")/../../softgpu/tests/lib/lib.sh"

# not_asked FILE: a job's stderr does not speak of memory that is annotated as nothing: of right trainers it does not.
not_asked() {
    ! grep -E '^ddprun: .*have changed memory without annotation' "$1"
}

# marked: the processes that have DDPRUN_TEST_MARK=$mark in their environment, but the one that looks.
marked() {
    env -u DDPRUN_TEST_MARK grep -lszx "DDPRUN_TEST_MARK=$mark" /proc/[0-9]*/environ || true # processes end meanwhile
}

none_left() {
    [ -z "$(marked)" ]
}
