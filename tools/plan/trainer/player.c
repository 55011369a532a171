/* player.c - see player.h: the plan of a player, its tensors, and the pages on which it reports. */
#include "tools/plan/trainer/player.h"

#include "base/printable.h"
#include "tools/near/element.h"

#include <errno.h>
#include <stdarg.h>
#include <xxhash.h>

struct player player = {.following = PTHREAD_MUTEX_INITIALIZER};

/* With `following` held: how many threads wait for the device or other ranks; signalled when one has waited. */
static unsigned waiting;
static pthread_cond_t has_waited = PTHREAD_COND_INITIALIZER;
static __thread bool holds __attribute__((tls_model("initial-exec"))); /* this thread, `following` */

void
player_lock(void)
{
    pthread_mutex_lock(&player.following);
    while (waiting > 0 && loaders_thread_launches())
        pthread_cond_wait(&has_waited, &player.following);
    holds = true;
}

void
player_unlock(void)
{
    holds = false;
    pthread_mutex_unlock(&player.following);
}

void
player_wait_begin(void)
{
    if (!holds)
        return;
    ++waiting;
    pthread_mutex_unlock(&player.following);
}

void
player_wait_end(void)
{
    if (!holds)
        return;
    pthread_mutex_lock(&player.following);
    --waiting;
    pthread_cond_broadcast(&has_waited);
}

void
player_synchronize(void)
{
    player_wait_begin();
    CUresult result = scout_state.driver.cuCtxSynchronize_p();
    player_wait_end();
    scout_require(result, "cuCtxSynchronize");
}

void
player_synchronize_stream(CUstream stream)
{
    player_wait_begin();
    CUresult result = scout_state.driver.cuStreamSynchronize_p(stream);
    player_wait_end();
    scout_require(result, "cuStreamSynchronize");
}

static void (*annotate_tensor)(uint32_t number);

bool
player_brings_step(uint32_t operation)
{
    const struct play_operation *of = &player.play.operations[operation];
    return of->reads == PLAY_READS_STEP && of->back == 0;
}

/* By state, reads that directly follow the last write are of the step: the ranks average after them, so that the host
 * reads on all ranks what that batch has made. */
static void
include_reads(void)
{
    struct play_plan *plan = &player.play.plan;
    while (player_is_by_state() && plan->average_before > 0 && plan->average_before < plan->operation_count &&
           player_brings_step(plan->average_before))
        ++plan->average_before;
}

void
player_load(const char *path, const struct engine *engine)
{
    if (!play_load(path, &player.play))
        scout_stop("cannot read the plan of ddprun scout in %s: %s", path, strerror(errno));
    include_reads();
    bool is_alone = player.play.plan.data == PLAY_ALONE;
    player.engine = engine;
    player.rank = (uint32_t)engine->rank;
    player.page_count = is_alone ? player_world() : 1;
    if (player.page_count > PLAYER_PAGES)
        scout_stop("a proof is for %d ranks at most", PLAYER_PAGES);
    if (player.play.plan.data == PLAY_TRAINING)
        player.page_count = 0;
    for (uint32_t i = 0; i < player.page_count; ++i) {
        player.pages[i] = play_page_map(&player.play.plan, is_alone ? (int)i : engine->rank, false);
        if (player.pages[i] == NULL)
            scout_stop("cannot open %s-%d: %s", player.play.plan.pages, is_alone ? (int)i : engine->rank,
                       strerror(errno));
    }
}

void
player_set_stage(enum play_stage stage)
{
    for (uint32_t i = 0; i < player.page_count; ++i)
        atomic_store(&player.pages[i]->stage, stage);
}

void
player_set_steps(uint32_t steps)
{
    for (uint32_t i = 0; i < player.page_count; ++i)
        atomic_store(&player.pages[i]->steps, steps);
}

void
player_wait_for_end(enum play_stage stage)
{
    player_set_stage(stage);
    for (;;)
        pause();
}

void
player_refuse(const char *format, ...)
{
    char why[PLAY_WHY_BYTES];
    va_list args;
    va_start(args, format);
    vsnprintf(why, sizeof(why), format, args);
    va_end(args);
    if (player.page_count == 0)
        scout_stop("%s", why);
    memcpy(player.pages[0]->why, why, sizeof(why));
    for (uint32_t i = 1; i < player.page_count; ++i)
        memcpy(player.pages[i]->why, player.pages[0]->why, PLAY_WHY_BYTES);
    player_wait_for_end(PLAY_IMPOSSIBLE);
}

