/*
 * packing.c - how fast the stand-in's packing kernels convert: bench/packing [--json] [--pairs N].
 *
 * One thread packs and unpacks a bucket of 25 MiB of float32, as a launch of one block does, and in turn with that
 * copies the same float32 with memcpy. Speed is the bytes read and written in a second: 4 + 2 an element that is
 * converted, 4 + 4 one that is copied. A figure is the median, over the pairs, of the kernel's speed over memcpy's.
 */
#include "comm/kernels/chunk.h"
#include "comm/kernels/nonfinite.h"
#include "report.h"
#include "softgpu/image.h"

#include <dlfcn.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { BUCKET_BYTES = 25 << 20, CHUNKS = BUCKET_BYTES / CHUNK_BYTES, PAIRS_AT_MOST = 1001 };

typedef const void *(*find_image_fn)(const char *name);

struct memory {
    struct chunk chunks[CHUNKS];
    unsigned char *members, *bucket, *copy;
};

/* Of this thread's CPU: what else the machine does counts less. */
static double
now_s(void)
{
    struct timespec now;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

/* The packing kernels of this build, which lie in ../lib/softgpu. */
static find_image_fn
open_kernels(void)
{
    char path[PATH_MAX + 64];
    report_program_folder(path, 2);
    strcat(path, "/lib/softgpu/libddprun-kernels.so");
    void *library = dlopen(path, RTLD_NOW);
    void *found = library != NULL ? dlsym(library, "ddprun_kernel_image") : NULL;
    if (found == NULL)
        fprintf(stderr, "bench: no packing kernels: %s\n", dlerror());
    find_image_fn find_image = NULL;
    memcpy(&find_image, &found, sizeof(found));
    return find_image;
}

static void
fill(struct memory *memory)
{
    memory->members = malloc(BUCKET_BYTES);
    memory->bucket = calloc(1, BUCKET_BYTES);
    memory->copy = malloc(BUCKET_BYTES);
    if (memory->members == NULL || memory->bucket == NULL || memory->copy == NULL)
        abort();
    for (size_t i = 0; i < BUCKET_BYTES / sizeof(float); ++i)
        ((float *)memory->members)[i] = (float)(i % 4001) * 1e-3f - 2;
    memcpy(memory->copy, memory->members, BUCKET_BYTES);
    for (size_t i = 0; i < CHUNKS; ++i)
        memory->chunks[i] =
            (struct chunk){(uint64_t)(uintptr_t)memory->members + i * CHUNK_BYTES, i * CHUNK_BYTES, CHUNK_BYTES};
}

/* With or without a look for infinite elements and NaN, of which there are none. */
static void
run_kernel(const struct softgpu_image *image, const struct memory *memory, bool looks)
{
    static uint32_t claim;
    static struct nonfinite_found found;
    const struct nonfinite_look look = {.claim = looks ? (uint64_t)(uintptr_t)&claim : 0,
                                        .found = (uint64_t)(uintptr_t)&found,
                                        .exponents = UINT64_C(0x7f8000007f800000),
                                        .element_bytes = sizeof(float)};
    const struct chunk *chunks = memory->chunks;
    const unsigned count = CHUNKS;
    const float scale = 0.5f;
    const void *arguments[] = {&chunks, &count, &memory->bucket, &scale, &look};
    const struct softgpu_launch launch = {{1, 1, 1}, {1, 1, 1}, 0, arguments, 0, 1};
    image->run(&launch);
}

static void
measure(struct report *report, const char *name, const struct softgpu_image *image, const struct memory *memory,
        int element_bytes, int pairs)
{
    double ratios[PAIRS_AT_MOST];
    for (int i = -1; i < pairs; ++i) {
        double begin = now_s();
        run_kernel(image, memory, true);
        double middle = now_s();
        memcpy(memory->copy, memory->members, BUCKET_BYTES);
        __asm__ volatile("" ::"r"(memory->copy) : "memory");
        double end = now_s();
        if (i >= 0)
            ratios[i] =
                (sizeof(float) + (size_t)element_bytes) / (middle - begin) / (2.0 * sizeof(float) / (end - middle));
    }
    report_figure(report, name, report_median(ratios, (size_t)pairs), "ratio", BAR_AT_LEAST, 0.5);
}

/* Packing with the look, against the same without, in turn. */
static void
measure_look(struct report *report, const struct softgpu_image *image, const struct memory *memory, int pairs)
{
    double ratios[PAIRS_AT_MOST];
    for (int i = -1; i < pairs; ++i) {
        double begin = now_s();
        run_kernel(image, memory, true);
        double middle = now_s();
        run_kernel(image, memory, false);
        double end = now_s();
        if (i >= 0)
            ratios[i] = (middle - begin) / (end - middle);
    }
    report_figure(report, "pack: time with a look for NaN over time without", report_median(ratios, (size_t)pairs),
                  "ratio", BAR_AT_MOST, 1.5);
}

int
main(int argc, char **argv)
{
    static const struct {
        const char *kernel, *name;
        int element_bytes;
    } rows[] = {
        {"ddprun_pack", "pack: speed over memcpy's", 4},
        {"ddprun_unpack", "unpack: speed over memcpy's", 4},
        {"ddprun_pack_float16", "pack to float16: speed over memcpy's", 2},
        {"ddprun_unpack_float16", "unpack from float16: speed over memcpy's", 2},
        {"ddprun_pack_bfloat16", "pack to bfloat16: speed over memcpy's", 2},
        {"ddprun_unpack_bfloat16", "unpack from bfloat16: speed over memcpy's", 2},
    };
    struct report report = {.json = false};
    int pairs = 21;
    if (!report_take_options(&report, argc, argv, &pairs, PAIRS_AT_MOST))
        return 2;
    static struct memory memory;
    find_image_fn find_image = open_kernels();
    if (find_image == NULL)
        return 1;
    fill(&memory);
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); ++i)
        measure(&report, rows[i].name, find_image(rows[i].kernel), &memory, rows[i].element_bytes, pairs);
    measure_look(&report, find_image("ddprun_pack"), &memory, pairs);
    return 0;
}
