/* state_memory.c - see state_memory.h. */
#include "tools/plan/trainer/state_memory.h"

#include "base/status_page.h"
#include "comm/kernels.h"

struct state_room state_room;

static CUfunction kernels[KERNELS];
static unsigned threads;       /* of a block */
static uint64_t known_changes; /* allocations_changes() when the tables were filled */

static CUstream only_stream; /* of the program's operations so far */
static bool has_several;

bool
state_is_sum(uint32_t i)
{
    return player.play.tensors[i].role == PLAY_SUM;
}

bool
state_is_kept(uint32_t i)
{
    return player.play.tensors[i].role == PLAY_CHANGES || state_is_sum(i);
}

uint64_t
state_bytes(uint32_t i)
{
    return player.play.tensors[i].hi - player.play.tensors[i].lo;
}

uint64_t
state_elements(uint32_t i)
{
    return state_bytes(i) / element_size((int)player.play.tensors[i].type);
}

/* Of a change: 16-bit floats travel and add as float32. */
int
state_wide_type(uint32_t i)
{
    int type = (int)player.play.tensors[i].type;
    return element_size(type) < sizeof(float) ? ELEMENT_FLOAT32 : type;
}

/* ---- memory ---- */

uint64_t
state_place(uint64_t *at, uint64_t bytes, uint64_t aligned)
{
    uint64_t begin = (*at + aligned - 1) / aligned * aligned;
    *at = begin + bytes;
    return begin;
}

/* Gives each tensor its place in the memory besides the program's, in bytes from its beginning: all values as the round
 * begins, then all changes by type, then the last ones. */
static void
place_all(void)
{
    const uint32_t count = player.play.plan.tensor_count;
    uint64_t at = 0;
    for (uint32_t i = 0; i < count; ++i)
        state_room.kept[i].begin = state_is_kept(i) ? state_place(&at, state_bytes(i), STATE_ALIGNED) : 0;
    state_room.changes_at = state_place(&at, 0, STATE_ALIGNED);
    for (int type = 0; type < LASTS; ++type) {
        for (uint32_t i = 0; i < count; ++i) {
            uint64_t size = element_size(state_wide_type(i));
            if (state_is_kept(i) && (state_is_sum(i) ? state_wide_type(i) : 0) == type)
                state_room.kept[i].change = state_place(&at, state_elements(i) * size, size);
        }
        state_room.ends_at[type] = at;
    }
    state_room.lasts_at = state_place(&at, 0, STATE_ALIGNED);
    for (uint32_t i = 0; i < count; ++i) {
        if (player.play.tensors[i].role == PLAY_LAST)
            state_room.kept[i].change = state_place(&at, (state_bytes(i) + 3) / 4 * 4, STATE_ALIGNED);
    }
    state_room.memory_end = state_room.ends_at[LASTS] = at;
}

/* Allocates device memory that the engine knows. Ends the job if there is too little. */
static CUdeviceptr
allocate(uint64_t bytes)
{
    CUdeviceptr address = 0;
    if (scout_state.driver.cuMemAlloc_p(&address, bytes) != CUDA_SUCCESS)
        scout_stop("a plan by state needs %llu bytes of device memory besides the program's, for the state at the "
                   "beginning of a round and for its changes; less is free on the device",
                   (unsigned long long)state_room.memory_end + sizeof(struct state_found));
    player.engine->allocated(&address, bytes, MEMORY_DEVICE);
    return address;
}

/* Beside the engine's, which the launcher has found for this device. */
static void
load_kernels(void)
{
    static const char *const names[KERNELS] = {[KEEP] = "ddprun_state_keep",
                                               [RETURN] = "ddprun_state_return",
                                               [CHANGE] = "ddprun_state_change",
                                               [DIVIDE] = "ddprun_state_divide",
                                               [APPLY] = "ddprun_state_apply"};
    const char *count = getenv(DDPRUN_ENV_STATUS_COUNT), *index = getenv(DDPRUN_ENV_STATUS_INDEX);
    char *page = (char *)scout_state.status - (size_t)(index != NULL ? atoi(index) : 0) * RANK_STATUS_STRIDE;
    const char *path = status_page_options(page, count != NULL ? atoi(count) : 1)->kernels, *slash = strrchr(path, '/');
    bool is_stand_in = strstr(path, ".so") != NULL;
    char own[JOB_PATH_BYTES + 32];
    struct comm_error error = {.text = "they are not installed"};
    if (slash != NULL)
        snprintf(own, sizeof(own), "%.*s/%s", (int)(slash - path), path,
                 is_stand_in ? "libddprun-plan-kernels.so" : "ddprun-plan-kernels.fatbin");
    if (slash == NULL || !kernels_load_named(names, kernels, KERNELS, &scout_state.driver, own, &error))
        scout_stop("a plan by state needs kernels of ddprun's own: %s", error.text);
    threads = is_stand_in ? 1 : STATE_THREADS;
}

