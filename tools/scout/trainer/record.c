/*
 * record.c - each operation of the trainer, as the hooks report it: what it is, and what it gets.
 *
 * One operation at a time passes, from `begin` to `end` (scout.h). What is captured into a graph does not run, and the
 * launches of a graph are not seen: its launch ends the recording.
 */
#include "tools/scout/trainer/scout.h"

#include <pthread.h>
#include <xxhash.h>

static struct noted current; /* under scout_lock() */
static bool written;         /* the log has `current` */
static bool is_deep;         /* `current` is recorded deeply */
static bool is_held;         /* `current` enters it later (loaders.c) */

/* What this thread's next copy brings from the host, where the operation does not say it. */
static __thread uint64_t pending_content __attribute__((tls_model("initial-exec")));

/* ---- what an operation gets ---- */

/* `argument` has what the caller knows of it. */
static void
add_argument(struct noted *noted, struct scout_argument argument, uint64_t address, uint64_t bytes, bool read_only)
{
    struct allocation *allocation = allocations_find(address);
    if (allocation == NULL)
        return;
    if (noted->op.argument_count == ARGUMENTS_AT_MOST) {
        noted->too_many = true;
        return;
    }
    uint64_t offset = address - allocation->address;
    allocations_note_offset(allocation, offset);
    noted->read_only[noted->op.argument_count] = read_only;
    argument.alloc = allocation->number;
    argument.offset = offset;
    argument.end = bytes > 1 && bytes <= allocation->bytes - offset ? offset + bytes : 0;
    noted->arguments[noted->op.argument_count++] = argument;
}

/* Where the reach of a pointer is not known, it ends at the next offset that was seen. */
static void
settle_ends(struct noted *noted)
{
    FOR_EACH_MUTABLE(argument, noted->arguments, noted->op.argument_count) {
        const struct allocation *allocation = argument->end == 0 ? allocations_numbered(argument->alloc) : NULL;
        if (allocation != NULL)
            argument->end = allocations_next_offset(allocation, argument->offset);
    }
}

/* Each word of a parameter that points into an allocation; the rest is hashed. */
static void
add_words(struct noted *noted, uint32_t slot, const char *value, const struct kernel_parameter *parameter)
{
    size_t bytes = parameter->bytes;
    for (size_t at = 0; at < bytes;) {
        uint64_t word = 0;
        uint32_t before = noted->op.argument_count;
        size_t step = bytes - at < sizeof(word) ? bytes - at : sizeof(word);
        memcpy(&word, value + at, step);
        if (step == sizeof(word))
            add_argument(noted,
                         (struct scout_argument){
                             .slot = slot, .byte = (uint32_t)at, .type = parameter->type, .table = parameter->table},
                         word, 0, false);
        if (noted->op.argument_count == before && slot < SCOUT_NUMBERS && bytes == step && step >= sizeof(int32_t))
            noted->op.numbers[slot] = step == sizeof(word) ? (int64_t)word : (int32_t)word;
        if (noted->op.argument_count == before)
            noted->op.scalars = XXH3_64bits_withSeed(value + at, step, noted->op.scalars + slot);
        if (noted->op.argument_count == before && !change_is_number((const char *)&word, step))
            noted->lengths = XXH3_64bits_withSeed(value + at, step, noted->lengths + slot);
        at += step;
    }
}

/* Fills *noted with the kernel's name, its grid, and the pointers among its parameters and variables. */
static void
describe_launch(struct noted *noted, const struct operation *operation)
{
    const struct kernel *kernel = kernels_find(operation->function);
    noted->op.name = kernel->name;
    noted->text = kernel->plain;
    noted->unknown = !kernel->known;
    const CUlaunchConfig *config = operation->config;
    noted->cooperative = begins_with(operation->name, "cuLaunchCooperative");
    if (config != NULL) {
        memcpy(noted->op.grid, (uint32_t[]){config->gridDimX, config->gridDimY, config->gridDimZ},
               sizeof(noted->op.grid));
        memcpy(noted->op.block, (uint32_t[]){config->blockDimX, config->blockDimY, config->blockDimZ},
               sizeof(noted->op.block));
        noted->cooperative =
            noted->cooperative || ANY(it, config->attrs, config->numAttrs,
                                      it->id == CU_LAUNCH_ATTRIBUTE_COOPERATIVE && it->value.cooperative != 0);
    }

    for (unsigned i = 0; i < kernel->parameter_count; ++i) {
        const char *value = kernels_argument(operation, kernel, i);
        if (value != NULL)
            add_words(noted, i, value, &kernel->parameters[i]);
    }
    for (unsigned i = 0; i < kernel->variable_count; ++i)
        add_argument(noted, (struct scout_argument){.slot = kernel->parameter_count + i}, kernel->variables[i].address,
                     kernel->variables[i].bytes, false);
}

