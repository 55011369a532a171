/*
 * log.c - see log.h. A record is its struct as it lies in memory, and after it what the struct points to,
 * in the order in which the functions below come to it. They write and read it: struct codec knows the direction.
 */
#include "tools/scout/format/log.h"

#include "tools/common/direct.h"

#include <fcntl.h>
#include <obstack.h>
#include <sys/mman.h>
#include <sys/stat.h>

/* The last byte is the version. */
static const char magic[8] = {'d', 'd', 'p', 's', 'c', 'o', 'u', SCOUT_LOG_VERSION};

struct record_header {
    uint32_t bytes; /* of what follows */
    uint32_t kind;
    uint32_t check; /* of kind and what follows */
};

/* What is read lies in an obstack, which a log frees as a whole. */
#define obstack_chunk_alloc malloc
#define obstack_chunk_free  free

struct codec {
    struct scout_writer *writer; /* NULL: reading */
    const uint8_t *at, *end;
    struct scout_log *log; /* what was read so far */
    bool failed;
};

/* Of a record's kind and bytes; in the log after each record. */
static uint32_t
checksum(uint32_t kind, const uint8_t *bytes, size_t count)
{
    /* FNV-1a, 32 bits: Fowler, Noll, Vo */
    uint32_t sum = 2166136261u ^ kind;
    for (size_t i = 0; i < count; ++i)
        sum = (sum ^ bytes[i]) * 16777619u;
    return sum;
}

/* ---- bytes, texts, lists ---- */

/* The C library's macro aligns from a null pointer on. */
static void *__attribute__((no_sanitize("pointer-overflow"))) take(const struct codec *codec, size_t bytes)
{
    return obstack_alloc(codec->log->held, bytes);
}

/* Makes room for so many bytes more. False: there is no memory, and the buffer is as it was. */
static bool
writer_make_room(struct scout_writer *writer, size_t bytes)
{
    size_t needed = writer->bytes + bytes, room = writer->room > needed ? writer->room : 2 * needed;
    uint8_t *moved = room > writer->room ? realloc(writer->buffer, room) : writer->buffer;
    if (moved == NULL)
        return false;
    writer->buffer = moved;
    writer->room = room;
    return true;
}

/* Writes bytes to the record, or reads them from it: each code_...() function does both, by codec->writer. A record
 * that is too short fails the codec. */
static void
code_bytes(struct codec *codec, void *bytes, uint64_t count)
{
    if (codec->failed || (codec->writer == NULL ? count > (uint64_t)(codec->end - codec->at)
                                                : !writer_make_room(codec->writer, count))) {
        codec->failed = true;
    } else if (codec->writer == NULL) {
        memcpy(bytes, codec->at, count);
        codec->at += count;
    } else {
        memcpy(codec->writer->buffer + codec->writer->bytes, bytes, count);
        codec->writer->bytes += count;
    }
}

/* What must hold of a record that is read. */
static void
expect(struct codec *codec, bool holds)
{
    codec->failed = codec->failed || (codec->writer == NULL && !holds);
}

/* A list whose length is known; `items` is the address of the pointer to it. False: the codec has failed. */
static bool
code_list(struct codec *codec, void *items, uint32_t count, size_t item_bytes)
{
    void *list;
    memcpy(&list, items, sizeof(list));
    if (codec->writer == NULL) {
        expect(codec, count <= (uint64_t)(codec->end - codec->at) / item_bytes);
        list = codec->failed || count == 0 ? NULL : take(codec, count * item_bytes);
        memcpy(items, &list, sizeof(list));
    }
    if (count > 0 && list != NULL)
        code_bytes(codec, list, count * item_bytes);
    return !codec->failed;
}

/* A text; `place`: of the pointer to it. */
static void
code_text(struct codec *codec, void *place)
{
    static char none[] = "";
    char **text = place;
    char *bytes = codec->writer != NULL && *text != NULL ? *text : none;
    uint32_t count = (uint32_t)strlen(bytes) + 1;
    code_bytes(codec, &count, sizeof(count));
    (void)code_list(codec, &bytes, count, 1);
    expect(codec, count > 0 && bytes != NULL && bytes[count - 1] == '\0');
    if (codec->writer == NULL)
        *text = bytes;
}

