/*
 * updaters.c - which functions update parameters? (check.h)
 *
 * The run that writes the reference looks. In the second step every operation that gets a pointer into a parameter is
 * looked at: does it change the parameter? Functions that do are updaters. Functions that come first in a later step
 * are looked at then, and all others again in steps 2, 4, 8 and so on: a rate may have been zero. Other runs read the
 * list from the reference. Each run counts how often an updater is given a parameter.
 *
 * What is captured is not looked at. Operations of several threads are looked at one after the other.
 */
#include "tools/check/trainer/check.h"

#include "tools/common/each.h"
#include "tools/common/owned.h"

enum {
    UPDATERS_AT_MOST = 64,
    PROBED_AT_MOST = 8, /* parameters of one operation */
    PROBE_BYTES = 4096, /* of a parameter, at most PROBES times, to see whether it changes */
    PROBES = 16,
};

/* A parameter that an operation is given, as it was before that. */
struct probed {
    uint32_t argument;
    struct tensor parameter;
    char *before; /* malloc'ed: read_probes() */
};

/* A parameter that an updater is given where it changes one. */
struct updated {
    uint64_t call;
    struct tensor tensor;
    unsigned times, usual; /* since the last boundary; and at most between two of them */
};

/* Guarded by memory_lock. */
static struct {
    uint32_t step; /* boundaries so far */
    struct updater list[UPDATERS_AT_MOST];
    size_t count, written;
    uint64_t *looked; /* [looked_count]: functions */
    size_t looked_count;
    struct updated *updated; /* [updated_count]: parameters */
    size_t updated_count;
} updaters;

/* The operation of this thread that is looked at. */
static __thread struct {
    uint64_t call;
    struct probed probed[PROBED_AT_MOST];
    size_t count;
} around;

const struct updater *
updaters_find(uint64_t call)
{
    return FIND(it, updaters.list, updaters.count, it->found.call == call);
}

bool
updaters_changes_at(const struct updater *updater, uint32_t argument)
{
    return ANY(place, updater->found.places, updater->found.place_count, *place == argument);
}

/* ---- does the operation change a parameter? ---- */

/* Reads some of the parameter into bytes[PROBES * PROBE_BYTES]; returns how much. */
static size_t
read_probes(const struct tensor *parameter, char *bytes)
{
    if (parameter->bytes <= (size_t)PROBES * PROBE_BYTES) {
        values_memory(parameter->address, parameter->bytes, bytes, NULL);
        return parameter->bytes;
    }
    for (size_t i = 0; i < PROBES; ++i)
        values_memory(parameter->address + parameter->bytes / PROBES * i, PROBE_BYTES, bytes + i * PROBE_BYTES, NULL);
    return (size_t)PROBES * PROBE_BYTES;
}

/* Whether this function is still to be looked at: in the second step, when it comes first, and now and then. */
static bool
is_due(uint64_t call)
{
    bool again = updaters.step == 1 || (updaters.step & (updaters.step - 1)) == 0;
    if (!again && ANY(it, updaters.looked, updaters.looked_count, *it == call))
        return false;
    updaters.looked = values_room(updaters.looked, (updaters.looked_count + 1) * sizeof(*updaters.looked));
    updaters.looked[updaters.looked_count++] = call;
    return true;
}

static void
probe_parameter(void *arg, const struct pointed *pointed)
{
    struct tensor tensor;
    CUdeviceptr next;
    (void)arg;
    if (around.count == PROBED_AT_MOST || device_ask_about(pointed->address).begin == 0)
        return;
    if (!pointers_annotated(pointed->address, &tensor, &next) || tensor.role != TENSOR_PARAMETER)
        return;
    if (around.count == 0)
        context_synchronize("before an operation that may update parameters");
    char *before = values_room(NULL, (size_t)PROBES * PROBE_BYTES);
    (void)read_probes(&tensor, before);
    around.probed[around.count++] = (struct probed){pointed->argument, tensor, before};
}

bool
updaters_look_begins(uint64_t call, const struct operation *operation, const struct function_layout *layout)
{
    around.call = call;
    around.count = 0;
    if (updaters_find(call) == NULL && !is_due(call))
        return false;
    pointers_visit(operation, layout, false, probe_parameter, NULL);
    return true;
}

