/*
 * values.c - tensors of a run of `ddprun check`: read from the device in pieces, written to the reference or compared
 * with it piece by piece, so that no second copy of the model is ever in memory (check.h).
 *
 * All functions but values_row() are called by one thread at a time: boundaries, annotations and the program's end are.
 */
#include "interpose/engine/check/check.h"

#include "base/check/element.h"
#include "base/check/norms.h"
#include "base/check/reference.h"
#include "base/mutant.h"
#include "comm/hash.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/statvfs.h>
#include <unistd.h>

_Static_assert((int)ELEMENT_FLOAT32 == (int)DDP_FLOAT32 && (int)ELEMENT_FLOAT64 == (int)DDP_FLOAT64 &&
                   (int)ELEMENT_FLOAT16 == (int)DDP_FLOAT16 && (int)ELEMENT_BFLOAT16 == (int)DDP_BFLOAT16 &&
                   (int)ELEMENT_INT32 == (int)DDP_INT32 && (int)ELEMENT_INT64 == (int)DDP_INT64 &&
                   (int)ELEMENT_UINT8 == (int)DDP_UINT8,
               "element.h");
_Static_assert((int)CHECK_PARAMETER == (int)TENSOR_PARAMETER && (int)CHECK_GRADIENT == (int)TENSOR_GRADIENT &&
                   (int)CHECK_BUFFER == (int)TENSOR_BUFFER,
               "run.h");

enum { PIECE_BYTES = 4 << 20 };
_Static_assert(PIECE_BYTES % HASH_BLOCK == 0, "hash_part()");

struct check_run check_run;

static struct {
    struct reference_writer writer;
    struct reference_reader reader;
    bool writes, reads;
    int rows_fd;
    CUstream stream;             /* NULL: not made yet */
    char *piece;                 /* PIECE_BYTES, of the device */
    char *theirs;                /* the same, of the reference */
    size_t defined[CHECK_ROLES]; /* tensors below this number are described: written to the reference or read */
} values = {.rows_fd = -1};

static pthread_mutex_t rows_lock = PTHREAD_MUTEX_INITIALIZER; /* guards values.rows_fd */

struct reference_writer *
values_writer(void)
{
    return values.writes ? &values.writer : NULL;
}

struct reference_reader *
values_reader(void)
{
    return values.reads ? &values.reader : NULL;
}

/* ---- rows ---- */

void
values_row(const struct check_row *row)
{
    pthread_mutex_lock(&rows_lock);
    bool lost = values.rows_fd >= 0 && !check_rows_add(values.rows_fd, row);
    if (lost)
        values.rows_fd = -1;
    pthread_mutex_unlock(&rows_lock);
    if (lost)
        stop_job("cannot write the results of ddprun check to %s-%d: %m; make room there, or set TMPDIR",
                 check_run.results, engine_state.rendezvous.rank);
}

void
values_note(enum check_row_kind kind, uint32_t step, uint64_t value)
{
    values_row(&(struct check_row){.kind = kind, .step = step, .value = value});
}

/* What the user can put right: ends the run, and the launcher with DDPRUN_EXIT_USAGE. */
static void __attribute__((noreturn, format(printf, 1, 2))) refuse(const char *format, ...)
{
    struct check_row row = {.kind = CHECK_ROW_STOPPED, .value = DDPRUN_EXIT_USAGE};
    va_list args;
    va_start(args, format);
    vsnprintf(row.text, sizeof(row.text), format, args);
    va_end(args);
    values_row(&row);
    stop_job("%s", row.text);
}

void
values_stop_writing(void)
{
    refuse("cannot write the reference %.300s: %s; make room there, set TMPDIR, or use --sample", check_run.reference,
           strerror(errno));
}

void
values_stop_damaged(void)
{
    refuse("the reference %.300s is damaged; write it again", check_run.reference);
}

/* ---- opening ---- */

