/*
 * turn_host.c - what the host makes of memory that other ranks' turns have left out (check.h).
 *
 * In the run of all ranks rank 0 writes down what its host calls, as far as it has an effect. One more process then
 * takes the turns of rank 0 alone, and begins each step from the reference. What it copies to the host from memory that
 * left out work should have written is overwritten there: a program that keeps to its own turns calls the same. The
 * first call that differs is reported, or has other whole numbers, or a number that is not finite: so far rounding does
 * not reach.
 *
 * Not written down: what other threads call, copies to the host, copies in a turn of another rank before its work has
 * an effect, which a loader makes, and numbers that are finite. A DDP_MEAN gets the mean that rank 0 has got. A value
 * that is not finite has come there by arithmetic, as the rank's own last loss does, and is no difference.
 *
 * The run that writes the reference reports what is wrong in all runs alike: copies to the host of what the update of a
 * round should have written, where there was none, and numbers of an update that the host counts in each batch.
 */
#include "tools/check/trainer/check.h"

#include "tools/common/direct.h"
#include "tools/common/each.h"
#include "tools/common/owned.h"

#include <xxhash.h>

#include <fcntl.h>
#include <sys/stat.h>

enum {
    CALLS_AT_MOST = 1 << 20,
    TOGETHER = 256,
    LEFT_AT_MOST = 256,
    REPORTS_AT_MOST = 8,
    UPDATES_AT_MOST = 256,
    NUMBERS = 16,
    COUNTED_SO_OFTEN = 6, /* batches running; a schedule changes a rate now and then */
};
enum { GARBAGE = 0x7fc07f7f, GARBAGE_BYTE = 0x7f }; /* a NaN, as a float; a large whole number */

static struct {
    int fd; /* of the file that is written; -1: there is none */
    struct check_call *list;
    size_t count, at; /* [count] to compare with; `at` comes next. In the run that writes: not in the file yet */
    bool compares;
    uint64_t hash; /* of the call under way */
} calls = {.fd = -1};

/* The batch under way, whose region may have ended. */
static struct {
    bool is_open, is_mine, is_late; /* is_late: its DDP_STEP has come */
    bool completes;
    struct {
        CUdeviceptr address;
        bool is_late;     /* after DDP_STEP, too */
    } left[LEFT_AT_MOST]; /* [left_count]: where work points that was left out */
    size_t left_count;
} batch;

static struct {
    CUdeviceptr *list; /* [count]: that operations were given: what lies behind one ends at the next */
    size_t count;
} pointers; /* guarded by memory_lock */

/* A copy to the host under way. */
static __thread struct {
    char *to;
    size_t bytes;
} copied;

static pthread_t turns_thread; /* of the last DDP_TURN_BEGIN: only its calls have an order */
static pthread_mutex_t host_lock = PTHREAD_MUTEX_INITIALIZER; /* guards calls; held across no call of the driver */

/* ---- the calls of rank 0 ---- */

/* Writes the calls that were collected to their file. If it cannot be written, no more are collected. */
static void
flush(void)
{
    if (calls.fd >= 0 && calls.count > 0 &&
        !direct_write(calls.fd, calls.list, calls.count * sizeof(*calls.list), -1)) {
        close(calls.fd);
        calls.fd = -1;
    }
    calls.count = 0;
}

/* Adds a row: the call `name` is another one than rank 0's in its place, or comes after rank 0's last. */
static void
report(const char *name, enum check_called called)
{
    struct check_row row = {.kind = CHECK_ROW_CALL, .step = check_turns.rounds, .value = called};
    snprintf(row.tensor.text, sizeof(row.tensor.text), "%s", name);
    (void)call_site_find(row.text, sizeof(row.text));
    values_row(&row);
}

/* With host_lock held. The call that rank 0 has made at this place; NULL: it is another one, or nothing is compared. */
static const struct check_call *
meet(const struct check_call *call)
{
    if (!calls.compares || calls.at >= CALLS_AT_MOST)
        return NULL;
    const bool is_over = calls.at == calls.count;
    const struct check_call *theirs = &calls.list[calls.at];
    if (!is_over && theirs->hash == call->hash && strcmp(theirs->name, call->name) == 0) {
        ++calls.at;
        return theirs;
    }
    calls.compares = false;
    if (is_over) /* the rank was ended, or has left nothing */
        return NULL;
    report(call->name, theirs->name[0] == '\0' ? CHECK_CALLED_MORE : CHECK_CALLED_OTHERWISE);
    return NULL;
}

