/*
 * values.c - what a run of `ddprun check` reads and writes: the reference, rows, and tensors on the device or the host,
 * in pieces, so that no second copy of the model is ever in memory (check.h).
 *
 * All functions but values_row() are called by one thread at a time: boundaries, annotations and the program's end are.
 */
#include "tools/check/trainer/check.h"

#include "tools/common/each.h"
#include "tools/common/owned.h"
#include "tools/common/room.h"
#include "tools/near/element.h"

#define XXH_STATIC_LINKING_ONLY
#include <xxhash.h>

#include <fcntl.h>
#include <linux/magic.h>
#include <stdarg.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/statvfs.h>

struct check_run check_run;
pthread_mutex_t memory_lock = PTHREAD_MUTEX_INITIALIZER;
struct check_turns check_turns;
char *values_piece, *values_theirs;

static struct {
    struct reference_writer writer;
    struct reference_reader reader;
    bool writes, reads;
    uint64_t room; /* for the reference, at its beginning; bytes */
    int rows_fd;
    CUstream stream; /* NULL: not made yet */
} values = {.rows_fd = -1};

enum { TOGETHER_BYTES = 1 << 20, TOGETHER_APART = 64 };

static pthread_mutex_t rows_lock = PTHREAD_MUTEX_INITIALIZER; /* guards values.rows_fd */

void *
values_room(void *old, size_t bytes)
{
    void *room = realloc(old, bytes > 0 ? bytes : 1);
    if (room == NULL)
        stop_job("out of memory");
    return room;
}

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

double
values_number(const void *memory, int type)
{
    float narrow;
    double wide;
    memcpy(&narrow, memory, sizeof(narrow));
    if (type != DDP_FLOAT64)
        return narrow;
    memcpy(&wide, memory, sizeof(wide));
    return wide;
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

/* Ends the run with a row of what the user can put right, which the launcher prints. */
void
values_note_boundary(uint32_t step, const struct ddp_site *site)
{
    struct check_row row = {
        .kind = CHECK_ROW_STEP, .step = step, .value = (uint64_t)engine_state.rendezvous.world_size};
    if (site != NULL) {
        snprintf(row.tensor.file, sizeof(row.tensor.file), "%s", file_name_of(site->file));
        row.tensor.line = site->line;
    }
    values_row(&row);
}

void
values_refuse(const char *format, ...)
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
    values_refuse("cannot write the reference %.300s: %s; make room there, or set TMPDIR", check_run.reference,
                  strerror(errno));
}

void
values_stop_damaged(void)
{
    values_refuse("the reference %.300s is damaged; write it again", check_run.reference);
}

void
values_put(const struct reference_key *key, const void *data, size_t bytes)
{
    if (!reference_put(values_writer(), key, data, bytes))
        values_stop_writing();
}

bool
values_get(const struct reference_key *key, void *data, size_t bytes)
{
    const struct reference_entry *entry = reference_find(values_reader(), key);
    if (entry != NULL && !reference_get(values_reader(), entry, data, bytes))
        values_stop_damaged();
    return entry != NULL;
}

/* ---- opening ---- */

/* Of the executable, so that a reference of another program is noticed; 0 if it cannot be read. */
static uint64_t
program_identity(void)
{
    uint64_t identity = 0;
    struct stat file;
    OWNED_FD int fd = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
    size_t bytes = fd >= 0 && fstat(fd, &file) == 0 ? (size_t)file.st_size : 0;
    void *content = bytes > 0 ? mmap(NULL, bytes, PROT_READ, MAP_PRIVATE, fd, 0) : MAP_FAILED;
    if (content != MAP_FAILED) {
        identity = XXH3_64bits(content, bytes);
        (void)munmap(content, bytes);
    }
    return identity;
}

