/*
 * play.c - a rank of `ddprun scout --prove`: the engine, with annotations that come from a plan.
 *
 * Stands between the shim and the real engine, in a copy of whose table a few functions are the player's own. It counts
 * the operations of the program as the recorder did, and takes each for the one in that place of the plan's period. At
 * the first operation of the first period of the plan it annotates what the plan names; from then on it calls DDP_STEP
 * in front of one operation of each period, hashes what the plan names, and gives rank 1 other data, by writing over
 * what a copy from the host has brought. The program's own annotations are ignored: it is alone, as far as it can see.
 *
 * Where ranks take turns (turns.c) nothing is written over, and operations are dropped instead.
 *
 * When all has been seen, or the program does something else than in the recording, the rank waits to be ended.
 *
 * Threads: `following` lets one at a time count, annotate and average. The engine is called with it held; the engine
 * never calls back.
 */
#include "base/mutant.h"
#include "base/printable.h"
#include "tools/check/format/element.h"
#include "tools/plan/trainer/player.h"
#include "tools/sandbox/files.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct engine *real;
static struct engine table; /* what the shim gets: *real, but for some functions */

static uint64_t operation_count; /* that ran; under `following`, as all below */

/* What a copy of the period brings, in this period and in the one before. */
static struct kept {
    void *now, *before;
    uint64_t now_bytes, before_bytes;
    CUdeviceptr to;
    uint64_t made; /* of a loader's copies: those that are like this one, which is the first of these in the plan */
} * kept;          /* [operation_count + load_count of the plan] */

/* The operation of the plan that this thread is in; -1: none. */
static __thread long place __attribute__((tls_model("initial-exec"))) = -1;
static __thread bool is_load __attribute__((tls_model("initial-exec"))); /* a copy that is not counted */
/* The operation is not the plan's: why. If the driver refuses it, it counts for nothing, as in the recording. */
static __thread char stranger[384] __attribute__((tls_model("initial-exec")));

/* Tells the engine of a tensor whose memory is there. */
static void
annotate(uint32_t number)
{
    const struct play_tensor *tensor = &player.play.tensors[number];
    const struct allocation *allocation = player_allocation(tensor);
    int type = MUTANT(SCOUT_PLAY_TYPE_WRONG) && tensor->role == PLAY_GRADIENT ? ELEMENT_BFLOAT16 : (int)tensor->type;
    size_t count = (size_t)(player_end(number) - tensor->lo) / element_size(type);
    if (allocation == NULL || count == 0 || tensor->role >= PLAY_COMPARED || player.play.plan.data == PLAY_ALONE)
        return;
    player.named[number].live = true;
    void *memory = (void *)(uintptr_t)(allocation->address + tensor->lo);
    if (tensor->role == PLAY_GRADIENT)
        real->gradient(memory, count, type, &player.named[number].site);
    else if (tensor->role == PLAY_PARAMETER)
        real->parameter(memory, count, type, &player.named[number].site);
    else
        real->state(memory, count, type, &player.named[number].site);
}

static void
hash_tensors(bool gradients, uint32_t step)
{
    scout_require(scout_state.driver.cuCtxSynchronize_p(), "cuCtxSynchronize");
    for (uint32_t i = 0; i < player.play.plan.tensor_count; ++i) {
        if ((player.play.tensors[i].role == PLAY_GRADIENT) == gradients)
            *play_hash(&player.play.plan, player.pages[0], step, i) = player_hash(&player.play.tensors[i]);
    }
}

/* Of averaged gradients where they are averaged, of what ranks have for themselves as the first step has left it. */
static void
sample_tensors(uint32_t role)
{
    scout_require(scout_state.driver.cuCtxSynchronize_p(), "cuCtxSynchronize");
    for (uint32_t i = 0; i < player.play.plan.tensor_count; ++i) {
        const struct play_tensor *tensor = &player.play.tensors[i];
        if (tensor->role != role)
            continue;
        const struct allocation *allocation = player_allocation_needed(tensor);
        player_sample(tensor, allocation, play_sample(&player.play.plan, player.pages[0], i));
    }
}

/* ---- the period's places ---- */

static void
average(CUstream stream, uint32_t step)
{
    static const struct ddp_site site = {"the plan", "ddprun scout --prove", 0};
    for (uint32_t i = 0; i < player.play.plan.tensor_count; ++i) {
        if (!player.named[i].live && player.play.tensors[i].role < PLAY_STAYS)
            (void)player_allocation_needed(&player.play.tensors[i]);
    }
    if (turns_are_taken()) {
        if (turns_reduce(step))
            real->step(0, stream, &site);
        return;
    }
    hash_tensors(true, step + 1);
    real->step(0, stream, &site);
    if (step == 0)
        sample_tensors(PLAY_GRADIENT);
}