/* A call of the host in the thread that plays turns: its name, a hash of what is passed, and both numbers of a
 * DDP_MEAN. In the run as rank 0 alone, returns what rank 0 has called in its place, which is the same call; NULL:
 * another one, or nothing is compared. In other runs the call is kept for that run, and NULL is returned. */
static const struct check_call *
note(const char *name, uint64_t hash, double own, double result)
{
    struct check_call call = {.hash = hash, .own = own, .result = result};
    snprintf(call.name, sizeof(call.name), "%s", name);
    if (pthread_equal(turns_thread, pthread_self()) == 0)
        return NULL;
    HOLD(&host_lock);
    if (check_run.as_rank_0)
        return meet(&call);
    if (calls.fd < 0)
        return NULL;
    calls.list[calls.count++] = call;
    if (calls.count == TOGETHER)
        flush();
    return NULL;
}

/* ---- numbers ---- */

/* Four bytes: a whole number as it is; of what may be a float, whether it is finite. */
static uint64_t
hash_word(uint32_t bits, uint64_t hash)
{
    const int32_t whole = (int32_t)bits;
    float number;
    memcpy(&number, &bits, sizeof(number));
    const bool is_whole = whole < 1 << 23 && whole > -(1 << 23);
    const uint64_t kind[] = {is_whole, is_whole ? bits : (uint32_t)isfinite(number)};
    return XXH3_64bits_withSeed(kind, sizeof(kind), hash);
}

/* Arguments of a launch, without pointers; of eight bytes a number may be a double. */
static uint64_t
hash_argument(const char *value, size_t bytes, uint64_t hash)
{
    for (size_t at = 0; at + sizeof(uint32_t) <= bytes; at += sizeof(uint64_t)) {
        uint64_t word = 0;
        const bool is_wide = bytes - at >= sizeof(word);
        memcpy(&word, value + at, is_wide ? sizeof(word) : sizeof(uint32_t));
        const bool is_pointer = is_wide && word >> 32 != 0 && word >> 47 == 0;
        if (is_pointer)
            continue;
        hash = hash_word((uint32_t)word, hash);
        if (is_wide)
            hash = hash_word((uint32_t)(word >> 32), hash);
    }
    return hash;
}

/* Hash of a launch's kernel, grid and arguments, addresses aside. */
static uint64_t
hash_launch(const struct operation *operation, const struct function_layout *layout)
{
    uint64_t hash = layout->call;
    if (operation->config != NULL) {
        const unsigned grid[] = {operation->config->gridDimX, operation->config->gridDimY, operation->config->gridDimZ};
        hash = XXH3_64bits_withSeed(grid, sizeof(grid), hash);
    }
    for (unsigned i = 0; i < layout->param_count; ++i) {
        const char *value = pointers_argument(operation, layout, i);
        if (value != NULL)
            hash = hash_argument(value, layout->params[i].bytes, hash);
    }
    return hash;
}

/* Whether what the host copies to the device has a word that is not finite. */
static uint64_t
hash_copy(const struct operation *operation)
{
    bool is_finite = true;
    const char *source = operation->host_source;
    for (size_t at = 0; at + sizeof(float) <= operation->host_bytes; at += sizeof(float)) {
        float number;
        memcpy(&number, source + at, sizeof(number));
        is_finite = is_finite && isfinite(number);
    }
    const uint64_t facts[] = {operation->host_bytes, is_finite};
    return XXH3_64bits(facts, sizeof(facts));
}

static bool
is_copy(const struct operation *operation)
{
    return operation->function == NULL && strncmp(operation->name, "cuMemcpy", 8) == 0;
}

/* ---- copies to the host ---- */

/* Notes that the memory at this address is of an operation that other ranks' turns leave out. */
static void
add_left(CUdeviceptr address)
{
    size_t i = 0;
    while (i < batch.left_count && batch.left[i].address != address)
        ++i;
    if (i == LEFT_AT_MOST)
        return;
    batch.left_count += i == batch.left_count;
    batch.left[i].address = address;
    batch.left[i].is_late = batch.is_late;
}

/* An operation that runs is given it: as far as is known, it writes there. */
static void
drop_left(CUdeviceptr address)
{
    size_t kept = 0;
    for (size_t i = 0; i < batch.left_count; ++i) {
        if (batch.left[i].address != address)
            batch.left[kept++] = batch.left[i];
    }
    batch.left_count = kept;
}

