/*
 * plan.c - see plan.h.
 */
#include "bucketing/plan.h"

#include <endian.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

static bool
is_permutation(const size_t *order, size_t count)
{
    unsigned char *seen = calloc(count + 1, 1);
    if (seen == NULL)
        return false;

    bool holds = true;
    for (size_t i = 0; i < count && holds; ++i) {
        holds = order[i] < count && !seen[order[i]];
        if (holds)
            seen[order[i]] = 1;
    }
    free(seen);
    return holds;
}

/* Whether `gradient` may join the bucket. */
static bool
fits(const struct plan_bucket *bucket, const struct plan_gradient *gradient, uint64_t cap_bytes)
{
    return bucket->type == gradient->type && bucket->bytes + gradient->bytes <= cap_bytes;
}

static void
fill_buckets(struct plan *plan, const struct plan_gradient *gradients, uint64_t cap_bytes)
{
    for (size_t i = 0; i < plan->gradient_count; ++i) {
        const struct plan_gradient *gradient = &gradients[plan->order[i]];
        if (plan->bucket_count == 0 || !fits(&plan->buckets[plan->bucket_count - 1], gradient, cap_bytes))
            plan->buckets[plan->bucket_count++] = (struct plan_bucket){.first = i, .type = gradient->type};

        struct plan_bucket *bucket = &plan->buckets[plan->bucket_count - 1];
        ++bucket->count;
        bucket->bytes += gradient->bytes;
        plan->bucket_of[plan->order[i]] = plan->bucket_count - 1;
    }
}

struct plan *
plan_build(uint32_t version, const struct plan_gradient *gradients, const size_t *order, size_t count,
           uint64_t cap_bytes)
{
    if (!is_permutation(order, count))
        return NULL;

    struct plan *plan = calloc(1, sizeof(*plan));
    if (plan == NULL)
        return NULL;
    plan->version = version;
    plan->gradient_count = count;
    plan->order = calloc(count + 1, sizeof(plan->order[0]));
    plan->bucket_of = calloc(count + 1, sizeof(plan->bucket_of[0]));
    plan->buckets = calloc(count + 1, sizeof(plan->buckets[0]));
    if (plan->order == NULL || plan->bucket_of == NULL || plan->buckets == NULL) {
        plan_free(plan);
        return NULL;
    }

    memcpy(plan->order, order, count * sizeof(order[0]));
    fill_buckets(plan, gradients, cap_bytes);
    return plan;
}

void
plan_free(struct plan *plan)
{
    if (plan == NULL)
        return;
    free(plan->order);
    free(plan->bucket_of);
    free(plan->buckets);
    free(plan);
}

void *
plan_bytes(const struct plan *plan, size_t *bytes_p)
{
    size_t words = 3 + plan->gradient_count + 4 * plan->bucket_count;
    uint64_t *out = malloc(words * sizeof(*out));
    if (out == NULL)
        return NULL;

    uint64_t *word = out;
    *word++ = htole64(plan->version);
    *word++ = htole64(plan->gradient_count);
    *word++ = htole64(plan->bucket_count);
    for (size_t i = 0; i < plan->gradient_count; ++i)
        *word++ = htole64(plan->order[i]);
    for (size_t k = 0; k < plan->bucket_count; ++k) {
        const struct plan_bucket *bucket = &plan->buckets[k];
        *word++ = htole64(bucket->first);
        *word++ = htole64(bucket->count);
        *word++ = htole64(bucket->bytes);
        *word++ = htole64((uint64_t)bucket->type);
    }
    *bytes_p = words * sizeof(*out);
    return out;
}
