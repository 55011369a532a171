/*
 * beside_ranges.c - the memory without annotation that updaters write (written_beside.c), from step to step and from
 * run to run: momentum, and tensors that were forgotten (check.h).
 *
 * A range is known in all runs by the function that writes it, the annotated tensor that the call gets, how often the
 * function was called with it before in the step, the argument, and the distance from where the argument points. From
 * the boundary behind the step that found it, the third or a later one, its sketches (tools/near/sketch.h)
 * are kept, and compared.
 *
 * A range that each update overwrites without reading holds nothing of the update before, and differs between one rank
 * and many where it depends on the batch. The launcher finds out which ranges these are, where any differ, by a run
 * that changes each at a boundary behind an update: of a change to something that lasts, most is still there behind the
 * next update. What one step only has updated does not count
 * yet: it may be memory of an evaluation.
 */
#include "tools/check/trainer/check.h"

#include "tools/common/each.h"
#include "tools/common/owned.h"
#include "tools/near/element.h"
#include "tools/near/sketch.h"

enum {
    RANGES_AT_MOST = 4096,
    FIRST_STEP = 3, /* whose beginning finds the ranges known */
    UPDATES_NEEDED = 2,
};

struct range_found {
    struct check_memory memory;
    CUdeviceptr address;    /* in this step; 0: its operation has not come */
    uint64_t buffer;        /* the allocation that the operation wrote to: buffer_of() */
    bool updated;           /* it has, since the last boundary */
    uint32_t updates;       /* steps that have updated it */
    uint32_t calls, usual;  /* of the function that writes it: since the last boundary; at most between two of them */
    struct sketch *change;  /* what was added to it; NULL: nothing was */
    CUdeviceptr changed_at; /* then, */
    uint64_t changed_in;    /* in this allocation */
    bool touched;           /* an operation got it after that, or copied it after its update */
    bool elsewhere;         /* another call than its update has */
    bool retained;          /* and what became of it is reported */
    struct sketch *before;  /* of `before_step`; NULL: none yet */
    uint32_t before_step;
};

/* Guarded by memory_lock. */
static struct {
    struct range_found *list;
    size_t count;
} ranges;

/* The driver's number of the allocation that the address lies in: memory that was freed and allocated again has another
 * one, at the same address, too. 0: it is not known. */
static uint64_t
buffer_of(CUdeviceptr address)
{
    unsigned long long buffer = 0;
    CUpointer_attribute attribute = CU_POINTER_ATTRIBUTE_BUFFER_ID;
    void *value = &buffer;
    bool is_known = engine_state.driver.cuPointerGetAttributes_p != NULL &&
                    engine_state.driver.cuPointerGetAttributes_p(1, &attribute, &value, address) == CUDA_SUCCESS;
    return is_known ? buffer : 0;
}

/* ---- around operations ---- */

static void
add_range(const struct check_memory *found, CUdeviceptr address)
{
    ranges.list = values_room(ranges.list, (ranges.count + 1) * sizeof(*ranges.list));
    ranges.list[ranges.count++] = (struct range_found){
        .memory = *found, .address = address, .buffer = address != 0 ? buffer_of(address) : 0, .updated = address != 0};
}

void
beside_ranges_add(const struct check_memory *found, CUdeviceptr address)
{
    bool is_known =
        address != 0 && ANY(range, ranges.list, ranges.count, /* another operation writes it, too */
                            address < range->address + range->memory.bytes && range->address < address + found->bytes);
    if (is_known || ranges.count == RANGES_AT_MOST)
        return;
    struct check_memory numbered = *found;
    numbered.tensor.number = (uint32_t)ranges.count;
    add_range(&numbered, address);
    values_put(&(struct reference_key){.kind = REFERENCE_MEMORY, .number = numbered.tensor.number}, &numbered,
               sizeof(numbered));
}

bool
beside_ranges_have(CUdeviceptr address)
{
    return ANY(range, ranges.list, ranges.count,
               address >= range->address && address < range->address + range->memory.bytes);
}

void
beside_ranges_resolve(const struct check_memory *at, CUdeviceptr pointer)
{
    FOR_EACH_MUTABLE(range, ranges.list, ranges.count) {
        const struct check_memory *its = &range->memory;
        range->calls += its->call == at->call && its->argument == at->argument &&
                        range->address == pointer + (CUdeviceptr)its->offset;
        if (its->call == at->call && its->owner == at->owner && its->ordinal == at->ordinal &&
            its->argument == at->argument) {
            range->address = pointer + (CUdeviceptr)range->memory.offset;
            range->buffer = buffer_of(range->address);
            range->updated = true;
        }
    }
}

void
beside_ranges_touched(uint64_t call, CUdeviceptr pointer, size_t copied)
{
    FOR_EACH_MUTABLE(range, ranges.list, ranges.count) {
        bool is_copied = range->updated && pointer == range->address && copied >= range->memory.bytes;
        bool is_given = range->change != NULL && pointer - range->changed_at < range->memory.bytes;
        range->touched = range->touched || is_copied || is_given;
        range->elsewhere = range->elsewhere || (is_given && call != range->memory.call);
    }
}

