# shellcheck shell=bash disable=SC2034,SC2154 # judge.sh sources it
# mistakes.sh - the checkpoint that programs of mistakes.txt resume.
prepare() { works "rows alone writes a checkpoint" "$build/tests/tools/check/rows" $few_steps --steps 6 --checkpoint "$checkpoint"; }
