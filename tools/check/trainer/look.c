/*
 * look.c - every operation of a step with all that it gets and leaves (tools/check/format/look.h), where the launcher
 * asks for that: of the intervals from DDP_STEP check_run.look_since to check_run.look, and copies from the host of all
 * that come after. Called by course.c.
 *
 * The host waits for the device before and after each operation, and reads the memory behind each pointer: to the end
 * of its annotated tensor, as an update of a whole arena does; else to the end of the allocation, to the next annotated
 * tensor, or to the next pointer that any operation was given.
 */
#include "tools/check/trainer/check.h"

#include "tools/check/format/look.h"
#include "tools/common/direct.h"
#include "tools/common/each.h"

#include <xxhash.h>

#include <fcntl.h>

static struct {
    char path[PATH_MAX + 32];
    int fd; /* -1: it could not be written, and is not there */
    bool opened;
    pthread_t thread; /* of the last DDP_STEP */
    uint32_t operations;
    CUdeviceptr *pointers; /* [pointer_count]: that operations were given */
    size_t pointer_count;
    uint64_t *kept; /* [kept_count]: hashes of contents in the file */
    size_t kept_count;
} look; /* guarded by memory_lock */

static __thread struct {
    bool active;
    struct look_operation operation;
    struct look_argument list[LOOK_ARGUMENTS];
    char *before[LOOK_ARGUMENTS];
} around;

/* Adds an address that is device memory to look.pointers, once. */
static void
note_pointer(void *arg, const struct pointed *pointed)
{
    (void)arg;
    if ((uint64_t)pointed->address >> 47 != 0 || ANY(it, look.pointers, look.pointer_count, *it == pointed->address) ||
        device_ask_about(pointed->address).begin == 0)
        return;
    look.pointers = values_room(look.pointers, (look.pointer_count + 1) * sizeof(*look.pointers));
    look.pointers[look.pointer_count++] = pointed->address;
}

/* Writes to the file of the look. If it fails the file is removed, and nothing more is written. */
static void
put(const void *data, size_t bytes)
{
    if (look.fd >= 0 && bytes > 0 && write(look.fd, data, bytes) != (ssize_t)bytes) {
        close(look.fd);
        unlink(look.path);
        look.fd = -1;
    }
}

/* Writes the bytes of a memory to the file, once for each content, padded to 8 bytes. Returns their hash, by which
 * operations name them. */
static uint64_t
put_contents(const char *data, size_t bytes)
{
    struct look_operation record = {.hash = XXH3_64bits(data, bytes), .bytes = bytes};
    if (!ANY(it, look.kept, look.kept_count, *it == record.hash)) {
        look.kept = values_room(look.kept, (look.kept_count + 1) * sizeof(*look.kept));
        look.kept[look.kept_count++] = record.hash;
        put(&record, sizeof(record));
        put(data, bytes);
        put(&(uint64_t){0}, -bytes % sizeof(uint64_t));
    }
    return record.hash;
}

/* How much of what lies behind the pointer is its own. */
static size_t
bytes_behind_pointer(const struct pointed *pointed, struct look_argument *argument)
{
    struct memory_facts facts = device_ask_about(pointed->address);
    struct tensor tensor;
    CUdeviceptr next, end = facts.begin + facts.bytes;
    if (facts.begin == 0)
        return 0;
    argument->offset = pointed->address - facts.begin;
    if (pointers_annotated(pointed->address, &tensor, &next)) {
        uint32_t role = tensor.role == TENSOR_STATE ? CHECK_STATE : (uint32_t)tensor.role;
        argument->tensor = (role + 1) << 24 | (uint32_t)tensor.index;
        argument->type = (uint16_t)tensor.type;
        next = tensor.address + tensor.bytes;
    }
    end = next < end ? next : end;
    for (size_t i = 0; i < look.pointer_count && argument->tensor == 0; ++i) {
        if (look.pointers[i] > pointed->address && look.pointers[i] < end)
            end = look.pointers[i];
    }
    size_t bytes = end - pointed->address;
    return pointed->bytes > 0 && pointed->bytes < bytes ? pointed->bytes : bytes;
}

/* A number, as its bits are an ordinary float or double, or an integer. */
static void
keep_scalar(uint32_t number, const void *bytes, size_t count)
{
    float small = 0;
    double wide = NAN;
    int64_t whole = INT64_MAX;
    int32_t narrow;
    if (count == sizeof(small)) {
        memcpy(&small, bytes, sizeof(small));
        memcpy(&narrow, bytes, sizeof(narrow));
        wide = isnormal(small) ? (double)small : NAN;
        whole = narrow;
    } else if (count == sizeof(wide)) {
        memcpy(&wide, bytes, sizeof(wide));
        memcpy(&whole, bytes, sizeof(whole));
    }
    bool is_float = isnormal(wide) && fabs(wide) > 1e-12 && fabs(wide) < 1e12; /* else a seed, such as the time */
    if (around.operation.arguments < LOOK_ARGUMENTS && (is_float || (whole > INT32_MIN && whole < INT32_MAX)))
        around.list[around.operation.arguments++] =
            (struct look_argument){.number = number, .is_whole = !is_float, .value = is_float ? wide : (double)whole};
}

