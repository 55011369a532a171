/*
 * source.h - one preprocessed CUDA source while softgpu-cc rewrites it: tokens, what is known of its functions, and
 * edits.
 *
 * The passes run in this order, each over what those before found out:
 *   declare.c   scopes and declarations: which functions and variables there are, and what linkage the device ones get
 *   indices.c   threadIdx and its relatives in functions that kernels call
 *   removed.c   what CUDA 13 no longer has
 *   blocking.c  which kernels may wait at a barrier, which need threadIdx in functions
 *   body.c      inside functions: __shared__, lambdas, names that device code spells differently, refused features
 *   casts.c     conversions from floating point to integers
 *   lockstep.c  warps that are taken to run alike
 *   races.c     changes of one place that nothing orders, where they are to be reported
 *   launch.c    k<<<...>>>(...)
 *   stride.c    grid-stride loops in kernels
 *   kernel.c    kernels become stubs
 * An edit inserts text before or after a token or drops the token; the text between tokens is always kept, so that
 * lines stay where the user has them. Internal to the rewriter; its door is rewrite.h.
 */
#ifndef SOFTGPU_CC_SOURCE_H
#define SOFTGPU_CC_SOURCE_H

#include "lex.h"
#include "names.h"
#include "text/declarations.h"
#include "text/walk.h"

enum function_flags {
    FUNCTION_DEVICE = 1u << 0,  /* __device__ */
    FUNCTION_HOST = 1u << 1,    /* __host__ */
    FUNCTION_KERNEL = 1u << 2,  /* __global__ */
    FUNCTION_UNNAMED = 1u << 3, /* called without being named: operator, constructor, destructor, conversion */
    FUNCTION_TEMPLATE = 1u << 4,
};

/* What blocking.c finds out of a kernel and the functions that it may reach. */
struct findings {
    bool may_wait;           /* a barrier or a warp collective may be reached */
    bool calls_value;        /* a functor, a lambda or a function pointer is called */
    bool asks_indices;       /* a function that it calls names threadIdx, blockIdx, blockDim or gridDim */
    bool may_ask_too;        /* the same, but for constructors of types that the kernel does not name */
    uint32_t index_function; /* 1 + one such function; 0: none with a name */
};

/* A function with a body. */
struct function {
    uint32_t head;            /* first token of its declaration */
    uint32_t name;            /* the last part of its name */
    uint32_t params;          /* the '(' */
    uint32_t body;            /* the '{' */
    unsigned flags;           /* enum function_flags */
    struct findings findings; /* of a kernel */
    unsigned hidden_indices;  /* of a kernel: 1, 2, 4, 8: its parameters are called threadIdx, blockIdx, ... */
    bool declares_indices;    /* of a kernel: something in it is called so */
};

struct edit {
    char *before, *after;
    bool drop;
};

struct source {
    struct code code;
    struct files files;
    struct edit *edits; /* one for each token and TOKEN_END */
    struct function *functions;
    size_t function_count, function_capacity;
    bool is_relocatable;                   /* -rdc=true: device functions and variables are visible to other files */
    bool allows_removed;                   /* --allow-removed */
    bool shares_templates;                 /* -static-global-template-stub=false: so are templates of kernels */
    bool is_module;                        /* --softgpu-module */
    bool device_is_default;                /* --softgpu-module-default */
    bool failed;                           /* an error was reported */
    unsigned variable_count, shared_count; /* numbers for generated names */
    struct names type_names;               /* while casts.c runs */
};

/* Splits the text, which stays the caller's, and runs the first pass. False after a message; nothing is to close then.
 */
bool source_open(struct source *source, const char *text, size_t length, const struct lex_paths *paths)
    __attribute__((warn_unused_result));
void source_close(struct source *source);

/* ---- edits; text inserted twice at one place comes in the order of the calls ---- */

void source_before(struct source *source, uint32_t i, const char *format, ...) __attribute__((format(printf, 3, 4)));
void source_after(struct source *source, uint32_t i, const char *format, ...) __attribute__((format(printf, 3, 4)));

/* Like source_before(), but in front of what is already there: what opens outside goes first. */
void source_before_all(struct source *source, uint32_t i, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
void source_drop(struct source *source, uint32_t i);
void source_drop_range(struct source *source, uint32_t from, uint32_t to);

/* An error at the user's line; the rewriting continues, to find more, and then fails. */
void source_error(struct source *source, uint32_t i, const char *format, ...) __attribute__((format(printf, 3, 4)));

/* ---- reading tokens: what softgpu/text/tokens.h, walk.h and declarations.h say of them ---- */

static inline bool
source_is(const struct source *source, uint32_t i, const char *spelling)
{
    return token_is(&source->code, i, spelling);
}

static inline bool
source_same_word(const struct source *source, uint32_t a, uint32_t b)
{
    return token_is_same_word(&source->code, a, b);
}

static inline bool
source_is_one_of(const struct source *source, uint32_t i, const char *const *table)
{
    return token_is_one_of(&source->code, i, table);
}

static inline bool
source_is_word(const struct source *source, uint32_t i)
{
    return token_is_word(&source->code, i);
}

static inline uint32_t
source_next(const struct source *source, uint32_t i)
{
    return token_next(&source->code, i);
}

static inline uint32_t
source_enclosing(const struct source *source, uint32_t i)
{
    return token_enclosing(&source->code, i);
}

static inline uint32_t
source_skip_angles(const struct source *source, uint32_t i, uint32_t end)
{
    return token_skip_angles(&source->code, i, end);
}

static inline uint32_t
source_open_angle(const struct source *source, uint32_t i, uint32_t begin)
{
    return token_open_angle(&source->code, i, begin);
}

static inline uint32_t
source_skip_attribute(const struct source *source, uint32_t i)
{
    return token_skip_attribute(&source->code, i);
}

static inline uint32_t
source_postfix_begin(const struct source *source, uint32_t end)
{
    return token_postfix_begin(&source->code, end);
}

static inline bool
source_is_lambda(const struct source *source, uint32_t i)
{
    return token_is_lambda(&source->code, i);
}

static inline uint32_t
source_lambda_body(const struct source *source, uint32_t i)
{
    return token_lambda_body(&source->code, i);
}

static inline uint32_t
source_declared_name(const struct source *source, uint32_t from, uint32_t to, uint32_t *insert_p)
{
    return token_declared_name(&source->code, from, to, insert_p);
}

static inline uint32_t
source_piece_end(const struct source *source, uint32_t from, uint32_t to)
{
    return token_piece_end(&source->code, from, to);
}

/* The spelling of tokens from..to (exclusive), with a blank between them; the caller frees it. */
char *source_spell(const struct source *source, uint32_t from, uint32_t to);

/* ---- the passes ---- */

void declare_all(struct source *source);
void indices_rewrite(struct source *source);
void removed_rewrite(struct source *source);
void blocking_find(struct source *source);
void body_rewrite(struct source *source, const struct function *function);
void casts_rewrite_all(struct source *source);
void body_rewrite_outside(struct source *source); /* after all functions: what stands outside of them */
void launch_rewrite_all(struct source *source);
void lockstep_rewrite(struct source *source, const struct function *function);
bool races_are_wanted(void); /* by the environment */
void races_rewrite(struct source *source);

/* True if the kernel is a grid-stride loop, which is ready for MODE_STRIDES of run_kernel.h then. */
bool stride_rewrite(struct source *source, const struct function *function);
void kernel_rewrite(struct source *source, const struct function *function);

/* CUDA's keywords, the last words of declarations that g++ must not see; and those followed by parentheses. */
extern const char *const keyword_table[];
extern const char *const keyword_call_table[];

#endif
