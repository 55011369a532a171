/*
 * values.c - tensors whose hashes differ between ranks: is that noise of the arithmetic (bucketing/drift.h)? Then all
 * ranks take rank 0's values.
 *
 * A look comes at the comparison after the one whose hashes differ, in front of the update: all ranks know there which
 * tensors differ. Rank 0's values go to all ranks, 1 MiB at a time; there is no second copy of the model. A sample of
 * each tensor, taken at the first comparison and at each look, says what its elements have moved since. The host waits
 * for the device and for the other ranks, at looks alone. Steps whose hashes agree know nothing of this.
 *
 * Bits hold where nothing rounds, and before the first update. Called by checks.c.
 */
#include "interpose/engine/verify/verify.h"

#include "base/message.h"
#include "comm/hash.h"
#include "comm/values.h"

#include <float.h>
#include <math.h>

enum { CHUNK = 1 << 20, REGULAR = 100, AT_END_MOST = 131072 };
static const double DOUBTED = 0.3; /* of its movement: so far apart was the element that is in doubt */
_Static_assert((int)VALUES_MARKS == (int)DRIFT_MARKS, "a launch takes all marks");

/* One tensor of tensor_compared(). */
struct watched {
    size_t offset, count;  /* its sample in the arrays: count + DRIFT_MARKS values; 0: it is not watched */
    uint64_t seed, marked; /* of the sample that the arrays hold */
    bool is_anchored;      /* its movement counts: */
    uint64_t anchored;     /* from so many boundaries on */
    uint64_t since;        /* the comparison from which on hashes have differed without a judgement; 0: none */
    struct drift drift;
};

/* What a rank says of a look: what is worst of its tensors. */
struct verdict {
    struct drift_found found;
    uint64_t index;  /* of tensor_compared() */
    uint64_t since;  /* boundaries passed when its movement began to count */
    double strength; /* of two alike */
};

/* Arrays of samples, on the device and in pinned memory of the host. */
enum array { THEN, BEFORE, NOW, APART, ARRAYS };

static struct {
    size_t count;
    struct watched *watched; /* [count] */
    size_t total;            /* values in an array */
    uint64_t looks;
    CUdeviceptr arrays[ARRAYS], chunk, found;
    double *host[ARRAYS];
    struct values_found *host_found; /* pinned, [count] */
    struct drift_pace pace;
    uint64_t next;      /* boundaries passed when the next comparison is due; 0: as always */
    bool sampled_end;   /* host[THEN], [BEFORE] and [NOW] are of the end */
    bool some_unplaced; /* a tensor has no memory yet */
    bool said_noise, said_lasts;
    struct verdict doubt; /* the last that was above a bound, and its rank; DRIFT_SAME: none */
    int doubt_rank;
    _Atomic uint64_t right_step; /* as values_right_step() */
} values;

static void
require_values(bool done, const struct comm_error *error)
{
    if (!done)
        stop_job_by(error->cause, "the comparison of values: %s", error->text);
}

bool
values_may_vary(size_t index)
{
    return index < values.count && values.watched[index].count > 0;
}

/* ---- memory ---- */

static CUdeviceptr
on_device(size_t bytes)
{
    return device_allocate(bytes, "the comparison of values");
}

static void
free_memory(void)
{
    const struct driver *driver = &engine_state.driver;
    if (values.total == 0)
        return;
    CUDA("waiting for samples", cuStreamSynchronize, first_stream());
    (void)driver->cuMemFree_p(values.arrays[0]);
    (void)driver->cuMemFree_p(values.found);
    if (values.host_found != NULL) {
        (void)driver->cuMemFreeHost_p(values.host[0]);
        (void)driver->cuMemFreeHost_p(values.host_found);
    }
    values.host_found = NULL;
    values.total = 0;
}

/* All of the device, at the first comparison: later there may be none left. At most 17 MiB. */
static void
make_device_memory(void)
{
    values.arrays[0] = on_device(ARRAYS * values.total * sizeof(double));
    for (size_t i = 1; i < ARRAYS; ++i)
        values.arrays[i] = values.arrays[0] + i * values.total * sizeof(double);
    values.found = on_device(values.count * sizeof(struct values_found));
    if (values.chunk == 0)
        values.chunk = on_device(CHUNK);
}