/* For each pointer of an operation: where it points is left out from now on, or (*is_left_out false) computed again. */
static void
note_pointer(void *arg, const struct pointed *pointed)
{
    const bool *is_left_out = arg;
    if (device_ask_about(pointed->address).type != CU_MEMORYTYPE_DEVICE)
        return;
    if (!ANY(it, pointers.list, pointers.count, *it == pointed->address)) {
        pointers.list = values_room(pointers.list, (pointers.count + 1) * sizeof(*pointers.list));
        pointers.list[pointers.count++] = pointed->address;
    }
    if (*is_left_out)
        add_left(pointed->address);
    else
        drop_left(pointed->address);
}

/* Notes all pointers of a launch that runs, or that is left out. Copies and graphs have none. */
static void
note_pointers(const struct operation *operation, bool is_left_out)
{
    const struct function_layout *layout = operation->function != NULL ? function_layout(operation->function) : NULL;
    if (operation->graph != NULL || is_copy(operation))
        return;
    HOLD(&memory_lock);
    pointers_visit(operation, layout, true, note_pointer, &is_left_out);
}

/* Whether the memory is what it should be although work was left out: parameters and state always are, and what
 * DDP_STEP sends is after it has had an effect. */
static bool
is_known_to_be_right(CUdeviceptr address)
{
    struct tensor tensor;
    CUdeviceptr next;
    if (!pointers_annotated(address, &tensor, &next))
        return false;
    return tensor_is_compared(&tensor) || (batch.is_late && batch.completes && tensor_is_sent(&tensor));
}

/* Whether work that was left out should have written to this address; `late`: after DDP_STEP. */
static bool
is_left(CUdeviceptr address, bool late)
{
    CUdeviceptr nearest = 0;
    const struct memory_facts facts = device_ask_about(address);
    if (is_known_to_be_right(address))
        return false;
    FOR_EACH(it, pointers.list, pointers.count)
        nearest = *it >= facts.begin && *it <= address && *it > nearest ? *it : nearest;
    return ANY(it, batch.left, batch.left_count, it->address == nearest && (it->is_late || !late));
}

/* Of a copy from the device to the host, where it goes; NULL: it is another one. */
static char *
host_target(const struct operation *operation)
{
    const struct operand *operands = operation->operands;
    if (!is_copy(operation) || operation->operand_count != 2 || operation->host_source != NULL)
        return NULL;
    const bool is_known = strncmp(operation->name, "cuMemcpyDtoH", 12) == 0;
    const bool is_from_device = device_ask_about(operands[1].address).type == CU_MEMORYTYPE_DEVICE;
    const bool is_to_host = is_known || device_ask_about(operands[0].address).type != CU_MEMORYTYPE_DEVICE;
    return is_from_device && is_to_host ? (char *)(uintptr_t)operands[0].address : NULL;
}

/* Fills memory of the host with a value that no right program depends on. */
static void
overwrite(char *to, size_t bytes)
{
    const uint32_t garbage = GARBAGE;
    size_t at = 0;
    for (; at + sizeof(garbage) <= bytes; at += sizeof(garbage))
        memcpy(to + at, &garbage, sizeof(garbage));
    memset(to + at, GARBAGE_BYTE, bytes - at);
}

/* The reference's run: after a DDP_STEP without effect no rank has written it. */
static void
report_stale(void)
{
    static unsigned reports;
    struct check_row row = {.kind = CHECK_ROW_STALE, .step = check_turns.rounds};
    if (values_writer() == NULL || reports == REPORTS_AT_MOST)
        return;
    ++reports;
    (void)call_site_find(row.text, sizeof(row.text));
    values_row(&row);
}

/* Before a copy to the host: keeps where it goes if it brings memory that was left out, to overwrite it after the
 * copy. */
static void
look_at_copy(const struct operation *operation)
{
    char *to = host_target(operation);
    copied.to = NULL;
    if (to == NULL || !batch.is_open || !is_left(operation->operands[1].address, false))
        return;
    if (is_left(operation->operands[1].address, true))
        report_stale();
    copied.to = to;
    copied.bytes = operation->operands[1].bytes;
}

void
turn_host_operation_ends(bool enqueued)
{
    turn_after_operation_ends(batch.completes);
    if (!check_run.blinds || copied.to == NULL || !enqueued || atomic_load(&engine_state.captures_open) > 0)
        return;
    ENTER_CONTEXT();
    context_synchronize("after a copy to the host");
    overwrite(copied.to, copied.bytes);
    copied.to = NULL;
}

