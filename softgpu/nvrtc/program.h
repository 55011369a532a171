/*
 * program.h - a program of libnvrtc: what was given to nvrtcCreateProgram, and what the last compilation gave. Between
 * the files of this folder.
 *
 * A program belongs to the thread that uses it, as NVIDIA documents; programs know nothing of each other.
 */
#ifndef SOFTGPU_NVRTC_PROGRAM_H
#define SOFTGPU_NVRTC_PROGRAM_H

#include "buffer.h"

#include <nvrtc.h>

#include <stdint.h>

struct _nvrtcProgram {
    uint32_t magic;
    char *source;
    char *name;
    struct strings headers, header_names; /* of the same count */
    struct strings expressions;           /* of nvrtcAddNameExpression */
    int (*callback)(void *, void *);      /* of nvrtcSetFlowCallback, or NULL */
    void *payload;

    /* ---- of the last compilation ---- */
    bool is_compiled;       /* it took place, well or not */
    bool is_real;           /* -arch=sm_..: there is a cubin */
    struct strings lowered; /* of each expression, its name for the linker */
    struct buffer log;      /* without its NUL */
    struct buffer module;   /* the shared library; empty: none */
};

/* ---- options.c ---- */

/* What a command line asks of softgpu-cc. */
struct request {
    struct strings arguments; /* for softgpu-cc */
    struct buffer macros;     /* #define and #undef: a header that is read before the source */
    int architecture;         /* 750: of -arch=compute_75 */
    bool is_real;             /* -arch=sm_.. */
    bool has_own_folder;      /* not --no-source-include */
    bool uses_cache;          /* not --no-cache */
};

/* Reads options. On NVRTC_ERROR_INVALID_OPTION and NVRTC_ERROR_COMPILATION the program's log says why. */
nvrtcResult options_read(struct _nvrtcProgram *program, int count, const char *const *options, struct request *request)
    __attribute__((warn_unused_result));
void request_free(struct request *request);

/* ---- compile.c ---- */

/* What softgpu-cc has made of a program. */
struct outcome {
    struct buffer messages; /* what it and the host compiler have written on stderr */
    struct buffer module;   /* empty: it has failed */
    struct buffer depends;  /* a make rule that names the headers of -I folders */
    char *folder;           /* the name of the folder that the source was in, which is gone */
};

/*
 * Runs softgpu-cc. NVRTC_SUCCESS: *outcome has a module; NVRTC_ERROR_COMPILATION: it has messages of errors in the
 * source; NVRTC_ERROR_BUILTIN_OPERATION_FAILURE: no compiler, or no host compiler, or no CUDA headers: a line in the
 * log and on stderr.
 */
nvrtcResult compile_run(struct _nvrtcProgram *program, const struct request *request, struct outcome *outcome)
    __attribute__((warn_unused_result));
void outcome_free(struct outcome *outcome);

/* A program that PATH finds, or `name` itself if it is a path; the caller frees it. NULL: there is none. */
char *compile_find_program(const char *name);

/* The softgpu-cc that belongs to this library, or the one that PATH finds; the caller frees it. NULL: there is none. */
char *compile_find_compiler(void);

/* The symbol of the n-th name expression in a module. */
#define LOWERED_SYMBOL "softgpu_name_"

/* The file in which name expressions stand, for messages. */
#define EXPRESSION_FILE "name expression"

/* ---- log.c ---- */

/* Appends the messages of the host compiler to the program's log in NVRTC's form, with the source's names and lines. */
void log_translate(struct _nvrtcProgram *program, const struct outcome *outcome);

/* ---- lowered.c ---- */

/* Fills program->lowered from the tables of the module in program->module. NVRTC_ERROR_COMPILATION, and the log says
 * why: an expression denotes a function that is no kernel. */
nvrtcResult lowered_find(struct _nvrtcProgram *program) __attribute__((warn_unused_result));

/* ---- cache.c ---- */

/* A place for one result of a compilation. */
struct cache {
    char *path;        /* of the entry; NULL: nothing is kept */
    int lock;          /* a file: other processes that compile the same wait; -1: none */
    struct buffer key; /* the whole request */
};

/*
 * Looks for the result of this request: true if it was kept, and the program has its module, log and lowered names.
 * Else the caller compiles and then calls cache_keep(), or cache_close(). A process that asks for what another compiles
 * waits.
 */
bool cache_find(struct cache *cache, struct _nvrtcProgram *program, const struct request *request);

/* Keeps what the program has now, with the headers that the make rule names, and closes. */
void cache_keep(struct cache *cache, const struct _nvrtcProgram *program, const char *depends);
void cache_close(struct cache *cache);

#endif
