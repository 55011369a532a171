/*
 * reference.h - the file in which one rank's run is kept, for others to be compared with.
 *
 * A file header, then records, each with a header of its own, in the order in which they were written; the last one is
 * REFERENCE_END. Numbers are in the machine's byte order: all ranks of a job have the same. Every record has a hash
 * (XXH3), so that a file that was damaged or cut is noticed where it is read. Layout: struct reference_header, struct
 * reference_record. Written by the engine of one process, read by those of all ranks and by `ddprun check`.
 *
 * Threads: one at a time for each writer and each reader.
 */
#ifndef DDPRUN_TOOLS_CHECK_FORMAT_REFERENCE_H
#define DDPRUN_TOOLS_CHECK_FORMAT_REFERENCE_H

#include "base/must_use.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define REFERENCE_VERSION 12

enum reference_kind {
    REFERENCE_TENSOR = 1,  /* struct check_tensor: what `number` of its role is, or which call of DDP_REDUCE */
    REFERENCE_VALUES,      /* the elements of a tensor at a step */
    REFERENCE_MEAN,        /* a double: what DDP_MEAN found, `number`-th call since the start */
    REFERENCE_MEMORY,      /* struct check_memory: where unannotated memory is */
    REFERENCE_SKETCH,      /* struct sketch: what it holds at a step; of a gradient: as an update gets it */
    REFERENCE_UPDATER,     /* struct check_updater */
    REFERENCE_FLOOR,       /* struct check_row, all of a run: `number` 0 of the repeated, 1 of the perturbed one */
    REFERENCE_COPIES,      /* struct check_copies (run.h): of call site `number`, its identity's low bits */
    REFERENCE_LEFT,        /* of turns: struct left_memory (trainer/turn_memory.c) */
    REFERENCE_LEFT_VALUES, /* what it holds as turn `role` of a round begins, and at its DDP_STEP */
    REFERENCE_END,         /* `step`: steps made; `number` 1: they are rounds of DDP_REDUCE calls */
};

struct reference_header {
    char magic[8]; /* "ddpcheck" */
    uint32_t version;
    uint32_t steps;   /* that were asked for */
    uint32_t is_free; /* runs that are compared are not forced */
    uint32_t turns;   /* of a round, in a program with turns */
    uint64_t program; /* identity of the executable */
    uint64_t hash;    /* of what is before it */
};

/* What a record is. Not all kinds use all fields; the others are 0. */
struct reference_key {
    uint32_t kind; /* enum reference_kind */
    uint32_t role; /* enum check_role */
    uint32_t step; /* from 1 */
    uint32_t number;
};

struct reference_record {
    struct reference_key key;
    uint64_t bytes;    /* of what follows */
    uint64_t contents; /* hash of what follows */
    uint64_t hash;     /* of what is before it */
};

/* ---- writing ---- */

struct reference_writer {
    int fd; /* -1: not open */
    uint64_t offset;
    struct reference_record record; /* that is being written */
    uint64_t record_at;
    void *state; /* of its hash */
};

/* Makes the file, or replaces what it holds. False with errno, as all that follow. */
bool reference_create(const char *path, const struct reference_header *header,
                      struct reference_writer *writer) MUST_USE;
bool reference_begin(struct reference_writer *writer, const struct reference_key *key) MUST_USE;
bool reference_append(struct reference_writer *writer, const void *data, size_t bytes) MUST_USE;
bool reference_end(struct reference_writer *writer) MUST_USE;
/* All of a record at once. */
bool reference_put(struct reference_writer *writer, const struct reference_key *key, const void *data,
                   size_t bytes) MUST_USE;
/* Continues a file that was closed, in front of its end; REFERENCE_END is to be written again. */
bool reference_extend(const char *path, struct reference_writer *writer) MUST_USE;
/* False if the file system says only now that it is not all there. */
bool reference_close(struct reference_writer *writer) MUST_USE;

/* ---- reading ---- */

struct reference_entry {
    struct reference_record record;
    uint64_t offset; /* of what follows its header */
};

struct reference_reader {
    int fd;
    struct reference_header header;
    struct reference_entry *entries; /* [count], sorted by key */
    size_t count;
    uint32_t steps_made;
    bool in_rounds; /* steps are rounds of DDP_REDUCE calls */
    const struct reference_entry *open;
    uint64_t offset;
    void *state;
};

/* False with *why: what is wrong with the file; static storage. */
bool reference_open(const char *path, struct reference_reader *reader, const char **why) MUST_USE;
/* A second place in the file of `reader`, which must outlive it; NULL state: no memory. Free `state` of XXH3. */
struct reference_reader reference_share(const struct reference_reader *reader);
const struct reference_entry *reference_find(const struct reference_reader *reader, const struct reference_key *key);

/* Whether the file is one, or the beginning of one, whatever has become of the rest. */
bool reference_is_one(const char *path);

/* The next bytes of a record, from its beginning on; false: the file is damaged or cannot be read. With the last bytes
 * the hash is compared. */
bool reference_start(struct reference_reader *reader, const struct reference_entry *entry) MUST_USE;
bool reference_next(struct reference_reader *reader, void *data, size_t bytes) MUST_USE;
/* All of a record, of exactly so many bytes. */
bool reference_get(struct reference_reader *reader, const struct reference_entry *entry, void *data,
                   size_t bytes) MUST_USE;
void reference_free(struct reference_reader *reader);

#endif