void
player_no_fit(const char *name, const char *what)
{
    char plain[PLAY_NAME_BYTES];
    plain_name(name, plain, sizeof(plain));
    bool is_rehearsal =
        player.play.plan.data < PLAY_TRAINING && player.page_count == 0; /* a proof that is only timed */
    if (is_rehearsal)                                                    /* the plan is not older than this run */
        scout_stop("in batch %llu of the program, %s %s", (unsigned long long)player.period + 1, plain, what);
    scout_stop(
        "in batch %llu of the program, %s %s: that was not so when its plan was made. If a file or an argument of "
        "the program has changed, make a new plan: ddprun scout --prove; else annotate it (man ddprun.h)",
        (unsigned long long)player.period + 1, plain, what);
}

const char *
player_name_of(const struct operation *operation)
{
    return operation->function != NULL ? kernels_find(operation->function)->text : operation->name;
}

uint64_t
player_hash_of(const struct operation *operation)
{
    return operation->function != NULL ? kernels_find(operation->function)->hash : kernels_hash(operation->name);
}

void
player_note_batch(void)
{
    atomic_store(&scout_state.status->batch_count, player.period + 1);
}

bool
player_is_by_state(void)
{
    return player.play.plan.by == PLAY_BY_STATE;
}

bool
player_trains(uint32_t tensor)
{
    uint32_t role = player.play.tensors[tensor].role;
    return player_is_by_state() ? role == PLAY_CHANGES : role == PLAY_PARAMETER || role == PLAY_STATE;
}

bool
player_plays_all(void)
{
    return player.play.plan.turns > 0;
}

bool
player_makes_all(void)
{
    return player.play.plan.data <= PLAY_HALVES;
}

uint32_t
player_world(void)
{
    uint32_t turns = player.play.plan.turns;
    if (player_makes_all())
        return 1;
    return turns > 0 ? turns : (uint32_t)player.engine->world_size;
}

uint32_t
player_turn(void)
{
    return (uint32_t)(player.period % player_world());
}

bool
player_is_last_turn(void)
{
    return player_turn() == player_world() - 1;
}

bool
player_has_turn(void)
{
    return player_world() != (uint32_t)player.engine->world_size || player.rank == player_turn();
}

bool
player_warms_up(void)
{
    enum { WARM_ROUNDS = 2 };
    return player.period < (uint64_t)WARM_ROUNDS * player_world();
}

const struct allocation *
player_allocation(const struct play_tensor *tensor)
{
    size_t count;
    struct allocation **all = allocations_all(&count);
    struct allocation **found =
        FIND(it, all, count, (*it)->bytes == tensor->bytes && (*it)->ordinal == tensor->ordinal);
    return found != NULL ? *found : NULL;
}

const struct allocation *
player_allocation_needed(const struct play_tensor *tensor)
{
    const struct allocation *allocation = player_allocation(tensor);
    if (allocation == NULL)
        player_refuse("%s is not there", player.named[tensor - player.play.tensors].text);
    return allocation;
}

/* What the plan names of memory that is known now. */
static void
annotate_at(CUdeviceptr address)
{
    for (uint32_t i = 0; i < player.play.plan.tensor_count && player.begun; ++i) {
        const struct allocation *allocation = player.named[i].live ? NULL : player_allocation(&player.play.tensors[i]);
        if (allocation != NULL && allocation->address == address)
            annotate_tensor(i);
    }
}

/* The shim has allocated memory: it is known, and annotated if the plan names it. */
static void
allocated(const CUdeviceptr *address, size_t bytes, enum memory_kind kind)
{
    player.engine->allocated(address, bytes, kind);
    if (address == NULL)
        return;
    scout_ensure_driver();
    player_lock();
    known_allocations_add(*address, bytes, kind);
    annotate_at(*address);
    player_unlock();
}

bool
player_touches(const struct play_tensor *tensor, uint64_t address, uint64_t bytes)
{
    const struct allocation *allocation = player_allocation(tensor);
    return allocation != NULL && address < allocation->address + tensor->hi &&
           allocation->address + tensor->lo < address + bytes;
}

