/*
 * symbols.h - which function of a file lies at an offset? For stacks in reports.
 *
 * Reads ELF files of 64 bits with pread and checked bounds, a piece at a time: they come from users, and may be damaged
 * or change under us. A function is named only if the address is within its size; what is merely nearest would mislead.
 */
#ifndef DDPRUN_LAUNCHER_REPORT_SYMBOLS_H
#define DDPRUN_LAUNCHER_REPORT_SYMBOLS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct symbol {
    uint64_t address; /* as the file counts, so that addr2line takes it */
    uint64_t offset;  /* from the function's beginning */
    char name[96];    /* empty: no function is known there */
};

/* What lies `file_offset` bytes into the file. False if the file cannot be read as ELF, or maps nothing there. */
bool symbols_find(const char *path, uint64_t file_offset, struct symbol *symbol_p) __attribute__((warn_unused_result));

#endif
