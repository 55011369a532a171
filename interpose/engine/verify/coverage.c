/*
 * coverage.c - are all elements annotated? What is not is neither averaged nor compared, and no result shows it.
 *
 * When the ranks first agree on annotations, rank 0 warns, once: of parameters and gradients that do not have as many
 * elements, with those that have no counterpart; and of annotations that cover a part of their allocation. Both may be
 * right, so nothing ends: a frozen parameter has no gradient, and an allocation may hold more than a tensor. Of the
 * latter this file says nothing where it can tell: several annotations lie in the allocation (a flat buffer, a pool),
 * the rest is what an allocator rounds up, or the tensor's counterpart fills its own allocation (weights with their
 * momentum after them).
 */
#include "interpose/engine/verify/verify.h"

#include "base/message.h"

#include <stdarg.h>

enum { LISTED = 2, LISTING_BYTES = LISTED * (TENSOR_TEXT_BYTES + 64) };

/* ---- lists of tensors in a message ---- */

struct listing {
    char text[LISTING_BYTES];
    size_t count;
};

/* Adds an entry; of many, the first. */
static void __attribute__((format(printf, 2, 3))) list(struct listing *listing, const char *format, ...)
{
    char entry[LISTING_BYTES / LISTED];
    if (listing->count++ >= LISTED)
        return;
    va_list args;
    va_start(args, format);
    vsnprintf(entry, sizeof(entry), format, args);
    va_end(args);
    printable_append(listing->text, LISTING_BYTES, "%s%s", listing->count > 1 ? ", " : "", entry);
}

/* The list, and how many are not in it. */
static const char *
finish_listing(struct listing *listing)
{
    if (listing->count > LISTED)
        printable_append(listing->text, LISTING_BYTES, " and %zu more", listing->count - LISTED);
    return listing->text;
}

/* ---- parameters and gradients: as many elements? ---- */

static int
compare_counts(const void *a, const void *b)
{
    const struct tensor *left = a, *right = b;
    if (left->count != right->count)
        return left->count < right->count ? -1 : 1;
    if (left->role != right->role)
        return left->role < right->role ? -1 : 1;
    return left->index < right->index ? -1 : left->index > right->index;
}

/* Lists what `many` has more of than `few` among tensors of one count: which of them lack a counterpart is known where
 * no tensor has the role `few`. */
static void
list_unmatched(struct listing *listing, const struct tensor *tensors, size_t count, enum tensor_role many,
               enum tensor_role few)
{
    size_t of_many = 0, of_few = 0;
    for (size_t i = 0; i < count; ++i) {
        of_many += tensors[i].role == many;
        of_few += tensors[i].role == few;
    }
    for (size_t i = 0; i < count && of_few == 0; ++i) {
        if (tensors[i].role == many)
            list(listing, "%s", tensor_text(&tensors[i]));
    }
    if (of_few > 0 && of_many > of_few)
        list(listing, "%zu %ss and %zu %ss of %zu elements", of_many, tensor_role_name(many), of_few,
             tensor_role_name(few), tensors[0].count);
}

/* The same of all, which are sorted by their counts. */
static const char *
list_all_unmatched(struct listing *listing, const struct tensor *tensors, size_t count, enum tensor_role many,
                   enum tensor_role few)
{
    for (size_t begin = 0, end; begin < count; begin = end) {
        for (end = begin; end < count && tensors[end].count == tensors[begin].count;)
            ++end;
        list_unmatched(listing, tensors + begin, end - begin, many, few);
    }
    return finish_listing(listing);
}

static void
compare_elements(const struct tensor *tensors, size_t count, uint64_t parameters, uint64_t gradients)
{
    struct listing unmatched = {.count = 0};
    if (parameters == 0 && gradients > 0) {
        message_warning("no_parameter", "no parameter is annotated: each rank keeps its own initial values, and ddprun "
                                        "does not compare them; annotate them with DDP_PARAMETER");
    } else if (gradients > parameters) {
        message_warning("parameter_missing",
                        "gradients without a parameter of the same size: %s. Annotate their parameters with "
                        "DDP_PARAMETER, or correct the count: memory without an annotation is neither sent from rank 0 "
                        "nor compared. Annotated: %llu elements of gradients, %llu of parameters",
                        list_all_unmatched(&unmatched, tensors, count, TENSOR_GRADIENT, TENSOR_PARAMETER),
                        (unsigned long long)gradients, (unsigned long long)parameters);
    } else if (gradients < parameters) {
        message_warning("gradient_missing",
                        "parameters without a gradient of the same size: %s. Annotate their gradients with "
                        "DDP_GRADIENT, or correct the count: memory without an annotation is not averaged. Frozen "
                        "parameters need no gradient. Annotated: %llu elements of parameters, %llu of gradients",
                        list_all_unmatched(&unmatched, tensors, count, TENSOR_PARAMETER, TENSOR_GRADIENT),
                        (unsigned long long)parameters, (unsigned long long)gradients);
    }
}

