#!/usr/bin/env bash
# package.sh BUILD - what users install works: the Debian packages of the build, unpacked under a prefix of their own, train a
# network, compile a CUDA program and are found by pkg-config and CMake; nothing in them points to where they were built, and
# no library of the stand-in lies where a loader would find it. Called by tests/run.sh.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
source tests/lib/lib.sh
source tests/install/kernels.sh
repository=$PWD
build=$(realpath "${1:-build}")
for tool in dpkg-deb dpkg-shlibdeps; do
    command -v "$tool" >/dev/null || skip "no $tool (packages dpkg, dpkg-dev)"
done
work=$(mktemp -d "${TMPDIR:-/tmp}/ddprun-package.XXXXXX")
at_exit 'rm -rf "$work"'

# must_run COMMAND...: complains if it fails; its output is in $work/out.
must_run() {
    timeout -k 1 "$(patient 200)" "$@" </dev/null >"$work/out" 2>&1 || complain "failed ($?): $*: $(tail -n 3 "$work/out")"
}

# CPack asks file(1), by way of cmake, of each of a thousand files whether it is ELF: that takes most of its time.
cat >"$work/cmake" <<'END'
#!/usr/bin/env bash
[ "$1 $2" = '-E env' ] || exec cmake "$@"
if [[ $4 == */file ]]; then
    IFS= read -r -n 4 magic <"$5"
    [ "$magic" = $'\x7fELF' ] && [ ! -L "$5" ] || { echo "$5: data" && exit; }
fi
exec env "${@:3}"
END
chmod +x "$work/cmake"
must_run cpack -D "CMAKE_COMMAND=$work/cmake" --config "$build/CPackConfig.cmake" -B "$work/packages"
shopt -s nullglob
packages=("$work"/packages/*.deb)
[ "${#packages[@]}" -eq 3 ] || {
    complain "expected three packages, got ${#packages[@]}: ${packages[*]##*/}; $(tail -n 3 "$work/out")"
    exit 1
}
for package in "${packages[@]}"; do
    dpkg-deb -x "$package" "$work/root"
done
prefix=$work/root/usr

# ---- what is in them ----
product=$(dpkg-deb -f "$work"/packages/ddprun_*.deb Depends)
standin=$(dpkg-deb -f "$work"/packages/ddprun-softgpu_*.deb Depends)
cluster=$(dpkg-deb -f "$work"/packages/ddprun-pmix_*.deb Depends)
[[ $product != *libpmix2* && $product == *libunwind8* && $product == *libhwloc15* ]] || complain "ddprun depends on: $product"
[[ $cluster == *libpmix2* && $cluster == *'ddprun (= '* ]] || complain "ddprun-pmix depends on: $cluster"
[[ $product != *softgpu* && $product != *openblas* ]] || complain "ddprun must not need the stand-in: $product"
[[ $standin == *libopenblas0* && $standin == *g++* ]] || complain "ddprun-softgpu depends on: $standin"
while read -r library; do
    case $library in
    "$prefix"/lib/ddprun/* | "$prefix"/lib/softgpu/*) ;;
    *) complain "a library where loaders look: $library" ;;
    esac
done < <(find "$prefix" -name '*.so*')
has_kernels "$prefix/lib/ddprun"
! dpkg-deb -c "$work"/packages/ddprun_*.deb | grep 'lib/softgpu' || complain "the product's package holds the stand-in"
while read -r link; do
    target=$(readlink "$link")
    [[ $target != /* || $target == /usr/local/cuda/* ]] || complain "$link points out of the package: $target"
    [[ $target == /* || -e $link ]] || complain "$link leads nowhere: $target"
done < <(find "$work/root" -type l)
if grep -rlF "$build/lib" "$prefix" >"$work/found"; then
    complain "names the folder it was built in: $(sed "s,$work/root,," "$work/found" | tr '\n' ' ')"
fi

# ---- pages ----
for page in man1/ddprun.1 man1/softgpu-cc.1 man3/ddprun.h.3 man7/ddprun-troubleshooting.7; do
    [ -s "$prefix/share/man/$page" ] || complain "no page $page"
done
troubleshooting=$prefix/share/man/man7/ddprun-troubleshooting.7
[ "$(grep -c '^\.IP .(bu' "$troubleshooting")" -eq "$(grep -cE '^( {2})?- [^[]' docs/troubleshooting.md)" ] || complain "$troubleshooting lacks entries"
! grep -nE '`|\*\*|\]\(' "$troubleshooting" || complain "$troubleshooting has Markdown"
options=$("$prefix/bin/ddprun" --help-all | sed -nE 's/^  .{4}(--[a-z-]+).*/\1/p')
[ "$(wc -l <<<"$options")" -gt 40 ] || complain "--help-all lists few options: $options"
while read -r option; do
    grep -qF -- "${option//-/\\-}" "$prefix/share/man/man1/ddprun.1" || complain "ddprun(1) does not mention $option"