/* Of the executable, so that a reference of another program is noticed; 0 if it cannot be read. */
static uint64_t
program_identity(void)
{
    uint64_t identity = 0;
    XXH3_state_t *state = XXH3_createState();
    int fd = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
    if (fd >= 0 && state != NULL && XXH3_64bits_reset(state) == XXH_OK) {
        char bytes[1 << 14];
        for (ssize_t got; (got = read(fd, bytes, sizeof(bytes))) > 0;)
            (void)XXH3_64bits_update(state, bytes, (size_t)got);
        identity = XXH3_64bits_digest(state);
    }
    if (fd >= 0)
        close(fd);
    XXH3_freeState(state);
    return identity;
}

static void
open_reference(void)
{
    struct reference_header header = {.steps = check_run.steps,
                                      .sample = check_run.sample,
                                      .gradients_only = check_run.turn_count > 0,
                                      .program = program_identity()};
    if (check_run.mode == CHECK_WRITES) {
        if (!reference_create(check_run.reference, &header, &values.writer))
            values_stop_writing();
        values.writes = true;
        return;
    }
    const char *why;
    if (!reference_open(check_run.reference, &values.reader, &why))
        refuse("cannot use the reference %.300s: %s", check_run.reference, why);
    values.reads = true;
    if (values.reader.header.program != header.program)
        refuse("the reference %.300s is of another program; write it again with this one", check_run.reference);
    check_run.sample = values.reader.header.sample;
}

void
values_open(void)
{
    values.rows_fd = check_rows_open(check_run.results, engine_state.rendezvous.rank);
    if (values.rows_fd < 0)
        stop_job(
            "cannot write the results of ddprun check to %s-%d: %m; on several hosts use --reference with a file in a "
            "folder that all of them have",
            check_run.results, engine_state.rendezvous.rank);
    values.piece = malloc(PIECE_BYTES);
    values.theirs = malloc(PIECE_BYTES);
    if (values.piece == NULL || values.theirs == NULL)
        stop_job("out of memory");
    open_reference();
}

void
values_close(uint32_t steps, bool by_us)
{
    if (values.writes) {
        struct reference_key end = {.kind = REFERENCE_END, .step = steps};
        if (!reference_put(&values.writer, &end, "", 0) || !reference_close(&values.writer))
            values_stop_writing();
        values.writes = false;
    }
    values_note(CHECK_ROW_END, steps, by_us);
}

void
values_ask_for_room(void)
{
    if (!values.writes)
        return;
    uint64_t bytes[TENSOR_ROLES] = {0};
    engine_lock();
    for (size_t i = 0; i < engine_state.tensor_count; ++i) {
        const struct tensor *tensor = &memory_state.tensors[i];
        size_t kept = check_run.sample > 0 && tensor->count > check_run.sample ? check_run.sample : tensor->count;
        bytes[tensor->role] += kept * type_bytes(tensor->type);
    }
    engine_unlock();
    uint64_t steps = check_run.steps;
    uint64_t needed = (steps + 1) * (bytes[TENSOR_PARAMETER] + bytes[TENSOR_STATE]) +
                      steps * (bytes[TENSOR_GRADIENT] + bytes[TENSOR_BUFFER]);
    struct statvfs place;
    if (fstatvfs(values.writer.fd, &place) != 0)
        return;
    uint64_t free_bytes = (uint64_t)place.f_bavail * place.f_frsize;
    if (needed > free_bytes)
        refuse("the reference needs %.1f MiB for %u steps, and where %.300s is there are %.1f MiB; set TMPDIR, or use "
               "--reference, --steps or --sample",
               (double)needed / 1048576, check_run.steps, check_run.reference, (double)free_bytes / 1048576);
}

/* ---- the device ---- */

static CUstream
own_stream(void)
{
    if (values.stream == NULL)
        require_cuda(engine_state.driver.cuStreamCreateWithPriority_p(&values.stream, CU_STREAM_NON_BLOCKING, 0),
                     "cuStreamCreateWithPriority");
    return values.stream;
}

void
values_copy_out(void *host, CUdeviceptr address, size_t bytes)
{
    require_cuda(engine_state.driver.cuMemcpyDtoHAsync_p(host, address, bytes, own_stream()),
                 "copying memory that is compared");
    require_cuda(engine_state.driver.cuStreamSynchronize_p(own_stream()), "copying memory that is compared");
}

