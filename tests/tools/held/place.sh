# shellcheck shell=bash disable=SC2154 # judge.sh sources it
# place.sh - beside place.txt: where its programs are.
source "$here/../held/corpus.sh"
