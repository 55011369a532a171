/*
 * reduce_calls.c - which calls of DDP_REDUCE this rank has made, and whether all ranks have made the same.
 *
 * Called by step/reduce.c and by the end of the program (verify/checks.c). Ranks compare each combination of place,
 * count, type and operation before its first call, so every rank knows the text after every key that another rank may
 * send. The sequence is a hash over keys in their order; the last keys come with it, so that a difference is named by
 * its call, unless it is older than those.
 */
#include "interpose/engine/core/core.h"

#include "comm/hash.h"

#include <search.h>

static struct {
    uint64_t count, hash;
    uint64_t keys[REDUCE_CALLS_KEPT]; /* of call number n at (n - 1) % REDUCE_CALLS_KEPT */
    void *kinds;                      /* by their keys, of tsearch(3) */
} calls GUARDED_BY(engine_mutex);

static const char *const operation_names[] = {
    [DDP_OP_SUM] = "sum", [DDP_OP_MEAN] = "mean", [DDP_OP_MIN] = "minimum", [DDP_OP_MAX] = "maximum"};

const char *
reduce_operation_name(int op)
{
    return op >= DDP_OP_SUM && op <= DDP_OP_MAX ? operation_names[op] : NULL;
}

/* ---- kinds ---- */

/* The same on all ranks: nothing in it is an address. */
static uint64_t
key_of(const struct reduce_call *call)
{
    struct {
        char file[40];
        uint64_t count;
        int32_t line, type, op, on_host;
    } named;
    memset(&named, 0, sizeof(named));
    memcpy(named.file, file_name_of(call->site->file), strnlen(file_name_of(call->site->file), sizeof(named.file)));
    named.count = call->count;
    named.line = call->site->line;
    named.type = call->type;
    named.op = call->op;
    named.on_host = call->on_host;
    return hash_bytes(&named, sizeof(named));
}

static struct reduce_kind *
new_kind(const struct reduce_call *call, uint64_t key)
{
    struct reduce_kind *kind = engine_calloc(1, sizeof(*kind));
    kind->key = key;
    snprintf(kind->text, sizeof(kind->text), "DDP_REDUCE (%.40s:%d), %zu %s%s, %s", file_name_of(call->site->file),
             call->site->line, call->count, type_name(call->type), call->on_host ? " of the host" : "",
             reduce_operation_name(call->op));
    return kind;
}

static int
compare_kinds(const void *a, const void *b)
{
    uint64_t one = ((const struct reduce_kind *)a)->key, other = ((const struct reduce_kind *)b)->key;
    return (one > other) - (one < other);
}

/* With lock held: the kind with this key, or NULL. */
static const struct reduce_kind *
find_kind(uint64_t key) WITH_LOCK
{
    const struct reduce_kind wanted = {.key = key};
    struct reduce_kind *const *place = tfind(&wanted, &calls.kinds, compare_kinds);
    return place != NULL ? *place : NULL;
}

/* ---- the sequence ---- */

bool
reduce_calls_add(const struct reduce_call *call, uint64_t *number_p, const struct reduce_kind **kind_p)
{
    uint64_t key = key_of(call);
    const struct reduce_kind *kind = ISSUER_LOCKED(find_kind(key));
    struct reduce_kind *added = kind == NULL ? new_kind(call, key) : NULL;
    bool good = true;
    issuer_lock();
    if (added != NULL) { /* the issuer alone adds one */
        good = tsearch(added, &calls.kinds, compare_kinds) != NULL;
        kind = added;
    }
    calls.keys[calls.count % REDUCE_CALLS_KEPT] = key;
    calls.hash = hash_chain(calls.hash, key);
    *number_p = ++calls.count;
    issuer_unlock();
    require_allocated(good);
    *kind_p = kind;
    return added != NULL;
}

void
reduce_calls_say(uint64_t words[REDUCE_WORDS])
{
    engine_lock();
    words[0] = calls.count;
    words[1] = calls.hash;
    memcpy(words + 2, calls.keys, sizeof(calls.keys));
    engine_unlock();
}

/* ---- comparing ---- */

static uint64_t
key_in(const uint64_t *words, uint64_t number)
{
    return words[2 + (number - 1) % REDUCE_CALLS_KEPT];
}

static void
text_of(uint64_t key, char text[sizeof(((struct reduce_kind *)0)->text)])
{
    engine_lock();
    const struct reduce_kind *kind = find_kind(key);
    snprintf(text, sizeof(kind->text), "%s", kind != NULL ? kind->text : "a call that this rank does not make");
    engine_unlock();
}

/* The two have made different calls: which is the first. */
static _Noreturn void
stop_with_difference(const uint64_t *zero, const uint64_t *other, int rank)
{
    char mine[sizeof(((struct reduce_kind *)0)->text)], theirs[sizeof(mine)];
    uint64_t common = zero[0] < other[0] ? zero[0] : other[0], most = zero[0] < other[0] ? other[0] : zero[0];
    uint64_t number = most > REDUCE_CALLS_KEPT ? most - REDUCE_CALLS_KEPT + 1 : 1;
    bool whole = number == 1;
    while (number <= common && key_in(zero, number) == key_in(other, number))
        ++number;
    if (number <= common) {
        text_of(key_in(zero, number), mine);
        text_of(key_in(other, number), theirs);
        stop_job("ranks 0 and %d differ in call number %llu of DDP_REDUCE%s: %s on rank 0, %s on rank %d; all ranks "
                 "must make the same calls in the same order",
                 rank, (unsigned long long)number, whole ? "" : ", or in an earlier one", mine, theirs, rank);
    }
    if (zero[0] != other[0]) {
        text_of(key_in(zero[0] > other[0] ? zero : other, most), mine);
        stop_job("rank 0 has made %llu calls of DDP_REDUCE and rank %d %llu at the same place; the last that only one "
                 "has made is %s; all ranks must make the same calls in the same order",
                 (unsigned long long)zero[0], rank, (unsigned long long)other[0], mine);
    }
    stop_job("ranks 0 and %d differ in their calls of DDP_REDUCE, more than %d calls before number %llu; all ranks "
             "must make the same calls in the same order",
             rank, REDUCE_CALLS_KEPT, (unsigned long long)zero[0]);
}

void
reduce_calls_compare(const struct control_messages *all, size_t offset)
{
    const uint64_t *zero = (const void *)((const char *)all->messages[0] + offset);
    for (int r = 1; r < all->count; ++r) {
        const uint64_t *other = (const void *)((const char *)all->messages[r] + offset);
        if (other[0] != zero[0] || other[1] != zero[1])
            stop_with_difference(zero, other, r);
    }
}