/* Four bytes of a struct; 0 where they are no usual number, or `is_half` of something. Returns whether they are one. */
static bool
keep_member(uint32_t number, const char *bytes, bool is_half)
{
    struct look_argument *it = &around.list[around.operation.arguments];
    keep_scalar(number, bytes, sizeof(float));
    if (it == &around.list[around.operation.arguments])
        return false;
    double size = fabs(it->value);
    bool is_usual = !is_half && (it->is_whole ? size < 0x5500 : size > 1e-6 && size < 1e6);
    it->value = is_usual ? it->value : 0;
    it->is_member = true;
    return is_usual;
}

/* The numbers of a struct, but for pointers and doubles, whose lower half is no usual number, or zero beside an upper
 * half of this kind. */
static void
keep_members(uint32_t number, const void *value, size_t count)
{
    const char *bytes = value;
    for (size_t at = 0; at + sizeof(float) <= count; at += sizeof(uint64_t)) {
        uint64_t word = 0;
        uint32_t place = number | (uint32_t)(at / sizeof(word)) << POINTER_WORD_SHIFT;
        memcpy(&word, bytes + at, count - at < sizeof(word) ? sizeof(float) : sizeof(word));
        if (word > UINT32_MAX && word >> 47 == 0 && device_ask_about(word).begin != 0)
            continue;
        bool is_usual = keep_member(place, bytes + at, false), is_double = word >> 54 == 0x3f8 >> 2 && word << 32 == 0;
        if (count - at >= sizeof(word))
            (void)keep_member(place, bytes + at + sizeof(float), !is_usual || is_double);
    }
}

/* Whether eight bytes are a struct of two floats: they make no usual double. */
static bool
is_pair(const void *bytes)
{
    float each[2];
    double wide;
    memcpy(each, bytes, sizeof(each));
    memcpy(&wide, bytes, sizeof(wide));
    return isnormal(wide) && !(fabs(wide) > 1e-9 && fabs(wide) < 1e9) &&
           ALL(it, each, 2, fabsf(*it) > 1e-6F && fabsf(*it) < 1e6F);
}

/* The bytes that are kept, 0: there is no memory, or no room. */
static size_t
keep_memory(const struct pointed *pointed)
{
    uint32_t at = around.operation.arguments;
    struct look_argument argument = {.number = pointed->argument, .is_memory = true, .address = pointed->address};
    if (at == LOOK_ARGUMENTS)
        return 0;
    argument.bytes = bytes_behind_pointer(pointed, &argument);
    if (argument.bytes == 0)
        return 0;
    size_t most = around.operation.from_host ? LOOK_COPY_BYTES : LOOK_BYTES;
    argument.is_part = argument.bytes > most;
    argument.bytes = argument.is_part ? most : argument.bytes;
    around.before[at] = values_room(NULL, argument.bytes);
    values_memory(argument.address, argument.bytes, around.before[at], NULL);
    argument.before = put_contents(around.before[at], argument.bytes);
    around.list[at] = argument;
    ++around.operation.arguments;
    return argument.bytes;
}

/* Whether a gradient begins at this address: of one buffer each part may be annotated by itself. */
static bool
begins_gradient(CUdeviceptr address)
{
    struct tensor tensor;
    CUdeviceptr next;
    return pointers_annotated(address, &tensor, &next) && tensor.role == TENSOR_GRADIENT && tensor.address == address;
}

/* What the argument of an operation points to, and gradients that follow a gradient there. A library's number, such as
 * alpha, may be the host's. */
static void
keep_pointed(void *arg, const struct pointed *pointed)
{
    enum { PARTS_AT_MOST = 8 };
    (void)arg;
    size_t bytes = keep_memory(pointed);
    if (bytes == 0 && pointed->is_read && device_ask_about(pointed->address).begin == 0)
        keep_scalar(pointed->argument, (const void *)(uintptr_t)pointed->address, pointed->bytes);
    const struct look_argument *first = &around.list[around.operation.arguments - (bytes > 0)];
    bool is_gradient = bytes > 0 && first->tensor >> 24 == 1 + CHECK_GRADIENT && pointed->bytes == 0;
    struct pointed part = *pointed;
    for (int i = 1; i < PARTS_AT_MOST && is_gradient && begins_gradient(part.address + bytes); ++i) {
        part.address += bytes;
        bytes = keep_memory(&part);
        is_gradient = bytes > 0;
    }
}

/* Before an operation: fills its name, blocks, call site and arguments, with what the memory of each holds. */
static void
begin_operation(const struct operation *operation, const struct function_layout *layout)
{
    snprintf(around.operation.name, sizeof(around.operation.name), "%s",
             layout != NULL ? layout->name : operation->name);
    if (operation->config != NULL)
        around.operation.blocks =
            (uint64_t)operation->config->gridDimX * operation->config->gridDimY * operation->config->gridDimZ;
    (void)call_site_find(around.operation.place, sizeof(around.operation.place));
    pointers_visit(operation, layout, true, keep_pointed, NULL);
    for (unsigned i = 0; layout != NULL && i < layout->param_count; ++i) {
        const void *value = pointers_argument(operation, layout, i);
        size_t bytes = layout->params[i].bytes;
        bool is_struct = value != NULL && (bytes > sizeof(double) || (bytes == sizeof(double) && is_pair(value)));
        if (value != NULL)
            (is_struct ? keep_members : keep_scalar)(i, value, bytes);
    }
}

