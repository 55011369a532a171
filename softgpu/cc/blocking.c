/*
 * blocking.c - which kernels may run as plain loops over their threads, because none can wait for another?
 *
 * A function may wait if its body mentions a barrier or a warp collective, or another function of this file that may
 * wait, or calls something of which nothing is known: a function defined in another file. Functions declared in system
 * headers are known: apart from the collectives themselves, which are listed here or end in "_sync", none of them
 * waits. "Mentions" is by name, wherever it stands, so that functions passed as arguments count too.
 *
 * A call of a value - a functor, a lambda, a function pointer - may reach every device lambda of the file, and every
 * device function that is named somewhere without being called, but the call of a lambda that the same function has
 * made reaches that one only. A lambda is the host's if it is in a host function and not marked __device__; operators
 * and constructors are reached without a name, by every kernel. With -rdc=true a pointer may come from another file,
 * and such a call may wait.
 *
 * Erring towards "may wait" costs a little speed; erring the other way ends in a message of libsoftgpu (block_refuse)
 * when the kernel runs, never in a wrong answer.
 *
 * The same walk finds whether functions that a kernel calls ask for threadIdx and its relatives, which must be set
 * then: those that indices.c has rewritten, in the kernel's own body.
 */
#include "names.h"
#include "source.h"

#include <stdlib.h>
#include <string.h>

enum word_bits {
    WORD_SYSTEM_CALL = 1u << 0, /* followed by '(' somewhere in a system header */
    WORD_DECLARED = 1u << 1,    /* declared in user code as a variable or parameter: may be a pointer or a functor */
    WORD_TYPE = 1u << 2,        /* declared in user code as a type */
    WORD_WAITS = 1u << 3,       /* in waiting_table */
    WORD_INDEX = 1u << 4,       /* in index_table */
    WORD_HARMLESS = 1u << 5,    /* in harmless_table */
};

static const char *const waiting_table[] = {
    "__syncthreads",
    "__syncthreads_and",
    "__syncthreads_or",
    "__syncthreads_count",
    "__syncwarp",
    "__activemask",
    "__nanosleep",
    "softgpu_active_mask",
    "cooperative_groups",
    "this_thread_block",
    "this_grid",
    "grid_group",
    "this_cluster",
    "cluster_group",
    "tiled_partition",
    "coalesced_threads",
    "labeled_partition",
    "binary_partition",
    /* Of <cuda/barrier>, <cuda/pipeline> and their C relatives; a type may have a name of the user's. */
    "arrive",
    "arrive_and_drop",
    "arrive_and_wait",
    "consumer_wait",
    "make_pipeline",
    "memcpy_async",
    "producer_acquire",
    "wait",
    "wait_parity",
    "volatile", /* warps may be taken to run alike: lockstep.c */
    /* They do not wait; on fibers, it is known which thread it was. */
    "__trap",
    "__assert_fail",
    "thread_block",
    "thread_group",
    "thread_block_tile",
    /* CUB; the names of methods too, for a type may have a name of the user's. */
    "cub",
    "TempStorage",
    "BlockReduce",
    "BlockScan",
    "WarpReduce",
    "WarpScan",
    "BlockLoad",
    "BlockStore",
    "Reduce",
    "Sum",
    "InclusiveSum",
    "ExclusiveSum",
    "InclusiveScan",
    "ExclusiveScan",
    NULL,
};

static const char *const index_table[] = {"threadIdx", "blockIdx", "blockDim", "gridDim", NULL};

/* Words that stand before a '(' without being called, or whose call means nothing here. */
static const char *const harmless_table[] = {
    "if",
    "for",
    "while",
    "switch",
    "return",
    "sizeof",
    "alignof",
    "alignas",
    "decltype",
    "static_assert",
    "noexcept",
    "operator",
    "throw",
    "typeid",
    "catch",
    "case",
    "else",
    "do",
    "new",
    "delete",
    "and",
    "or",
    "not",
    "xor",
    "__attribute__",
    "__alignof__",
    "__extension__",
    "__typeof__",
    "asm",
    "__asm__",
    "defined",
    "static_cast",
    "reinterpret_cast",
    "const_cast",
    "dynamic_cast",
    "int",
    "unsigned",
    "float",
    "double",
    "char",
    "short",
    "long",
    "bool",
    "void",
    "auto",
    "const",
    "signed",
    "__int128",
    "constexpr",
    "volatile",
    "template",
    "typename",
    "in",
    NULL,
};

