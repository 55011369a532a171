#!/usr/bin/env bash
# annotated.sh BUILD - which programs are refused before they start, for they hold kernels and no annotation: recognised by the files of the program and of the
# libraries that it needs, wherever in them it stands. What may start or load a trainer never is. Programs of one line, none of which runs.
source "$(dirname "$0")/lib.sh"
export LD_LIBRARY_PATH=$top/gpu STUB_GPUS=2
mkdir "$top/p" && cd "$top/p" || exit 1

link() { gcc -w "$@" -ldl || not_ok "link $*" "no program"; }
printf 'int main(void) { return 0; }\n' >main.c
printf '#include <dlfcn.h>\nint f(void) { return dlsym(RTLD_DEFAULT, "ddprun_interface") != 0; }\n' >annotated.c
printf 'extern int ddprun_interface(void) __attribute__((weak));\nint f(void) { return ddprun_interface != 0; }\n' >imported.c
printf 'char name[] = "ddprun_interface";\n' >writable.c
printf '__attribute__((section(".nv_fatbin"), used)) static const char kernels[8] = "x";\n' >kernels.c
printf 'static const char *f = "ddprun_interfaces", *g = "ddprun_interfac";\nconst char *h(int i) { return i ? f : g; }\n' >alike.c
link -shared -fPIC kernels.c -o libkernels.so
link -shared -fPIC annotated.c -o libannotated.so
link -shared -fPIC kernels.c -Wl,-soname,libcublas.so.77 -o libcublas.so.77
link -shared -fPIC main.c -Wl,-soname,libgoes.so -o libgoes.so
needs="-Wl,--no-as-needed -Wl,-rpath,$top/p -L."

# refused NAME PROGRAM, starts NAME PROGRAM
refused() { bad "$1: refused" 2 "$2 holds CUDA kernels and no annotation of ddprun.h: 2 copies would train side by side, .*--unannotated" -n 2 "./$2"; }
starts() {
    gives "$1: starts" 0 -- run --dry-run -n 2 "./$2"
}

link main.c kernels.c -o bare && refused "kernels" bare
gives "kernels, one rank: starts" 0 -- run --dry-run -n 1 ./bare
gives "kernels, --unannotated: starts" 0 -- run --dry-run --unannotated -n 2 ./bare
run_in_front env DDPRUN_UNANNOTATED=1 "$ddprun" --dry-run -n 2 ./bare
report "kernels, DDPRUN_UNANNOTATED=1: starts" "$(expect 0)"
gives "--dry-run is refused, too" 2 "$err" 'holds CUDA kernels' -- run --dry-run -n 2 ./bare
link main.c kernels.c alike.c -o alike && refused "names that are longer or shorter" alike
link main.c kernels.c annotated.c -o annotated && starts "an annotation in the program" annotated
link main.c kernels.c imported.c -o imported && starts "the same as a symbol" imported
link main.c kernels.c writable.c -o writable && starts "the same in memory that is written" writable
{
    link main.c kernels.c $needs -lannotated -o in_library && starts "an annotation in a library" in_library
    link main.c $needs -lkernels -o kernels_in_library && refused "kernels in a library" kernels_in_library
    link main.c annotated.c $needs -lkernels -o annotated_itself && starts "kernels in a library, an annotation in the program" annotated_itself
    link main.c kernels.c $needs -lgoes -o lacks && rm libgoes.so && starts "a library that is not found" lacks
    link main.c $needs -l:libcublas.so.77 -o only_cuda && starts "only CUDA's libraries have kernels" only_cuda
}
starts "no kernels" ../p/only_cuda
# What is no longer in the program says nothing of it; nor do sections that are not loaded.
cp bare stripped && strip stripped && refused "a stripped program" stripped
cp annotated stripped_annotated && strip stripped_annotated && starts "a stripped program with an annotation" stripped_annotated
printf 'ddprun_interface\0' >name
objcopy --add-section .debug_names_of_mine=name bare unloaded && refused "the name in a section that is not loaded" unloaded
cp annotated packed && objcopy --compress-debug-sections packed 2>/dev/null && starts "compressed debug sections" packed

# What may start or load a trainer.
printf '#!/bin/sh\nexec ./bare\n' >script && chmod 755 script
starts "a script" script
gives "env: starts" 0 -- run --dry-run -n 2 env ./bare
gives "an interpreter: starts" 0 -- run --dry-run -n 2 sh -c ./bare
finish
