/*
 * records.h - the number of records in a data file of a known format: IDX (MNIST's), NumPy's .npy, and text with the
 * same number of fields in each line.
 *
 * Sources: "THE IDX FILE FORMAT" in the description of the MNIST database; NumPy's reference, numpy.lib.format.
 */
#ifndef DDPRUN_TOOLS_SCOUT_COMMAND_REPORT_RECORDS_H
#define DDPRUN_TOOLS_SCOUT_COMMAND_REPORT_RECORDS_H

#include <stdbool.h>
#include <stdint.h>

struct records {
    const char *format; /* static: "IDX", "npy" or "text" */
    uint64_t count;
    uint64_t each; /* bytes of a record, or fields of a line of text */
};

/* Reads the file, which must be a regular one of `bytes` bytes; of text all of it, up to the first line that differs,
 * but not of more than 1 GiB. False: no such format, or no such file. Any thread. */
bool records_find(const char *path, uint64_t bytes, struct records *records);

#endif