struct walk {
    struct source *source;
    struct names words;
    uint32_t *next_of_name; /* for each function: 1 + the next one of the same name */
    bool *visited;
    uint32_t *stack;
};

static const char *
spelling(const struct source *source, uint32_t i)
{
    return source->code.text + source->code.tokens[i].begin;
}

static struct name *
word_add(struct walk *walk, uint32_t i)
{
    return names_add(&walk->words, spelling(walk->source, i), walk->source->code.tokens[i].length);
}

static uint32_t
word_bits(const struct walk *walk, uint32_t i)
{
    return names_bits(&walk->words, spelling(walk->source, i), walk->source->code.tokens[i].length);
}

static void
add_table(struct walk *walk, const char *const *table, uint32_t bits)
{
    for (; *table != NULL; ++table)
        names_add(&walk->words, *table, (uint32_t)strlen(*table))->bits |= bits;
}

/* Whether the word at i, in user code, is being declared: `T i`, `T *i`, `class i`, `Args... i`. */
static uint32_t
declared_bits(const struct walk *walk, uint32_t i)
{
    static const char *const type_makers[] = {"class", "struct", "union", "enum", "typename", "using", NULL};
    static const char *const type_ends[] = {"*", "&", "&&", ">", "...", NULL};
    static const char *const behind[] = {",", ")", ";", "=", "{", "[", NULL};
    static const char *const not_types[] = {"return", "else", "case", "goto", "throw", "new", "delete", "sizeof", NULL};
    const struct source *source = walk->source;
    if (i == 0)
        return 0;
    if (source_is_one_of(source, i - 1, type_makers))
        return WORD_TYPE;
    const bool after_word = source_is_word(source, i - 1) && !source_is_one_of(source, i - 1, not_types);
    const bool after_type = after_word || source_is_one_of(source, i - 1, type_ends);
    return after_type && source_is_one_of(source, i + 1, behind) ? WORD_DECLARED : 0;
}

/* The word before the ';' of a typedef. */
static void
add_typedef(struct walk *walk, uint32_t i)
{
    const struct source *source = walk->source;
    uint32_t end = i;
    while (end < source->code.count && !source_is(source, end, ";"))
        end = source_next(source, end);
    if (end > i && source_is_word(source, end - 1))
        word_add(walk, end - 1)->bits |= WORD_TYPE;
}

static void
collect_words(struct walk *walk)
{
    const struct source *source = walk->source;
    add_table(walk, waiting_table, WORD_WAITS);
    add_table(walk, index_table, WORD_INDEX);
    add_table(walk, harmless_table, WORD_HARMLESS);
    for (uint32_t i = 0; i < source->code.count; ++i) {
        if (!source_is_word(source, i))
            continue;
        if (source_is(source, i, "typedef"))
            add_typedef(walk, i);
        if (source->code.tokens[i].is_system) {
            if (source_is(source, i + 1, "("))
                word_add(walk, i)->bits |= WORD_SYSTEM_CALL;
            continue;
        }
        const uint32_t bits = declared_bits(walk, i);
        if (bits != 0)
            word_add(walk, i)->bits |= bits;
    }
    for (uint32_t f = 0; f < source->function_count; ++f) {
        struct name *name = word_add(walk, source->functions[f].name);
        walk->next_of_name[f] = name->first;
        name->first = f + 1;
    }
}

/* `f(...)` or `f<...>(...)` */
static bool
is_call(const struct source *source, uint32_t i, uint32_t end)
{
    if (source_is(source, i + 1, "("))
        return true;
    if (!source_is(source, i + 1, "<") || source_is(source, i + 2, "<"))
        return false;
    const uint32_t behind = source_skip_angles(source, i + 1, end);
    return behind < end && source_is(source, behind, "(");
}