/* Where hashes differ, and at the end. */
static void
make_host_memory(void)
{
    if (values.host_found != NULL)
        return;
    values.host[0] = device_allocate_pinned(ARRAYS * values.total * sizeof(double));
    for (size_t i = 1; i < ARRAYS; ++i)
        values.host[i] = values.host[0] + i * values.total;
    values.host_found = device_allocate_pinned(values.count * sizeof(struct values_found));
}

static void
copy(void *to, CUdeviceptr from, size_t bytes)
{
    CUDA("copying values", cuMemcpyDtoHAsync, to, from, bytes, first_stream());
}

static void
copy_sample(enum array array, const struct watched *watched)
{
    copy(values.host[array] + watched->offset, values.arrays[array] + watched->offset * sizeof(double),
         (watched->count + watched->marked) * sizeof(double));
}

/* ---- samples ---- */

static struct values_sample
sample_of(const struct watched *watched, const struct tensor *tensor, enum array value, enum array apart)
{
    struct values_sample sample = {.value = values.arrays[value] + watched->offset * sizeof(double),
                                   .apart = values.arrays[apart] + watched->offset * sizeof(double),
                                   .elements = tensor->count,
                                   .count = watched->count,
                                   .seed = watched->seed,
                                   .marked = watched->marked};
    memcpy(sample.marks, watched->drift.marks, sizeof(sample.marks));
    return sample;
}

/* What of the sample lies in the chunk goes to two arrays. `theirs` of the chunk: rank 0's values, or own memory. */
static void
take_sample(struct values_chunk chunk, const struct watched *watched, const struct tensor *tensor, enum array value,
            enum array apart)
{
    struct comm_error error;
    struct values_sample sample = sample_of(watched, tensor, value, apart);
    sample.of_zero = value == THEN; /* what its movement counts from */
    require_values(values_sample(&engine_state.collectives.setting, chunk, type_nccl(tensor->type), sample,
                                 first_stream(), &error),
                   &error);
}

static void
renew(struct watched *watched)
{
    watched->seed = values.looks;
    watched->marked = watched->drift.mark_count;
    watched->anchored = engine_state.boundary_count;
    watched->is_anchored = true;
}

static struct values_chunk
whole(const struct tensor *tensor)
{
    return (struct values_chunk){.mine = tensor->address, .theirs = tensor->address, .count = tensor->count};
}

/* Room for all that may vary: where nothing rounds, or the host computes, bits hold. */
static void
make_watched(size_t count)
{
    free_memory();
    free(values.watched);
    values.watched = engine_calloc(count + 1, sizeof(*values.watched));
    values.count = count;
    values.pace = (struct drift_pace){0, 0};
    values.next = 0;
    for (size_t i = 0; i < count; ++i) {
        struct tensor tensor = tensor_copy_compared(i);
        struct watched *watched = &values.watched[i];
        watched->offset = values.total;
        if (type_is_of_gradients(tensor.type) && tensor.kind != MEMORY_HOST)
            watched->count = drift_sample_count(tensor.count, count);
        values.total += watched->count > 0 ? watched->count + DRIFT_MARKS : 0;
    }
    if (values.total > 0)
        make_device_memory();
}

void
values_prepare(size_t count)
{
    if (engine_state.options.verify)
        return;
    bool is_new = values.watched == NULL || count != values.count;
    if (is_new)
        make_watched(count);
    values.looks += is_new;
    bool looks = is_new || values.some_unplaced;
    values.some_unplaced = false;
    for (size_t i = 0; i < count && looks; ++i) {
        struct tensor tensor = tensor_copy_compared(i);
        struct watched *watched = &values.watched[i];
        values.some_unplaced = values.some_unplaced || !tensor.placed;
        if (watched->count == 0 || watched->is_anchored || !tensor.placed)
            continue;
        renew(watched);
        take_sample(whole(&tensor), watched, &tensor, THEN, BEFORE);
    }
}

bool
values_are_due(void)
{
    return values.next > 0 && engine_state.boundary_count >= values.next;
}

/* ---- a look ---- */

