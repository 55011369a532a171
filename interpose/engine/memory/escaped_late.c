/*
 * escaped_late.c - gradients whose address was copied to the device after they were launched in the same step.
 *
 * From the next step on such a gradient is deferred (escaped_pointers.c). In this one a kernel may go through the
 * pointer and write what is never averaged: so what is launched is hashed once it is reduced and again at the boundary,
 * and a difference ends the job. A number that only looks like an address changes nothing, and ends nothing.
 */
#include "interpose/engine/core/hashing.h"
#include "interpose/engine/memory/escapes.h"

#include "base/clock.h"

/* The part of a gradient that was launched in one bucket; hashed in the communication stream's order. */
struct escaped {
    struct escaped *next;
    struct tensor gradient;
    uint64_t step; /* number of the boundary that it belongs to, from 1 */
    size_t first_byte, bytes;
    uint64_t hash;
    _Atomic bool hashed;
};

static struct escaped *escaped; /* all of this and the hasher: the issuer's */
static struct hasher *hasher;

static void
store_hash(void *arg, const struct hashed *hashed)
{
    struct escaped *part = arg;
    part->hash = hashed->hash;
    atomic_store(&part->hashed, true);
}

static void
hash(struct escaped *part, void (*done)(void *arg, const struct hashed *hashed))
{
    hasher_add(hasher, part->gradient.address + part->first_byte, part->bytes, 0, done, part);
}

enum { PATIENCE_US = 5000000 };

/* The address is copied only then: what a kernel writes through it is not what was hashed. Waits at most PATIENCE_US:
 * another rank may wait for this one first. */
static void
wait_until_hashed(const struct escaped *last)
{
    int64_t begin_us = clock_now_us();
    while (last != NULL && !atomic_load(&last->hashed) && clock_now_us() - begin_us < PATIENCE_US)
        nanosleep(&(struct timespec){.tv_nsec = 50000}, NULL);
}

/* Lists a part for each piece of the gradient in the bucket. False: out of memory. */
static bool
add_parts(const struct tensor *gradient, const struct plan *plan, size_t bucket)
{
    size_t first = plan->buckets[bucket].first, end = first + plan->buckets[bucket].count;
    for (size_t i = first; i < end; ++i) {
        const struct plan_piece *piece = &plan->pieces[i];
        if (piece->gradient != gradient->member)
            continue;
        struct escaped *part = malloc(sizeof(*part));
        if (part == NULL)
            return false;
        *part = (struct escaped){.next = escaped,
                                 .gradient = *gradient,
                                 .step = engine_state.boundary_count + 1,
                                 .first_byte = piece->first_byte,
                                 .bytes = piece->bytes};
        escaped = part;
    }
    return true;
}

/* The issuer: lists the parts of the gradient that were launched in this step. */
static void
add_parts_that_left(const struct tensor *gradient) BY_ISSUER
{
    const struct group *group = &memory_state.groups[gradient->group];
    bool whole = true;
    issuer_lock();
    size_t end = tensor_has_left(gradient) ? group->readiness.next_bucket : 0; /* 0: a boundary came between */
    for (size_t k = 0; k < end; ++k)
        whole = add_parts(gradient, group->plan, k) && whole;
    issuer_unlock();
    require_allocated(whole);
}

void
escaped_late_add(const struct tensor *gradient)
{
    ENTER_CONTEXT();
    RELAX_CAPTURES();
    role_take(); /* a thread that is sending a bucket has then sent it */
    struct escaped *before = escaped, *last = NULL;
    add_parts_that_left(gradient);
    if (hasher == NULL)
        hasher = hasher_get();
    for (struct escaped *part = escaped; part != before; part = part->next) {
        hash(part, store_hash);
        last = part;
    }
    if (last != NULL)
        hasher_collect(hasher, first_stream());
    wait_until_hashed(last);
    role_give();
}

static void
compare(void *arg, const struct hashed *hashed)
{
    struct escaped *part = arg;
    if (hashed->hash != part->hash)
        stop_job_soon(
            part->step,
            "%s was changed in step %llu after it had been averaged, by a kernel that read its address from memory; "
            "that address was copied there in this step: copy it before backward, or run with --no-overlap",
            tensor_text(&part->gradient), (unsigned long long)part->step);
    free(part);
    judgement_ends(JUDGED_IN_STEP);
}

void
escaped_late_compare(const struct group *group)
{
    bool any = false;
    for (struct escaped **link = &escaped; *link != NULL;) {
        struct escaped *part = *link;
        if (part->gradient.group != group->id) {
            link = &part->next;
            continue;
        }
        *link = part->next;
        struct tensor tensor = tensor_copy_gradient(group, part->gradient.member);
        tensor_refuse_freed(&tensor);
        judgement_begins(JUDGED_IN_STEP);
        hash(part, compare);
        any = true;
    }
    if (any)
        hasher_collect(hasher, first_stream());
}