void
values_copy_in(CUdeviceptr address, const void *host, size_t bytes)
{
    require_cuda(engine_state.driver.cuMemcpyHtoDAsync_p(address, host, bytes, own_stream()),
                 "changing memory that is tested");
    require_cuda(engine_state.driver.cuStreamSynchronize_p(own_stream()), "changing memory that is tested");
}

void
values_read(CUdeviceptr address, size_t bytes, void (*take)(void *arg, const void *piece, size_t bytes), void *arg)
{
    for (size_t at = 0; at < bytes; at += PIECE_BYTES) {
        size_t here = bytes - at < PIECE_BYTES ? bytes - at : PIECE_BYTES;
        values_copy_out(values.piece, address + at, here);
        take(arg, values.piece, here);
    }
}

/* ---- tensors ---- */

static void
tensor_out(char *to, const struct tensor *tensor, size_t at, size_t bytes)
{
    if (tensor->kind != MEMORY_HOST)
        values_copy_out(to, tensor->address + at, bytes);
    else if (peek(tensor->address + at, to, bytes) < bytes)
        tensor_refuse_missing(tensor, "read");
}

static void
tensor_in(const struct tensor *tensor, size_t at, const char *from, size_t bytes)
{
    if (tensor->kind != MEMORY_HOST)
        values_copy_in(tensor->address + at, from, bytes);
    else if (poke(tensor->address + at, from, bytes) < bytes)
        tensor_refuse_missing(tensor, "written");
}

/* As values_read(). */
static void
tensor_read(const struct tensor *tensor, void (*take)(void *arg, const void *piece, size_t bytes), void *arg)
{
    for (size_t at = 0; at < tensor->bytes; at += PIECE_BYTES) {
        size_t here = tensor->bytes - at < PIECE_BYTES ? tensor->bytes - at : PIECE_BYTES;
        tensor_out(values.piece, tensor, at, here);
        take(arg, values.piece, here);
    }
}

static void
describe(const struct tensor *tensor, struct check_tensor *described)
{
    *described = (struct check_tensor){.role = tensor->role == TENSOR_STATE ? CHECK_STATE : (uint32_t)tensor->role,
                                       .number = (uint32_t)tensor->index,
                                       .group = tensor->averaged ? (uint32_t)tensor->group : 0,
                                       .type = (uint32_t)tensor->type,
                                       .count = tensor->count,
                                       .line = tensor->site.line};
    const char *slash = strrchr(tensor->site.file, '/');
    snprintf(described->text, sizeof(described->text), "%s", tensor->site.text);
    snprintf(described->file, sizeof(described->file), "%s", slash != NULL ? slash + 1 : tensor->site.file);
}

void
values_note_averaged(const struct tensor *tensor)
{
    struct check_row row = {.kind = CHECK_ROW_AVERAGED, .step = 1};
    describe(tensor, &row.tensor);
    values_row(&row);
}

/* The reference has the tensor that this run has. */
static void
define(const struct check_tensor *mine)
{
    struct reference_key key = {.kind = REFERENCE_TENSOR, .role = mine->role, .number = mine->number};
    if (mine->number < values.defined[mine->role])
        return;
    values.defined[mine->role] = mine->number + 1;
    if (values.writes) {
        if (!reference_put(&values.writer, &key, mine, sizeof(*mine)))
            values_stop_writing();
        return;
    }
    static const char *const names[CHECK_ROLES] = {[CHECK_PARAMETER] = "parameter",
                                                   [CHECK_GRADIENT] = "gradient",
                                                   [CHECK_BUFFER] = "buffer",
                                                   [CHECK_STATE] = "state"};
    struct check_tensor theirs;
    const struct reference_entry *entry = reference_find(&values.reader, &key);
    if (entry == NULL)
        refuse(
            "%s %u is `%s` (%s:%d) here, and the one rank of the reference has fewer; all runs must annotate the same "
            "tensors",
            names[mine->role], mine->number + 1, mine->text, mine->file, mine->line);
    if (!reference_get(&values.reader, entry, &theirs, sizeof(theirs)))
        values_stop_damaged();
    if (theirs.count != mine->count || theirs.type != mine->type || theirs.group != mine->group ||
        theirs.line != mine->line || strcmp(theirs.text, mine->text) != 0)
        refuse("%s %u is `%s` (%s:%d), %llu %s, and in the reference `%s` (%s:%d), %llu %s; all runs must annotate the "
               "same tensors in the same order",
               names[mine->role], mine->number + 1, mine->text, mine->file, mine->line, (unsigned long long)mine->count,
               type_name((int)mine->type), theirs.text, theirs.file, theirs.line, (unsigned long long)theirs.count,
               type_name((int)theirs.type));
}

