/*
 * log.h - the file in which a run of `ddprun scout` is kept: what the trainer's device did, in order, and what repeated
 * launches showed. Written in the trainer's process by the recorder (tools/scout/trainer/), read by the analysis.
 *
 * A file header, then records. Every record has its length and a checksum: of a file that was cut, all whole records
 * are read, and what is behind the first damaged one is left out. Records lie in the file as in memory, for the ddprun
 * that wrote them: a change of a struct raises SCOUT_LOG_VERSION, and the reader refuses other versions.
 *
 * Names, objects, call sites, allocations and operations are numbered from 0 in the order of their records. A record
 * refers only to numbers of earlier records: the reader ends at one that does not.
 *
 * Threads: one at a time for each writer and each log.
 */
#ifndef DDPRUN_TOOLS_SCOUT_FORMAT_LOG_H
#define DDPRUN_TOOLS_SCOUT_FORMAT_LOG_H

#include "tools/common/each.h"

#include <inttypes.h>
#include <stddef.h>
#include <string.h>

#define SCOUT_LOG_VERSION 9

#define SCOUT_NONE UINT32_MAX /* no name, no call site, no allocation: a host address */

/* Bytes [lo, hi) of an allocation. Lists of them are sorted and disjoint, and hi > lo. */
struct scout_range {
    uint64_t lo, hi;
};

struct scout_ranges {
    struct scout_range *items;
    uint32_t count;
};

/* Bytes [lo, hi) of an allocation by number; hi 0: none. */
struct scout_bytes {
    uint32_t alloc;
    uint64_t lo, hi;
};

/* ---- records ---- */

enum scout_record {
    SCOUT_NAME = 1,   /* a text: a kernel, a call, a variable, a reason */
    SCOUT_OBJECT,     /* struct scout_object */
    SCOUT_SITE,       /* struct scout_site */
    SCOUT_ALLOC,      /* struct scout_alloc */
    SCOUT_FREE,       /* number of an allocation */
    SCOUT_OP,         /* struct scout_op */
    SCOUT_EFFECT,     /* struct scout_effect: of the last SCOUT_OP, which thereby belongs to the deep pass */
    SCOUT_FILE,       /* struct scout_file */
    SCOUT_ANNOTATION, /* struct scout_annotation */
    SCOUT_END,        /* nothing: the last record */
};

struct scout_object {
    char *path;
    char *build_id; /* hexadecimal; "" without one */
};

/* Return addresses, innermost first. The same frames have the same number. */
struct scout_frame {
    uint32_t object; /* SCOUT_NONE: unknown */
    uint64_t offset; /* in the object's file as loaded: address - load address */
};

struct scout_site {
    struct scout_frame *frames;
    uint32_t count;
};

/* Device memory that a library of CUDA's has allocated for itself is SCOUT_SCRATCH, as cuBLAS's workspace; cuRAND's is
 * SCOUT_GENERATORS: states of which a launch may write none, and the thousandth all. */
enum scout_memory { SCOUT_DEVICE = 1, SCOUT_MANAGED, SCOUT_PINNED, SCOUT_SCRATCH, SCOUT_GENERATORS };

struct scout_alloc {
    uint64_t bytes;
    uint32_t ordinal; /* the smallest number that no live allocation of that size had when this one was made */
    uint32_t memory;  /* enum scout_memory */
    uint32_t site;    /* or SCOUT_NONE */

    /* set by the reader: operations before it was made, and before it was freed (UINT64_MAX: never) */
    uint64_t made_at, freed_at;
};

enum scout_kind { SCOUT_LAUNCH = 1, SCOUT_FILL, SCOUT_COPY };

/* A pointer that an operation gets: as an argument, in a struct, or in a pointer table that was resolved. */
struct scout_argument {
    uint32_t slot; /* number of the kernel's argument */
    uint32_t byte; /* bytes into the argument */
    uint32_t alloc;
    uint64_t offset; /* in the allocation */
    uint64_t end;    /* of what the pointer is taken to reach: the next offset seen, or the allocation's size */
    uint32_t type;   /* enum scout_type: the floats that it leads to, as the kernel's name or the call says it */
    uint32_t table;  /* the same of the pointers that it leads to */
};