/* A list of ranges, which must be sorted, not empty, and end at byte `limit` at the latest. */
static void
code_ranges(struct codec *codec, struct scout_ranges *ranges, uint64_t limit)
{
    uint64_t before = 0;
    if (!code_list(codec, &ranges->items, ranges->count, sizeof(*ranges->items)))
        return;
    FOR_EACH(range, ranges->items, ranges->count) {
        expect(codec, range->lo >= before && range->hi > range->lo && range->hi <= limit);
        before = range->hi;
    }
}

/* ---- records ---- */

static bool
is_alloc(const struct codec *codec, uint32_t alloc)
{
    return alloc < codec->log->alloc_count;
}

static uint64_t
alloc_bytes(const struct codec *codec, uint32_t alloc)
{
    return is_alloc(codec, alloc) ? codec->log->allocs[alloc].bytes : 0;
}

/* Whether a number refers to one of as many records, or to none. */
static bool
may_be(uint32_t number, uint32_t count)
{
    return number == SCOUT_NONE || number < count;
}

/* A loaded object: its path and its build id. */
static void
code_object(struct codec *codec, void *record)
{
    struct scout_object *object = record;
    code_text(codec, &object->path);
    code_text(codec, &object->build_id);
}

/* A call site: frames, each in an object of the log. */
static void
code_site(struct codec *codec, void *record)
{
    struct scout_site *site = record;
    if (code_list(codec, &site->frames, site->count, sizeof(*site->frames)))
        for (uint32_t i = 0; i < site->count; ++i)
            expect(codec, may_be(site->frames[i].object, codec->log->object_count));
}

static void
code_allocation(struct codec *codec, void *record)
{
    const struct scout_alloc *alloc = record;
    expect(codec, alloc->bytes > 0 && may_be(alloc->site, codec->log->site_count));
}

static void
code_free(struct codec *codec, void *record)
{
    const uint32_t *alloc = record;
    expect(codec, is_alloc(codec, *alloc) && codec->log->allocs[*alloc].freed_at == UINT64_MAX);
}

/* Whether all rows of a copy lie in the allocation that the place names. */
static bool
place_fits(const struct codec *codec, const struct scout_place *place, const struct scout_op *op)
{
    uint64_t limit = alloc_bytes(codec, place->alloc);
    if (place->alloc == SCOUT_NONE || op->bytes == 0)
        return may_be(place->alloc, codec->log->alloc_count);
    return op->rows > 0 && op->bytes <= limit && place->offset <= limit - op->bytes &&
           (op->rows == 1 ||
            (place->pitch >= op->bytes && op->rows - 1 <= (limit - op->bytes - place->offset) / place->pitch));
}

/* An operation with its arguments; numbers that point out of the log fail the codec. */
static void
code_op(struct codec *codec, void *record)
{
    struct scout_op *op = record;
    bool launches = op->kind == SCOUT_LAUNCH;
    expect(codec, (launches || op->kind == SCOUT_FILL || op->kind == SCOUT_COPY) &&
                      may_be(op->name, codec->log->name_count) && may_be(op->site, codec->log->site_count));
    if (codec->writer == NULL) { /* what a kind does not have is zero, whatever the file says */
        op->effect = NULL;
        op->argument_count = launches ? op->argument_count : 0;
        op->from = op->kind == SCOUT_COPY ? op->from : (struct scout_place){0};
        op->to = launches ? (struct scout_place){0} : op->to;
        op->bytes = launches ? 0 : op->bytes;
        op->rows = launches ? 0 : op->rows;
    }
    expect(codec, launches ||
                      (place_fits(codec, &op->to, op) && (op->kind == SCOUT_FILL || place_fits(codec, &op->from, op))));
    if (code_list(codec, &op->arguments, op->argument_count, sizeof(*op->arguments)))
        FOR_EACH(argument, op->arguments, op->argument_count)
            expect(codec, is_alloc(codec, argument->alloc) && argument->offset <= argument->end &&
                              argument->end <= alloc_bytes(codec, argument->alloc));
}

