/*
 * types.c - see rules.h.
 *
 * Evidence, the best first: a kernel's name or a call of a library says it of its argument; the parameter or gradient
 * of as many bytes has the type; so has what other launches of the same kernel get as the same argument; the bits look
 * like it, which is a guess.
 */
#include "tools/scout/command/analysis/rules.h"

#include "tools/common/grown.h"

/* Versions that are the same elements one after the other share what is known: they have a number, `same`. Of types
 * there are sets, with bit 1 << enum scout_type. */
struct use { /* by an operation, of a version */
    uint32_t version, op, said;
    uint32_t name, slot, at; /* of the argument; name SCOUT_NONE: nothing can be learned from other launches */
};

struct types {
    const struct graph *graph;
    struct scout_finding *finding;
    uint32_t *same; /* [version_count] */
    uint32_t *sets; /* [version_count], by `same` */
    bool *guessed;
    uint32_t *version_of; /* tensor */
    struct use *uses;
    uint32_t use_count;
};

static bool
is_one(uint32_t set)
{
    return set != 0 && (set & (set - 1)) == 0;
}

/* The version that stands for all versions of one type with this one (union-find, with shorter ways). */
static uint32_t
same_of(struct types *types, uint32_t version)
{
    while (types->same[version] != version)
        version = types->same[version] = types->same[types->same[version]];
    return version;
}

/* Whether an edge leads from elements to what they become in their place, or in a copy of all of them. */
static bool
keeps_type(const struct graph *graph, const struct graph_edge *edge)
{
    const struct graph_version *from = edge->from, *to = edge->to;
    const struct scout_op *op = graph_op(graph, to);
    if (from->memory == HOST_MEMORY || to->memory == HOST_MEMORY)
        return false;
    return version_overlaps(from, to) ||
           (op != NULL && op->kind == SCOUT_COPY && edge->elementwise && from->hi - from->lo == to->hi - to->lo);
}

/* Whether other launches of the same kernel get the same type as this argument, though nothing says which: a kernel of
 * C, or one to which the argument is whole numbers. `void *` may be anything. */
static bool
learns(const struct scout_log *log, const struct scout_op *op, const struct scout_argument *argument)
{
    struct mangled_parameter said[64];
    const char *name = scout_log_name(log, op->name);
    if (op->kind != SCOUT_LAUNCH || op->block[0] == 0 || argument->slot == UINT16_MAX)
        return false;
    if (strncmp(name, "_Z", 2) != 0)
        return true;
    int count = mangled_parameters(name, said, 64);
    return (int)argument->slot < count && said[argument->slot].is_words;
}

/* By which of its arguments an operation reaches a version: the last one that points in front of it, or to it. */
static void
add_uses(struct types *types, const struct graph_version *version, int32_t at)
{
    const struct graph *graph = types->graph;
    uint32_t number = graph->first + (uint32_t)at;
    const struct scout_op *op = &graph->log->ops[number];
    const struct scout_argument *best = NULL;
    FOR_EACH(argument, op->arguments, op->argument_count) {
        if ((int32_t)graph->memory_of[argument->alloc] == version->memory && argument->offset <= version->lo &&
            (best == NULL || argument->offset >= best->offset))
            best = argument;
    }
    FOR_EACH_UNTIL(argument, op->arguments, op->argument_count, best == NULL) {
        if (argument->alloc != best->alloc || argument->offset != best->offset)
            continue;
        *GROWN(types->uses, types->use_count) =
            (struct use){.version = version->number,
                         .op = number,
                         .said = argument->type,
                         .name = learns(graph->log, op, argument) ? op->name : SCOUT_NONE,
                         .slot = argument->slot,
                         .at = argument->byte};
    }
}

COMPARES(compare_uses, struct use, COMPARE(a, b, name, COMPARE(a, b, slot, COMPARE(a, b, at, 0))))

/* Fills, from the graph, which versions have one type, what is said of each, and the version of each tensor. */
static void
read_graph(struct types *types)
{
    const struct graph *graph = types->graph;
    for (uint32_t i = 0; i < graph->version_count; ++i)
        types->same[i] = i;
    FOR_EACH(edge, graph->edges, graph->edge_count)
        if (keeps_type(graph, edge))
            types->same[same_of(types, edge->to->number)] = same_of(types, edge->from->number);
    FOR_EACH_VERSION(version, graph) {
        if (version->memory == HOST_MEMORY)
            continue;
        if (version->op >= 0)
            add_uses(types, version, version->op);
        FOR_EACH(out, version->out, version->out_count)
            add_uses(types, version, (*out)->to->op);
    }
    SORT(types->uses, types->use_count, compare_uses);
    FOR_EACH(use, types->uses, types->use_count)
        if (use->said != SCOUT_UNKNOWN && use->said < SCOUT_INTEGER)
            types->sets[same_of(types, use->version)] |= 1U << use->said;
    FOR_EACH(tensor, types->finding->tensors, types->finding->tensor_count) {
        const struct graph_version *of =
            FIND(it, graph->versions, graph->version_count,
                 it->op >= 0 && it->memory != HOST_MEMORY && graph->first + (uint32_t)it->op == tensor->writer &&
                     graph->memories[it->memory].alloc == tensor->alloc && it->lo < tensor->hi && it->hi > tensor->lo);
        types->version_of[NUMBER_OF(tensor)] = of != NULL ? of->number : UINT32_MAX;
    }
}