/* ---- a part of an allocation ---- */

/* What an allocator may add after a tensor: up to 32 bytes, or up to the next multiple of 256 or 512. */
static bool
is_padding(size_t used, size_t bytes)
{
    return bytes - used < 32 || bytes == (used + 255) / 256 * 256 || bytes == (used + 511) / 512 * 512;
}

/* The bytes of the allocation that the tensor alone begins, and does not fill; 0: it is no such tensor. */
static size_t
ask_partial(const struct tensor *tensor)
{
    size_t annotated = 0;
    if (!tensor->placed || tensor->role == TENSOR_BUFFER)
        return 0;
    struct memory_facts facts = device_ask_about(tensor->address);
    if (facts.begin != tensor->address || facts.bytes <= tensor->bytes || is_padding(tensor->bytes, facts.bytes))
        return 0;
    engine_lock();
    (void)ranges_find(&memory_state.ranges, facts.begin, facts.bytes, &annotated);
    engine_unlock();
    return annotated == 1 ? facts.bytes : 0;
}

/* Whether a tensor of the other role has the same size and fills its allocation: then no element is forgotten. */
static bool
has_whole_counterpart(const struct tensor *tensors, const size_t *partial, size_t count, size_t which)
{
    enum tensor_role other = tensors[which].role == TENSOR_PARAMETER ? TENSOR_GRADIENT : TENSOR_PARAMETER;
    for (size_t i = 0; i < count; ++i) {
        if (tensors[i].role == other && tensors[i].count == tensors[which].count && partial[i] == 0)
            return true;
    }
    return false;
}

static void
look_for_parts(const struct tensor *tensors, size_t count)
{
    struct listing parts = {.count = 0};
    size_t *partial = engine_calloc(count + 1, sizeof(*partial));
    for (size_t i = 0; i < count; ++i)
        partial[i] = ask_partial(&tensors[i]);
    for (size_t i = 0; i < count; ++i) {
        if (partial[i] > 0 && !has_whole_counterpart(tensors, partial, count, i))
            list(&parts, "%s: %zu of %zu bytes", tensor_text(&tensors[i]), tensors[i].bytes, partial[i]);
    }
    free(partial);
    if (parts.count > 0)
        message_warning(
            "partial_annotation",
            "annotations cover a part of their allocations: %s. Correct the count, or annotate the next tensor "
            "in the allocation: memory without an annotation is neither averaged nor compared",
            finish_listing(&parts));
}

/* ---- parameters that are averaged themselves ---- */

/* DDP_STEP_PARAMETERS averages it, or will: its group is named by the program, and has no gradient. */
static bool
is_fused(const struct tensor *tensors, size_t count, const struct tensor *parameter)
{
    bool any = false;
    for (size_t i = 0; i < count; ++i)
        any = any || (tensors[i].role == TENSOR_GRADIENT && tensors[i].group == parameter->group);
    return parameter->averaged || (parameter->group != 0 && !any);
}

/* Moves parameters without gradients after the others, whose number it returns; *fused_p: elements of those. */
static size_t
keep_those_with_gradients(struct tensor *tensors, size_t count, uint64_t *fused_p)
{
    size_t kept = count;
    *fused_p = 0;
    for (size_t i = 0; i < kept;) {
        if (tensors[i].role != TENSOR_PARAMETER || !is_fused(tensors, count, &tensors[i])) {
            ++i;
            continue;
        }
        struct tensor moved = tensors[i];
        *fused_p += moved.count;
        tensors[i] = tensors[--kept];
        tensors[kept] = moved;
    }
    return kept;
}

/* ---- all of it ---- */

void
coverage_look(void)
{
    uint64_t elements[TENSOR_ROLES] = {0}, fused;
    engine_lock();
    size_t count = engine_state.tensor_count;
    struct tensor *tensors = malloc((count + 1) * sizeof(*tensors));
    if (tensors != NULL && count > 0)
        memcpy(tensors, memory_state.tensors, count * sizeof(*tensors));
    bool first = memory_state.agreements == 0;
    engine_unlock();
    require_allocated(tensors != NULL);

    for (size_t i = 0; i < count; ++i)
        elements[tensors[i].role] += tensors[i].count;
    size_t with_gradients = keep_those_with_gradients(tensors, count, &fused);
    atomic_store(&engine_state.status->parameter_elements, elements[TENSOR_PARAMETER]);
    atomic_store(&engine_state.status->gradient_elements, elements[TENSOR_GRADIENT]);
    if (engine_state.rendezvous.rank == 0 && first) {
        look_for_parts(tensors, count);
        qsort(tensors, with_gradients, sizeof(*tensors), compare_counts);
        compare_elements(tensors, with_gradients, elements[TENSOR_PARAMETER] - fused, elements[TENSOR_GRADIENT]);
    }
    free(tensors);
}