done <<<"$options"
completed=$("$prefix/bin/ddprun" --complete | awk 'NF == 4 && $1 != "-" && $1 != "check"')
[ "$(wc -l <<<"$completed")" -gt 10 ] || complain "--complete lists few options of commands: $completed"
while read -r command _ option _; do
    sed "/^\.SH ${command^^}\$/,/^\.SH /!d" "$prefix/share/man/man1/ddprun.1" | grep -F -- "\\-\\-${option//-/\\-}" >/dev/null ||
        complain "ddprun(1): $command has no --$option"
done <<<"$completed"
for row in tagged rank0 files=DIR none; do
    grep -qxF -- "\\fB${row//-/\\-}\\fR:" "$prefix/share/man/man1/ddprun.1" || complain "ddprun(1): --output $row has no line of its own"
done
macros=$(sed -nE 's/^#define (DDP_[A-Z_]*[A-Z])\(.*/\1/p' "$prefix/include/ddprun.h")
[ "$(wc -l <<<"$macros")" -gt 15 ] || complain "ddprun.h defines few macros: $macros"
while read -r macro; do
    grep -qF "$macro(" "$prefix/share/man/man3/ddprun.h.3" || complain "ddprun.h(3) does not mention $macro"
done <<<"$macros"

for header in ddprun.h ddprun_torch.h ddprun_torch_sampler.h ddprun_torch_tensors.h ddprun_torch_unheld.h ddprun_lines.h; do
    [ -s "$prefix/include/$header" ] || complain "no include/$header"
done

# ---- completion ----
complete_words() {
    PATH=$prefix/bin:$PATH timeout "$(patient 20)" bash -c '
        _command_offset() { COMPREPLY=("program:$1"); }
        source "$1"; shift; COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _ddprun; printf "%s\n" "${COMPREPLY[@]}"' \
        bash "$prefix/share/bash-completion/completions/ddprun" "$@" </dev/null | tr '\n' ' '
}
[ "$(complete_words ddprun doctor --)" = '--help ' ] || complain "completion of doctor --: $(complete_words ddprun doctor --)"
[ "$(complete_words ddprun check -n 4 --ste)" = '--steps ' ] || complain "completion of check --ste: $(complete_words ddprun check -n 4 --ste)"
[ "$(complete_words ddprun check --steps 9 ./train --l)" = 'program:4 ' ] ||
    complain "completion behind the program of check: $(complete_words ddprun check --steps 9 ./train --l)"
[ "$(complete_words ddprun --no-o)" = '--no-overlap ' ] || complain "completion of --no-o: $(complete_words ddprun --no-o)"
[ "$(complete_words ddprun --device s)" = 'softgpu ' ] || complain "completion of --device s: $(complete_words ddprun --device s)"
[ "$(complete_words ddprun scout --pr)" = '--prove ' ] || complain "completion of scout --pr: $(complete_words ddprun scout --pr)"
[ "$(complete_words ddprun trace folder --out)" = '--output ' ] || complain "completion of trace folder --out: $(complete_words ddprun trace folder --out)"
[ "$(complete_words ddprun help re)" = 'report ' ] || complain "completion of help re: $(complete_words ddprun help re)"
for words in '-n 2' '-np 2' '--nproc-per-node 2'; do
    [ "$(complete_words ddprun $words --quiet ./train --l)" = 'program:4 ' ] ||
        complain "completion behind the program, after $words: $(complete_words ddprun $words --quiet ./train --l)"