/* ---- updates that are left out ---- */

/* The numbers with which an update was launched last: of each function and memory. */
struct update {
    uint64_t call;
    CUdeviceptr first; /* pointer that it was given */
    double numbers[NUMBERS];
    unsigned count;
    unsigned argument, counted; /* which has grown, or become less, so many times running */
    bool is_growing, is_reported;
};

/* An argument of 4 or 8 bytes as a number: a float if its bits are a normal one, else an integer. */
static double
update_number(const char *value, size_t bytes)
{
    float number;
    double wide;
    int32_t whole;
    memcpy(&number, value, sizeof(number));
    memcpy(&whole, value, sizeof(whole));
    if (bytes == sizeof(wide)) {
        memcpy(&wide, value, sizeof(wide));
        return isnormal(wide) ? wide : 0;
    }
    return isnormal(number) ? (double)number : (double)whole;
}

static void
note_first(void *arg, const struct pointed *pointed)
{
    CUdeviceptr *first = arg;
    *first = *first == 0 ? pointed->address : *first;
}

/* The launch's numbers, by argument; pointers count as 0. */
static struct update
describe_update(const struct operation *operation, const struct function_layout *layout)
{
    struct update update = {.call = layout->call};
    pointers_visit(operation, layout, true, note_first, &update.first);
    update.count = layout->param_count < NUMBERS ? layout->param_count : NUMBERS;
    for (unsigned i = 0; i < update.count; ++i) {
        const char *value = pointers_argument(operation, layout, i);
        const size_t bytes = layout->params[i].bytes;
        uint64_t word = 0;
        if (value == NULL || bytes > sizeof(word) || bytes < sizeof(float))
            continue;
        memcpy(&word, value, bytes);
        if (word >> 32 == 0 || word >> 47 != 0)
            update.numbers[i] = update_number(value, bytes);
    }
    return update;
}

/* The first argument whose number is another one; `count`: none is. */
static unsigned
find_other_number(const struct update *old, const struct update *new)
{
    unsigned i = 0;
    while (i < new->count && old->numbers[i] == new->numbers[i])
        ++i;
    return i;
}

/* A number goes on as it went: up, or down. */
static void
count_change(struct update *known, const struct update *now)
{
    const unsigned i = find_other_number(known, now);
    const bool is_growing = i < now->count && now->numbers[i] > known->numbers[i];
    const bool goes_on = i < now->count && i == known->argument && is_growing == known->is_growing;
    known->counted = goes_on ? known->counted + 1 : 0;
    known->argument = i;
    known->is_growing = is_growing;
}

/* Adds a row: the launch `name` has a number that counts batches in which nothing was updated. */
static void
report_counted(const struct update *old, const struct update *new, const char *name)
{
    const unsigned i = find_other_number(old, new);
    struct check_row row = {.kind = CHECK_ROW_COUNTED,
                            .step = check_turns.rounds,
                            .tensor.argument = i,
                            .norms = {.reference = old->numbers[i], .own = new->numbers[i]}};
    snprintf(row.tensor.text, sizeof(row.tensor.text), "%s", name);
    (void)call_site_find(row.text, sizeof(row.text));
    values_row(&row);
}

/* After DDP_STEP: an update that is left out has the numbers of the update before, unless the host counts batches. */
static void
look_at_update(const struct operation *operation, bool is_left_out)
{
    static struct update updates[UPDATES_AT_MOST]; /* [count]; both guarded by memory_lock */
    static size_t count;
    const struct function_layout *layout = operation->function != NULL ? function_layout(operation->function) : NULL;
    if (values_writer() == NULL || layout == NULL || !layout->known || !batch.is_open || !batch.is_late)
        return;
    HOLD(&memory_lock);
    const struct update now = describe_update(operation, layout);
    struct update *known = FIND(it, updates, count, it->call == now.call && it->first == now.first);
    if (known == NULL && count < UPDATES_AT_MOST)
        updates[count++] = now;
    if (known == NULL)
        return;
    count_change(known, &now);
    if (is_left_out && !known->is_reported && known->counted >= COUNTED_SO_OFTEN) {
        report_counted(known, &now, layout->name);
        known->is_reported = true;
    }
    memcpy(known->numbers, now.numbers, sizeof(now.numbers));
}

/* ---- what comes ---- */