/* The ranges of each part by which a launch was looked at. */
static void
code_segments(struct codec *codec, struct scout_effect *effect)
{
    FOR_EACH_MUTABLE(segment, effect->segments, effect->segment_count) {
        expect(codec, is_alloc(codec, segment->alloc) && segment->lo <= segment->hi &&
                          segment->hi <= alloc_bytes(codec, segment->alloc));
        code_ranges(codec, &segment->killed, segment->hi);
        code_ranges(codec, &segment->modified, segment->hi);
    }
}

/* For each part that results depend on: the ranges that changed with it. */
static void
code_dependences(struct codec *codec, struct scout_effect *effect)
{
    FOR_EACH_MUTABLE(dependence, effect->dependences, effect->dependence_count) {
        expect(codec, dependence->from < effect->segment_count && is_alloc(codec, dependence->to));
        if (codec->failed)
            return;
        code_ranges(codec, &dependence->changed, alloc_bytes(codec, dependence->to));
    }
}

/* Whether elements of so many bytes, from `base` on, lie in the allocation. */
static bool
may_be_elements(const struct codec *codec, uint32_t alloc, uint64_t base, uint64_t bytes)
{
    enum { BYTES_AT_MOST = 64 };
    return is_alloc(codec, alloc) && base <= alloc_bytes(codec, alloc) && bytes > 0 && bytes <= BYTES_AT_MOST;
}

/* What repetitions of a launch have shown. */
static void
code_effect(struct codec *codec, void *record)
{
    struct scout_effect *effect = record;
    expect(codec, may_be(effect->why, codec->log->name_count) && may_be(effect->hidden_write, codec->log->alloc_count));
    if (!code_list(codec, &effect->segments, effect->segment_count, sizeof(*effect->segments)) ||
        !code_list(codec, &effect->written, effect->written_count, sizeof(*effect->written)) ||
        !code_list(codec, &effect->dependences, effect->dependence_count, sizeof(*effect->dependences)) ||
        !code_list(codec, &effect->elementwise, effect->elementwise_count, sizeof(*effect->elementwise)))
        return;
    code_segments(codec, effect);
    FOR_EACH_MUTABLE(written, effect->written, effect->written_count) {
        expect(codec, is_alloc(codec, written->alloc));
        code_ranges(codec, &written->ranges, alloc_bytes(codec, written->alloc));
    }
    code_dependences(codec, effect);
    FOR_EACH(map, effect->elementwise, effect->elementwise_count)
        expect(codec, may_be_elements(codec, map->from, map->from_base, map->from_bytes) &&
                          may_be_elements(codec, map->to, map->to_base, map->to_bytes));
}

/* A call of ddprun.h in the program. */
static void
code_annotation(struct codec *codec, void *record)
{
    struct scout_annotation *annotation = record;
    uint64_t limit = alloc_bytes(codec, annotation->alloc);
    expect(codec,
           annotation->alloc == SCOUT_NONE || (is_alloc(codec, annotation->alloc) && annotation->offset <= limit &&
                                               annotation->bytes <= limit - annotation->offset));
    code_text(codec, &annotation->text);
    code_text(codec, &annotation->file);
}

/* For each kind: its struct, what is behind it and must hold of it, and the list of struct scout_log that it is read
 * into (0: none). */