done

# In zsh and fish, where they are: what is completed, and a word that has to be in the answer.
while read -r wanted words; do
    if command -v fish >/dev/null; then
        PATH=$prefix/bin:$PATH timeout "$(patient 20)" fish -c 'source $argv[1]; complete -C "$argv[2]"' "$prefix/share/fish/vendor_completions.d/ddprun.fish" "$words" 2>&1 |
            grep -xF -- "$wanted" >/dev/null || complain "completion in fish of $words: $wanted is missing"
    fi
    if command -v zsh >/dev/null; then
        PATH=$prefix/bin:$PATH timeout "$(patient 20)" zsh -fc 'file=$1; shift; words=("$@"); CURRENT=$#
            compadd() { shift; print -l -- "$@" }; _files() {}; _command_names() {}; run() { source $file }; run' zsh \
            "$prefix/share/zsh/site-functions/_ddprun" $words 2>&1 | grep -xF -- "$wanted" >/dev/null || complain "completion in zsh of $words: $wanted is missing"
    fi
done <<'END'
--no-overlap ddprun --no-o
softgpu ddprun --device s
status ddprun -n 2 sta
--steps ddprun check --ste
END

# ---- each page that a page links to is installed ----
links=0
while IFS=: read -r page link; do
    links=$((links + 1))
    [ -e "$(dirname "$page")/$link" ] || complain "$page links to $link, which is not installed"
done < <(grep -roE '\]\([^)#:]+[)#]' "$prefix/share/doc/ddprun" --include='*.md' | sed 's/\](//; s/[)#]$//')
[ "$links" -gt 80 ] || complain "only $links links between installed pages: the check looked in the wrong place"

# ---- it runs, from where it lies now ----
must_run "$prefix/bin/ddprun" --version
"$prefix/bin/ddprun" doctor >"$work/out" 2>&1 </dev/null || true
grep -q 'PMIx: OpenPMIx' "$work/out" || complain "the installed doctor says of PMIx: $(grep -A 1 PMIx "$work/out")"
must_run "$prefix/bin/ddprun" -n 2 "$build/samples/digits" --steps 20 --batch 32
grep -q '2 ranks, 20 steps' "$work/out" || complain "the installed ddprun did not train: $(tail -n 3 "$work/out")"

cat >"$work/first.cu" <<'END'
#include <ddprun.h>
#include <cstdio>
__global__ void add_one(float *x) { x[threadIdx.x] += 1; }
int main()
{
    float *x, y[32] = {0};
    cudaMalloc(&x, sizeof(y));
    cudaMemcpy(x, y, sizeof(y), cudaMemcpyHostToDevice);
    add_one<<<1, 32>>>(x);
    cudaMemcpy(y, x, sizeof(y), cudaMemcpyDeviceToHost);
    printf("rank %d: %g\n", DDP_RANK(), y[31]);
}
END
flags=$(PKG_CONFIG_PATH=$prefix/share/pkgconfig pkg-config --cflags --libs ddprun)
read -ra flags <<<"$flags"
must_run "$prefix/bin/softgpu-cc" "${flags[@]}" -o "$work/first" "$work/first.cu"
must_run "$work/first"
[ "$(cat "$work/out")" = 'rank 0: 1' ] || complain "what the installed softgpu-cc compiled says: $(cat "$work/out")"

if command -v python3 >/dev/null; then
    python=$(PKG_CONFIG_PATH=$prefix/share/pkgconfig pkg-config --variable=pythondir ddprun)
    must_run env "PYTHONPATH=$python" PYTHONDONTWRITEBYTECODE=1 python3 -c 'import ddprun; print(ddprun.__file__, ddprun.shard(8))'
    [[ $(cat "$work/out") == */lib/python3/dist-packages/ddprun.py' (0, 8)' ]] || complain "the installed module says: $(cat "$work/out")"
    must_run env "PYTHONPATH=$python" PYTHONDONTWRITEBYTECODE=1 python3 -m ddprun --version
    grep -q '^ddprun [0-9]' "$work/out" || complain "python3 -m ddprun of the package says: $(cat "$work/out")"
    must_run env "PYTHONPATH=$python" "$prefix/bin/ddprun" -n 2 --device softgpu --unannotated python3 -c 'import ddprun; print(ddprun.rank)'
    grep -qx '\[1\] 1' "$work/out" || complain "the installed module under the installed ddprun says: $(cat "$work/out")"
