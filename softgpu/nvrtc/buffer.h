/*
 * buffer.h - growing bytes and strings for libnvrtc, which runs in the user's process: where memory ends, the
 * buffer's `failed` becomes true, it takes nothing more, and the caller looks once, at the end.
 */
#ifndef SOFTGPU_NVRTC_BUFFER_H
#define SOFTGPU_NVRTC_BUFFER_H

#include <stdbool.h>
#include <stddef.h>

/* `data` ends with a NUL that `length` does not count, once something was added. Zero-initialise. */
struct buffer {
    char *data;
    size_t length, room;
    bool failed; /* out of memory: what was added since is not there */
};

void buffer_add(struct buffer *buffer, const void *bytes, size_t length);
void buffer_add_string(struct buffer *buffer, const char *string);
void buffer_add_format(struct buffer *buffer, const char *format, ...) __attribute__((format(printf, 2, 3)));
void buffer_free(struct buffer *buffer);

/* All that a file has, from its beginning. False: it cannot be read, and errno says why. */
bool buffer_add_file(struct buffer *buffer, int file) __attribute__((warn_unused_result));

/* Strings, as execve(2) wants them: a NULL ends them once one was added. */
struct strings {
    char **items;
    size_t count, room;
    bool failed;
};

/* Adds a copy. */
void strings_add(struct strings *strings, const char *string);
void strings_add_format(struct strings *strings, const char *format, ...) __attribute__((format(printf, 2, 3)));
void strings_free(struct strings *strings);

#endif