/* The place of a copy's operand; SCOUT_NONE with the address: it is the host's memory. Sets the operation's bytes and
 * rows. */
static struct scout_place
place_of_operand(const struct operand *operand, struct noted *noted)
{
    struct allocation *allocation = allocations_find(operand->address);
    noted->op.bytes = operand_row_bytes(operand);
    noted->op.rows = operand_rows(operand);
    if (allocation == NULL || allocation->memory == SCOUT_PINNED)
        return (struct scout_place){.alloc = SCOUT_NONE, .offset = operand->address};
    uint64_t offset = operand->address - allocation->address;
    allocations_note_offset(allocation, offset);
    return (struct scout_place){.alloc = allocation->number,
                                .offset = offset,
                                .pitch = operand->pieces.bytes != 0 ? operand->pieces.inner_stride : 0};
}

/* Fills *noted with both places of a copy or fill; from the host, with a hash of what is copied, by which batches are
 * told apart. */
static void
describe_copy(struct noted *noted, const struct operation *operation)
{
    noted->op.kind = begins_with(operation->name, "cuMemset") ? SCOUT_FILL : SCOUT_COPY;
    noted->op.to = noted->op.from = (struct scout_place){.alloc = SCOUT_NONE};
    const struct operand *from = NULL;
    FOR_EACH(operand, operation->operands, operation->operand_count) {
        if (operand_is_target(operand))
            noted->op.to = place_of_operand(operand, noted);
        else
            from = operand;
    }
    if (from != NULL)
        noted->op.from = place_of_operand(from, noted);
    if (noted->op.kind == SCOUT_FILL || noted->op.from.alloc != SCOUT_NONE)
        return;
    const void *host = operation->host_source;
    if (host == NULL && from != NULL)
        host = (const void *)(uintptr_t)from->address;
    noted->op.from.offset = (uint64_t)(uintptr_t)host;
    if (host != NULL && noted->op.rows == 1 && noted->op.to.alloc != SCOUT_NONE)
        noted->op.content = XXH3_64bits(host, noted->op.bytes);
    else if (operation->host_source == NULL)
        noted->op.content = pending_content;
}

/* A call of a library is the launches that it makes: its operands are their arguments. Where it writes memory of the
 * host, the host gets a result. */
static void
describe_call(struct noted *noted, const struct operation *operation)
{
    noted->op.answers = operation->answers;
    FOR_EACH(operand, operation->operands, operation->operand_count) {
        if (operand->access == ACCESS_WRITE && allocations_is_host(operand->address)) {
            noted->op.answers = true;
            continue;
        }
        bool is_table = operand->pointer_count > 0;
        uint32_t type = operand->type;
        add_argument(noted,
                     (struct scout_argument){.slot = operand->argument,
                                             .type = is_table ? SCOUT_UNKNOWN : type,
                                             .table = is_table ? type : SCOUT_UNKNOWN},
                     operand->address, operand->bytes, operand->access == ACCESS_READ && !is_table);
        noted->op.scalars = XXH3_64bits_withSeed(&operand->pieces, sizeof(operand->pieces), noted->op.scalars);
        noted->op.grid[NUMBER_OF(operand) % 3] += (uint32_t)operand->bytes;
    }
}

/* Fills *noted from what the hook knows of the operation, before it runs. */
static void
describe_operation(struct noted *noted, const struct operation *operation)
{
    *noted = (struct noted){.op = {.kind = SCOUT_LAUNCH, .site = SCOUT_NONE}, .text = operation->name};
    noted->op.arguments = noted->arguments;
    if (operation->function != NULL) {
        describe_launch(noted, operation);
    } else {
        noted->op.name = names_put(operation->name);
        if (loaders_is_transfer(operation))
            describe_copy(noted, operation);
        else
            describe_call(noted, operation);
    }
    noted->opaque = operation->opaque;
    noted->lengths += operation->function == NULL ? noted->op.scalars : 0;
    pending_content = 0;
    noted->named_count = noted->op.argument_count;
    settle_ends(noted);
}