/* Opens the reference to be written, or read, as the run asks. Does not return where it cannot be used. */
static void
open_reference(void)
{
    struct reference_header header = {.steps = check_run.steps,
                                      .is_free = !check_run.forced,
                                      .turns = check_run.turns,
                                      .program = program_identity()};
    if (check_run.mode == CHECK_WRITES) {
        if (!reference_create(check_run.reference, &header, &values.writer))
            values_stop_writing();
        values.writes = true;
        return;
    }
    const char *why;
    if (!reference_open(check_run.reference, &values.reader, &why))
        values_refuse("cannot use the reference %.300s: %s", check_run.reference, why);
    values.reads = true;
    if (values.reader.header.program != header.program)
        values_refuse("the reference %.300s is of another program; write it again with this one", check_run.reference);
}

/* Opens this rank's file of rows and the reference. Once, at the start; does not return if one cannot be opened. */
void
values_open(void)
{
    values.rows_fd = check_rows_open(check_run.results, engine_state.rendezvous.rank);
    if (values.rows_fd < 0)
        stop_job("cannot write the results of ddprun check to %s-%d: %m; on several hosts use --reference with a file "
                 "in a folder that all of them have",
                 check_run.results, engine_state.rendezvous.rank);
    values_piece = values_room(NULL, VALUES_PIECE_BYTES);
    values_theirs = values_room(NULL, VALUES_PIECE_BYTES);
    open_reference();
}

void
values_restart(void)
{
    values.writes = false;
    if (!reference_close(&values.writer))
        values_stop_writing();
    open_reference();
}

void
values_close(uint32_t steps, bool by_us, bool in_rounds)
{
    if (values.writes) {
        struct reference_key end = {.kind = REFERENCE_END, .step = steps, .number = in_rounds};
        if (!reference_put(&values.writer, &end, "", 0) || !reference_close(&values.writer))
            values_stop_writing();
        values.writes = false;
    }
    values_note(CHECK_ROW_END, steps, by_us);
    if (atomic_load(&engine_state.status->asks_world_size) != 0)
        values_note(CHECK_ROW_ASKED, steps, 0);
}

struct keeping {
    int type;
    uint64_t endless;
};

/* values_keep()'s: writes a piece of a tensor to the reference, and counts elements that are infinite or NaN. */
static void
keep_piece(void *arg, const void *piece, size_t bytes)
{
    struct keeping *keeping = arg;
    for (size_t i = 0; i < bytes / element_size(keeping->type); ++i)
        keeping->endless += !isfinite(element_get(keeping->type, piece, i));
    if (!reference_append(&values.writer, piece, bytes))
        values_stop_writing();
}

uint64_t
values_keep(const struct tensor *tensor, uint32_t role, uint32_t number, uint32_t step)
{
    struct keeping keeping = {.type = tensor->type};
    const struct reference_key key = {.kind = REFERENCE_VALUES, .role = role, .step = step, .number = number};
    if (!reference_begin(&values.writer, &key))
        values_stop_writing();
    values_read_tensor(tensor, keep_piece, &keeping);
    if (!reference_end(&values.writer))
        values_stop_writing();
    return keeping.endless;
}

bool
values_room_ends(uint32_t done)
{
    struct statfs place;
    uint64_t room = values.room;
    if (!values.writes || room == 0)
        return false;
    bool in_memory =
        fstatfs(values.writer.fd, &place) == 0 && (place.f_type == TMPFS_MAGIC || place.f_type == RAMFS_MAGIC);
    uint64_t memory = in_memory ? room_available("") + values.writer.offset : room; /* as it was at the beginning */
    room = memory < room ? memory : room;
    return values.writer.offset / done * (done + 1) > room / 2;
}

