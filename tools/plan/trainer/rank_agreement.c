/*
 * rank_agreement.c - see player.h: whether all ranks of `ddprun --plan` do the same. What the program copies to its
 * device, and the numbers, sizes and places of its launches, are hashed on each rank, dropped or not; of the update,
 * where it is made. The hashes lie in a few bytes of the device that are annotated as state: the engine compares them.
 *
 * Addresses are not the same on all ranks: what counts is the place in an allocation of so many bytes. Of structs,
 * which have holes, and of words that may be an address of the host, only the change since the period before counts.
 *
 * A loader's copies come at other times on each rank. What they have brought counts where an operation of the plan is
 * given the memory.
 */
#include "tools/plan/trainer/player.h"

#include <pthread.h>
#include <xxhash.h>

enum heard { HEARD_DATA, HEARD_NUMBERS, HEARD_UPDATE, HEARD_COUNT };
enum { WORDS_AT_MOST = 2048, LOADED_AT_MOST = 256, TABLE_BYTES = 64 << 10 };

/* Addresses of memory lie in between. */
static const uint64_t least_address = UINT64_C(1) << 32, most_address = UINT64_C(1) << 48;

static uint64_t heard[HEARD_COUNT];
static char batches_text[80] = PLAY_BATCHES;
static CUdeviceptr shown; /* [HEARD_COUNT] 32-bit words on the device */
static uint64_t smaller;
static uint64_t words[WORDS_AT_MOST]; /* of the operation that is looked at */
static uint32_t word_count;

/* What a thread has copied to [lo, hi). */
static struct loaded {
    CUdeviceptr lo, hi;
    uint64_t hash;
    pthread_t thread;
} loaded[LOADED_AT_MOST];
static uint32_t loaded_count;

/* ---- words ---- */

static void
add_word(uint64_t word)
{
    if (word_count < WORDS_AT_MOST)
        words[word_count++] = word;
}

static const struct allocation *
allocation_at(uint64_t address)
{
    return address >= least_address && address < most_address ? allocations_find(address) : NULL;
}

/* What another thread has brought to a place that this one hands to an operation. */
static void
add_loaded(uint64_t address)
{
    FOR_EACH(load, loaded, loaded_count) {
        if (load->lo <= address && address < load->hi && !pthread_equal(load->thread, pthread_self()))
            heard[HEARD_DATA] = XXH3_64bits_withSeed(&load->hash, sizeof(load->hash), heard[HEARD_DATA] + 1);
    }
}

/* Returns whether it is an address of known memory. */
static bool
add_place(uint64_t address)
{
    const struct allocation *allocation = allocation_at(address);
    if (allocation == NULL)
        return false;
    add_word(allocation->bytes);
    add_word(address - allocation->address);
    add_loaded(address);
    return true;
}

/* ---- launches ---- */

/* Structs have holes, which may hold any bits, and those are often a half of an address of the host: only small numbers
 * that cannot be its upper half count. */
static uint64_t
lane(uint32_t value)
{
    static const struct {
        uint32_t lo, hi;
    } halves[] = {{0x5500, 0x5700}, {0x7000, 0x8000}, {0xaaa0, 0xaac0}, {0xff00, UINT32_MAX}};
    return ANY(half, halves, sizeof(halves) / sizeof(halves[0]), value >= half->lo && value <= half->hi) ? 0 : value;
}

/* Adds the words of a launch's parameter to the hash that ranks compare; addresses as places in their allocation,
 * numbers of a lane without the lane. */
static void
add_parameter(const char *value, size_t bytes)
{
    for (size_t at = 0; at < bytes; at += sizeof(uint64_t)) {
        uint64_t word = 0;
        size_t step = bytes - at < sizeof(word) ? bytes - at : sizeof(word);
        memcpy(&word, value + at, step);
        if (step == sizeof(word) && add_place(word))
            continue;
        if (bytes > sizeof(word))
            add_word(lane((uint32_t)(word >> 32)) << 32 | lane((uint32_t)word));
        else if (word < least_address || word >= most_address)
            add_word(word);
    }
}

/* Adds a launch's parameters, grid and block to the hash. */
static void
add_launch(const struct operation *operation)
{
    const struct kernel *kernel = kernels_find(operation->function);
    const CUlaunchConfig *config = operation->config;
    for (unsigned i = 0; i < kernel->parameter_count; ++i) {
        const char *value = kernels_argument(operation, kernel, i);
        if (value != NULL)
            add_parameter(value, kernel->parameters[i].bytes);
    }
    if (config == NULL)
        return;
    add_word((uint64_t)config->gridDimX << 32 | config->gridDimY);
    add_word((uint64_t)config->gridDimZ << 32 | config->sharedMemBytes);
    add_word((uint64_t)config->blockDimX << 32 | config->blockDimY << 16 | config->blockDimZ);
}

/* ---- copies and calls of libraries ---- */

/* Adds the places and sizes of a copy or library call to the hash. */
static void
add_operands(const struct operation *operation)
{
    FOR_EACH(operand, operation->operands, operation->operand_count) {
        if (!allocations_is_host(operand->address))
            (void)add_place(operand->address);
        add_word(operand->bytes);
        add_word(operand->pieces.bytes * operand->pieces.inner_count * operand->pieces.outer_count);
    }
}

/* Whether most of the first words are addresses: two words of 32 bits may look like one by chance. */
static bool
is_table(const uint64_t *table, size_t count)
{
    enum { LOOKED_AT = 16 };
    size_t known = 0, others = 0;
    for (size_t i = 0; i < count && i < LOOKED_AT; ++i) {
        bool is_known = table[i] >= least_address && table[i] < most_address && allocations_known(table[i]) != NULL;
        known += is_known;
        others += !is_known && table[i] != 0;
    }
    return known > others;
}