/* ---- at boundaries ---- */

struct taking {
    struct sketch *sketch;
    int type;
};

static void
take_piece(void *arg, const void *piece, size_t bytes)
{
    const struct taking *taking = arg;
    sketch_add(taking->sketch, taking->type, piece, bytes / element_size(taking->type));
}

static void
sketch_tensor(const struct tensor *tensor, struct sketch *sketch)
{
    *sketch = (struct sketch){.count = tensor->count};
    values_read_tensor(tensor, take_piece, &(struct taking){sketch, tensor->type});
}

static struct reference_key
key_of_sketch(const struct range_found *range, uint32_t step)
{
    return (struct reference_key){
        .kind = REFERENCE_SKETCH, .role = CHECK_MEMORY, .step = step, .number = range->memory.tensor.number};
}

/* The range at an address of an allocation. Of no bytes: there is nothing of the kind; or that allocation was freed,
 * and what is there now is other memory, as an evaluation's activations are. */
static struct tensor
range_at(const struct range_found *range, CUdeviceptr address, uint64_t buffer)
{
    struct memory_facts facts = address != 0 ? device_ask_about(address) : (struct memory_facts){0};
    if (facts.begin == 0 || facts.begin + facts.bytes < address + range->memory.bytes)
        return (struct tensor){.bytes = 0};
    if (buffer_of(address) != buffer)
        return (struct tensor){.bytes = 0};
    return (struct tensor){.address = address,
                           .kind = facts.type == CU_MEMORYTYPE_HOST ? MEMORY_HOST : MEMORY_DEVICE,
                           .bytes = range->memory.bytes,
                           .count = range->memory.tensor.count,
                           .type = (int)range->memory.tensor.type};
}

static struct tensor
tensor_of(const struct range_found *range)
{
    return range_at(range, range->address, range->buffer);
}

/* So many units in the last place are about a hundredth of an element; of a double, as many as fit. */
static unsigned
units_of_hundredth(int type)
{
    enum { HUNDREDTH_BITS = 7, FLOAT_BITS = 23, HALF_BITS = 10 };
    switch (type) {
    case ELEMENT_FLOAT64:
        return 1u << 30;
    case ELEMENT_FLOAT32:
        return 1u << (FLOAT_BITS - HUNDREDTH_BITS);
    case ELEMENT_BFLOAT16:
        return 2;
    default:
        return 1u << (HALF_BITS - HUNDREDTH_BITS);
    }
}

/* Adds a hundredth of each element, up or down, to it; keeps a sketch of that. */
static void
change_range(struct range_found *range)
{
    int type = (int)range->memory.tensor.type;
    size_t count = range->memory.tensor.count;
    OWNED char *old = values_room(NULL, range->memory.bytes), *new = values_room(NULL, range->memory.bytes);
    OWNED double *moved = values_room(NULL, count * sizeof(*moved));
    range->change = values_room(NULL, sizeof(*range->change));
    range->changed_at = range->address;
    range->changed_in = range->buffer;
    values_memory(range->address, range->memory.bytes, old, NULL);
    memcpy(new, old, range->memory.bytes);
    element_perturb(type, new, count, 0, units_of_hundredth(type));
    for (size_t i = 0; i < count; ++i)
        moved[i] = element_get(type, new, i) - element_get(type, old, i);
    *range->change = (struct sketch){.count = count};
    sketch_add(range->change, ELEMENT_FLOAT64, moved, count);
    values_memory(range->address, range->memory.bytes, NULL, new);
}

/* False: the reference has none. */
static bool
get_sketch(const struct range_found *range, uint32_t step, struct sketch *sketch)
{
    const struct reference_key key = key_of_sketch(range, step);
    return values_get(&key, sketch, sizeof(*sketch));
}

/* Whether a range is to be changed now, behind an update: the reference has it at the next boundary. */
static bool
is_probed(const struct range_found *range, uint32_t step)
{
    static struct sketch theirs; /* large */
    return check_run.probes && range->updated && range->change == NULL && get_sketch(range, step + 1, &theirs);
}

/* Where every step begins from the reference, what has changed since the update before is compared, as it is of
 * parameters: false where that is not known. Units in the last place of all elements are rounding. */
static bool
compare_change(const struct range_found *range, const struct sketch *own, const struct sketch *theirs,
               struct check_norms *norms)
{
    static struct sketch before; /* large */
    const struct sketch *mine = range->before;
    bool known = check_run.forced && mine != NULL && get_sketch(range, range->before_step, &before);
    if (known) {
        double size = sketch_compare(theirs, &(struct sketch){.count = own->count}).difference;
        double unit = size > 0 ? element_unit((int)range->memory.tensor.type, size) : 0;
        uint64_t unbounded = norms->unbounded;
        *norms = sketch_compare_changes(mine, own, &before, theirs);
        norms->unbounded = unbounded;
        norms->spread = norms->difference;
        norms->difference = norms->spread > unit ? norms->spread - unit : 0;
    }
    return known;
}

