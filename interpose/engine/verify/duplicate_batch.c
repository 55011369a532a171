/*
 * duplicate_batch.c - do all ranks train on the same data? Then more of them gain nothing, and no wrong result shows
 * it.
 *
 * What the trainer copies to the device between its first steps is hashed, and so are the gradients of these steps
 * before they are reduced, for data may lie on the device from the start; ranks compare once. With the hashes goes a
 * sample of values, for a GPU may add up in another order each time (comm/nearness.h). Only a hint, said once by rank 0
 * for one of the two: a trainer may have reasons to feed all ranks alike. One that calls DDP_SHARD in each step may
 * take its share of a copy on the device: there gradients decide, and always where an observer watches.
 */
#include "interpose/engine/core/hashing.h"
#include "interpose/engine/core/observer.h"
#include "interpose/engine/verify/verify.h"

#include "base/message.h"
#include "comm/hash.h"
#include "comm/nearness.h"

#include <math.h>

enum {
    FIRST_BOUNDARY = 1, /* what comes before the first step is initialisation */
    STEPS = 3,
    LEAST_BYTES = 1024, /* a learning rate or a step counter is no batch, */
    LEAST_APART = 64,   /* and a seed or a rank's number does not make one another */
    WINDOWS = 64,       /* of memory, in the sample of a step */
    WINDOW_BYTES = 64,
    WORDS = WINDOWS * WINDOW_BYTES / (int)sizeof(uint64_t), /* of each step's sample */
};

/* What was copied between two boundaries. */
struct copied {
    uint64_t bytes;
    uint64_t hash;
};

/* Guards the record: copies come from any thread. */
static pthread_mutex_t copied_lock = PTHREAD_MUTEX_INITIALIZER;
static struct copied copied[STEPS];

/* The place of the open interval in copied[]; -1: it is not recorded. */
static long
current_place(void)
{
    uint64_t boundary = engine_state.boundary_count;
    return boundary >= FIRST_BOUNDARY && boundary < FIRST_BOUNDARY + STEPS ? (long)(boundary - FIRST_BOUNDARY) : -1;
}

void
duplicate_batch_copied(const struct operation *operation)
{
    long place = current_place();
    if (place < 0 || operation->host_source == NULL || engine_state.services->by_plan) /* all batches for all ranks */
        return;
    pthread_mutex_lock(&copied_lock);
    copied[place].hash = hash_chain(copied[place].hash, hash_bytes(operation->host_source, operation->host_bytes));
    copied[place].bytes += operation->host_bytes;
    pthread_mutex_unlock(&copied_lock);
}

/* ---- this rank's own gradients ---- */

/* What is sampled, on all ranks alike. */
struct window {
    CUdeviceptr address;
    size_t bytes; /* 0: nothing */
    size_t piece; /* of the plan; those of one follow each other */
};

static struct {
    struct hasher *hasher; /* of the engine's stream */
    /* STEPS hashes of the gradients that were sent through it, 0: none, or all are zero; WORDS of each step's sample */
    struct gathered words;
    struct window windows[STEPS][WINDOWS];
    bool unsampled; /* some are of other types than float32 */
} own;

static bool said;      /* by rank 0 */
static bool are_apart; /* ranks copied other data: equal gradients are made of what they have averaged themselves */

static void
add_hash(void *arg, const struct hashed *hashed)
{
    uint64_t *word = arg;
    if (!hashed->zero)
        *word = hash_chain(*word, hashed->hash) | 1;
}

void
duplicate_batch_prepare(void)
{
    if (own.hasher != NULL)
        return;
    own.hasher = hasher_get();
    watch(WATCH_DUPLICATES, true);
    gather_prepare(&own.words, STEPS * (1 + WORDS));
    memset(own.words.mine, 0, own.words.count * sizeof(uint64_t));
}

/* Of piece `number` of the plan, evenly spread. Of many pieces some are left out. */
static void
sample(const struct tensor *tensor, const struct plan_piece *piece, size_t number, size_t piece_count, long place)
{
    const size_t every = (piece_count + WINDOWS - 1) / WINDOWS, whole = piece->bytes / WINDOW_BYTES;
    size_t each = WINDOWS / ((piece_count + every - 1) / every);
    const size_t first = number / every * each;
    own.unsampled = own.unsampled || tensor->type != DDP_FLOAT32;
    if (number % every != 0)
        return;
    if (whole < each)
        each = whole > 0 ? whole : 1;
    for (size_t i = 0; i < each; ++i) {
        const uint64_t at = piece->bytes / each / WINDOW_BYTES * WINDOW_BYTES * i, left = piece->bytes - at;
        const struct window window = {tensor_on_device(tensor) + piece->first_byte + at,
                                      left < WINDOW_BYTES ? left : WINDOW_BYTES, number};
        own.windows[place][first + i] = window;
        hashing_copy_out(own.words.mine + STEPS + place * WORDS + (first + i) * (WORDS / WINDOWS), window.address,
                         window.bytes, first_stream(), "copying a sample of gradients");
    }
}

void
duplicate_batch_own_gradients(const struct group *group, size_t bucket, bool early)
{
    (void)early;
    long place = current_place();
    if (place < 0)
        return;
    const struct plan_bucket *of = &group->plan->buckets[bucket];
    for (size_t i = of->first; i < of->first + of->count; ++i) {
        const struct plan_piece *piece = &group->plan->pieces[group->shipment.send_order[i]];
        const struct tensor tensor = tensor_copy_gradient(group, piece->gradient);
        hasher_add(own.hasher, tensor_on_device(&tensor) + piece->first_byte, piece->bytes, tensor.type, add_hash,
                   &own.words.mine[place]);
        sample(&tensor, piece, i, group->plan->piece_count, place);
    }
    hasher_launch(own.hasher, first_stream());
}