/* ---- tables ---- */

/* Adds a tensor to its table of chunks, of STATE_CHUNK elements each. */
static void
add_chunks(uint32_t i)
{
    struct state_table *table = &state_room.tables[state_is_sum(i)];
    const uint64_t size = element_size((int)player.play.tensors[i].type), wide = element_size(state_wide_type(i));
    for (uint64_t first = 0, count = state_elements(i); first < count; first += STATE_CHUNK) {
        uint64_t here = count - first < STATE_CHUNK ? count - first : STATE_CHUNK;
        table->host[table->count++] =
            (struct state_chunk){.value = state_room.kept[i].value + first * size,
                                 .begin = state_room.memory + state_room.kept[i].begin + first * size,
                                 .change = state_room.memory + state_room.kept[i].change + first * wide,
                                 .count = (uint32_t)here,
                                 .type = player.play.tensors[i].type};
    }
}

/* Makes room for the two tables of chunks, of floats and of whole numbers, on the host and on the device. */
static void
make_tables(void)
{
    for (uint32_t i = 0; i < player.play.plan.tensor_count; ++i) {
        if (state_is_kept(i))
            state_room.tables[state_is_sum(i)].room += (uint32_t)((state_elements(i) + STATE_CHUNK - 1) / STATE_CHUNK);
    }
    for (int t = 0; t < 2; ++t) {
        state_room.tables[t].host = scout_zeroed(state_room.tables[t].room, sizeof(struct state_chunk));
        state_room.tables[t].chunks =
            state_room.tables[t].room > 0 ? allocate(state_room.tables[t].room * sizeof(struct state_chunk)) : 0;
    }
}

void
state_make_room(void)
{
    state_room.kept = scout_zeroed(player.play.plan.tensor_count, sizeof(*state_room.kept));
    load_kernels();
    place_all();
    state_room.memory = allocate(state_room.memory_end + 1);
    state_room.found = allocate(sizeof(struct state_found));
    state_room.flag = allocate(sizeof(uint32_t));
    make_tables();
}

/* Where tensors are now. Returns whether all are there: *missing is one that is not. */
bool
state_find_tensors(CUstream stream, uint32_t *missing)
{
    if (known_changes == allocations_changes())
        return true;
    FOR_EACH(tensor, player.play.tensors, player.play.plan.tensor_count) {
        const struct allocation *allocation =
            tensor->role >= PLAY_CHANGES ? player_allocation(tensor) : NULL; /* streams, too */
        *missing = NUMBER_OF(tensor);
        state_room.kept[*missing].value = allocation != NULL ? allocation->address + tensor->lo : 0;
        if (tensor->role >= PLAY_CHANGES && allocation == NULL)
            return false;
    }
    state_room.tables[0].count = state_room.tables[1].count = 0;
    for (uint32_t i = 0; i < player.play.plan.tensor_count; ++i)
        if (state_is_kept(i))
            add_chunks(i);
    for (int t = 0; t < 2; ++t)
        if (state_room.tables[t].count > 0)
            DRIVER(cuMemcpyHtoDAsync, state_room.tables[t].chunks, state_room.tables[t].host,
                   state_room.tables[t].count * sizeof(struct state_chunk), stream);
    known_changes = allocations_changes();
    return true;
}

void
state_launch(int kernel, const struct state_table *table, void *third, void *fourth, CUstream stream)
{
    CUdeviceptr chunks = table->chunks;
    uint32_t count = table->count;
    void *arguments[] = {&chunks, &count, third, fourth};
    unsigned blocks = count < STATE_BLOCKS_AT_MOST ? count : STATE_BLOCKS_AT_MOST;
    if (count > 0)
        DRIVER(cuLaunchKernel, kernels[kernel], blocks, 1, 1, threads, 1, 1, 0, stream, arguments, NULL);
}

/* Of a table, 1: of sums, which are whole numbers. */
void
state_launch_change(int number, uint32_t adds, CUstream stream)
{
    CUdeviceptr seen = number == 0 ? state_room.found : 0;
    state_launch(CHANGE, &state_room.tables[number], &adds, &seen, stream);
}

/* ---- streams ---- */

void
state_note_operation(const struct operation *operation)
{
    if (only_stream == NULL)
        only_stream = operation->stream;
    has_several = has_several || operation->stream != only_stream;
}

/* The stream after all that the program has enqueued so far. */
CUstream
state_stream(void)
{
    if (only_stream != NULL && !has_several)
        return only_stream;
    player_synchronize();
    return CU_STREAM_LEGACY;
}

/* What comes next of the program's, on whichever stream, comes after what was enqueued here. */
void
state_release(void)
{
    if (has_several)
        player_synchronize();
}
