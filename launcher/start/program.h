/*
 * program.h - the trainer as a file: where it is, whether it can be started with the shim preloaded, what it was built
 * for.
 *
 * Called by main() before anything is started, so that what cannot work is refused with one line instead of N.
 */
#ifndef DDPRUN_LAUNCHER_START_PROGRAM_H
#define DDPRUN_LAUNCHER_START_PROGRAM_H

#include "launcher/common/error.h"

#include <stddef.h>

enum { PROGRAM_LIBRARY_BYTES = 64 };

/* As much as the kernel reads of a #! line (BINPRM_BUF_SIZE), and a NUL. */
enum { PROGRAM_INTERPRETER_BYTES = 257 };

struct program {
    char *path;                                  /* to be given to execve; release with program_free() */
    bool is_script;                              /* begins with #! */
    bool built_for_softgpu;                      /* its ELF file carries the stand-in's note */
    char interpreter[PROGRAM_INTERPRETER_BYTES]; /* of a script */
    char sanitizer[PROGRAM_LIBRARY_BYTES]; /* "libasan.so.8", which must be the first library; "": it needs none */
    bool uses_openmp;                      /* it needs a runtime of OpenMP */
};

/* The Python that starts the script `name`, under `python -m ddprun`; NULL: the program is started by itself. */
const char *program_python(const char *name);

/*
 * Finds `name` as a shell does (in the folders of `search_path`, $PATH, if it has no '/') and checks it, and for a
 * script its interpreter too; in the place of a script of program_python() it finds that Python. Error
 * (DDPRUN_EXIT_NOT_RUN): not there, not a file, not executable, static, a
 * library, another machine's, damaged, would run with other rights than ours (the loader ignores LD_PRELOAD then).
 */
bool program_find(const char *name, const char *search_path, struct program *program, struct error *error) MUST_USE;

void program_free(struct program *program);

/* The interpreter that a script beginning with these bytes names, which may be an empty word; false: it is no script.
 * Pure. */
bool program_script_interpreter(const char *bytes, size_t length, char interpreter[PROGRAM_INTERPRETER_BYTES]);

#endif
