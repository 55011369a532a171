/*
 * stacks.h - the host stacks of a process's threads, taken from outside, for the report of a hang.
 *
 * By ptrace and libunwind: each thread is stopped for some milliseconds, and continues as it was; a process that was
 * stopped stays so. For descendants of the launcher, which yama's ptrace_scope of 1 still allows.
 */
#ifndef DDPRUN_LAUNCHER_REPORT_STACKS_H
#define DDPRUN_LAUNCHER_REPORT_STACKS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/*
 * Writes lines into text[bytes], each indented by `indent` blanks and ended by a newline: for each thread, or group of
 * threads with one stack, its number, name and state, then a frame a line, the innermost first: "function+0x12
 * (module+0x3456)". At most 64 threads and 64 frames each; takes three seconds at most. Says why if there is nothing to
 * see. Any thread.
 *
 * A thread is stopped for a moment, which ends some system calls with EINTR. `continues`: the process is to live, and
 * threads in such calls are left alone.
 */
void stacks_describe(pid_t pid, bool continues, int indent, char *text, size_t bytes);

/* ---- symbols ---- */

/*
 * Which function of a file lies at an offset. Reads ELF files of 64 bits with pread and checked bounds, a piece at a
 * time: they come from users, and may be damaged or change under us. A function is named only if the address is within
 * its size; what is merely nearest would mislead.
 */
struct symbol {
    uint64_t address; /* as the file counts, so that addr2line takes it */
    uint64_t offset;  /* from the function's beginning */
    char name[96];    /* empty: no function is known there */
};

/* What lies `file_offset` bytes into the file. False if the file cannot be read as ELF, or maps nothing there. */
bool symbols_find(const char *path, uint64_t file_offset, struct symbol *symbol_p) __attribute__((warn_unused_result));

#endif