/* Where a copy begins. alloc SCOUT_NONE: host memory, and the offset is its address. */
struct scout_place {
    uint32_t alloc;
    uint64_t offset;
    uint64_t pitch; /* between rows; ignored for one row */
};

enum { SCOUT_NUMBERS = 16 };

struct scout_op {
    uint32_t kind; /* enum scout_kind */
    uint32_t name; /* kernel, or call */
    uint32_t site; /* or SCOUT_NONE */
    uint32_t grid[3], block[3];
    uint64_t scalars;               /* hash of the arguments that are no pointers; of a fill: its value */
    int64_t numbers[SCOUT_NUMBERS]; /* a kernel's first arguments, as whole numbers of 4 or 8 bytes; 0: another one */
    struct scout_argument *arguments;
    uint32_t argument_count;
    uint32_t answers; /* 1: the call gives the host a result that is computed from its arguments (a norm of cuBLAS) */

    /* fills (to) and copies */
    struct scout_place to, from;
    uint64_t bytes, rows; /* of a row; number of rows, 1 for what is contiguous */
    uint64_t content;     /* of a copy from the host: hash of its bytes; 0: unknown */
    uint32_t ahead; /* 1: such a copy by a thread that has launched nothing so far. It stands in front of the first
                       operation that touches what it brings, whenever it was made */

    /* set by the reader: NULL: light pass */
    struct scout_effect *effect;
};

/* ---- what repeated launches showed ---- */

enum scout_type {
    SCOUT_UNKNOWN = 0, /* all zero, or too little to say; those of floats have the numbers of enum ddp_type */
    SCOUT_FLOAT32,
    SCOUT_FLOAT64,
    SCOUT_FLOAT16,
    SCOUT_BFLOAT16,
    SCOUT_INTEGER,
};

/* A part of an allocation that was perturbed by itself. Killed: bytes with the same result whatever they held before.
 * Modified: bytes whose result depends on what the segment held before, other than by being left alone. */
struct scout_segment {
    uint32_t alloc;
    uint64_t lo, hi;
    uint32_t type;   /* enum scout_type: as what it was perturbed */
    uint32_t tested; /* 0: could not be perturbed; nothing is known of it, and it counts as read */
    uint64_t used_lo,
        used_hi; /* results depend on these bytes, which a number or a pointer chooses; 0: not looked for */
    struct scout_ranges killed, modified;
};

/* What a perturbed segment changed outside itself. */
struct scout_dependence {
    uint32_t from; /* number of the segment in its effect */
    uint32_t to;   /* allocation */
    struct scout_ranges changed;
};

/* Element i of `from`, counted from from_base in elements of from_bytes, changes element i of `to` and nothing else
 * there. Holds as far as both arguments reach. From and to may be the same: each element depends on itself alone. */
struct scout_elementwise {
    uint32_t from, to; /* allocations */
    uint64_t from_base, to_base;
    uint32_t from_bytes, to_bytes;
    uint32_t samples; /* elements that have shown it; 0: none, and nothing else: it may be so, or not */
};

struct scout_written {
    uint32_t alloc;
    struct scout_ranges ranges;
};

enum scout_verdict {
    SCOUT_TESTED = 0,
    SCOUT_TOLERANCE, /* tested; repetitions differ within a tolerance */
    SCOUT_DIFFERS,   /* repetitions differ by more: nothing else is known */
    SCOUT_EXCLUDED,  /* not repeated: `why` says why */
};