static void
begin_first(void)
{
    player_set_stage(PLAY_RUNNING);
    player.annotates = true;
    if (ddprun_files_steps_begin != NULL)
        ddprun_files_steps_begin();
    if (turns_are_taken())
        turns_hash(0); /* before ranks get what rank 0 has */
    for (uint32_t i = 0; i < player.play.plan.tensor_count; ++i)
        annotate(i);
    if (!turns_are_taken())
        hash_tensors(false, 0);
}

/* `periods`: that are complete now. */
static void
end_step(CUstream stream, uint32_t periods)
{
    uint32_t steps = turns_are_taken() ? periods / PLAY_RANKS : periods;
    if (player.play.plan.average_before == player.play.plan.operation_count)
        average(stream, periods - 1);
    turns_end(periods - 1);
    if (turns_are_taken() && periods % PLAY_RANKS != 0)
        return;
    if (turns_are_taken())
        turns_hash(steps);
    else
        hash_tensors(false, steps);
    if (steps == 1 && !turns_are_taken())
        sample_tensors(PLAY_PER_RANK);
    player_set_steps(steps);
    if (steps == player.play.plan.steps || player.play.plan.data == PLAY_HALVES)
        player_wait_for_end(PLAY_OVER);
}

/* ---- data ---- */

static void
keep_data(uint32_t index, const struct operation *operation)
{
    uint64_t bytes = 0;
    struct kept *copy = &kept[index];
    const void *source = player_source_of(operation, &copy->to, &bytes);
    if (source == NULL)
        player_refuse("the copy %s, operation %u of a step, brings other data than in the recording", operation->name,
                      index);
    /* A host function may still make it. */
    scout_require(scout_state.driver.cuStreamSynchronize_p(operation->stream), "cuStreamSynchronize");
    free(copy->before);
    copy->before = copy->now;
    copy->before_bytes = copy->now_bytes;
    copy->now = malloc(bytes);
    copy->now_bytes = bytes;
    if (copy->now == NULL)
        player_refuse("no memory for %llu bytes of data", (unsigned long long)bytes);
    memcpy(copy->now, source, bytes);
}

/* Writes bytes of the step before over what the copy has brought, as far as both have some. */
static void
change_data(uint32_t index, CUstream stream)
{
    const struct kept *copy = &kept[index];
    bool has_halves = player.play.plan.data == PLAY_HALVES, is_first = real->rank == 1;
    uint64_t bytes = copy->now_bytes < copy->before_bytes ? copy->now_bytes : copy->before_bytes;
    uint64_t half = has_halves ? bytes / 2 : bytes;
    uint64_t from = is_first ? 0 : half, count = is_first ? half : bytes - half;
    if (has_halves && copy->now_bytes != copy->before_bytes)
        player_refuse("batches differ in size from step to step: they have no halves that could be exchanged");
    if (count == 0)
        return;
    scout_require(
        scout_state.driver.cuMemcpyHtoDAsync_p(copy->to + from, (const char *)copy->before + from, count, stream),
        "cuMemcpyHtoD");
    scout_require(scout_state.driver.cuStreamSynchronize_p(stream), "cuMemcpyHtoD");
}

/* ---- operations ---- */

/* Whether an operation is the one in this place of the plan. One that differs is noted. */
static bool
is_known(const struct operation *operation, uint32_t index, uint32_t period)
{
    const struct play_operation *known = &player.play.operations[index];
    const char *name = operation->function != NULL ? kernels_find(operation->function)->text : operation->name;
    const CUlaunchConfig *config = operation->config;
    bool same_block =
        config == NULL || memcmp((const uint32_t[]){config->blockDimX, config->blockDimY, config->blockDimZ},
                                 known->block, sizeof(known->block)) == 0;
    if (strncmp(name, known->name, PLAY_NAME_BYTES - 1) == 0 && same_block)
        return true;
    char is[PLAY_NAME_BYTES], was[PLAY_NAME_BYTES];
    snprintf(stranger, sizeof(stranger),
             "operation %llu of the program, %u steps later, is %s%s, and was %s in the recording",
             (unsigned long long)operation_count, period > 0 ? period - 1 : 0, plain_name(name, is, sizeof(is)),
             same_block ? "" : " with other blocks", plain_name(known->name, was, sizeof(was)));
    return false;
}