void
turn_host_batch(const struct ddp_site *site)
{
    turns_thread = pthread_self();
    (void)note(site->text, XXH3_64bits(&site->line, sizeof(site->line)), 0, 0);
}

void
turn_host_begins(const struct observed_turn *turn)
{
    batch.is_open = true;
    batch.is_late = false;
    batch.is_mine = turn->is_mine;
    batch.completes = turn->is_everyones || turn->turn == turn->turns - 1;
    batch.left_count = 0;
    HOLD(&host_lock);
    if (!check_run.as_rank_0)
        flush();
}

void
turn_host_steps(const struct observed_turn *turn)
{
    (void)turn;
    batch.is_late = true;
}

void
turn_host_left_out(const struct operation *operation)
{
    ENTER_CONTEXT();
    note_pointers(operation, true);
    look_at_update(operation, true);
}

/* Whether the operation is left out without effect: a loader's copy, and others that change nothing on rank 0. */
static bool
has_no_effect(const struct operation *operation)
{
    const bool is_without_effect = !batch.is_late || !batch.completes;
    const bool is_others = batch.is_open && !batch.is_mine && is_without_effect;
    return is_copy(operation) && (is_others || host_target(operation) != NULL);
}

void
turn_host_operation(const struct operation *operation)
{
    const struct function_layout *layout = operation->function != NULL ? function_layout(operation->function) : NULL;
    note_pointers(operation, false);
    look_at_update(operation, false);
    look_at_copy(operation);
    if (batch.is_open && batch.is_late)
        turn_after_operation(operation);
    if (has_no_effect(operation) || (!check_run.as_rank_0 && calls.fd < 0))
        return;
    uint64_t hash = 0;
    if (layout != NULL && layout->known)
        hash = hash_launch(operation, layout);
    else if (operation->host_source != NULL && is_copy(operation))
        hash = hash_copy(operation);
    (void)note(layout != NULL ? layout->name : operation->name, hash, 0, 0);
}

void
turn_host_mean(void *value, double own, int type, const struct ddp_site *site)
{
    const struct check_call *theirs =
        note("DDP_MEAN", XXH3_64bits(&site->line, sizeof(site->line)), own, values_number(value, type));
    if (theirs == NULL)
        return;
    const bool differs = isfinite(own) && fabs(own - theirs->own) > 1e-3 * fabs(theirs->own);
    if (differs)
        report(site->text, CHECK_CALLED_MEAN);
    const float narrow = (float)theirs->result;
    if (type == DDP_FLOAT64)
        memcpy(value, &theirs->result, sizeof(theirs->result));
    else
        memcpy(value, &narrow, sizeof(narrow));
}

void
turn_host_reduce(const struct ddp_site *site)
{
    if (check_turns.any)
        (void)note("DDP_REDUCE", XXH3_64bits(&site->line, sizeof(site->line)), 0, 0);
}

/* ---- the run ---- */

/* All that rank 0 has left; a file that cannot be read has nothing. */
static void
load_calls(void)
{
    struct stat file;
    OWNED_FD int fd = open_direct(check_run.calls, O_RDONLY | O_CLOEXEC, 0);
    const size_t count = fd >= 0 && fstat(fd, &file) == 0 ? (size_t)file.st_size / sizeof(*calls.list) : 0;
    calls.list = values_room(NULL, count * sizeof(*calls.list));
    if (count > 0 && direct_read(fd, calls.list, count * sizeof(*calls.list), -1))
        calls.count = count;
    calls.compares = calls.count > 0;
}

void
turn_host_open(void)
{
    const bool is_alone = engine_state.rendezvous.world_size == 1;
    if (engine_state.rendezvous.rank != 0 || is_alone != check_run.as_rank_0)
        return;
    if (check_run.as_rank_0) {
        load_calls();
        return;
    }
    calls.fd = open_direct(check_run.calls, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    calls.list = values_room(NULL, TOGETHER * sizeof(*calls.list));
}

void
turn_host_ends(bool by_us)
{
    HOLD(&host_lock);
    if (!check_run.as_rank_0 && calls.fd >= 0) {
        if (!by_us) /* what comes after that is no more than the end */
            calls.list[calls.count++] = (struct check_call){.hash = 0};
        flush();
    }
    const bool is_early = check_run.as_rank_0 && calls.compares && !by_us && calls.at < calls.count &&
                          calls.list[calls.at].name[0] != '\0';
    if (is_early)
        report(calls.list[calls.at].name, CHECK_CALLED_NONE);
}
