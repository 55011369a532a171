#!/usr/bin/env bash
# make.sh BUILD - makes the README's pictures of `ddprun report` from a run of samples/chargpt on the stand-in, whose link is modelled.
# Chromium is wanted (Debian: chromium).
set -euo pipefail
[ $# -eq 1 ] || { printf 'Usage: bash docs/pictures/make.sh BUILD\n' >&2; exit 2; }
build=$(cd "$1" && pwd)
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
chromium=$(command -v chromium || command -v chromium-browser) || { printf 'make.sh: Chromium is not installed\n' >&2; exit 1; }
work=$(mktemp -d "${TMPDIR:-/tmp}/ddprun-pictures-XXXXXX")
trap 'rm -rf "$work"' EXIT
export XDG_CACHE_HOME=$work/cache SOFTGPU_LINK=latency_us=200,gbytes_per_s=0.1
cd "$build/.." # the picture shows this command
"$build/bin/ddprun" -n 2 --page "$work/page.html" "$(basename "$build")/samples/chargpt" --steps 120
python3 "$here/shoot.py" "$chromium" "$work/page.html" "$here"
if command -v pngquant >/dev/null; then # a third of the bytes
    pngquant --force --ext .png --quality 85-100 --strip "$here"/*.png
fi
ls -l "$here"/*.png