#define ITEM(name)                                                                     \
    sizeof(*((struct scout_log *)NULL)->name##s), offsetof(struct scout_log, name##s), \
        offsetof(struct scout_log, name##_count)
static const struct kind {
    void (*code)(struct codec *codec, void *record);
    size_t bytes, list, count;
} kinds[] = {
    [SCOUT_NAME] = {code_text, ITEM(name)},
    [SCOUT_OBJECT] = {code_object, ITEM(object)},
    [SCOUT_SITE] = {code_site, ITEM(site)},
    [SCOUT_ALLOC] = {code_allocation, ITEM(alloc)},
    [SCOUT_FREE] = {code_free, sizeof(uint32_t), 0, 0},
    [SCOUT_OP] = {code_op, ITEM(op)},
    [SCOUT_EFFECT] = {code_effect, sizeof(struct scout_effect), 0, 0},
    [SCOUT_FILE] = {code_text, ITEM(file)},
    [SCOUT_ANNOTATION] = {code_annotation, ITEM(annotation)},
    [SCOUT_END] = {NULL, 0, 0, 0},
};

/* The fixed part of a record, then what its kind has besides. */
static void
code_record(struct codec *codec, const struct kind *kind, void *record)
{
    code_bytes(codec, record, kind->bytes);
    if (!codec->failed && kind->code != NULL)
        kind->code(codec, record);
}

/* ---- writing ---- */

/* Writes to the log's file. False: it failed, and writer->error says why. */
static bool
write_all(struct scout_writer *writer, const void *from, size_t bytes)
{
    bool ok = direct_write(writer->fd, from, bytes, -1);
    writer->error = ok ? writer->error : errno;
    return ok;
}

bool
scout_writer_open(struct scout_writer *writer, const char *path, int fd)
{
    *writer = (struct scout_writer){.fd = fd};
    if (fd < 0)
        writer->fd = open_direct(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600);
    return write_all(writer, magic, sizeof(magic));
}

bool
scout_writer_put(struct scout_writer *writer, enum scout_record kind, const void *record)
{
    if (writer->fd < 0 || writer->error != 0)
        return false;
    struct scout_log none = {0};
    struct codec codec = {.writer = writer, .log = &none};
    struct record_header header = {.kind = kind};
    writer->bytes = 0;
    code_bytes(&codec, &header, sizeof(header));
    /* A codec that writes reads only. A name is passed as its text, and coded as what points to it. */
    void *plain = (void *)(uintptr_t)record;
    code_record(&codec, &kinds[kind], kind == SCOUT_NAME ? &plain : plain);
    size_t behind = writer->bytes - sizeof(header);
    if (codec.failed || behind > UINT32_MAX) {
        writer->error = codec.failed ? ENOMEM : EFBIG;
        return false;
    }
    header.bytes = (uint32_t)behind;
    header.check = checksum(kind, writer->buffer + sizeof(header), behind);
    memcpy(writer->buffer, &header, sizeof(header));
    return write_all(writer, writer->buffer, writer->bytes);
}

bool
scout_writer_close(struct scout_writer *writer)
{
    if (writer->fd >= 0 && close(writer->fd) != 0 && writer->error == 0)
        writer->error = errno;
    free(writer->buffer);
    writer->fd = -1;
    writer->buffer = NULL;
    writer->room = 0;
    return writer->error == 0;
}

/* ---- reading ---- */

/* One more item at the end of a list of the log, which doubles at each power of two. */
static void *
add_item(struct codec *codec, const struct kind *kind)
{
    char *log = (char *)codec->log;
    uint32_t count = *(uint32_t *)(log + kind->count);
    char *items;
    memcpy(&items, log + kind->list, sizeof(items));
    if ((count & (count - 1)) == 0) {
        items = realloc(items, (count == 0 ? 1 : 2 * (size_t)count) * kind->bytes);
        if (items == NULL)
            return NULL;
        memcpy(log + kind->list, &items, sizeof(items));
    }
    return items + count * kind->bytes;
}

/* What was read whole is in the log from now on. */
static void
take_record(struct scout_log *log, const struct kind *kind, enum scout_record number, void *record)
{
    if (kind->list > 0)
        ++*(uint32_t *)((char *)log + kind->count);
    switch (number) {
    case SCOUT_ALLOC:
        ((struct scout_alloc *)record)->made_at = log->op_count;
        ((struct scout_alloc *)record)->freed_at = UINT64_MAX;
        break;
    case SCOUT_FREE:
        log->allocs[*(uint32_t *)record].freed_at = log->op_count;
        break;
    case SCOUT_EFFECT:
        log->ops[log->op_count - 1].effect = record;
        break;
    case SCOUT_ANNOTATION:
        ((struct scout_annotation *)record)->operations_before = log->op_count;
        break;
    case SCOUT_END:
        log->has_end = true;
        break;
    default:
        break;
    }
}

/* Reads the record of kind `number` at codec->at into the log. Unknown kinds, and effects without an operation, fail
 * the codec. */
static void
read_record(struct codec *codec, uint32_t number)
{
    struct scout_log *log = codec->log;
    const struct kind *kind = number > 0 && number < sizeof(kinds) / sizeof(kinds[0]) ? &kinds[number] : NULL;
    void *record = NULL;
    if (kind != NULL)
        record = kind->list > 0 ? add_item(codec, kind) : take(codec, kind->bytes);
    expect(codec, record != NULL &&
                      (number != SCOUT_EFFECT || (log->op_count > 0 && log->ops[log->op_count - 1].effect == NULL)));
    if (!codec->failed)
        code_record(codec, kind, record);
    if (!codec->failed)
        take_record(log, kind, number, record);
}

bool
scout_log_read(const void *bytes, size_t count, struct scout_log *log, const char **why)
{
    *log = (struct scout_log){0};
    if (count < sizeof(magic) || memcmp(bytes, magic, sizeof(magic) - 1) != 0) {
        *why = "it is not a scout's log";
        return false;
    }
    if (memcmp(bytes, magic, sizeof(magic)) != 0) {
        *why = "it is of another version of ddprun";
        return false;
    }
    const uint8_t *at = (const uint8_t *)bytes + sizeof(magic), *end = (const uint8_t *)bytes + count;
    struct codec codec = {.log = log};
    log->held = calloc(1, sizeof(*log->held));
    if (log->held == NULL) {
        *why = "there is no memory for it";
        return false;
    }
    obstack_init(log->held);
    while (!codec.failed && !log->has_end && (size_t)(end - at) >= sizeof(struct record_header)) {
        struct record_header header;
        memcpy(&header, at, sizeof(header));
        codec.at = at + sizeof(header);
        if (header.bytes > (size_t)(end - codec.at) || header.check != checksum(header.kind, codec.at, header.bytes))
            break;
        codec.end = codec.at + header.bytes;
        read_record(&codec, header.kind);
        if (!codec.failed)
            at = codec.end;
    }
    log->used = (uint64_t)(at - (const uint8_t *)bytes);
    log->whole = at == end;
    return true;
}

bool
scout_log_open(const char *path, struct scout_log *log, const char **why)
{
    *log = (struct scout_log){0};
    struct stat file;
    OWNED_FD int fd = open_direct(path, O_RDONLY | O_CLOEXEC, 0);
    if (fd < 0 || fstat(fd, &file) != 0 || !S_ISREG(file.st_mode)) {
        *why = fd < 0 ? "it cannot be opened" : "it is no file";
        return false;
    }
    size_t count = (size_t)file.st_size, pages = count > 0 ? count : 1; /* nothing cannot be mapped */
    void *bytes = mmap(NULL, pages, PROT_READ, MAP_PRIVATE, fd, 0);
    *why = "it cannot be read";
    if (bytes == MAP_FAILED)
        return false;
    bool read = scout_log_read(bytes, count, log, why);
    (void)munmap(bytes, pages);
    return read;
}

void
scout_log_free(struct scout_log *log)
{
    if (log->held != NULL)
        obstack_free(log->held, NULL);
    free(log->held);
    FOR_EACH(kind, kinds, sizeof(kinds) / sizeof(kinds[0]))
        if (kind->list > 0)
            owned_free((char *)log + kind->list);
    *log = (struct scout_log){0};
}

const char *
scout_log_name(const struct scout_log *log, uint32_t name)
{
    return name < log->name_count && log->names[name] != NULL ? log->names[name] : "?";
}