/* The set of types, as bits, that are said of a tensor; empty for one without a version. */
static uint32_t *
set_of(struct types *types, uint32_t tensor)
{
    static uint32_t none;
    none = 0;
    return types->version_of[tensor] == UINT32_MAX ? &none : &types->sets[same_of(types, types->version_of[tensor])];
}

/* Bytes that differ are found by words: of a number of two words one alone may have changed. */
static uint64_t
bytes_of(const struct scout_tensor *tensor)
{
    return (tensor->hi + sizeof(double) - 1) / sizeof(double) - tensor->lo / sizeof(double);
}

/* One type that is known of some, to all of which nothing is. Returns whether there was one. */
static bool
spread_pairs(struct types *types, bool guesses)
{
    bool some = false;
    FOR_EACH(tensor, types->finding->tensors, types->finding->tensor_count) {
        uint32_t t = NUMBER_OF(tensor);
        if (tensor->pair == PAIR_NONE || bytes_of(tensor) != bytes_of(&types->finding->tensors[tensor->pair]))
            continue;
        uint32_t known = *set_of(types, tensor->pair);
        uint32_t *open = set_of(types, t);
        if (*open != 0 || !is_one(known) || types->version_of[t] == UINT32_MAX)
            continue;
        *open = known;
        types->guessed[same_of(types, types->version_of[t])] = guesses;
        some = true;
    }
    return some;
}

/* Gives all versions that a kernel gets by one parameter the type that is known of one of them. Whether any was new. */
static bool
spread_arguments(struct types *types, bool guesses)
{
    bool some = false;
    for (uint32_t first = 0, end; first < types->use_count; first = end) {
        uint32_t set = 0;
        for (end = first; end < types->use_count && compare_uses(&types->uses[first], &types->uses[end]) == 0; ++end)
            set |= types->sets[same_of(types, types->uses[end].version)];
        for (uint32_t i = first; i < end && is_one(set) && types->uses[first].name != SCOUT_NONE; ++i) {
            uint32_t same = same_of(types, types->uses[i].version);
            if (types->sets[same] != 0 || types->graph->versions[types->uses[i].version].type == SCOUT_INTEGER)
                continue; /* or whole numbers in a struct */
            types->sets[same] = set;
            types->guessed[same] = guesses;
            some = true;
        }
    }
    return some;
}

/* Guesses that pointers in one struct lead to the same floats, if those do of which something is known. Whether any
 * type was new. */
static bool
spread_structs(struct types *types)
{
    bool some = false;
    FOR_EACH(use, types->uses, types->use_count) {
        uint32_t set = 0, same = same_of(types, use->version);
        if (types->sets[same] != 0 || types->graph->versions[use->version].type == SCOUT_INTEGER)
            continue;
        FOR_EACH(other, types->uses, types->use_count)
            if (other->op == use->op && other->slot == use->slot && other->at != use->at)
                set |= types->sets[same_of(types, other->version)];
        if (!is_one(set))
            continue;
        types->sets[same] = set;
        types->guessed[same] = some = true;
    }
    return some;
}

/* Of tensors of which nothing is known yet: what their versions look like, if that is one type. */
static void
guess(struct types *types)
{
    const struct graph *graph = types->graph;
    for (uint32_t t = 0; t < types->finding->tensor_count; ++t) {
        uint32_t set = 0, *open = set_of(types, t);
        if (*open != 0 || types->version_of[t] == UINT32_MAX)
            continue;
        uint32_t same = same_of(types, types->version_of[t]);
        FOR_EACH_VERSION(version, graph)
            if (version->type != SCOUT_UNKNOWN && version->type < SCOUT_INTEGER &&
                same_of(types, version->number) == same)
                set |= 1U << version->type;
        if (is_one(set)) {
            *open = set;
            types->guessed[same] = true;
        }
    }
}