#define SCOUT_FAILED "its launch fails" /* `why` of a launch that did not run */
struct scout_effect {
    uint32_t verdict;      /* enum scout_verdict */
    uint32_t why;          /* name, or SCOUT_NONE */
    uint32_t tests;        /* repetitions */
    uint32_t hidden_read;  /* 1: depends on memory outside its arguments */
    uint32_t hidden_write; /* allocation that is no argument and was written; SCOUT_NONE */
    struct scout_segment *segments;
    struct scout_written *written; /* bytes that the first run changed, by allocation */
    struct scout_dependence *dependences;
    struct scout_elementwise *elementwise;
    uint32_t segment_count, written_count, dependence_count, elementwise_count;
};

/* ---- what the host did ---- */

struct scout_file {
    char *path;
    uint32_t writes; /* 1: opened for writing */
    uint64_t bytes;  /* size when it was opened */
};

enum scout_annotated { SCOUT_SAYS_PARAMETER = 1, SCOUT_SAYS_GRADIENT, SCOUT_SAYS_STEP };

struct scout_annotation {
    uint32_t says; /* enum scout_annotated */
    uint32_t group;
    uint32_t alloc; /* SCOUT_NONE for SCOUT_SAYS_STEP */
    uint64_t offset, bytes;
    uint32_t type; /* enum ddp_type */
    char *text, *file;
    uint32_t line;
    uint64_t operations_before; /* set by the reader: operations before it */
};

/* ---- writing ---- */

/* Failures are kept: each function returns whether all went well so far, with errno of the first failure in `error`. */
struct scout_writer {
    int fd; /* -1: closed */
    int error;
    uint8_t *buffer;
    size_t bytes, room;
};

/* Creates the file, or replaces what it holds, mode 0600. `fd`: an open file to use instead, or -1. */
bool scout_writer_open(struct scout_writer *writer, const char *path, int fd) __attribute__((warn_unused_result));

/* Appends a record: `record` is the struct that enum scout_record names for it, a const char * for SCOUT_NAME, a
 * const uint32_t * for SCOUT_FREE. It is in the file's buffer of the kernel when the call returns (one write()). */
bool scout_writer_put(struct scout_writer *writer, enum scout_record kind, const void *record);
bool scout_writer_close(struct scout_writer *writer);

/* ---- reading ---- */

struct scout_log {
    bool has_end;
    bool whole;    /* no damaged record was met */
    uint64_t used; /* bytes of the file up to the end of the last whole record */
    char **names;
    struct scout_object *objects;
    struct scout_site *sites;
    struct scout_alloc *allocs;
    struct scout_op *ops;
    struct scout_file *files;
    struct scout_annotation *annotations;
    uint32_t name_count, object_count, site_count, alloc_count, op_count, file_count, annotation_count;
    struct obstack *held; /* everything else */
};

/* False with *why, static storage: no such file, not a log, another version, no memory. */
bool scout_log_open(const char *path, struct scout_log *log, const char **why) __attribute__((warn_unused_result));
/* The same of bytes in memory, which the log does not keep. */
bool scout_log_read(const void *bytes, size_t count, struct scout_log *log, const char **why)
    __attribute__((warn_unused_result));
void scout_log_free(struct scout_log *log);

/* A name, or "?" for SCOUT_NONE. */
const char *scout_log_name(const struct scout_log *log, uint32_t name);

/*
 * ---- mangled.c: what the pointers that a kernel gets lead to, as far as its name says it.
 *
 * The names of C++ functions hold the types of their parameters (Itanium C++ ABI, 5.1: _Z3sgdPfPKf). The C++ library
 * reads them; where there is none, and of a name of C, nothing is known. Any thread.
 */
struct mangled_parameter {
    bool is_pointer;
    uint32_t pointee; /* enum scout_type of what it points to; SCOUT_UNKNOWN: no kind of float */
    bool is_words;    /* it points to whole numbers of 16 bits or more: always the same ones, in the same kernel */
    bool is_bytes;    /* of 8 bits */
    uint32_t table;   /* of what the pointers point to that it points to (float **) */
};

/* Fills in parameters[], as many as the kernel has. Returns their number, or -1: the name does not say them, or they
 * are more than `most`. */
int mangled_parameters(const char *name, struct mangled_parameter *parameters, int most);

#endif