/* ---- hooks ---- */

/* Whether the call is made again with other inputs. One that only gives the host a result is not: that would be another
 * one. */
static bool
is_tried(const struct noted *noted)
{
    bool writes = !noted->op.answers || ANY_NUMBER(i, 0, noted->op.argument_count, !noted->read_only[i]);
    return writes && noted->op.kind == SCOUT_LAUNCH;
}

/* While a stream is captured, to wait for the device would end the capture: no operation is recorded deeply then. What
 * this library does itself is allowed beside a capture that another thread begins. */
static CUstreamCaptureMode
exchange_mode(CUstreamCaptureMode mode)
{
    (void)scout_state.driver.cuThreadExchangeStreamCaptureMode_p(&mode);
    return mode;
}

/* What the operation touches enters the log in front of it, and so does the operation, if this returns true. */
static bool
release_loaded(bool may_wait)
{
    enum course before = course_now();
    bool enters = loaders_release(&current);
    if (may_wait && course_now() == COURSE_DEEP && before != COURSE_DEEP)
        (void)scout_state.driver.cuCtxSynchronize_p();
    return enters;
}

static uint64_t begun;     /* operations so far; with the lock */
static pthread_t launcher; /* the thread of the last that is no copy */

/* Whether another thread than the one that launches copies: it may do so with a lock of the program's held. */
static bool
is_loaders(const struct operation *operation)
{
    return begins_with(operation->name, "cuMem") && !pthread_equal(pthread_self(), launcher);
}

/* Takes the lock when nothing is under way that the recorder is going to wait for: a host function may wait for a lock
 * of the program's, whose holder may wait for this one. */
static void
lock_idle(const struct operation *operation)
{
    enum { TRIES = 64 }; /* threads that go on and on */
    uint64_t waited_at = 0;
    scout_lock();
    for (int i = 0; i < TRIES && !is_loaders(operation) && course_is_to_wait() && waited_at != begun + 1; ++i) {
        waited_at = begun + 1;
        scout_unlock();
        CUstreamCaptureMode mode = exchange_mode(CU_STREAM_CAPTURE_MODE_RELAXED);
        if (!captures_are_open())
            (void)scout_state.driver.cuCtxSynchronize_p(); /* a failure shows in end_deep(), too */
        (void)exchange_mode(mode);
        scout_lock();
    }
    ++begun;
    if (!begins_with(operation->name, "cuMem"))
        launcher = pthread_self();
}

/* In the deep pass nothing is under way when an operation begins: what is no operation (host functions, values that
 * streams write) may have come after the last one, and writes memory whose contents count as the launch's. */
void
record_begin(struct operation *operation)
{
    operation->notes = NULL;
    if (course_now() == COURSE_OVER || begins_with(operation->name, "cuStreamWriteValue") ||
        begins_with(operation->name, "cuStreamBatchMemOp")) /* values may wait for another thread's operation */
        return;
    if (operation->graph != NULL)
        scout_stop(
            "the program launches a CUDA graph, in which scout does not see launches; scout it with its graphs off");
    scout_ensure_driver();
    /* The first launch of a kernel may wait for all that is under way (CUDA programming guide, Lazy Loading), and so
     * for a host function: the kernel is loaded before the lock is taken. */
    CUfunction of_kernel = operation->function;
    if (of_kernel != NULL && !captures_are_open() && scout_state.driver.cuFuncLoad_p(of_kernel) != CUDA_SUCCESS &&
        scout_state.driver.cuKernelGetFunction_p(&of_kernel, (CUkernel)of_kernel) == CUDA_SUCCESS)
        (void)scout_state.driver.cuFuncLoad_p(of_kernel);
    lock_idle(operation);
    bool captured = captures_have(operation->stream);
    bool may_wait = !captures_are_open();
    CUstreamCaptureMode mode = exchange_mode(CU_STREAM_CAPTURE_MODE_RELAXED);
    describe_operation(&current, operation);
    current.op.site = names_site();
    bool is_left_out = !captured && varying_leaves_out(&current);
    if (!captured && !is_left_out) {
        current.op.ahead = loaders_note(operation);
        is_held = !release_loaded(may_wait);
        is_deep = may_wait && course_now() == COURSE_DEEP;
    }
    if (captured || is_left_out || course_now() == COURSE_OVER) {
        (void)exchange_mode(mode);
        scout_unlock();
        return;
    }
    written = false;
    operation->notes = &current;
    if (is_deep && is_tried(&current))
        repeat_begin(&current, operation->stream);
    (void)exchange_mode(mode);
}

