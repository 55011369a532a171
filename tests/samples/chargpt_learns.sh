#!/usr/bin/env bash
# chargpt_learns.sh PROGRAM - as it comes, the sample trains to a validation loss below 2.3 nats a character.
set -euo pipefail
data=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)/samples/data/shakespeare.txt
last=$(SOFTGPU_WORKERS=2 SOFTGPU_BLAS_THREADS=2 timeout -k 1 580 "$1" --data "$data" </dev/null | tail -n 1)
printf '%s\n' "$last"
awk '{ exit !($1 == "step" && $5 == "val" && $6 > 1 && $6 < 2.3) }' <<<"$last"