static bool
has_changed(const struct probed *probed)
{
    OWNED char *after = values_room(NULL, (size_t)PROBES * PROBE_BYTES);
    size_t bytes = read_probes(&probed->parameter, after);
    return memcmp(probed->before, after, bytes) != 0;
}

/* The updater of this call, which may be new; NULL: there are too many. */
static struct updater *
find_or_add(uint64_t call)
{
    struct updater *known = FIND(it, updaters.list, updaters.count, it->found.call == call);
    if (known != NULL || updaters.count == UPDATERS_AT_MOST)
        return known;
    updaters.list[updaters.count] = (struct updater){.found.call = call, .since = updaters.step};
    return &updaters.list[updaters.count++];
}

static void
note_updater(const struct probed *probed)
{
    struct updater *updater = find_or_add(around.call);
    if (updater == NULL)
        return;
    struct check_updater *found = &updater->found;
    if (found->type == 0)
        found->type = probed->parameter.type;
    if (found->place_count < CHECK_PLACES_AT_MOST && !updaters_changes_at(updater, probed->argument))
        found->places[found->place_count++] = probed->argument;
}

void
updaters_look_ends(bool enqueued)
{
    if (around.count > 0 && enqueued)
        context_synchronize("after an operation that may update parameters");
    FOR_EACH(probed, around.probed, around.count) {
        if (enqueued && has_changed(probed))
            note_updater(probed);
        free(probed->before);
    }
    around.count = 0;
}

/* ---- how often is a parameter updated? ---- */

static void
count_parameter(void *arg, const struct pointed *pointed)
{
    const struct updater *updater = arg;
    struct tensor tensor;
    CUdeviceptr next;
    if (!updaters_changes_at(updater, pointed->argument) || !pointers_annotated(pointed->address, &tensor, &next))
        return;
    if (tensor.role != TENSOR_PARAMETER)
        return;
    const uint64_t call = updater->found.call;
    struct updated *known =
        FIND(it, updaters.updated, updaters.updated_count, it->call == call && it->tensor.index == tensor.index);
    if (known == NULL) {
        updaters.updated = values_room(updaters.updated, (updaters.updated_count + 1) * sizeof(*updaters.updated));
        known = &updaters.updated[updaters.updated_count++];
        *known = (struct updated){.call = call, .tensor = tensor};
    }
    ++known->times;
}

void
updaters_count(const struct updater *updater, const struct operation *operation, const struct function_layout *layout)
{
    pointers_visit(operation, layout, false, count_parameter, (void *)updater);
}

/* How often the updater is given one parameter between two boundaries, at most. */
static unsigned
usual_of(uint64_t call)
{
    unsigned usual = 0;
    FOR_EACH(it, updaters.updated, updaters.updated_count)
        usual = it->call == call && it->usual > usual ? it->usual : usual;
    return usual;
}

void
updaters_end(uint32_t step)
{
    FOR_EACH(it, updaters.updated, updaters.updated_count) {
        const unsigned usual = usual_of(it->call);
        if (values_writer() != NULL && it->times > usual)
            compare_note_after(step, &it->tensor, it->times, usual);
    }
}

/* ---- the run ---- */

void
updaters_open(void)
{
    struct reference_key key = {.kind = REFERENCE_UPDATER};
    struct check_updater found;
    for (; values_reader() != NULL && values_get(&key, &found, sizeof(found)); ++key.number) {
        if (found.place_count > CHECK_PLACES_AT_MOST)
            values_stop_damaged();
        if (updaters.count < UPDATERS_AT_MOST && updaters_find(found.call) == NULL)
            updaters.list[updaters.count++].found = found;
    }
}

void
updaters_boundary(uint32_t step)
{
    updaters.step = step;
    FOR_EACH_MUTABLE(it, updaters.updated, updaters.updated_count) {
        it->usual = it->times > it->usual ? it->times : it->usual;
        it->times = 0;
    }
    for (; values_writer() != NULL && step >= 2 && updaters.written < updaters.count; ++updaters.written) {
        const struct check_updater *found = &updaters.list[updaters.written].found;
        values_put(&(struct reference_key){.kind = REFERENCE_UPDATER, .number = (uint32_t)updaters.written}, found,
                   sizeof(*found));
    }
}