void
values_ask_for_room(void)
{
    if (!values.writes)
        return;
    uint64_t bytes[TENSOR_ROLES] = {0};
    engine_lock();
    FOR_EACH(tensor, memory_state.tensors, engine_state.tensor_count)
        bytes[tensor->role] += tensor->bytes;
    engine_unlock();
    uint32_t steps = check_run.chooses_steps ? CHECK_STEPS_LEAST : check_run.steps;
    uint64_t needed = (steps + 1) * (bytes[TENSOR_PARAMETER] + bytes[TENSOR_STATE]) +
                      steps * (bytes[TENSOR_GRADIENT] + bytes[TENSOR_BUFFER]);
    struct statvfs place;
    if (fstatvfs(values.writer.fd, &place) != 0)
        return;
    values.room = (uint64_t)place.f_bavail * place.f_frsize;
    if (needed > values.room)
        values_refuse("the reference needs %.1f MiB for %u steps, and where %.300s is there are %.1f MiB; set TMPDIR, "
                      "or use --reference or --steps",
                      (double)needed / 1048576, steps, check_run.reference, (double)values.room / 1048576);
}

/* ---- the device ---- */

/* The stream on which tensors are read and written, created at its first use. */
static CUstream
own_stream(void)
{
    if (values.stream == NULL)
        require_cuda(engine_state.driver.cuStreamCreateWithPriority_p(&values.stream, CU_STREAM_NON_BLOCKING, 0),
                     "cuStreamCreateWithPriority");
    return values.stream;
}

void
values_wait(void)
{
    if (values.stream != NULL)
        require_cuda(engine_state.driver.cuStreamSynchronize_p(values.stream), "copying memory that is compared");
}

static char *locked; /* [TOGETHER_BYTES] once it is needed: what tensors hold that are looked at together */

void
values_together(struct tensor *list, size_t count)
{
    const struct driver *driver = &engine_state.driver;
    size_t used = 0;
    for (struct tensor *it = list; it < list + count; ++it) {
        if (it->kind == MEMORY_HOST || it->bytes == 0 || it->bytes > TOGETHER_BYTES - used)
            continue;
        if (locked == NULL)
            require_cuda(driver->cuMemHostAlloc_p((void **)&locked, TOGETHER_BYTES, CU_MEMHOSTALLOC_PORTABLE),
                         "cuMemHostAlloc");
        if (driver->cuMemcpyDtoHAsync_p(locked + used, it->address, it->bytes, own_stream()) == CUDA_SUCCESS)
            it->ahead = locked + used; /* else who reads it says why */
        used += (it->bytes + TOGETHER_APART - 1) / TOGETHER_APART * TOGETHER_APART;
    }
    if (used > 0)
        values_wait();
}

/* Of what lies at `address`: to `to`, or from `from`, of which one is NULL. No copy engine is asked where the host can
 * read; what comes from `locked` is not waited for. False: memory of the host that has gone. */
static bool
copy_memory(CUdeviceptr address, bool is_of_host, size_t bytes, void *to, const void *from)
{
    const struct driver *driver = &engine_state.driver;
    if (is_of_host)
        return (to != NULL ? peek(address, to, bytes) : poke(address, from, bytes)) == bytes;
    require_cuda(to != NULL ? driver->cuMemcpyDtoHAsync_p(to, address, bytes, own_stream())
                            : driver->cuMemcpyHtoDAsync_p(address, from, bytes, own_stream()),
                 "copying memory that is compared");
    if (locked == NULL || (uintptr_t)from - (uintptr_t)locked >= TOGETHER_BYTES)
        values_wait();
    return true;
}

void
values_memory(CUdeviceptr address, size_t bytes, void *to, const void *from)
{
    if (!copy_memory(address, device_ask_about(address).type == CU_MEMORYTYPE_HOST, bytes, to, from))
        stop_job("memory of the host that an update writes has gone");
}

/* ---- tensors ---- */

void
values_tensor_out(char *to, const struct tensor *tensor, size_t at, size_t bytes)
{
    if (tensor->ahead != NULL)
        memcpy(to, tensor->ahead + at, bytes);
    else if (!copy_memory(tensor->address + at, tensor->kind == MEMORY_HOST, bytes, to, NULL))
        tensor_refuse_missing(tensor, "read");
}

