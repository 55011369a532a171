/*
 * parameter_file.h - a network's parameters in a file, as the samples save and compare them.
 *
 * A text header, then the values: the line "parameters 1", one line "name count" a tensor, an empty line, and then all
 * values as float32 in the machine's byte order, tensor after tensor. Host memory only. Failures print one line
 * "parameters: file: what".
 */
#ifndef SAMPLES_PARAMETER_FILE_H
#define SAMPLES_PARAMETER_FILE_H

#include <stddef.h>

struct parameter {
    char name[32]; /* no blanks */
    size_t count;
    float *values;
};

/*
 * Writes to a temporary name beside the target and renames it, so that no half-written file is ever seen. The first
 * "%d" in `path` becomes `number`. Returns 0, or -1 after printing why; then there is no new file.
 */
int parameter_file_write(const char *path, int number, const struct parameter *parameters, size_t count)
    __attribute__((warn_unused_result));

/*
 * Reads a file. Returns 0, or -1 after printing why. The caller hands both outputs to parameter_file_free(); they are
 * untouched on failure.
 */
int parameter_file_read(const char *path, struct parameter **parameters_p, size_t *count_p)
    __attribute__((warn_unused_result));

void parameter_file_free(struct parameter *parameters, size_t count);

#endif
