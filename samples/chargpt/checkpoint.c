/*
 * checkpoint.c - see checkpoint.h.
 */
#include "checkpoint.h"

#include "cuda_check.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

enum { VERSION = 1 };
static const char MAGIC[8] = "chargpt\n";

/* No padding, so that the checksum covers what is written. */
struct header {
    char magic[8];
    uint32_t version;
    int32_t layers, width, heads, context, vocabulary;
    uint64_t step;
    uint64_t count; /* floats of one buffer */
    unsigned char characters[256];
};
_Static_assert(sizeof(struct header) == 8 + 6 * 4 + 2 * 8 + 256, "no padding");

static void fail(const char *path, const char *what) __attribute__((noreturn));

static void
fail(const char *path, const char *what)
{
    fprintf(stderr, "chargpt: %s: %s\n", path, what);
    exit(1);
}

/* In the manner of FNV-1a (G. Fowler, L. Noll, K. Vo), but 8 bytes at a time; a last, shorter word is filled with
 * zeros. */
static uint64_t
checksum(uint64_t sum, const void *bytes, size_t count)
{
    for (size_t i = 0; i < count; i += sizeof(uint64_t)) {
        uint64_t word = 0;
        memcpy(&word, (const char *)bytes + i, count - i < sizeof(word) ? count - i : sizeof(word));
        sum = (sum ^ word) * 0x100000001b3u;
        sum ^= sum >> 29; /* high bits reach low ones, which a product alone does not do */
    }
    return sum;
}

static const uint64_t CHECKSUM_BEGIN = 0xcbf29ce484222325u;

static struct header
make_header(const struct model *model, const struct text *text, size_t step)
{
    const struct shape *shape = &model->layout.shape;
    struct header header;
    memset(&header, 0, sizeof(header));
    memcpy(header.magic, MAGIC, sizeof(MAGIC));
    header.version = VERSION;
    header.layers = shape->layers;
    header.width = shape->width;
    header.heads = shape->heads;
    header.context = shape->context;
    header.vocabulary = shape->vocabulary;
    header.step = step;
    header.count = model->layout.count;
    memcpy(header.characters, text->characters, sizeof(header.characters));
    return header;
}

/* The three buffers of the model, in the file's order. */
static float *
buffer(const struct model *model, int i)
{
    return i == 0 ? model->values : i == 1 ? model->moments1 : model->moments2;
}

static float *
host_allocate(const char *path, size_t count)
{
    float *values = malloc(count * sizeof(float));
    if (values == NULL)
        fail(path, "out of host memory");
    return values;
}

static int
write_all(FILE *file, const struct header *header, const float *values)
{
    const size_t count = 3 * (size_t)header->count;
    uint64_t sum = checksum(CHECKSUM_BEGIN, header, sizeof(*header));
    sum = checksum(sum, values, count * sizeof(float));
    return fwrite(header, sizeof(*header), 1, file) == 1 && fwrite(values, sizeof(float), count, file) == count &&
           fwrite(&sum, sizeof(sum), 1, file) == 1 && fflush(file) == 0 && fsync(fileno(file)) == 0;
}

void
checkpoint_write(const char *path, struct model *model, const struct text *text, size_t step)
{
    const struct header header = make_header(model, text, step);
    const size_t count = model->layout.count;
    float *values = host_allocate(path, 3 * count);
    for (int i = 0; i < 3; ++i)
        CHECK_CUDA(
            cudaMemcpy(values + (size_t)i * count, buffer(model, i), count * sizeof(float), cudaMemcpyDeviceToHost));

    char *temporary = NULL;
    if (asprintf(&temporary, "%s.tmp%ld", path, (long)getpid()) < 0)
        fail(path, "out of host memory");
    FILE *file = fopen(temporary, "wb");
    if (file == NULL)
        fail(temporary, strerror(errno));
    int good = write_all(file, &header, values), error = errno;
    if (fclose(file) != 0 && good) {
        good = 0;
        error = errno;
    }
    if (good && rename(temporary, path) != 0) {
        good = 0;
        error = errno;
    }
    if (!good) {
        unlink(temporary);
        fail(path, strerror(error));
    }
    free(temporary);
    free(values);
}

static void
check_header(const char *path, const struct header *got, const struct header *wanted)
{
    if (memcmp(got->magic, MAGIC, sizeof(MAGIC)) != 0)
        fail(path, "is no checkpoint of chargpt");
    char what[256];
    if (got->version != VERSION) {
        snprintf(what, sizeof(what), "has version %u, this program reads %d", got->version, VERSION);
        fail(path, what);
    }
    if (got->layers != wanted->layers || got->width != wanted->width || got->heads != wanted->heads ||
        got->context != wanted->context) {
        snprintf(what, sizeof(what),
                 "is of another network: made with --layers %d --width %d --heads %d --context %d, which this run "
                 "needs too",
                 got->layers, got->width, got->heads, got->context);
        fail(path, what);
    }
    if (got->vocabulary != wanted->vocabulary ||
        memcmp(got->characters, wanted->characters, sizeof(got->characters)) != 0)
        fail(path, "was made with a text of other characters; --data names the text");
    if (got->count != wanted->count)
        fail(path, "is damaged: the number of parameters does not fit its shape");
}

size_t
checkpoint_read(const char *path, struct model *model, const struct text *text)
{
    FILE *file = fopen(path, "rb");
    if (file == NULL)
        fail(path, strerror(errno));
    const struct header wanted = make_header(model, text, 0);
    struct header header;
    if (fread(&header, sizeof(header), 1, file) != 1)
        fail(path, ferror(file) ? strerror(errno) : "is damaged: it ends within its header");
    check_header(path, &header, &wanted);

    const size_t count = model->layout.count;
    float *values = host_allocate(path, 3 * count);
    uint64_t sum;
    if (fread(values, sizeof(float), 3 * count, file) != 3 * count || fread(&sum, sizeof(sum), 1, file) != 1)
        fail(path, "is damaged: it ends before its last value");
    if (fgetc(file) != EOF)
        fail(path, "is damaged: it has more bytes than its header says");
    fclose(file);
    uint64_t expected = checksum(CHECKSUM_BEGIN, &header, sizeof(header));
    if (checksum(expected, values, 3 * count * sizeof(float)) != sum)
        fail(path, "is damaged: its checksum does not fit");

    for (int i = 0; i < 3; ++i)
        CHECK_CUDA(
            cudaMemcpy(buffer(model, i), values + (size_t)i * count, count * sizeof(float), cudaMemcpyHostToDevice));
    free(values);
    return (size_t)header.step;
}