/* After a run in the deep pass: the operation goes to the log once, and operation->again says whether it is to be made
 * once more. */
static void
end_deep(struct operation *operation)
{
    bool is_repeated = is_tried(&current) && is_deep, is_left_out = is_tried(&current) && !is_deep;
    CUresult answer = CUDA_SUCCESS;
    if (is_deep)
        answer = is_loaders(operation) ? scout_state.driver.cuStreamSynchronize_p(operation->stream)
                                       : scout_state.driver.cuCtxSynchronize_p();
    if (!written && !is_held)
        (void)scout_writer_put(&scout_state.log, SCOUT_OP, &current.op);
    written = true;
    if (!is_repeated && !is_held)
        (void)scout_writer_put(
            &scout_state.log, SCOUT_EFFECT,
            &(struct scout_effect){.verdict = is_left_out ? SCOUT_EXCLUDED : 0,
                                   .why = is_left_out ? names_put("a stream is captured beside it") : SCOUT_NONE,
                                   .hidden_write = SCOUT_NONE});
    operation->again = is_repeated && repeat_next(answer);
}

/* After an operation, and after each repetition; `enqueued`: the driver took it. Releases the lock of record_begin()
 * when it is not made again. */
void
record_end(struct operation *operation, bool enqueued)
{
    operation->again = false;
    if (operation->notes == NULL)
        return;
    if (!enqueued && written)
        scout_stop("the launch of %s failed while it was repeated with changed inputs", current.text);
    if (!enqueued)
        course_note_failure(&current.op);
    CUstreamCaptureMode mode = exchange_mode(CU_STREAM_CAPTURE_MODE_RELAXED);
    if (enqueued && course_now() == COURSE_DEEP)
        end_deep(operation);
    else if (enqueued && !is_held)
        (void)scout_writer_put(&scout_state.log, SCOUT_OP, &current.op);
    if (operation->again) {
        (void)exchange_mode(mode);
        return;
    }
    operation->notes = NULL;
    if (enqueued) {
        host_put_calls();
        course_note_copy(&current.op);
        if (is_held) {
            loaders_hold(&current);
        } else {
            ++scout_state.operation_count;
            course_note(&current, !is_loaders(operation));
        }
    }
    (void)exchange_mode(mode);
    scout_unlock();
}

void
record_host_content(const void *source, size_t bytes, size_t pitch, size_t rows)
{
    if (course_now() == COURSE_OVER)
        return;
    for (size_t i = 0; i < rows; ++i)
        pending_content = XXH3_64bits_withSeed((const char *)source + i * pitch, bytes, pending_content);
}

void
record_annotation(enum scout_annotated says, uint32_t group, const void *address, uint64_t bytes, uint32_t type,
                  const struct ddp_site *site)
{
    if (course_now() == COURSE_OVER)
        return;
    scout_ensure_driver();
    scout_lock();
    struct scout_annotation annotation = {.says = says,
                                          .group = group,
                                          .alloc = SCOUT_NONE,
                                          .bytes = bytes,
                                          .type = type,
                                          .text = (char *)site->text,
                                          .file = (char *)site->file,
                                          .line = (uint32_t)site->line};
    struct allocation *allocation = address != NULL ? allocations_find((uintptr_t)address) : NULL;
    if (allocation != NULL) {
        annotation.alloc = allocation->number;
        annotation.offset = (uintptr_t)address - allocation->address; /* what is found does not depend on it */
    }
    if (bytes == RECORD_WHOLE)
        annotation.bytes = allocation != NULL ? allocation->bytes - annotation.offset : 0;
    (void)scout_writer_put(&scout_state.log, SCOUT_ANNOTATION, &annotation);
    scout_unlock();
}