bool
player_any(const struct operation *operation, bool operands, bool (*is)(uint64_t address, uint64_t bytes))
{
    const struct kernel *kernel = operation->function != NULL ? kernels_find(operation->function) : NULL;
    bool any = false;
    for (unsigned i = 0; operands && i < operation->operand_count; ++i)
        any = is(operation->operands[i].address, operation->operands[i].bytes) || any;
    for (unsigned i = 0; kernel != NULL && i < kernel->parameter_count; ++i) {
        const char *value = kernels_argument(operation, kernel, i);
        uint64_t word;
        for (size_t at = 0; value != NULL && at + sizeof(word) <= kernel->parameters[i].bytes; at += sizeof(word)) {
            memcpy(&word, value + at, sizeof(word));
            any = is(word, 1) || any;
        }
    }
    for (unsigned i = 0; kernel != NULL && i < kernel->variable_count; ++i)
        any = is(kernel->variables[i].address, 1) || any;
    return any;
}

void
player_variable_found(CUdeviceptr address, size_t bytes)
{
    player.engine->allocated(&address, bytes, MEMORY_DEVICE);
    annotate_at(address);
}

void
player_forget(CUdeviceptr address, size_t bytes)
{
    known_allocations_remove(address, bytes);
    for (uint32_t i = 0; i < player.play.plan.tensor_count; ++i)
        player.named[i].live = player.named[i].live && player_allocation(&player.play.tensors[i]) != NULL;
}

/* The program's own annotation says nothing here. But memory that nothing has named before, as a variable of the
 * device, gets its number now, as from the recorder. */
static void
annotated(void *memory, size_t count, int type, const struct ddp_site *site)
{
    (void)count, (void)type, (void)site;
    scout_ensure_driver();
    player_lock();
    (void)allocations_find((uint64_t)(uintptr_t)memory);
    player_unlock();
}

/* The program has unloaded a module: handles of kernels may be used again for others. */
static void
after_unload(void)
{
    player.engine->after_unload();
    player_lock();
    kernels_forget(false);
    player_unlock();
}

/* Finds the plain name of an operation of the plan that writes the tensor. False: none does. */
static bool
find_writer(const struct play_tensor *tensor, char name[PLAY_NAME_BYTES])
{
    const struct play_written *found = FIND(it, player.play.written, player.play.plan.written_count,
                                            it->bytes == tensor->bytes && it->ordinal == tensor->ordinal &&
                                                it->lo < tensor->hi && tensor->lo < it->hi);
    return found != NULL && plain_name(player.play.operations[found->writer].name, name, PLAY_NAME_BYTES) != NULL;
}

void
player_table(struct engine *table, const char *by, void (*annotate)(uint32_t number))
{
    annotate_tensor = annotate;
    player.named = scout_zeroed(player.play.plan.tensor_count, sizeof(*player.named));
    FOR_EACH(tensor, player.play.tensors, player.play.plan.tensor_count) {
        struct named *named = &player.named[NUMBER_OF(tensor)];
        char writer[PLAY_NAME_BYTES] = "";
        bool is_written = find_writer(tensor, writer);
        snprintf(named->text, sizeof(named->text), "a%u[%llu:%llu] (%llu bytes%s%.40s%s%s)", tensor->alloc,
                 (unsigned long long)tensor->lo, (unsigned long long)tensor->hi, (unsigned long long)tensor->bytes,
                 is_written ? ", written by " : "", writer, tensor->allocated_at[0] != '\0' ? ", allocated at " : "",
                 tensor->allocated_at);
        named->site = (struct ddp_site){named->text, by, (int)NUMBER_OF(tensor) + 1};
    }
    inner_engine_table(table);
    table->parameter = table->gradient = annotated;
    table->allocated = allocated;
    table->after_unload = after_unload;
}

bool
player_sends(const struct operation *operation, struct sent *sent)
{
    *sent = (struct sent){.source = operation->host_source, .rows = 1, .row_bytes = operation->host_bytes};
    FOR_EACH(operand, operation->operands, operation->operand_count) {
        if (operand_is_target(operand)) {
            sent->to = operand->address;
            sent->bytes = operand->bytes;
        } else if (sent->source == NULL && allocations_is_host(operand->address)) {
            sent->source = (const char *)(uintptr_t)operand->address;
            sent->rows = operand_rows(operand);
            sent->row_bytes = operand_row_bytes(operand);
            sent->pitch = operand->pieces.inner_stride;
        }
    }
    return sent->source != NULL;
}