/* A tensor on its way from the device to the reference, or past it. */
struct passing {
    int type;
    size_t stride;       /* every so manieth element is kept */
    size_t at;           /* elements that have passed */
    uint64_t whole;      /* sum of their hash, if it is a sample that is kept */
    struct norms *norms; /* NULL: it is written */
    bool same_bits;
};

/* Keeps what is sampled of piece[count], in its place; returns how many. */
static size_t
keep_sample(const struct passing *passing, char *piece, size_t count)
{
    size_t bytes = element_size(passing->type), kept = 0;
    size_t first = (passing->stride - passing->at % passing->stride) % passing->stride;
    for (size_t i = first; i < count; i += passing->stride)
        memmove(piece + bytes * kept++, piece + bytes * i, bytes);
    return kept;
}

static void
pass_piece(void *arg, const void *piece, size_t bytes)
{
    struct passing *passing = arg;
    size_t each = element_size(passing->type), count = bytes / each, kept = count;
    if (passing->stride > 1) {
        passing->whole = hash_part(passing->whole, passing->at * each, piece, bytes);
        kept = keep_sample(passing, values.piece, count);
    }
    passing->at += count;
    if (passing->norms == NULL) {
        if (!reference_append(&values.writer, values.piece, kept * each))
            values_stop_writing();
        return;
    }
    if (kept > 0 && !reference_next(&values.reader, values.theirs, kept * each))
        values_stop_damaged();
    passing->same_bits = passing->same_bits && memcmp(values.piece, values.theirs, kept * each) == 0;
    norms_add(passing->norms, passing->type, values.piece, values.theirs, kept);
}

static struct check_norms
norms_of(const struct norms *norms, size_t stride)
{
    struct norm_result result = norms_end(norms);
    return (struct check_norms){.difference = result.difference,
                                .reference = result.reference,
                                .own = result.own,
                                .product = result.product,
                                .block_difference = result.block_difference,
                                .block_scale = result.block_scale,
                                .block_first = result.block_first * stride,
                                .block_count = result.block_count * stride,
                                .unbounded = result.unbounded};
}

static void
write_tensor(const struct tensor *tensor, struct passing *passing, const struct reference_key *key)
{
    if (!reference_begin(&values.writer, key))
        values_stop_writing();
    tensor_read(tensor, pass_piece, passing);
    if (!reference_end(&values.writer, passing->stride > 1 ? hash_end(passing->whole, tensor->bytes) : 0))
        values_stop_writing();
}

static void
compare_tensor(const struct tensor *tensor, struct passing *passing, const struct reference_key *key,
               const struct check_tensor *described)
{
    const struct reference_entry *entry = reference_find(&values.reader, key);
    if (entry == NULL) /* the one rank had ended before, or had freed it */
        return;
    size_t kept = (tensor->count + passing->stride - 1) / passing->stride;
    if (entry->record.bytes != kept * type_bytes(tensor->type) || !reference_start(&values.reader, entry))
        values_stop_damaged();
    passing->norms = malloc(sizeof(*passing->norms));
    if (passing->norms == NULL)
        stop_job("out of memory");
    norms_begin(passing->norms, kept);
    tensor_read(tensor, pass_piece, passing);
    bool sampled = passing->stride > 1;
    struct check_row row = {.kind = CHECK_ROW_TENSOR,
                            .step = key->step,
                            .tensor = *described,
                            .norms = norms_of(passing->norms, passing->stride),
                            .sampled = sampled,
                            .same_bits = sampled ? hash_end(passing->whole, tensor->bytes) == entry->record.whole
                                                 : passing->same_bits};
    free(passing->norms);
    values_row(&row);
}

