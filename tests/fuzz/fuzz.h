/*
 * fuzz.h - what the fuzzer's targets share. A target gives a parser of ddprun's bytes that another program may have
 * made, and holds what comes of them against what the parser promises: beyond not crashing, it requires something.
 */
#ifndef DDPRUN_TESTS_FUZZ_FUZZ_H
#define DDPRUN_TESTS_FUZZ_FUZZ_H

#include "launcher/common/error.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef void (*fuzz_function)(const uint8_t *bytes, size_t count);

/* One function for each parser: main.c has the table. */
void fuzz_options(const uint8_t *bytes, size_t count);
void fuzz_gpu_list(const uint8_t *bytes, size_t count);
void fuzz_substitute(const uint8_t *bytes, size_t count);
void fuzz_elf(const uint8_t *bytes, size_t count);
void fuzz_control(const uint8_t *bytes, size_t count);
void fuzz_status(const uint8_t *bytes, size_t count);
void fuzz_handshake(const uint8_t *bytes, size_t count);
void fuzz_view(const uint8_t *bytes, size_t count);
void fuzz_frames(const uint8_t *bytes, size_t count);
void fuzz_sealed(const uint8_t *bytes, size_t count);
void fuzz_auth(const uint8_t *bytes, size_t count);
void fuzz_reference(const uint8_t *bytes, size_t count);
void fuzz_mangled(const uint8_t *bytes, size_t count);
void fuzz_scout(const uint8_t *bytes, size_t count);
void fuzz_plan(const uint8_t *bytes, size_t count);
void fuzz_play(const uint8_t *bytes, size_t count);
void fuzz_trace(const uint8_t *bytes, size_t count);

/* Writes FOLDER/TARGET/NAME for the targets whose formats are ddprun's own (seeds.c). */
void fuzz_write_seeds(const char *folder);

/* A folder of the fuzzer's own, empty at the start. */
const char *fuzz_folder(void);

/* Ends the fuzzer, with a finding, if `holds` is false. */
void fuzz_require(bool holds, const char *what);

/* An error as its users may rely on: an exit code, and one line of text. */
void fuzz_require_error(const struct error *error, int exit_code);

/* The bytes as a text, up to the first NUL; the caller frees it. */
char *fuzz_text(const uint8_t *bytes, size_t count);

/* An open file in memory with these bytes; the caller closes it. */
int fuzz_file(const uint8_t *bytes, size_t count);

#endif
