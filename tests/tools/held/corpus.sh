# shellcheck shell=bash disable=SC2034,SC2154 # the scripts that source it use its variable, and it those of end_to_end
# corpus.sh - finds the corpus of held programs, which were written before the tools had seen them. Sourced by held.sh and the scripts of
# this folder, after end_to_end/lib.sh. The corpus is not in the tree: $DDPRUN_CORPUS names its folder, which has a folder for each series
# (check, check2, ..., scout, ..., plan, ..., noise, reach). Without DDPRUN_CORPUS the script is skipped.
#
# $held is a copy of the corpus in $work: the corpus itself stays unwritten, and may be read-only. The copy lies in tests/held beside
# interpose/, where the corpus's own scripts (SERIES/measure.sh) look for the annotation header.
[ -n "${DDPRUN_CORPUS:-}" ] ||
    skip 'DDPRUN_CORPUS is not set: unpack the corpus (held.tar.xz, a release archive), and set DDPRUN_CORPUS=FOLDER/tests/held'
for corpus_file in missed.txt check/measure.sh scout/measure.sh; do
    [ ! -r "$DDPRUN_CORPUS/$corpus_file" ] || continue
    printf '%s: DDPRUN_CORPUS=%s: there is no %s; name the folder tests/held of the unpacked corpus\n' "${0##*/}" "$DDPRUN_CORPUS" "$corpus_file" >&2
    exit 2
done
held=$work/corpus/tests/held
mkdir -p "$held"
cp -r --no-preserve=mode "$DDPRUN_CORPUS/." "$held" || exit 1
ln -s "$(cd "$(dirname "${BASH_SOURCE[0]}")/../../../interpose" && pwd)" "$work/corpus/interpose"