static void
compare_range(struct range_found *range, const struct sketch *own, uint32_t step)
{
    static struct sketch theirs; /* large */
    if (get_sketch(range, step, &theirs)) {
        struct check_row row = {.kind = CHECK_ROW_TENSOR,
                                .step = step,
                                .tensor = range->memory.tensor,
                                .norms = sketch_compare(own, &theirs)};
        row.norms.unbounded = own->unbounded != theirs.unbounded;
        row.same_bits = row.norms.difference == 0 && row.norms.unbounded == 0;
        row.of_change = compare_change(range, own, &theirs, &row.norms);
        values_row(&row);
        range->before = values_room(range->before, sizeof(*own));
        *range->before = *own;
        range->before_step = step;
        if (range->change != NULL && range->updated && !range->retained) {
            range->retained = true;
            row.kind = CHECK_ROW_RETAINED;
            row.value = range->elsewhere;
            /* A tensor that has moved was copied, before it was changed or after that; of memory that is made and
             * freed in each step nothing reads the old one. */
            bool is_known = range->changed_at == range->address || range->memory.tensor.group != 1 || !range->touched;
            row.norms.product = is_known ? sketch_retained(own, &theirs, range->change) : NAN;
            values_row(&row);
        }
    }
}

/* A change that is gone at the next boundary, though the range's update has not come: other operations overwrite the
 * memory, such as a forward pass. */
static void
look_at_change(struct range_found *range, uint32_t step)
{
    static const double little = 0.1;
    static struct sketch own, theirs; /* large */
    const struct tensor tensor = range_at(range, range->changed_at, range->changed_in);
    if (tensor.bytes == 0 || !get_sketch(range, step, &theirs))
        return;
    sketch_tensor(&tensor, &own);
    const double left = sketch_retained(&own, &theirs, range->change);
    if (!(fabs(left) < little))
        return;
    range->retained = true;
    values_row(&(struct check_row){.kind = CHECK_ROW_RETAINED,
                                   .step = step,
                                   .tensor = range->memory.tensor,
                                   .norms.product = left,
                                   .value = range->elsewhere});
}

static void
look_at_range(struct range_found *range, const struct tensor *tensor, uint32_t step)
{
    static struct sketch own; /* large */
    const struct reference_key key = key_of_sketch(range, step);
    sketch_tensor(tensor, &own);
    if (values_writer() != NULL)
        values_put(&key, &own, sizeof(own));
    else
        compare_range(range, &own, step);
}

void
beside_ranges_boundary(uint32_t step)
{
    OWNED struct tensor *tensors = values_room(NULL, ranges.count * sizeof(*tensors));
    FOR_EACH_MUTABLE(range, ranges.list, ranges.count) {
        range->updates += range->updated;
        bool is_seen = values_writer() != NULL || (values_reader() != NULL && range->updates >= UPDATES_NEEDED);
        tensors[NUMBER_OF(range)] = step >= FIRST_STEP && is_seen ? tensor_of(range) : (struct tensor){.bytes = 0};
    }
    values_together(tensors, ranges.count);
    FOR_EACH_MUTABLE(range, ranges.list, ranges.count) {
        const struct tensor *tensor = &tensors[NUMBER_OF(range)];
        if (tensor->bytes > 0)
            look_at_range(range, tensor, step);
        if (range->change != NULL && !range->retained && !range->updated)
            look_at_change(range, step);
        if (is_probed(range, step))
            change_range(range);
        range->updated = false;
        range->usual = range->calls > range->usual ? range->calls : range->usual;
        range->calls = 0;
        if (values_writer() == NULL)
            range->address = 0; /* until its operation comes again */
    }
}

void
beside_ranges_end(uint32_t step)
{
    FOR_EACH(range, ranges.list, ranges.count) {
        if (values_writer() == NULL || range->calls <= range->usual)
            continue;
        values_row(&(struct check_row){.kind = CHECK_ROW_AFTER,
                                       .step = step,
                                       .tensor = range->memory.tensor,
                                       .norms = {.own = range->calls, .reference = range->usual}});
    }
}

/* ---- where ranges are, as is known before the first step ---- */

void
beside_ranges_open(void)
{
    struct reference_key key = {.kind = REFERENCE_MEMORY};
    struct check_memory found;
    for (; values_reader() != NULL && key.number < RANGES_AT_MOST && values_get(&key, &found, sizeof(found));
         ++key.number) {
        if (element_bytes((int)found.tensor.type) == 0 ||
            found.bytes != found.tensor.count * element_size((int)found.tensor.type))
            values_stop_damaged();
        add_range(&found, 0);
    }
}