/* A call of a value: (*pointer)(...), table[i](...), Functor()(...), Functor{}(...). The '(' of its arguments is at i.
 */
static bool
is_value_call(const struct source *source, uint32_t i)
{
    static const char *const not_types[] = {"else", "do", "try", NULL};
    const uint32_t close = i - 1, open = source->code.tokens[close].match;
    if (!source_is(source, i, "(") || open == 0 || open >= close)
        return false;
    if (source_is(source, close, "]")) /* not of a lambda: [](...) */
        return source_is_word(source, open - 1) || source_is(source, open - 1, "]") || source_is(source, open - 1, ")");
    if (source_is(source, close, ")"))
        return (source_is(source, open + 1, "*") && open + 2 < close) ||
               (open + 1 == close && (source_is_word(source, open - 1) || source_is(source, open - 1, ">")) &&
                !source_is(source, open - 1, "operator"));
    return source_is(source, close, "}") && open + 1 == close &&
           (source_is(source, open - 1, ">") ||
            (source_is_word(source, open - 1) && !source_is_one_of(source, open - 1, not_types)));
}

/* `T name(...)` declares a variable: a word before a word. */
static bool
is_declaration(const struct source *source, uint32_t i)
{
    static const char *const before_calls[] = {"return", "else", "case",      "throw",    "do", "and",
                                               "or",     "not",  "co_return", "co_yield", NULL};
    return source_is_word(source, i - 1) && !source_is_one_of(source, i - 1, before_calls);
}

/* A call of which nothing is known but, if `calls_value`, that it is of a variable. */
static bool
is_unknown_call(const struct walk *walk, uint32_t i, uint32_t end, bool *is_value)
{
    const struct source *source = walk->source;
    if (!is_call(source, i, end) || is_declaration(source, i))
        return false;
    const uint32_t bits = word_bits(walk, i);
    if ((bits & (WORD_HARMLESS | WORD_TYPE)) != 0)
        return false;
    if (source_is(source, i - 1, "::") && source_is(source, i - 2, "std"))
        return false;
    if (source->code.tokens[i].length > 10 && memcmp(spelling(source, i), "__builtin_", 10) == 0)
        return false;
    *is_value = (bits & WORD_DECLARED) != 0;
    return (bits & WORD_SYSTEM_CALL) == 0 || *is_value;
}

/* Tokens that run: parameters from `begin`, the '{' of the body, its '}'. */
struct piece {
    uint32_t begin, body, end;
};

static struct piece
piece_of(const struct source *source, const struct function *function)
{
    return (struct piece){function->params, function->body, source->code.tokens[function->body].match};
}

/* Whether the word at i, in this piece, is the name of one lambda that the piece makes, and of nothing else there. */
static bool
is_own_lambda(const struct walk *walk, uint32_t i, struct piece piece)
{
    const struct source *source = walk->source;
    unsigned lambdas = 0, declarations = 0;
    for (uint32_t k = piece.begin + 1; k < piece.end; ++k) {
        if (!source_is_word(source, k) || source->code.tokens[k].length != source->code.tokens[i].length ||
            memcmp(spelling(source, k), spelling(source, i), source->code.tokens[i].length) != 0)
            continue;
        declarations += declared_bits(walk, k) != 0;
        lambdas += source_is(source, k - 1, "auto") && source_is(source, k + 1, "=") && source_is_lambda(source, k + 2);
    }
    return lambdas == 1 && declarations == 1;
}

/* `while (atomicCAS(lock, 0, 1) != 0)`, at the `while`: another thread may have to write first. */
static bool
spins(const struct source *source, uint32_t i)
{
    if (!source_is(source, i, "while") || !source_is(source, i + 1, "("))
        return false;
    for (uint32_t k = i + 2; k < source->code.tokens[i + 1].match; ++k) {
        if (source_is(source, k + 1, "(") &&
            (strncmp(spelling(source, k), "atomic", 6) == 0 || source_is(source, k, "load")))
            return true;
    }
    return false;
}