/* Whether the operation is part of a step: what comes before the first annotation is not, but is part of a round, in
 * the calling thread's context. */
static bool
has_context(void)
{
    CUcontext current = engine_state.context;
    if (current != NULL || !(values_reader()->in_rounds || check_run.looks_early))
        return current != NULL;
    device_ensure_driver(&(struct ddp_site){.file = "", .text = ""});
    return engine_state.driver.cuCtxGetCurrent_p(&current) == CUDA_SUCCESS && current != NULL;
}

/* Begins to keep an operation of the interval. False: it is not kept, for its interval is not looked at, or there is
 * no room. */
static bool
begins(uint32_t interval, bool from_host)
{
    bool is_late = interval >= check_run.look;
    if (interval < check_run.look_since || look.operations >= LOOK_OPERATIONS / (1U + is_late))
        return false;
    ++look.operations;
    around.operation = (struct look_operation){.interval = interval, .from_host = from_host};
    around.operation.is_aside = interval > 0 && pthread_equal(pthread_self(), look.thread) == 0;
    around.active = true;
    context_synchronize("before an operation that is looked at");
    return true;
}

void
look_open(void)
{
    if (check_run.look == 0)
        return;
    snprintf(look.path, sizeof(look.path), "%s-%d.look", check_run.results, engine_state.rendezvous.rank);
    look.opened = true;
    look.fd = open_direct(look.path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
}

void
look_begins(const struct operation *operation, uint32_t interval, bool from_host)
{
    around.active = false;
    if ((interval >= check_run.look && !from_host) || operation->graph != NULL || !has_context() ||
        atomic_load(&engine_state.captures_open) > 0 || stream_is_captured(operation->stream))
        return;
    const struct function_layout *layout = operation->function != NULL ? function_layout(operation->function) : NULL;
    HOLD(&memory_lock);
    ENTER_CONTEXT();
    pointers_visit(operation, layout, true, note_pointer, NULL);
    if (begins(interval, from_host))
        begin_operation(operation, layout);
}

void
look_reduce_begins(const struct tensor *memory, uint32_t interval)
{
    around.active = false;
    if (!look.opened || interval >= check_run.look || memory->kind == MEMORY_HOST || memory->bytes == 0)
        return;
    HOLD(&memory_lock);
    ENTER_CONTEXT();
    if (!begins(interval, false))
        return;
    snprintf(around.operation.name, sizeof(around.operation.name), LOOK_REDUCES);
    snprintf(around.operation.place, sizeof(around.operation.place), "%s:%d\n%s", file_name_of(memory->site.file),
             memory->site.line, memory->site.text);
    keep_pointed(NULL, &(struct pointed){.address = memory->address, .bytes = memory->bytes});
}

void
look_reduce_ends(uint32_t number, uint32_t step)
{
    around.operation.blocks = step;
    around.list[0].tensor = (1U + CHECK_REDUCE) << 24 | number;
    look_ends(true);
}

void
look_boundary(double weight, uint32_t interval)
{
    look.thread = pthread_self();
    if (!look.opened || interval < check_run.look_since || interval >= check_run.look)
        return;
    struct {
        struct look_operation operation;
        struct look_argument weight;
    } record = {{.interval = interval, .arguments = 1, .name = LOOK_STEPS}, {.value = weight}};
    HOLD(&memory_lock);
    put(&record, sizeof(record));
}

/* Sets the bytes [first, end) of an argument's memory that the operation has changed, widened to whole words of 4
 * bytes; end 0: none. */
static void
find_change(struct look_argument *argument, const char *before, const char *after)
{
    size_t first = 0, end = argument->bytes;
    while (first < end && before[first] == after[first])
        ++first;
    while (end > first && before[end - 1] == after[end - 1])
        --end;
    argument->first = first - first % 4;
    argument->end = first < end ? end + (4 - end % 4) % 4 : 0;
    argument->end = argument->end > argument->bytes ? argument->bytes : argument->end;
}

void
look_ends(bool enqueued)
{
    if (!around.active)
        return;
    around.active = false;
    HOLD(&memory_lock);
    ENTER_CONTEXT();
    context_synchronize("after an operation that is looked at");
    for (uint32_t i = 0; i < around.operation.arguments; ++i) {
        struct look_argument *argument = &around.list[i];
        if (!argument->is_memory)
            continue;
        OWNED char *after = values_room(NULL, argument->bytes);
        values_memory(argument->address, argument->bytes, after, NULL);
        find_change(argument, around.before[i], after);
        argument->after = put_contents(after, argument->bytes);
        free(around.before[i]);
    }
    if (enqueued && around.operation.arguments > 0) {
        put(&around.operation, sizeof(around.operation));
        put(around.list, around.operation.arguments * sizeof(around.list[0]));
    }
}