/* Tables of addresses count as tables of places. */
static uint64_t
hash_sent_bytes(const char *bytes, size_t size, uint64_t seed)
{
    static uint64_t table[TABLE_BYTES / sizeof(uint64_t)];
    size_t count = size / sizeof(*table);
    if (size > TABLE_BYTES || size % sizeof(*table) != 0)
        return XXH3_64bits_withSeed(bytes, size, seed);
    memcpy(table, bytes, size);
    bool has_addresses = is_table(table, count);
    for (size_t i = 0; has_addresses && i < count; ++i) {
        const struct allocation *allocation = allocations_known(table[i]);
        if (allocation != NULL)
            table[i] = allocation->bytes << 32 ^ (table[i] - allocation->address);
    }
    return XXH3_64bits_withSeed(table, size, seed);
}

/* What a copy from the host brings, by rows. */
static uint64_t
hash_sent(const struct sent *sent, uint64_t seed)
{
    for (size_t row = 0; row < sent->rows; ++row)
        seed = hash_sent_bytes(sent->source + row * sent->pitch, sent->row_bytes, seed + 1);
    return seed;
}

/* ---- what follow.c asks for ---- */

void
agreement_note(const struct operation *operation, uint32_t index, bool is_update)
{
    const struct play_operation *of = &player.play.operations[index];
    uint64_t *hash = &heard[is_update ? HEARD_UPDATE : HEARD_NUMBERS];
    struct sent sent;
    if (operation->function == NULL && operation->answers)
        return;
    word_count = 0;
    add_word(index);
    if (operation->function != NULL)
        add_launch(operation);
    else
        add_operands(operation);
    *hash = XXH3_64bits_withSeed(words, word_count * sizeof(*words), *hash + 1);
    if (of->host_bytes == 0 || !player_sends(operation, &sent))
        return;
    hash = &heard[is_update ? HEARD_UPDATE : HEARD_DATA];
    *hash = hash_sent(&sent, *hash);
    smaller += sent.row_bytes < of->host_bytes;
}

static unsigned roles; /* of memory that an operation gets, as bits */

/* Marks the roles of planned memory that these bytes touch; player_any() asks it of all addresses of an operation. */
static bool
add_roles(uint64_t address, uint64_t bytes)
{
    FOR_EACH(tensor, player.play.tensors, player.play.plan.tensor_count) {
        if (tensor->role <= PLAY_STATE && player_touches(tensor, address, bytes))
            roles |= 1U << tensor->role;
    }
    return true;
}

bool
agreement_update(const struct operation *operation, const char *name)
{
    bool is_named = ANY(it, player.play.operations, player.play.plan.operation_count,
                        it->part == PLAY_BY_LAST && strncmp(it->name, name, PLAY_NAME_BYTES - 1) == 0);
    if (!is_named)
        return false;
    roles = 0;
    (void)player_any(operation, true, add_roles);
    return (roles & 1U << PLAY_GRADIENT) != 0 && (roles & (1U << PLAY_PARAMETER | 1U << PLAY_STATE)) != 0;
}

void
agreement_load(const struct operation *operation)
{
    struct sent sent;
    uint32_t at = 0;
    if (!player_sends(operation, &sent) || sent.to == 0)
        return;
    while (at < loaded_count && loaded[at].lo != sent.to)
        ++at;
    if (at == LOADED_AT_MOST)
        return;
    loaded_count = at == loaded_count ? at + 1 : loaded_count;
    loaded[at] = (struct loaded){
        .lo = sent.to, .hi = sent.to + sent.bytes, .hash = hash_sent(&sent, 0), .thread = pthread_self()};
}

void
agreement_release(CUdeviceptr address, uint64_t bytes)
{
    const struct allocation *allocation = bytes == 0 && loaded_count > 0 ? allocation_at(address) : NULL;
    uint64_t end = address + (allocation != NULL ? allocation->bytes : bytes);
    for (uint32_t i = 0; i < loaded_count;) {
        if (loaded[i].lo >= address && loaded[i].lo < end)
            loaded[i] = loaded[--loaded_count];
        else
            ++i;
    }
}

void
agreement_note_clock(void)
{
    static const char more[] = ", perhaps by the clock"; /* the engine cuts off what is longer */
    if (batches_text[sizeof(PLAY_BATCHES) - 1] == '\0')
        memcpy(batches_text + sizeof(PLAY_BATCHES) - 1, more, sizeof(more));
}

void
agreement_begin(void)
{
    static const struct ddp_site sites[HEARD_COUNT] = {
        [HEARD_DATA] = {batches_text, "the plan", 0},
        [HEARD_NUMBERS] = {"the numbers and sizes of the program's launches for a batch", "the plan", 0},
        [HEARD_UPDATE] = {"the numbers and sizes of the program's update", "the plan", 0}};
    DRIVER(cuMemAlloc, &shown, HEARD_COUNT * sizeof(uint32_t));
    agreement_show(CU_STREAM_LEGACY);
    player.engine->allocated(&shown, HEARD_COUNT * sizeof(uint32_t), MEMORY_DEVICE);
    for (unsigned i = 0; i < HEARD_COUNT; ++i)
        player.engine->state((void *)(uintptr_t)(shown + i * sizeof(uint32_t)), sizeof(uint32_t), DDP_UINT8, &sites[i]);
}

void
agreement_show(CUstream stream)
{
    for (unsigned i = 0; i < HEARD_COUNT; ++i)
        DRIVER(cuMemsetD32Async, shown + i * sizeof(uint32_t), (unsigned)heard[i], 1, stream);
}

uint64_t
agreement_smaller(void)
{
    return smaller;
}