/* All ranks: rank 0's values go to the others, which take them. */
static void
look_at(size_t index)
{
    struct comm_error error;
    struct collectives *collectives = &engine_state.collectives;
    struct watched *watched = &values.watched[index], next = *watched;
    const struct tensor tensor = tensor_copy_compared(index);
    size_t element = type_bytes(tensor.type), each = CHUNK / element;
    CUdeviceptr found = values.found + index * sizeof(struct values_found);
    bool is_zero = engine_state.rendezvous.rank == 0;
    renew(&next);
    copy_sample(THEN, watched);
    copy_sample(BEFORE, watched);
    CUDA("comparing values", cuMemsetD8Async, found, 0, sizeof(struct values_found), first_stream());
    for (size_t at = 0; at < tensor.count; at += each) {
        struct values_chunk chunk = {.mine = tensor.address + at * element, .first = at};
        chunk.theirs = is_zero ? chunk.mine : values.chunk;
        chunk.count = tensor.count - at < each ? tensor.count - at : each;
        require_values(collectives_send_from_zero(collectives, chunk.mine, chunk.theirs, chunk.count * element,
                                                  first_stream(), &error),
                       &error);
        take_sample(chunk, watched, &tensor, NOW, APART);
        take_sample(chunk, &next, &tensor, THEN, BEFORE);
        if (!is_zero)
            require_values(
                values_compare(&collectives->setting, chunk, type_nccl(tensor.type), found, first_stream(), &error),
                &error);
    }
    copy_sample(NOW, watched);
    copy_sample(APART, watched);
    copy(&values.host_found[index], found, sizeof(struct values_found));
}

static double
float_of(uint64_t bits)
{
    uint32_t narrow = (uint32_t)bits;
    float value;
    memcpy(&value, &narrow, sizeof(value));
    return value;
}

static int
fraction_bits(int type)
{
    switch (type) {
    case DDP_FLOAT64:
        return DBL_MANT_DIG - 1;
    case DDP_FLOAT32:
        return FLT_MANT_DIG - 1;
    case DDP_FLOAT16:
        return 10;
    default:
        return 7;
    }
}

/* All but what compares the whole tensor. */
static struct drift_look
sampled(const struct watched *watched, const struct tensor *tensor)
{
    return (struct drift_look){.now = values.host[NOW] + watched->offset,
                               .apart = values.host[APART] + watched->offset,
                               .then = values.host[THEN] + watched->offset,
                               .before = values.host[BEFORE] + watched->offset,
                               .count = watched->count + watched->marked,
                               .marked = watched->marked,
                               .elements = tensor->count,
                               .window = engine_state.boundary_count - watched->anchored,
                               .fraction_bits = fraction_bits(tensor->type)};
}

/* Whether the other was worse, and is kept. */
static bool
keep_worst(struct verdict *worst, const struct verdict *other)
{
    bool is_worse = other->found.verdict > worst->found.verdict ||
                    (other->found.verdict == worst->found.verdict && other->strength > worst->strength);
    if (is_worse)
        *worst = *other;
    return is_worse;
}

static struct verdict
judge(size_t index)
{
    struct watched *watched = &values.watched[index];
    const struct tensor tensor = tensor_copy_compared(index);
    const struct values_found *found = &values.host_found[index];
    const struct values_sample sample = sample_of(watched, &tensor, NOW, APART);
    struct drift_look look = sampled(watched, &tensor);
    look.differing = found->differing;
    look.unlike = found->unlike;
    look.largest = float_of(found->largest >> 32);
    look.place = found->largest & UINT32_MAX;
    look.greatest = float_of(found->greatest);
    struct verdict verdict = {drift_judge(&watched->drift, &look), index, watched->anchored, 0};
    if (verdict.found.conspicuous != DRIFT_NONE)
        drift_mark(&watched->drift, values_sampled_element(&sample, verdict.found.conspicuous));
    return verdict;
}

/* The worst of what this rank has looked at. */
static struct verdict
judge_all(const size_t *suspects, size_t count)
{
    struct verdict worst = {.found = {.verdict = DRIFT_SAME}}, *verdicts = engine_calloc(count, sizeof(*verdicts));
    for (size_t i = 0; i < count && engine_state.rendezvous.rank > 0; ++i)
        verdicts[i] = judge(suspects[i]);
    for (size_t i = 0; i < count; ++i) {
        double calm = INFINITY;
        for (size_t k = 0; k < count && verdicts[i].found.verdict == DRIFT_BAD; ++k) {
            if (verdicts[k].found.verdict == DRIFT_NOISE && verdicts[k].since == verdicts[i].since)
                calm = fmin(calm, verdicts[k].found.c);
        }
        drift_compare(&verdicts[i].found, calm);
        verdicts[i].strength = verdicts[i].found.apart / fmax(verdicts[i].found.moved, DBL_MIN);
        (void)keep_worst(&worst, &verdicts[i]);
    }
    free(verdicts);
    return worst;
}