/* Gives each tensor its type. Refuses where two types are said, or none of a parameter or gradient. */
static enum roles_verdict
put_types(struct types *types)
{
    FOR_EACH_MUTABLE(tensor, types->finding->tensors, types->finding->tensor_count) {
        bool is_idle = tensor->pair != PAIR_NONE && types->version_of[NUMBER_OF(tensor)] == UINT32_MAX; /* unchanged */
        uint32_t t = is_idle ? tensor->pair : NUMBER_OF(tensor), set = *set_of(types, t);
        char place[64];
        if (set != 0 && !is_one(set))
            return note_refuse(
                types->finding, ROLES_REFUSED,
                "%s holds %s for one operation and %s for another, so its type is not known: annotate by hand",
                scout_tensor_place(tensor, place), scout_type_name((uint32_t)__builtin_ctz(set)),
                scout_type_name((uint32_t)__builtin_ctz(set & (set - 1))));
        if (set == 0 && (tensor->role == ROLE_PARAMETER || tensor->role == ROLE_GRADIENT))
            return note_refuse(types->finding, ROLES_REFUSED,
                               "the type of %s %s is not known: no kernel name and no library call shows it, and too "
                               "few of its numbers are not zero; annotate by hand",
                               scout_role_name(tensor->role), scout_tensor_place(tensor, place));
        if (tensor->type != SCOUT_INTEGER || set != 0)
            tensor->type = set != 0 ? (uint32_t)__builtin_ctz(set) : SCOUT_UNKNOWN;
        tensor->guessed = set != 0 && types->guessed[same_of(types, types->version_of[t])];
    }
    return ROLES_FOUND;
}

/* A tensor has whole elements: no cut lies inside of one. What reaches beyond its memory then has another type. */
static enum roles_verdict
take_whole_elements(const struct types *types)
{
    char place[64];
    FOR_EACH_MUTABLE(tensor, types->finding->tensors, types->finding->tensor_count) {
        uint64_t each = tensor->type < SCOUT_INTEGER ? scout_type_bytes(tensor->type) : 0;
        if (each == 0)
            continue;
        if ((tensor->hi + each - 1) / each * each > types->graph->log->allocs[tensor->alloc].bytes)
            return note_refuse(types->finding, ROLES_REFUSED, "%s %s is no whole number of %s: annotate by hand",
                               scout_role_name(tensor->role), scout_tensor_place(tensor, place),
                               scout_type_name(tensor->type));
        tensor->lo = tensor->lo / each * each;
        tensor->hi = (tensor->hi + each - 1) / each * each;
    }
    return ROLES_FOUND;
}

/* A gradient has an element for each of its parameter. */
static enum roles_verdict
judge_lengths(const struct types *types)
{
    char one[64], two[64];
    FOR_EACH(gradient, types->finding->tensors, types->finding->tensor_count) {
        if (gradient->role != ROLE_GRADIENT || gradient->pair == PAIR_NONE)
            continue;
        const struct scout_tensor *parameter = &types->finding->tensors[gradient->pair];
        if (scout_type_bytes(parameter->type) == 0) /* of what is no parameter after all */
            continue;
        uint64_t has = (parameter->hi - parameter->lo) / scout_type_bytes(parameter->type);
        uint64_t needs = (gradient->hi - gradient->lo) / scout_type_bytes(gradient->type);
        if (has != needs)
            return note_refuse(types->finding, ROLES_REFUSED,
                               "parameter %s has %" PRIu64 " elements, and its gradient %s %" PRIu64
                               ": scout cannot tell where they end; annotate by hand",
                               scout_tensor_place(parameter, one), has, scout_tensor_place(gradient, two), needs);
    }
    return ROLES_FOUND;
}

static void
spread(struct types *types, bool guesses)
{
    while (spread_pairs(types, guesses) || spread_arguments(types, guesses) || (guesses && spread_structs(types)))
        ;
}

enum roles_verdict
types_find(const struct graph *graph, struct scout_finding *finding)
{
    uint32_t count = graph->version_count + 1;
    struct types types = {.graph = graph,
                          .finding = finding,
                          .same = xcalloc(count, sizeof(*types.same)),
                          .sets = xcalloc(count, sizeof(*types.sets)),
                          .guessed = xcalloc(count, sizeof(*types.guessed)),
                          .version_of = xcalloc(finding->tensor_count + 1, sizeof(*types.version_of))};
    read_graph(&types);
    spread(&types, false);
    guess(&types);
    spread(&types, true);
    enum roles_verdict verdict = put_types(&types);
    if (verdict == ROLES_FOUND)
        verdict = take_whole_elements(&types);
    if (verdict == ROLES_FOUND)
        verdict = judge_lengths(&types);
    free(types.same);
    free(types.sets);
    free(types.guessed);
    free(types.version_of);
    free(types.uses);
    return verdict;
}