/* Functions of a warp, such as __shfl_down_sync. */
static bool
is_warp_function(const struct source *source, uint32_t i)
{
    const uint32_t length = source->code.tokens[i].length;
    return length > 5 && memcmp(spelling(source, i) + length - 5, "_sync", 5) == 0;
}

/* What a piece of code says directly. */
static void
look_at(const struct walk *walk, struct piece piece, bool has_indices, struct findings *findings)
{
    const struct source *source = walk->source;
    for (uint32_t i = piece.begin; i < piece.end; ++i) {
        if (i > piece.body && is_value_call(source, i))
            findings->calls_value = true;
        if (!source_is_word(source, i))
            continue;
        const struct name *name = names_find(&walk->words, spelling(source, i), source->code.tokens[i].length);
        const uint32_t bits = name != NULL ? name->bits : 0;
        const bool is_function_here = name != NULL && name->first != 0;
        if ((bits & WORD_WAITS) != 0 || is_warp_function(source, i) || spins(source, i))
            findings->may_wait = true;
        bool is_value = false;
        if (i > piece.body && (!is_function_here || (bits & WORD_DECLARED) != 0) &&
            is_unknown_call(walk, i, piece.end, &is_value) && !(is_value && is_own_lambda(walk, i, piece)))
            *(is_value ? &findings->calls_value : &findings->may_wait) = true;
        if ((bits & WORD_INDEX) != 0 && (!has_indices || source->edits[i].drop))
            findings->asks_indices = true;
    }
}

static void
findings_add(struct findings *sum, struct findings more)
{
    sum->may_wait |= more.may_wait;
    sum->calls_value |= more.calls_value;
    sum->asks_indices |= more.asks_indices;
    sum->may_ask_too |= more.may_ask_too;
    if (sum->index_function == 0)
        sum->index_function = more.index_function;
}

static void
push_functions(struct walk *walk, struct piece piece, uint32_t *depth_p)
{
    const struct source *source = walk->source;
    for (uint32_t i = piece.begin; i < piece.end; ++i) {
        if (!source_is_word(source, i))
            continue;
        const struct name *name = names_find(&walk->words, spelling(source, i), source->code.tokens[i].length);
        for (uint32_t next = name != NULL ? name->first : 0; next != 0; next = walk->next_of_name[next - 1]) {
            if (!walk->visited[next - 1]) {
                walk->visited[next - 1] = true;
                walk->stack[(*depth_p)++] = next - 1;
            }
        }
    }
}

/* What a piece of code and the functions that it reaches say. A kernel's own body has its indices as parameters. */
static struct findings
follow(struct walk *walk, struct piece root, bool is_kernel)
{
    const struct source *source = walk->source;
    struct findings findings = {0};
    uint32_t depth = 0;
    memset(walk->visited, 0, source->function_count * sizeof(*walk->visited));
    look_at(walk, root, is_kernel, &findings);
    push_functions(walk, root, &depth);
    while (depth > 0) {
        const uint32_t f = walk->stack[--depth];
        const struct piece piece = piece_of(source, &source->functions[f]);
        struct findings here = {0};
        look_at(walk, piece, false, &here);
        if (here.asks_indices)
            here.index_function = f + 1;
        findings_add(&findings, here);
        push_functions(walk, piece, &depth);
    }
    return findings;
}

/* Whether device function f is named somewhere without being called: as an argument, or to take its address. */
static void
mark_values(const struct walk *walk, bool *is_value)
{
    const struct source *source = walk->source;
    for (uint32_t i = 0; i < source->code.count; ++i) {
        if (source->code.tokens[i].is_system || !source_is_word(source, i) || is_call(source, i, source->code.count))
            continue;
        const struct name *name = names_find(&walk->words, spelling(source, i), source->code.tokens[i].length);
        for (uint32_t next = name != NULL ? name->first : 0; next != 0; next = walk->next_of_name[next - 1])
            is_value[next - 1] = true;
    }
}