/* Of all ranks the worst; *rank_p: whose it is. */
static struct verdict
worst_of_ranks(const struct verdict *mine, int *rank_p)
{
    struct control_messages all;
    struct verdict worst = {.found = {.verdict = DRIFT_SAME}};
    exchange("the comparison of values", mine, sizeof(*mine), &all);
    *rank_p = 0;
    for (int r = 0; r < all.count; ++r) {
        struct verdict theirs;
        if (all.bytes[r] != sizeof(theirs))
            stop_job("internal error: rank %d has sent no verdict", r);
        memcpy(&theirs, all.messages[r], sizeof(theirs));
        if (keep_worst(&worst, &theirs))
            *rank_p = r;
    }
    control_free_messages(&all);
    return worst;
}

static void
describe(const struct verdict *worst, int rank, char text[VALUES_TEXT_BYTES])
{
    const struct drift_found *found = &worst->found;
    unsigned long long since = worst->since;
    if (isinf(found->apart))
        snprintf(text, VALUES_TEXT_BYTES, "rank %d alone, or rank 0 alone, has infinite values or NaN", rank);
    else if (found->place == DRIFT_EVERYWHERE)
        snprintf(text, VALUES_TEXT_BYTES,
                 "on rank %d the difference from rank 0 is %.3g %% of the tensor's change since step %llu", rank,
                 100 * found->apart / fmax(found->moved, DBL_MIN), since);
    else
        snprintf(text, VALUES_TEXT_BYTES,
                 "on rank %d element %llu differs from rank 0 by %.2g, and has changed by %.2g since step %llu", rank,
                 (unsigned long long)found->place, found->apart, found->moved, since);
}

/* What was above a bound and is no more: noise that training has multiplied, or something that happened once. */
static void
say_doubt(const struct verdict *worst, int rank)
{
    char off[VALUES_TEXT_BYTES];
    if (worst->found.verdict == DRIFT_BAD || (worst->found.verdict == DRIFT_MARKED && worst->strength > DOUBTED)) {
        values.doubt = *worst;
        values.doubt_rank = rank;
    } else if (values.doubt.found.verdict != DRIFT_SAME) {
        struct tensor tensor = tensor_copy_compared(values.doubt.index);
        describe(&values.doubt, values.doubt_rank, off);
        message_warning("apart_once",
                        "%s differed between ranks by more than rounding, until all ranks took rank 0's values: %s. A "
                        "step may have done something else on that rank; run ddprun check",
                        tensor_text(&tensor), off);
        values.doubt.found.verdict = DRIFT_SAME;
    }
}

/* Rank 0, once each. */
static void
say(const struct verdict *worst, int rank, uint64_t regular)
{
    struct tensor tensor = tensor_copy_compared(worst->index);
    const struct drift_found *found = &worst->found;
    if (engine_state.rendezvous.rank != 0)
        return;
    say_doubt(worst, rank);
    if (!values.said_noise && found->verdict == DRIFT_NOISE) {
        message_warning(
            "noise",
            "%s differs between ranks 0 and %d by rounding: by at most %.2g, and it has changed by up to %.2g since "
            "step %llu. The usual cause is an update that adds by atomicAdd, for example for a global norm. When a "
            "comparison finds rounding differences (every %llu steps), all ranks take rank 0's values",
            tensor_text(&tensor), rank, found->apart, found->moved, (unsigned long long)worst->since,
            (unsigned long long)regular);
        values.said_noise = true;
    }
    if (found->lasts && !values.said_lasts) {
        message_warning("noise_stays",
                        "%s has the same difference again after all ranks have taken rank 0's values: memory without "
                        "an annotation causes it (master weights, momentum). Annotate that memory by DDP_STATE",
                        tensor_text(&tensor));
        values.said_lasts = true;
    }
}

static void
note_noise(uint64_t step)
{
    atomic_store(&engine_state.status->noise_step, step);
    atomic_fetch_add(&engine_state.status->noise_count, 1);
}

/* Those of suspects[count] that all ranks have, in order. */
static size_t
keep_placed(size_t *suspects, size_t count)
{
    uint64_t *placed = engine_calloc(count, sizeof(*placed));
    for (size_t i = 0; i < count; ++i)
        placed[i] = tensor_copy_compared(suspects[i]).placed && values.watched[suspects[i]].is_anchored;
    least_of_ranks("which tensors to compare", placed, count);
    size_t kept = 0;
    for (size_t i = 0; i < count; ++i) {
        if (placed[i] != 0)
            suspects[kept++] = suspects[i];
    }
    free(placed);
    return kept;
}

