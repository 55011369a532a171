/*
 * used.c - gradients as the functions get them that update parameters (memory.h): what is written between DDP_STEP and
 * the update shows there, where both begin with the same bytes.
 *
 * In a few steps, by sketches (tools/check/format/sketch.h). The first step has none in the reference, whose updaters
 * are not known yet. Called by updaters.c, with memory_lock held.
 */
#include "tools/check/trainer/memory.h"

#include "tools/check/format/reference.h"
#include "tools/check/format/sketch.h"

#include <stdio.h>
#include <stdlib.h>

enum { FIRST_USED = 2, LAST_USED = 4, GRADIENTS_AT_MOST = 256 };

static uint32_t seen[GRADIENTS_AT_MOST]; /* by number: the last step in which a gradient was sketched */

struct taking {
    struct sketch *sketch;
    const struct tensor *tensor;
};

static void
take_piece(void *arg, const void *piece, size_t bytes)
{
    const struct taking *taking = arg;
    sketch_add(taking->sketch, taking->tensor->type, piece, bytes / type_bytes(taking->tensor->type));
}

static void
compare_used(const struct tensor *gradient, const struct reference_key *key, const struct sketch *own,
             const char *function)
{
    const struct reference_entry *entry = reference_find(values_reader(), key);
    struct sketch *theirs = values_room(NULL, sizeof(*theirs));
    if (entry != NULL) {
        if (!reference_get(values_reader(), entry, theirs, sizeof(*theirs)))
            values_stop_damaged();
        struct check_row row;
        compare_describe(gradient, CHECK_ROW_USED, key->step, &row);
        row.norms = sketch_compare(own, theirs);
        row.norms.unbounded = own->unbounded + theirs->unbounded;
        snprintf(row.text, sizeof(row.text), "%s", function);
        values_row(&row);
    }
    free(theirs);
}

void
used_gradient(const struct tensor *gradient, uint32_t step, const char *function)
{
    if (step < FIRST_USED || step > LAST_USED || gradient->index >= GRADIENTS_AT_MOST || seen[gradient->index] == step)
        return;
    seen[gradient->index] = step;
    struct reference_key key = {
        .kind = REFERENCE_SKETCH, .role = CHECK_GRADIENT, .step = step, .number = (uint32_t)gradient->index};
    struct sketch *own = values_room(NULL, sizeof(*own));
    context_synchronize("before an operation that updates parameters");
    sketch_begin(own, gradient->count);
    values_read_tensor(gradient, take_piece, &(struct taking){own, gradient});
    if (values_writer() == NULL)
        compare_used(gradient, &key, own, function);
    else if (!reference_put(values_writer(), &key, own, sizeof(*own)))
        values_stop_writing();
    free(own);
}
