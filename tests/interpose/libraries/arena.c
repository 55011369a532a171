/* arena.c - see arena.h. */
#include "arena.h"

#include <check.h>
#include <cuda.h>
#include <stdio.h>

enum { AGAIN = 8, COVER_READ = 1, COVER_WRITE = 2 };

static CUdeviceptr device;
static unsigned char arena[ARENA_BYTES]; /* the host's copy: uploaded before a call, downloaded after it */
static unsigned char kept[ARENA_BYTES], results[ARENA_BYTES], cover[ARENA_BYTES];
static uint64_t state = 88172645463325252u;

uint64_t
arena_random(void)
{
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return state;
}

int64_t
arena_below(int64_t bound)
{
    return (int64_t)(arena_random() % (uint64_t)bound);
}

void *
arena_place(unsigned index)
{
    return (void *)(device + (size_t)index * ARENA_AREA_BYTES + ARENA_AREA_BYTES / 2);
}

void *
arena_host(const void *place)
{
    return arena + ((CUdeviceptr)place - device);
}

static void
upload(void)
{
    recorder_find()->paused = true;
    ck_assert_int_eq(cuMemcpyHtoD(device, arena, ARENA_BYTES), CUDA_SUCCESS);
    recorder_find()->paused = false;
    /* A copy of pageable memory may still be under way, and a non-blocking stream does not wait for it. */
    ck_assert_int_eq(cuCtxSynchronize(), CUDA_SUCCESS);
}

size_t
arena_element_bytes(enum arena_kind kind)
{
    return kind == ARENA_DOUBLE ? 8 : kind == ARENA_FLOAT ? 4 : 2;
}

/* Numbers between 1/2 and 2, made once for each kind. */
static unsigned char numbers_of[3][4 * ARENA_AREA_BYTES];

static void
make_numbers(enum arena_kind kind)
{
    for (size_t at = 0; at < sizeof(numbers_of[0]); at += arena_element_bytes(kind)) {
        double number = 0.5 + 1.5 * (double)(arena_random() >> 11) / 9007199254740992.0;
        bool negative = (arena_random() & 1) != 0;
        float single = (float)(negative ? -number : number);
        /* Exponents of 1/2 and 1, any fraction. */
        uint16_t half = (uint16_t)((negative ? 0x8000 : 0) | (0x3800 + (arena_random() & 0x7ff)));
        number = negative ? -number : number;
        const void *from = kind == ARENA_DOUBLE  ? (void *)&number
                           : kind == ARENA_FLOAT ? (void *)&single
                                                 : (void *)&half;
        memcpy(numbers_of[kind] + at, from, arena_element_bytes(kind));
    }
}

static void
fill(unsigned char *to, enum arena_kind kind)
{
    memcpy(to, numbers_of[kind] + 8 * arena_below(3 * ARENA_AREA_BYTES / 8), ARENA_AREA_BYTES);
}

struct record *
arena_start(void)
{
    CUcontext context;
    if (device != 0) {
        recorder_find()->paused = false;
        ck_assert_int_eq(cuDevicePrimaryCtxReset(0), CUDA_SUCCESS);
    }
    ck_assert_int_eq(cuInit(0), CUDA_SUCCESS);
    ck_assert_int_eq(cuDevicePrimaryCtxRetain(&context, 0), CUDA_SUCCESS);
    ck_assert_int_eq(cuCtxSetCurrent(context), CUDA_SUCCESS);
    ck_assert_int_eq(cuMemAlloc(&device, ARENA_BYTES), CUDA_SUCCESS);
    for (int kind = ARENA_FLOAT; kind <= ARENA_HALF; ++kind)
        make_numbers((enum arena_kind)kind);
    ck_assert_ptr_nonnull(recorder_find());
    return recorder_find();
}

bool
arena_is_broken(void)
{
    return cuCtxSynchronize() != CUDA_SUCCESS;
}

void
arena_fill(unsigned index, enum arena_kind kind)
{
    fill(arena + (size_t)index * ARENA_AREA_BYTES, kind);
}

/* Keeps a copy of everything, and brings it to the device. */
static void
keep(void)
{
    memcpy(kept, arena, ARENA_BYTES);
    upload();
}

/* Makes the call, waits for the device, and fetches what is there now. False: the library does not do it. */
static bool
make(const struct arena_call *call)
{
    if (!call->make(call->values))
        return false;
    ck_assert_int_eq(cuCtxSynchronize(), CUDA_SUCCESS);
    recorder_find()->paused = true;
    ck_assert_int_eq(cuMemcpyDtoH(arena, device, ARENA_BYTES), CUDA_SUCCESS);
    recorder_find()->paused = false;
    return true;
}

static void
cover_bytes(uint64_t address, size_t bytes, unsigned char how)
{
    ck_assert_msg(address >= device && address + bytes <= device + ARENA_BYTES, "an operand leaves the arena");
    for (uint64_t at = address; at < address + bytes; ++at)
        cover[at - device] |= how;
}