void
values_tensor(const struct tensor *tensor, uint32_t step)
{
    struct check_tensor described;
    describe(tensor, &described);
    define(&described);
    struct reference_key key = {
        .kind = REFERENCE_VALUES, .role = described.role, .step = step, .number = described.number};
    bool sampled = check_run.sample > 0 && tensor->count > check_run.sample;
    struct passing passing = {.type = tensor->type,
                              .stride = sampled ? (tensor->count + check_run.sample - 1) / check_run.sample : 1,
                              .same_bits = true};
    if (values.writes)
        write_tensor(tensor, &passing, &key);
    else
        compare_tensor(tensor, &passing, &key, &described);
}

void
values_mean(double value, uint32_t call, uint32_t step, const struct ddp_site *site)
{
    struct {
        struct check_tensor tensor;
        double value;
    } mine = {.tensor = {.role = CHECK_MEAN, .number = call, .type = DDP_FLOAT32, .count = 1, .line = site->line},
              .value = value},
      theirs;
    const char *slash = strrchr(site->file, '/');
    snprintf(mine.tensor.text, sizeof(mine.tensor.text), "%s", site->text);
    snprintf(mine.tensor.file, sizeof(mine.tensor.file), "%s", slash != NULL ? slash + 1 : site->file);
    struct reference_key key = {.kind = REFERENCE_MEAN, .number = call};
    if (values.writes) {
        if (!reference_put(&values.writer, &key, &mine, sizeof(mine)))
            values_stop_writing();
        return;
    }
    const struct reference_entry *entry = reference_find(&values.reader, &key);
    if (entry == NULL)
        return;
    if (!reference_get(&values.reader, entry, &theirs, sizeof(theirs)))
        values_stop_damaged();
    if (theirs.tensor.line != mine.tensor.line || strcmp(theirs.tensor.text, mine.tensor.text) != 0)
        return; /* ranks call it in another order than one rank: they are not the same values */
    struct norms norms;
    norms_begin(&norms, 1);
    norms_add(&norms, ELEMENT_FLOAT64, &mine.value, &theirs.value, 1);
    struct check_row row = {.kind = CHECK_ROW_TENSOR,
                            .step = step > 0 ? step : 1,
                            .tensor = mine.tensor,
                            .norms = norms_of(&norms, 1),
                            .same_bits = mine.value == theirs.value || (isnan(mine.value) && isnan(theirs.value))};
    values_row(&row);
}

/* ---- own gradients, and a perturbed start ---- */

/* Bytes that pass, from the first on. */
struct hashing {
    uint64_t sum, bytes;
};

static void
hash_piece(void *arg, const void *piece, size_t bytes)
{
    struct hashing *hashing = arg;
    hashing->sum = hash_part(hashing->sum, hashing->bytes, piece, bytes);
    hashing->bytes += bytes;
}

uint64_t
values_hash_gradients(int group)
{
    uint64_t hash = 0;
    for (size_t i = 0;; ++i) {
        engine_lock();
        bool any = i < engine_state.tensor_count;
        struct tensor tensor = any ? memory_state.tensors[i] : (struct tensor){.placed = false};
        engine_unlock();
        if (!any)
            break;
        struct hashing hashing = {0, 0};
        if (!tensor.placed || !tensor.averaged || tensor.group != group)
            continue;
        tensor_read(&tensor, hash_piece, &hashing);
        hash = hash_chain(hash, hash_end(hashing.sum, hashing.bytes));
    }
    return hash;
}

void
values_perturb(const struct tensor *tensor)
{
    size_t each = type_bytes(tensor->type);
    for (size_t at = 0; at < tensor->bytes; at += PIECE_BYTES) {
        size_t here = tensor->bytes - at < PIECE_BYTES ? tensor->bytes - at : PIECE_BYTES;
        tensor_out(values.piece, tensor, at, here);
        element_perturb(tensor->type, values.piece, here / each, at / each, 1);
        tensor_in(tensor, at, values.piece, here);
    }
}