/* `C(...)` in class C: who makes an object names its type. */
static bool
is_constructor(const struct source *source, const struct function *function)
{
    const uint32_t name = function->name;
    return source_is_word(source, name) && !source_is(source, name, "operator") &&
           !source_is(source, name - 1, "operator") && !source_is(source, name - 1, "~");
}

static bool
is_for_device(const struct source *source, const struct function *function)
{
    bool is_constexpr = false; /* which device code may call with --expt-relaxed-constexpr */
    for (uint32_t i = function->head; i < function->params; ++i)
        is_constexpr = is_constexpr || source_is(source, i, "constexpr");
    return is_constexpr || (function->flags & (FUNCTION_DEVICE | FUNCTION_KERNEL)) != 0;
}

/* Whether device code cannot reach the lambda at i, whose body begins at `body`. */
static bool
is_host_lambda(const struct source *source, uint32_t i, uint32_t body)
{
    bool in_host = false, in_device = false;
    for (uint32_t k = i; k < body; ++k)
        in_device = in_device || source_is(source, k, "__device__");
    for (size_t f = 0; f < source->function_count; ++f) {
        const struct function *function = &source->functions[f];
        if (function->params < i && i < source->code.tokens[function->body].match)
            *(is_for_device(source, function) ? &in_device : &in_host) = true;
    }
    return in_host && !in_device;
}

/* What device code may reach without a name (`unnamed`), and by calling a value. */
static void
find_nameless(struct walk *walk, struct findings *unnamed, struct findings *values)
{
    const struct source *source = walk->source;
    bool *is_value = memory_grow(NULL, source->function_count + 1);
    memset(is_value, 0, source->function_count + 1);
    mark_values(walk, is_value);
    for (uint32_t f = 0; f < source->function_count; ++f) {
        const struct function *function = &source->functions[f];
        if ((function->flags & FUNCTION_DEVICE) == 0)
            continue;
        if ((function->flags & FUNCTION_UNNAMED) != 0) {
            struct findings findings = follow(walk, piece_of(source, function), false);
            findings.may_ask_too = findings.asks_indices && !is_constructor(source, function);
            findings_add(unnamed, findings);
        } else if (is_value[f])
            findings_add(values, follow(walk, piece_of(source, function), false));
    }
    for (uint32_t i = 0; i < source->code.count; ++i) {
        if (source->code.tokens[i].is_system || !source_is_lambda(source, i))
            continue;
        const uint32_t body = source_lambda_body(source, i);
        if (body != i && !is_host_lambda(source, i, body))
            findings_add(values, follow(walk, (struct piece){body, body, source->code.tokens[body].match}, false));
    }
    free(is_value);
}

void
blocking_find(struct source *source)
{
    const size_t count = source->function_count;
    struct walk walk = {.source = source};
    walk.next_of_name = memory_grow(NULL, (count + 1) * sizeof(*walk.next_of_name));
    walk.visited = memory_grow(NULL, (count + 1) * sizeof(*walk.visited));
    walk.stack = memory_grow(NULL, (count + 1) * sizeof(*walk.stack));
    collect_words(&walk);

    struct findings unnamed = {0}, values = {.may_wait = source->is_relocatable};
    find_nameless(&walk, &unnamed, &values);
    for (uint32_t f = 0; f < count; ++f) {
        if ((source->functions[f].flags & FUNCTION_KERNEL) == 0)
            continue;
        struct findings findings = follow(&walk, piece_of(source, &source->functions[f]), true);
        findings.may_ask_too = findings.asks_indices ||
                               ((source->functions[f].flags & FUNCTION_TEMPLATE) != 0 && unnamed.asks_indices) ||
                               (findings.calls_value && values.asks_indices);
        findings_add(&findings, unnamed);
        if (findings.calls_value)
            findings_add(&findings, values);
        source->functions[f].findings = findings;
    }
    names_free(&walk.words);
    free(walk.next_of_name);
    free(walk.visited);
    free(walk.stack);
}