/* A window in the sample of a rank. */
static const float *
elements_of(int rank, long place, size_t window)
{
    const uint64_t *words = own.words.all + (size_t)rank * own.words.count + STEPS + place * WORDS;
    return (const float *)(words + window * (WORDS / WINDOWS));
}

/* How far element `i` is on rank 0 from what it is in other steps. */
static double
change_of(long place, size_t window, size_t i)
{
    double change = -1, here = elements_of(0, place, window)[i];
    for (long other = 0; other < STEPS; ++other) {
        if (other != place && own.windows[other][window].address == own.windows[place][window].address)
            change = fmax(change, fabs(here - elements_of(0, other, window)[i]));
    }
    return change < 0 ? INFINITY : change;
}

static bool
is_near(int rank, long place)
{
    struct nearness pieces[WINDOWS] = {{0}};
    size_t count = 0;
    bool asks = atomic_load(&engine_state.status->shard_calls) > 0; /* for shares, which may be nearly equal */
    for (size_t k = 0; k < WINDOWS && !own.unsampled && !asks; ++k) {
        const struct window *window = &own.windows[place][k];
        count += k == 0 || window->piece != window[-1].piece;
        for (size_t i = 0; i * sizeof(float) < window->bytes; ++i)
            nearness_add(&pieces[count - 1], elements_of(0, place, k)[i], elements_of(rank, place, k)[i],
                         change_of(place, k, i));
    }
    return nearness_holds(pieces, count);
}

/* By rank 0, of what all ranks have computed. */
static void
warn_of_equal(const char *what, const char *how)
{
    if (atomic_load(&engine_state.turn_regions) > 0)
        notice_soon("duplicate_gradients",
                    "the %s of all %d ranks are equal, %s, in rounds %d to %d of turns, before they are averaged: all "
                    "ranks compute the same batch, and nothing is gained. What chooses the batch on the device, a "
                    "counter or random numbers, must run before DDP_TURN_BEGIN; and training on all data at once "
                    "(full batch) has no batches to take turns at",
                    what, engine_state.rendezvous.world_size, how, FIRST_BOUNDARY + 1, FIRST_BOUNDARY + STEPS);
    else
        notice_soon("duplicate_gradients",
                    "the %s of all %d ranks are equal, %s, in steps %d to %d, before they are averaged: all ranks "
                    "train on the same data; divide the batch among them (DDP_SHARD)",
                    what, engine_state.rendezvous.world_size, how, FIRST_BOUNDARY + 1, FIRST_BOUNDARY + STEPS);
}

static void CUDA_CB
compare_own(void *unused)
{
    (void)unused;
    int world_size = engine_state.rendezvous.world_size;
    bool parameters = atomic_load(&engine_state.status->averaged_parameter_count) > 0, rounded = false;
    bool equal = !said && !are_apart && engine_state.rendezvous.rank == 0 && world_size > 1;
    for (int i = 0; i < STEPS * world_size && equal; ++i) {
        const uint64_t *hashes = own.words.all + (size_t)(i / STEPS) * own.words.count;
        bool same = hashes[i % STEPS] == own.words.all[i % STEPS];
        rounded = rounded || !same;
        equal = hashes[i % STEPS] != 0 && (same || is_near(i / STEPS, i % STEPS));
    }
    for (int i = 1; i < STEPS && parameters; ++i) /* a learning rate of 0 leaves parameters as they are */
        equal = equal && own.words.all[i] != own.words.all[0];
    if (equal)
        atomic_store(&engine_state.status->same_data, 1);
    if (equal)
        warn_of_equal(parameters ? "parameters" : "gradients",
                      rounded ? "but for the rounding of sums" : "bit for bit");
}

/* ---- what was copied ---- */

static bool
are_batches(const struct copied *steps, uint64_t least_bytes)
{
    for (int i = 0; i < STEPS; ++i) {
        if (steps[i].bytes < least_bytes)
            return false;
    }
    return true;
}

/* Not with turns, where all ranks load all batches. */
static void
compare_copied(void)
{
    struct control_messages all;
    exchange("the comparison of batches", copied, sizeof(copied), &all);
    bool shares = atomic_load(&engine_state.status->shard_calls) >= STEPS || engine_state.observer != NULL;
    for (int r = 1; r < all.count && engine_state.rendezvous.rank == 0; ++r) {
        bool known = all.bytes[r] == sizeof(copied) && are_batches(all.messages[0], LEAST_APART);
        bool same = known && memcmp(all.messages[0], all.messages[r], sizeof(copied)) == 0;
        are_apart = are_apart || (known && !same);
        if (same && !shares && are_batches(all.messages[0], LEAST_BYTES)) {
            message_warning(
                "duplicate_batch",
                "ranks 0 and %d copied the same %d batches to their devices and train on the same data: divide the "
                "batch among them (DDP_SHARD)",
                r, STEPS);
            said = true;
            atomic_store(&engine_state.status->same_data, 1);
            break;
        }
    }
    control_free_messages(&all);
}

void
duplicate_batch_compare(void)
{
    if (engine_state.boundary_count != FIRST_BOUNDARY + STEPS)
        return;
    watch(WATCH_DUPLICATES, false);
    if (atomic_load(&engine_state.turn_regions) == 0)
        compare_copied();
    hasher_collect(own.hasher, first_stream());
    gather_send(&own.words, "the comparison of gradients", FIRST_BOUNDARY + STEPS, compare_own, NULL);
}