/* After a look without a mistake. An element that it has marked is in the sample from now on. */
static void
settle(size_t index)
{
    struct watched *watched = &values.watched[index];
    struct tensor tensor = tensor_copy_compared(index);
    renew(watched);
    watched->since = 0;
    if (watched->marked > 0)
        take_sample(whole(&tensor), watched, &tensor, THEN, BEFORE);
}

bool
values_look(size_t *suspects, size_t count, struct values_mistake *mistake_p)
{
    uint64_t steps = engine_state.boundary_count, every = engine_state.options.check_every;
    uint64_t regular = every > 0 ? every : REGULAR;
    values.next = 0;
    count = count > 0 ? keep_placed(suspects, count) : 0;
    if (count == 0)
        return false;
    make_host_memory();
    ++values.looks;
    for (size_t i = 0; i < count; ++i)
        look_at(suspects[i]);
    CUDA("comparing values", cuStreamSynchronize, first_stream());

    int rank;
    struct verdict mine = judge_all(suspects, count), worst = worst_of_ranks(&mine, &rank);
    if (drift_ends(&values.pace, worst.found.verdict, steps - worst.since, regular)) {
        *mistake_p = (struct values_mistake){.index = worst.index, .after_step = values.watched[worst.index].since};
        describe(&worst, rank, mistake_p->text);
        return true;
    }
    for (size_t i = 0; i < count; ++i)
        settle(suspects[i]);
    if (values.pace.interval > 0)
        values.next = steps + values.pace.interval;
    if (worst.found.verdict > DRIFT_SAME)
        note_noise(steps);
    if (worst.found.verdict <= DRIFT_NOISE)
        atomic_store(&values.right_step, steps);
    say(&worst, rank, regular);
    return false;
}

uint64_t
values_right_step(void)
{
    return atomic_load(&values.right_step);
}

void
values_note_suspect(size_t index, uint64_t after_step)
{
    if (index < values.count && values.watched[index].since == 0)
        values.watched[index].since = after_step;
}

uint64_t
values_first_seen(size_t index, uint64_t otherwise)
{
    return index < values.count && values.watched[index].since > 0 ? values.watched[index].since : otherwise;
}

/* ---- the end ---- */

void
values_sample_end(void)
{
    values.sampled_end = false;
    if (values.total == 0 || tensor_compared_count() != values.count)
        return;
    make_host_memory();
    for (size_t i = 0; i < values.count; ++i) {
        struct tensor tensor = tensor_copy_compared(i);
        struct watched *watched = &values.watched[i];
        if (!watched->is_anchored || !tensor.placed)
            continue;
        take_sample(whole(&tensor), watched, &tensor, NOW, APART);
        copy_sample(THEN, watched);
        copy_sample(BEFORE, watched);
        copy_sample(NOW, watched);
    }
    values.sampled_end = true;
}

/* Of a sample every so many values are sent at the end. */
static size_t
stride_of(const struct watched *watched, size_t tensors)
{
    size_t most = AT_END_MOST / tensors + 1;
    return (watched->count + most - 1) / most;
}

/* Rank 0's values of the suspects, malloc'ed; NULL: a rank has left. */
static double *
send_samples(const size_t *suspects, size_t count)
{
    size_t sent = 0, total = 0;
    for (size_t k = 0; k < count; ++k)
        total += values.watched[suspects[k]].count;
    double *samples = engine_calloc(total + 1, sizeof(*samples));
    for (size_t k = 0; k < count; ++k) {
        const struct watched *watched = &values.watched[suspects[k]];
        for (size_t i = 0; i < watched->count; i += stride_of(watched, count))
            samples[sent++] = values.host[NOW][watched->offset + i];
    }
    struct control_messages all;
    bool is_zero = engine_state.rendezvous.rank == 0;
    if (!exchange_last(samples, is_zero ? sent * sizeof(*samples) : 0, &all)) {
        free(samples);
        return NULL;
    }
    if (all.bytes[0] != sent * sizeof(*samples))
        stop_job("internal error: rank 0 has another sample");
    memcpy(samples, all.messages[0], sent * sizeof(*samples));
    control_free_messages(&all);
    return samples;
}