static void
take_operation(struct operation *operation)
{
    static uint64_t ended, begun; /* operations before which periods have ended and averages were made, plus 1 */
    const struct play_plan *plan = &player.play.plan;
    if (operation_count + plan->operation_count < plan->first)
        return;
    uint64_t since = operation_count + plan->operation_count - plan->first;
    uint32_t index = (uint32_t)(since % plan->operation_count), period = (uint32_t)(since / plan->operation_count);
    if (period == 0 && turns_are_taken())
        return;
    if (index == 0 && period > 1 && ended != operation_count + 1) { /* the last period is complete, whatever comes */
        ended = operation_count + 1;
        end_step(operation->stream, period - 1);
    }
    if (!is_known(operation, index, period))
        return;
    place = (long)index;
    operation->skip = turns_are_taken() && !turns_make(index, period - 1);
    if (begun == operation_count + 1)
        return;
    begun = operation_count + 1;
    if (turns_are_taken())
        reads_begin(operation, index, period - 1);
    if (player.play.operations[index].bytes > 0)
        keep_data(index, operation);
    if (player.play.operations[index].moves != PLAY_STILL)
        moves_keep(index, operation);
    if (period == 0)
        return;
    if (index == 0 && period == 1)
        begin_first();
    if (index == 0 && turns_are_taken())
        turns_begin(period - 1);
    if (index == plan->average_before + MUTANT(SCOUT_PLAY_TOO_LATE))
        average(operation->stream, period - 1);
    if (player.play.operations[index].moves != PLAY_STILL && real->rank == 1)
        moves_begin(index, operation);
}

/* The copies of loaders in the plan that have as many bytes, and bring them to as many: the one of that number, and how
 * many there are. */
static uint32_t
load_like(uint64_t bytes, uint64_t to_bytes, uint64_t number, uint32_t *count_p)
{
    const struct play_plan *plan = &player.play.plan;
    uint32_t found = 0;
    *count_p = 0;
    for (uint32_t i = plan->operation_count; i < plan->operation_count + plan->load_count; ++i) {
        if (player.play.operations[i].bytes == bytes && player.play.operations[i].to_bytes == to_bytes)
            found = (*count_p)++ == number ? i : found;
    }
    return found;
}

/* A copy of a loader, which may be ahead of the period that is played. Returns its place, -1: it is not written over.
 */
static long
follow_load(const struct operation *operation)
{
    CUdeviceptr to;
    uint64_t bytes = 0;
    uint32_t count;
    const struct allocation *allocation =
        player_source_of(operation, &to, &bytes) != NULL ? allocations_find(to) : NULL;
    uint32_t first = allocation != NULL ? load_like(bytes, allocation->bytes, 0, &count) : 0;
    if (first == 0 || count == 0)
        return -1;
    uint64_t made = kept[first].made++, before = player.play.operations[first].before;
    if (made < before)
        return -1;
    uint32_t place_of_load = load_like(bytes, allocation->bytes, (made - before) % count, &count);
    keep_data(place_of_load, operation);
    return made - before >= count ? (long)place_of_load : -1;
}

static void
begin_played(struct operation *operation)
{
    place = -1;
    reads_none();
    stranger[0] = '\0';
    scout_ensure_driver();
    if (player_counts(operation)) {
        pthread_mutex_lock(&player.following);
        place = LONG_MAX;
        is_load = loaders_note(operation);
        if (is_load)
            place = follow_load(operation);
        else
            take_operation(operation);
        pthread_mutex_unlock(&player.following);
    }
    if (!operation->skip)
        real->begin(operation);
}

static void
end(struct operation *operation, bool enqueued)
{
    if (!operation->skip)
        real->end(operation, enqueued);
    reads_end(operation);
    if (place < 0 || !enqueued) {
        moves_end(NULL);
        return;
    }
    pthread_mutex_lock(&player.following);
    if (stranger[0] != '\0')
        player_refuse("%s", stranger);
    moves_end(operation);
    if (is_load ||
        (place != LONG_MAX && player.play.operations[place].bytes > 0 && operation_count >= player.play.plan.first))
        change_data((uint32_t)place, operation->stream);
    operation_count += !is_load;
    pthread_mutex_unlock(&player.following);
}

/* ---- memory ---- */

static void
before_release(CUdeviceptr address, size_t bytes)
{
    real->before_release(address, bytes);
    pthread_mutex_lock(&player.following);
    player_forget(address, bytes);
    pthread_mutex_unlock(&player.following);
}

/* ---- the start ---- */

const struct engine *
play_start(const struct shim_services *services, struct rank_status *status, const char *path)
{
    real = alone_start(services, status);
    if (real == NULL)
        return NULL;
    player_load(path, real->rank);
    reads_open(path, real);
    if (player.play.plan.data >= PLAY_TRAINING || player_is_by_state())
        return follow_start(real, status);
    kept = calloc(player.play.plan.operation_count + player.play.plan.load_count + 1, sizeof(*kept));
    if (kept == NULL)
        scout_stop("no memory for the plan of ddprun scout");
    player_table(&table, real, "ddprun scout --prove", annotate);
    table.begin = begin_played;
    table.end = end;
    table.before_release = before_release;
    return &table;
}