bool
player_counts(const struct operation *operation)
{
    return !captures_have(operation->stream) &&
           (operation->function != NULL || (!begins_with(operation->name, "cuStreamWriteValue") &&
                                            !begins_with(operation->name, "cuStreamBatchMemOp")));
}

char *
player_room(uint64_t bytes)
{
    const uint64_t available = room_available("");
    char *room = bytes <= available ? calloc(bytes + 1, 1) : NULL;
    if (room == NULL)
        player_refuse("a copy of %llu bytes of device memory has no room on the host, where %llu are available",
                      (unsigned long long)bytes, (unsigned long long)available);
    return room;
}

enum { PIECE = 1 << 20 };

uint64_t
player_hash(const struct play_tensor *tensor)
{
    static unsigned char piece[PIECE];
    const struct allocation *allocation = player_allocation(tensor);
    uint64_t hash = 0;
    if (allocation == NULL)
        return 0;
    for (uint64_t at = tensor->lo; at < tensor->hi; at += PIECE) {
        size_t bytes = tensor->hi - at < PIECE ? tensor->hi - at : PIECE;
        memory_read(allocation, at, piece, bytes);
        hash = XXH3_64bits_withSeed(piece, bytes, hash);
    }
    return hash;
}

uint64_t
player_hash_all(bool (*is)(uint32_t tensor))
{
    uint64_t hash = 0;
    player_synchronize();
    FOR_EACH_THERE(tensor, allocation, is(NUMBER_OF(tensor)))
        hash = hash * 31 + player_hash(tensor);
    return hash;
}

char **
player_hold(bool (*is)(uint32_t tensor))
{
    char **held = scout_zeroed(player.play.plan.tensor_count + 1, sizeof(*held));
    player_synchronize();
    FOR_EACH_THERE(tensor, allocation, is(NUMBER_OF(tensor))) {
        held[NUMBER_OF(tensor)] = player_room(tensor->hi - tensor->lo);
        memory_read(allocation, tensor->lo, held[NUMBER_OF(tensor)], tensor->hi - tensor->lo);
    }
    return held;
}

/* Whether the tensor holds other bytes than `held`. */
static bool
differs(const struct play_tensor *tensor, const struct allocation *allocation, const char *held)
{
    static char piece[PIECE];
    for (uint64_t at = tensor->lo; at < tensor->hi; at += PIECE) {
        size_t bytes = tensor->hi - at < PIECE ? tensor->hi - at : PIECE;
        memory_read(allocation, at, piece, bytes);
        if (memcmp(piece, held + (at - tensor->lo), bytes) != 0)
            return true;
    }
    return false;
}

bool
player_differs(char **held)
{
    bool any = false;
    player_synchronize();
    FOR_EACH_THERE(tensor, allocation, !any && held[NUMBER_OF(tensor)] != NULL)
        any = differs(tensor, allocation, held[NUMBER_OF(tensor)]);
    return any;
}

void
player_put_back(char **held)
{
    if (held != NULL)
        player_synchronize(); /* what writes there may still run */
    FOR_EACH_THERE(tensor, allocation, held != NULL && held[NUMBER_OF(tensor)] != NULL)
        memory_write(allocation, tensor->lo, held[NUMBER_OF(tensor)], tensor->hi - tensor->lo);
    memory_wait();
}

void
player_release(char ***held)
{
    for (uint32_t i = 0; *held != NULL && i < player.play.plan.tensor_count; ++i)
        free((*held)[i]);
    free(*held);
    *held = NULL;
}

void
player_sample(const struct play_tensor *tensor, const struct allocation *allocation, float *samples)
{
    size_t bytes = element_size((int)tensor->type), count = (size_t)(tensor->hi - tensor->lo) / bytes;
    size_t distance = (count + PLAY_SAMPLES - 1) / PLAY_SAMPLES;
    for (size_t k = 0; k * distance < count; ++k) {
        double element;
        memory_read(allocation, tensor->lo + k * distance * bytes, &element, bytes);
        samples[k] = (float)element_get((int)tensor->type, &element, 0);
    }
}