fi

if rustc --version >/dev/null 2>&1; then
    rust=$(PKG_CONFIG_PATH=$prefix/share/pkgconfig pkg-config --variable=rustdir ddprun)
    must_run rustc --edition 2021 --crate-type rlib --crate-name ddprun --out-dir "$work" "$rust/src/lib.rs"
    [ -e "$rust/examples/driver/kernels.cu" ] || complain "the package has the crate without its example"
fi

mkdir "$work/project"
cat >"$work/project/CMakeLists.txt" <<'END'
cmake_minimum_required(VERSION 3.22)
project(uses_ddprun C)
find_package(ddprun 0.1 REQUIRED)
add_executable(annotated annotated.c)
target_link_libraries(annotated ddprun::ddprun)
END
cp "$repository/tests/interpose/annotated.c" "$work/project/"
must_run cmake -S "$work/project" -B "$work/project/build" "-DCMAKE_PREFIX_PATH=$prefix"
must_run cmake --build "$work/project/build"
must_run "$work/project/build/annotated"

# The modulefile leads to what is there, wherever the prefix is. `module` itself is Tcl: these are its commands.
if command -v tclsh >/dev/null; then
    modules=("$prefix"/share/modulefiles/ddprun/*)
    cat >"$work/module.tcl" <<'END'
proc module-whatis {text} {}
proc conflict {name} {}
proc prepend-path {variable path} {
    if {![file isdirectory $path]} { error "$variable: no folder $path" }
    puts "$variable $path"
}
set ModulesCurrentModulefile [lindex $argv 0]
source $ModulesCurrentModulefile
END
    must_run tclsh "$work/module.tcl" "${modules[0]}"
    grep -qx "PATH $(realpath "$prefix")/bin" "$work/out" || complain "the modulefile says: $(cat "$work/out")"
fi

# `cmake --install` builds what is missing before it installs anything; a package's component does not.
rules=$build/cmake_install.cmake
first=$(grep -nm 1 -e '--build' "$rules" | cut -d : -f 1 || true)
[ "${first:-0}" -gt 0 ] || complain "cmake --install does not build what is missing"
! head -n "${first:-0}" "$rules" | grep -qE 'file\(INSTALL|include\(' || complain "cmake --install installs before it builds"
head -n "${first:-0}" "$rules" | tail -n 2 | grep -q 'CMAKE_INSTALL_COMPONENT STREQUAL "Unspecified"' || complain "cpack builds, too"

# The target `uninstall`, on lists as cmake leaves them: all files go, and the folders that are ours; others' files stay.
there=$work/there
mkdir -p "$work/lists" "$there"/{bin,lib/ddprun/deep,share/doc/ddprun}
touch "$there/bin/ddprun" "$there/bin/theirs" "$there/lib/ddprun/deep/a.so" "$there/share/doc/ddprun/theirs" "$there/share/doc/ddprun/README.md"
ln -s nowhere "$there/lib/ddprun/link"
printf '%s\n' "$there"/bin/ddprun "$there"/lib/ddprun/{deep/a.so,link,gone} >"$work/lists/install_manifest.txt"
printf '%s' "$there/share/doc/ddprun/README.md" >"$work/lists/install_manifest_pmix.txt"
must_run cmake -D "build=$work/lists" -P "$repository/cmake/Uninstall.cmake"
left=$(cd "$there" && find . ! -type d | sort | tr '\n' ' ')
[ "$left" = './bin/theirs ./share/doc/ddprun/theirs ' ] || complain "uninstalling leaves $left"
[ -d "$there/bin" ] && [ -d "$there/lib" ] && [ ! -e "$there/lib/ddprun" ] || complain "folders after uninstalling: $(find "$there" -type d)"

finish 'three packages, installed and used from a prefix of their own'
