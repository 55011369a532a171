#!/usr/bin/env bash
# copy_program.sh BUILD THIS COMPILER ARGUMENT... - in place of `COMPILER ARGUMENT...` in the build folder THIS: copies what build
# folder BUILD, of the same sources, has made of the same command, or runs the command if BUILD has not. Called by the builds with a
# sanitizer (DDPRUN_PROGRAMS), whose users' programs are not instrumented.
set -euo pipefail
build=$1 this=$2
shift 2
output=
for ((i = 1; i < $#; ++i)); do
    [ "${!i}" != -o ] || output=${*:i+1:1}
done
twin=$build/${output#"$this"/}
if [ "$twin" = "$build/$output" ] || [ ! -e "$twin" ]; then
    exec "$@"
fi
cp "$twin" "$output"