void
values_tensor_in(const struct tensor *tensor, size_t at, const char *from, size_t bytes)
{
    if (tensor->ahead != NULL)
        from = memcpy(tensor->ahead + at, from, bytes);
    if (!copy_memory(tensor->address + at, tensor->kind == MEMORY_HOST, bytes, NULL, from))
        tensor_refuse_missing(tensor, "written");
}

void
values_read_tensor(const struct tensor *tensor, void (*take)(void *arg, const void *piece, size_t bytes), void *arg)
{
    for (size_t at = 0; at < tensor->bytes; at += VALUES_PIECE_BYTES) {
        size_t here = tensor->bytes - at < VALUES_PIECE_BYTES ? tensor->bytes - at : VALUES_PIECE_BYTES;
        values_tensor_out(values_piece, tensor, at, here);
        take(arg, values_piece, here);
    }
}

/* ---- what a rank has of its own, and a perturbed start ---- */

static void
hash_piece(void *arg, const void *piece, size_t bytes)
{
    (void)XXH3_64bits_update(arg, piece, bytes);
}

uint64_t
values_hash(const struct tensor *tensor)
{
    static XXH3_state_t state;
    (void)XXH3_64bits_reset(&state);
    values_read_tensor(tensor, hash_piece, &state);
    return XXH3_64bits_digest(&state);
}

/* Half of each element is added to it or taken off it, and zeros become numbers. */
static void
move_far(int type, void *data, size_t count, size_t first)
{
    for (size_t i = 0; i < count && type <= ELEMENT_BFLOAT16; ++i) {
        double value = element_get(type, data, i), sign = (element_scramble(first + i) & 1) != 0 ? 1 : -1;
        element_put(type, data, i, value != 0 ? value * (1 + sign / 2) : sign / 64);
    }
}

/* But for whole numbers, which are counts. */
static void
perturb_fractions(int type, void *data, size_t count, size_t first)
{
    for (size_t i = 0; i < count && type <= ELEMENT_BFLOAT16; ++i) {
        double value = element_get(type, data, i);
        if (value != trunc(value))
            element_perturb(type, (char *)data + i * type_bytes(type), 1, first + i, 1);
    }
}

void
values_perturb(const struct tensor *tensor, bool counts)
{
    size_t apart = (size_t)check_run.nudge << 40; /* another pattern of ups and downs */
    size_t each = type_bytes(tensor->type);
    for (size_t at = 0; at < tensor->bytes; at += VALUES_PIECE_BYTES) {
        size_t here = tensor->bytes - at < VALUES_PIECE_BYTES ? tensor->bytes - at : VALUES_PIECE_BYTES;
        values_tensor_out(values_piece, tensor, at, here);
        if (check_run.is_far)
            move_far(tensor->type, values_piece, here / each, at / each);
        else if (!counts)
            perturb_fractions(tensor->type, values_piece, here / each, apart + at / each);
        else
            element_perturb(tensor->type, values_piece, here / each, apart + at / each, 1);
        values_tensor_in(tensor, at, values_piece, here);
    }
}

void
values_perturb_copied(CUdeviceptr to, const void *source, size_t bytes)
{
    size_t count = bytes / sizeof(float), fractions = 0;
    const float *old = source;
    bool are_floats = bytes % sizeof(float) == 0 && (uintptr_t)source % sizeof(float) == 0;
    for (size_t i = 0; i < count && are_floats; ++i) {
        are_floats = isnormal(old[i]) || old[i] == 0;
        fractions += are_floats && old[i] != truncf(old[i]);
    }
    if (!are_floats || fractions == 0 || device_ask_about(to).type != CU_MEMORYTYPE_DEVICE)
        return;
    OWNED float *new = values_room(NULL, bytes);
    memcpy(new, old, bytes);
    element_perturb(ELEMENT_FLOAT32, new, count, (size_t)check_run.nudge << 40, 1);
    for (size_t i = 0; i < count; ++i)
        new[i] = old[i] == truncf(old[i]) ? old[i] : new[i];
    context_synchronize("after a copy from the host");
    values_memory(to, bytes, NULL, new);
}
