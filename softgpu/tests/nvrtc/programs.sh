#!/usr/bin/env bash
# programs.sh SOFTGPU_CC - programs that compile kernels by the stand-in's NVRTC: one in Python, by ctypes. What is compiled is kept, and is
# compiled again when something that it depends on has changed; processes that want the same at once compile it once; the folder has a
# bound. Nothing stays behind, also if the program is killed. The compiler gets none of the program's preloaded libraries. Without a
# compiler there is one clear line.
cc=$(realpath "$1")
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
softgpu=$(cd "$(dirname "$cc")/../lib/softgpu" && pwd)
limit=120
source "$(dirname "${BASH_SOURCE[0]}")/../lib.sh"
command -v python3 >/dev/null || skip "no python3"
unset NVCC_CCBIN NVCC_PREPEND_FLAGS NVCC_APPEND_FLAGS LD_PRELOAD XDG_CACHE_HOME "${!SOFTGPU_@}"
mkdir tmp
export LD_LIBRARY_PATH=$softgpu SOFTGPU_NVRTC_CACHE=$work/kept TMPDIR=$work/tmp
python=(python3 "$here/saxpy.py")
two='#define FACTOR 2'
entries() { find kept -name '*.module*' | wc -l; }

case_ "a program in Python, by ctypes"
run 0 "${python[@]}" libnvrtc.so.13 "$two"
prints "factor 2"

case_ "what was compiled is kept"
[ "$(entries)" -eq 1 ] || fail "$(entries) entries, not 1"
run 0 env TMPDIR=/nowhere "${python[@]}" libnvrtc.so.13 "$two" # a compiler would need the folder
prints "factor 2"

case_ "the library of CUDA 12's name"
run 0 env TMPDIR=/nowhere "${python[@]}" libnvrtc.so.12 "$two"
prints "factor 2"

case_ "softgpu-cc makes files of the same kernel, which cuModuleLoad takes"
python3 "$here/saxpy.py" --source "$two" >kernels.cu
for form in ptx cubin fatbin; do
    run 0 "$cc" -arch=sm_90 "-$form" kernels.cu
    run 0 "${python[@]}" --file "kernels.$form"
    prints "factor 2"
done
run 0 "$cc" -ptx -o named kernels.cu
grep -q '^// softgpu module' named || fail "-ptx -o named makes no text"
run 1 "${python[@]}" --file kernels.cu
says "kernels.cu: no code for the stand-in"
[ "$(grep -c '^softgpu: ' err)" -eq 1 ] || fail "not one line"

case_ "a header of a folder is found, and its change is seen"
mkdir headers
for factor in 4 5; do
    echo "#define FACTOR $factor" >headers/factor.h
    run 0 "${python[@]}" libnvrtc.so.13 - -I "$work/headers"
    prints "factor $factor"
done

case_ "a source that is wrong is not kept"
before=$(entries)
run 0 "${python[@]}" libnvrtc.so.13 "#define FACTOR nothing"
prints "result 6"
prints "saxpy.cu(7): error: "
[ "$(entries)" -eq "$before" ] || fail "an entry for it"

case_ "an entry that is damaged is made again"
for entry in kept/*.module; do
    truncate -s 3000 "$entry"
done
run 0 "${python[@]}" libnvrtc.so.13 "$two"
prints "factor 2"

case_ "several processes that want the same compile it once"
printf '#!/bin/sh\ncase " $* " in *" -E "*) echo compiles >>%s/compiled ;; esac\nexec g++ "$@"\n' "$work" >count_g++
chmod +x count_g++
for process in 1 2 3 4; do
    NVCC_CCBIN=$work/count_g++ "${python[@]}" libnvrtc.so.13 "$two" >"out.$process" 2>&1 </dev/null &
done
wait
[ "$(cat out.[1-4] | grep -c '^factor 2$')" -eq 4 ] || fail "results: $(cat out.[1-4])"
[ "$(wc -l <compiled)" -eq 1 ] || fail "compiled $(wc -l <compiled) times"
leaves_nothing "four processes"

case_ "the folder has a bound: what was asked for longest ago goes"
for file in old new; do
    truncate -s 2M "kept/$file.module"
done
touch -d "2 days ago" kept/old.module
run 0 env SOFTGPU_NVRTC_CACHE_MB=3 "${python[@]}" libnvrtc.so.13 "#define FACTOR 7"
[ ! -e kept/old.module ] && [ -e kept/new.module ] || fail "kept: $(ls kept)"

case_ "SOFTGPU_NVRTC_CACHE=0 keeps nothing, and a folder that cannot be made is no failure"
before=$(entries)
for cache in 0 /proc/nowhere; do
    run 0 env SOFTGPU_NVRTC_CACHE=$cache "${python[@]}" libnvrtc.so.13 "#define FACTOR 8"
    prints "factor 8"
done
[ "$(entries)" -eq "$before" ] || fail "$(entries) entries, not $before"

case_ "the compiler gets no library that the program preloads, and no variable but those that it needs"
cat >shown_g++ <<SH
#!/bin/sh
env >$work/environment
exec g++ "\$@"
SH
chmod +x shown_g++
run 0 env NVCC_CCBIN="$work/shown_g++" LD_PRELOAD="$softgpu/libsoftgpu.so" DDPRUN_ANYTHING=1 RANK=3 \
    "${python[@]}" libnvrtc.so.13 "#define FACTOR 9"
! grep -E '^(LD_PRELOAD|DDPRUN|RANK)' environment >err || fail "it gets them"

case_ "a program that is killed while it compiles leaves no folder and no process"
cat >slow_g++ <<SH
#!/bin/sh
echo \$\$ >$work/compiler
exec sleep 60
SH
chmod +x slow_g++
NVCC_CCBIN=$work/slow_g++ SOFTGPU_NVRTC_CACHE=0 "${python[@]}" libnvrtc.so.13 "$two" >/dev/null 2>&1 </dev/null &
program=$!
for ((i = 0; i < 300 && ! $([ -s compiler ] && echo 1 || echo 0); ++i)); do
    sleep 0.1
done
[ -n "$(ls tmp)" ] || fail "no folder while it compiles"
kill -KILL "$program"
wait "$program" 2>/dev/null
for ((i = 0; i < 300; ++i)); do
    [ -n "$(ls tmp)" ] || [ -d "/proc/$(cat compiler)" ] || break
    sleep 0.1
done
leaves_nothing "a killed program"
[ ! -d "/proc/$(cat compiler)" ] || fail "the compiler still runs"

case_ "without softgpu-cc, and without a host compiler, there is one line"
mkdir alone
cp -L "$softgpu"/*.so.* "$softgpu/libsoftgpu.so" alone
run 0 env LD_LIBRARY_PATH="$work/alone" SOFTGPU_NVRTC_CACHE=0 "${python[@]}" libnvrtc.so.13 "$two"
prints "result 7"
says "softgpu: nvrtcCompileProgram: softgpu-cc, which compiles for the stand-in, is neither beside its libraries nor in PATH; install it"
[ "$(wc -l <err)" -eq 1 ] || fail "$(wc -l <err) lines"
run 0 env NVCC_CCBIN=/nowhere/g++ SOFTGPU_NVRTC_CACHE=0 "${python[@]}" libnvrtc.so.13 "$two"
prints "result 7"
says "cannot start /nowhere/g++"
[ "$(wc -l <err)" -eq 1 ] || fail "$(wc -l <err) lines"
finish "$cases cases"