/* The sample of one tensor beside rank 0's, `theirs`, of which the number is returned. Whether it is a mistake, and
 * whether this rank sees a difference, or knows the tensor as noisy. */
static size_t
judge_at_end(size_t index, size_t stride, const double *theirs, char text[VALUES_TEXT_BYTES], bool *is_mistake_p,
             bool *is_seen_p)
{
    struct watched *watched = &values.watched[index];
    struct tensor tensor = tensor_copy_compared(index);
    struct drift_look look = sampled(watched, &tensor);
    double *kept[ARRAYS];
    size_t count = 0;
    for (int a = 0; a < ARRAYS; ++a)
        kept[a] = values.host[a] + watched->offset;
    for (size_t i = 0; i < watched->count; i += stride, ++count) {
        double d = kept[NOW][i] - theirs[count];
        look.unlike += isfinite(kept[NOW][i]) != isfinite(theirs[count]);
        look.differing += isfinite(d) && d != 0;
        if (isfinite(d) && fabs(d) > look.largest) {
            look.largest = fabs(d);
            look.place = i * (tensor.count / watched->count);
        }
        look.greatest = isfinite(kept[NOW][i]) ? fmax(look.greatest, fabs(kept[NOW][i])) : look.greatest;
        for (int a = 0; a < ARRAYS; ++a)
            kept[a][count] = a == APART ? d : kept[a][i];
    }
    look.count = look.elements = count;
    look.marked = 0;
    bool was_noisy = watched->drift.is_noisy;
    struct verdict verdict = {.index = index, .since = watched->anchored};
    *is_mistake_p = drift_is_mistake_at_end(&watched->drift, &look, &verdict.found);
    *is_seen_p = verdict.found.verdict != DRIFT_SAME || was_noisy;
    if (*is_mistake_p)
        describe(&verdict, engine_state.rendezvous.rank, text);
    return count;
}

/* Whether a rank has found a mistake: words[count] of all ranks. */
static bool
any_of_ranks(uint64_t *words, size_t count)
{
    struct control_messages all;
    if (!exchange_last(words, count * sizeof(*words), &all))
        return false;
    for (int r = 0; r < all.count; ++r) {
        for (size_t i = 0; i < count && all.bytes[r] == count * sizeof(*words); ++i) {
            uint64_t theirs;
            memcpy(&theirs, (const char *)all.messages[r] + i * sizeof(theirs), sizeof(theirs));
            words[i] |= theirs;
        }
    }
    control_free_messages(&all);
    return true;
}

enum { MISTAKE = 1, SEEN = 2 };

bool
values_judge_end(uint32_t *differs, size_t count, uint64_t step, char text[VALUES_TEXT_BYTES])
{
    size_t *suspects = engine_calloc(count + 1, sizeof(*suspects)), found = 0, at = 0;
    for (size_t i = 0; i < count && values.sampled_end && count == values.count && step > 0; ++i) {
        if (gather_differs(differs[i]) && values.watched[i].is_anchored)
            suspects[found++] = i;
    }
    double *theirs = found > 0 ? send_samples(suspects, found) : NULL;
    uint64_t *mistakes = engine_calloc(found + 1, sizeof(*mistakes));
    for (size_t k = 0; k < found && theirs != NULL && engine_state.rendezvous.rank > 0; ++k) {
        bool is_mistake, is_seen;
        at += judge_at_end(suspects[k], stride_of(&values.watched[suspects[k]], found), theirs + at, text, &is_mistake,
                           &is_seen);
        mistakes[k] = (is_mistake ? MISTAKE : 0) | (is_seen ? SEEN : 0);
    }
    bool all_came = theirs != NULL && any_of_ranks(mistakes, found), noise = false, is_wrong = false;
    for (size_t k = 0; k < found && all_came; ++k) {
        if (mistakes[k] != SEEN) { /* one that no rank has in its sample is a mistake, too */
            is_wrong = true;
            continue;
        }
        differs[suspects[k]] = HASH_UNCOMPARED;
        noise = true;
    }
    if (noise)
        note_noise(step);
    if (engine_state.rendezvous.rank == 0 && !is_wrong) /* the last look may have been in doubt */
        say_doubt(&(const struct verdict){.found = {.verdict = DRIFT_SAME}}, 0);
    free(mistakes);
    free(theirs);
    free(suspects);
    return noise;
}
