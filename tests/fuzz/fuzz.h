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

/* One function for each parser: main.c has the table. */
typedef void fuzz_function(const uint8_t *bytes, size_t count);
fuzz_function fuzz_options, fuzz_gpu_list, fuzz_substitute, fuzz_elf, fuzz_control, fuzz_status, fuzz_handshake,
    fuzz_view, fuzz_frames, fuzz_sealed, fuzz_auth, fuzz_mangled, fuzz_reference, fuzz_scout, fuzz_plan, fuzz_play,
    fuzz_trace;

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

/* A copy of the bytes; the caller frees it. */
uint8_t *fuzz_copy(const uint8_t *bytes, size_t count);

/* Requires the text to be JSON, in UTF-8. The caller's, for json_object_put(). */
struct json_object *fuzz_json(const char *text, size_t length);

/* An open file in memory with these bytes; the caller closes it. */
int fuzz_file(const uint8_t *bytes, size_t count);

#endif