static void
cover_operand(const struct operand *operand)
{
    unsigned char how = operand->access == ACCESS_WRITE ? COVER_WRITE | COVER_READ : COVER_READ;
    const struct pieces *pieces = &operand->pieces;
    if (operand->pointer_count > 0) {
        const uint64_t *pointers = (const uint64_t *)(kept + (operand->address - device));
        cover_bytes(operand->address, operand->bytes, COVER_READ);
        for (size_t i = 0; i < operand->pointer_count; ++i) /* how far it reaches from there, the call does not say */
            cover_bytes(pointers[i] - (pointers[i] - device) % ARENA_AREA_BYTES, ARENA_AREA_BYTES, how);
    } else if (pieces->bytes == 0) {
        cover_bytes(operand->address, operand->bytes, how);
    } else {
        for (size_t o = 0; o < pieces->outer_count; ++o) {
            for (size_t i = 0; i < pieces->inner_count; ++i)
                cover_bytes(operand->address + o * pieces->outer_stride + i * pieces->inner_stride, pieces->bytes, how);
        }
    }
}

/* The last call's operands as the record has them: which bytes of the arena they cover. */
static void
cover_operands(const struct record *record)
{
    memset(cover, 0, sizeof(cover));
    for (unsigned i = 0; i < record->operand_count; ++i)
        cover_operand(&record->operands[i]);
}

/* The first byte that differs from the copy and that no written operand covers; -1 if there is no such byte. */
static int64_t
stray_write(void)
{
    for (size_t i = 0; i < ARENA_BYTES; ++i) {
        if (arena[i] != kept[i] && (cover[i] & COVER_WRITE) == 0)
            return (int64_t)i;
    }
    return -1;
}

/* Keeps what the written operands now hold; other numbers for every byte that no operand covers, over the copy. */
static void keep_results_and_disturb(enum arena_kind (*kind_of)(unsigned index))
{
    memcpy(results, arena, ARENA_BYTES);
    for (unsigned area = 0; area < ARENA_AREAS; ++area) {
        unsigned char numbers[ARENA_AREA_BYTES];
        fill(numbers, kind_of(area));
        for (size_t i = 0; i < ARENA_AREA_BYTES; ++i) {
            size_t at = (size_t)area * ARENA_AREA_BYTES + i;
            arena[at] = cover[at] != 0 ? kept[at] : numbers[i];
        }
    }
    upload();
}

/* Whether written operands hold what was kept. */
static bool
same_results(void)
{
    for (size_t i = 0; i < ARENA_BYTES; ++i) {
        if ((cover[i] & COVER_WRITE) != 0 && arena[i] != results[i])
            return false;
    }
    return true;
}

static bool
changed(uint64_t address, size_t bytes)
{
    return memcmp(arena + (address - device), kept + (address - device), bytes) != 0;
}

static void
note_ends(struct arena_ends ends[ARENA_ENDS], const struct operand *operand, size_t element_bytes)
{
    struct arena_ends *of = ends;
    if (operand->pointer_count > 0)
        return;
    while (of->name[0] != '\0' && strcmp(of->name, operand->name) != 0)
        ++of;
    snprintf(of->name, sizeof(of->name), "%s", operand->name);
    uint64_t address = operand->address;
    size_t bytes = operand->bytes;
    size_t end = element_bytes < bytes ? element_bytes : bytes;
    if (!changed(address, bytes))
        return;
    ++of->written;
    of->tight += changed(address, end) && changed(address + bytes - end, end);
}

void
arena_check_ends(const struct arena_ends ends[ARENA_ENDS], const char *symbol)
{
    for (const struct arena_ends *of = ends; of->name[0] != '\0'; ++of)
        ck_assert_msg(of->written > 0 && of->tight * 10 >= of->written * 8,
                      "%s: %s was written %u times, up to both ends %u times", symbol, of->name, of->written,
                      of->tight);
}

bool
arena_try(struct record *record, const struct arena_call *call, struct arena_ends ends[ARENA_ENDS],
          bool (*shows_ends)(const void *values, const struct operand *operand))
{
    keep();
    unsigned long begins = record->begins;
    if (!make(call))
        return false;
    ck_assert_msg(record->begins == begins + 1, "%s: %lu operations reported", call->text, record->begins - begins);
    cover_operands(record);
    int64_t stray = stray_write();
    ck_assert_msg(stray < 0, "%s: wrote byte %ld of area %ld, which is in no operand", call->text,
                  (long)(stray % ARENA_AREA_BYTES), (long)(stray / ARENA_AREA_BYTES));
    for (unsigned i = 0; i < record->operand_count; ++i) {
        const struct operand *operand = &record->operands[i];
        if (operand->access == ACCESS_WRITE && (shows_ends == NULL || shows_ends(call->values, operand)))
            note_ends(ends, operand, call->element_bytes);
    }

    keep_results_and_disturb(call->kind_of);
    ck_assert(make(call));
    bool needs_more = !same_results();
    for (int i = 0; i < AGAIN && needs_more; ++i) { /* a library may give other bits for the same bytes */
        memcpy(arena, kept, ARENA_BYTES);
        upload();
        ck_assert(make(call));
        needs_more = same_results();
    }
    ck_assert_msg(!needs_more, "%s: needs bytes that are in no operand", call->text);
    return true;
}

void
arena_check_dropped(struct record *record, const struct arena_call *call)
{
    const struct record nothing = {0};
    keep();
    record->skips = true;
    ck_assert(make(call));
    record->skips = false;
    cover_operands(&nothing);
    ck_assert_msg(stray_write() < 0, "%s was made", call->text);
}
