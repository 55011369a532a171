/*
 * log.c - see log.h. One function for each record both writes and reads it: struct codec knows the direction.
 */
#include "tools/scout/format/log.h"

#include "tools/common/direct.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

/* The last byte is the version. */
static const char magic[8] = {'d', 'd', 'p', 's', 'c', 'o', 'u', SCOUT_LOG_VERSION};

struct record_header {
    uint32_t bytes; /* of what follows */
    uint32_t kind;
    uint32_t check; /* of kind and what follows */
};

/* What is read lies in chunks, which a log frees together. */
struct scout_chunk {
    struct scout_chunk *next;
    size_t used, room;
    _Alignas(16) uint8_t bytes[];
};

enum { CHUNK_BYTES = 64 * 1024 };

struct codec {
    struct scout_writer *writer; /* NULL: reading */
    const uint8_t *at, *end;
    struct scout_log *log;
    bool failed;
};

static uint32_t
checksum(uint32_t kind, const uint8_t *bytes, size_t count)
{
    /* FNV-1a, 32 bits: Fowler, Noll, Vo */
    uint32_t sum = 2166136261u ^ kind;
    for (size_t i = 0; i < count; ++i)
        sum = (sum ^ bytes[i]) * 16777619u;
    return sum;
}

/* ---- numbers, texts, lists ---- */

static void *
chunk_take(struct codec *codec, size_t bytes)
{
    struct scout_chunk *chunk = codec->log->chunks;
    bytes = (bytes + 15) & ~(size_t)15;
    if (chunk == NULL || chunk->room - chunk->used < bytes) {
        size_t room = bytes > CHUNK_BYTES ? bytes : CHUNK_BYTES;
        chunk = calloc(1, sizeof(*chunk) + room);
        if (chunk == NULL) {
            codec->failed = true;
            return NULL;
        }
        chunk->room = room;
        chunk->next = codec->log->chunks;
        codec->log->chunks = chunk;
    }
    void *taken = chunk->bytes + chunk->used;
    chunk->used += bytes;
    return taken;
}

static bool
writer_make_room(struct scout_writer *writer, size_t bytes)
{
    if (writer->room - writer->bytes >= bytes)
        return true;
    size_t room = writer->room * 2;
    while (room - writer->bytes < bytes)
        room *= 2;
    void *moved = mremap(writer->buffer, writer->room, room, MREMAP_MAYMOVE);
    if (moved == MAP_FAILED)
        return false;
    writer->buffer = moved;
    writer->room = room;
    return true;
}

static void
put_bytes(struct codec *codec, const void *bytes, size_t count)
{
    if (codec->failed || !writer_make_room(codec->writer, count)) {
        codec->failed = true;
        return;
    }
    memcpy(codec->writer->buffer + codec->writer->bytes, bytes, count);
    codec->writer->bytes += count;
}

static void
code_number(struct codec *codec, uint64_t *number)
{
    if (codec->writer != NULL) {
        uint8_t bytes[10];
        size_t count = 0;
        uint64_t left = *number;
        do {
            bytes[count++] = (uint8_t)((left & 127) | (left > 127 ? 128 : 0));
            left >>= 7;
        } while (left > 0);
        put_bytes(codec, bytes, count);
        return;
    }
    uint64_t read = 0;
    for (unsigned shift = 0; shift < 64; shift += 7) {
        if (codec->failed || codec->at == codec->end)
            break;
        uint8_t byte = *codec->at++;
        read |= (uint64_t)(byte & 127) << shift;
        if ((byte & 128) == 0) {
            *number = read;
            return;
        }
    }
    codec->failed = true;
    *number = 0;
}

static void
code_small(struct codec *codec, uint32_t *number)
{
    uint64_t wide = *number;
    code_number(codec, &wide);
    if (wide > UINT32_MAX)
        codec->failed = true;
    if (codec->writer == NULL)
        *number = codec->failed ? 0 : (uint32_t)wide;
}

/* SCOUT_NONE is 0 in the file, and n is n + 1. */
static void
code_reference(struct codec *codec, uint32_t *number, uint32_t count)
{
    uint64_t wide = *number == SCOUT_NONE ? 0 : (uint64_t)*number + 1;
    code_number(codec, &wide);
    if (codec->writer == NULL && wide > count)
        codec->failed = true;
    if (codec->writer == NULL)
        *number = codec->failed || wide == 0 ? SCOUT_NONE : (uint32_t)(wide - 1);
}

static void
code_text(struct codec *codec, char **text)
{
    uint64_t count = codec->writer != NULL && *text != NULL ? strlen(*text) : 0;
    code_number(codec, &count);
    if (codec->writer != NULL) {
        if (count > 0)
            put_bytes(codec, *text, count);
        return;
    }
    if (codec->failed || count > (uint64_t)(codec->end - codec->at)) {
        codec->failed = true;
        return;
    }
    char *copy = chunk_take(codec, count + 1);
    if (copy == NULL)
        return;
    memcpy(copy, codec->at, count);
    copy[count] = '\0';
    codec->at += count;
    *text = copy;
}

/* The length of a list, and room for it when it is read. Each item takes a byte at least. */
static bool
code_list(struct codec *codec, void *items, uint32_t *count, size_t item_bytes)
{
    code_small(codec, count);
    if (codec->writer != NULL)
        return !codec->failed;
    if (codec->failed || *count > (uint64_t)(codec->end - codec->at)) {
        codec->failed = true;
        *count = 0;
        return false;
    }
    void *taken = *count > 0 ? chunk_take(codec, *count * item_bytes) : NULL;
    if (*count > 0 && taken == NULL)
        *count = 0;
    memcpy(items, &taken, sizeof(taken));
    return !codec->failed;
}

/* By distances: each begins behind the one before it. */
static void
code_ranges(struct codec *codec, struct scout_ranges *ranges, uint64_t limit)
{
    if (!code_list(codec, &ranges->items, &ranges->count, sizeof(*ranges->items)))
        return;
    uint64_t before = 0;
    for (uint32_t i = 0; i < ranges->count && !codec->failed; ++i) {
        struct scout_range *range = &ranges->items[i];
        uint64_t gap = range->lo - before, bytes = range->hi - range->lo;
        code_number(codec, &gap);
        code_number(codec, &bytes);
        if (codec->writer != NULL) {
            before = range->hi;
            continue;
        }
        if (codec->failed || gap > limit - before || bytes == 0 || bytes > limit - before - gap) {
            codec->failed = true;
            ranges->count = 0;
            return;
        }
        range->lo = before + gap;
        range->hi = range->lo + bytes;
        before = range->hi;
    }
}

/* ---- records ---- */

static uint64_t
alloc_bytes(const struct codec *codec, uint32_t alloc)
{
    return codec->writer == NULL && alloc < codec->log->alloc_count ? codec->log->allocs[alloc].bytes : 0;
}

/* An allocation that must be one. */
static void
code_alloc(struct codec *codec, uint32_t *alloc)
{
    code_reference(codec, alloc, codec->writer == NULL ? codec->log->alloc_count : 0);
    if (codec->writer == NULL && *alloc == SCOUT_NONE)
        codec->failed = true;
}

static void
code_name(struct codec *codec, uint32_t *name)
{
    code_reference(codec, name, codec->writer == NULL ? codec->log->name_count : 0);
}

static void
code_site_number(struct codec *codec, uint32_t *site)
{
    code_reference(codec, site, codec->writer == NULL ? codec->log->site_count : 0);
}

static void
code_run(struct codec *codec, struct scout_run *run)
{
    code_text(codec, &run->ddprun);
    if (code_list(codec, &run->arguments, &run->argument_count, sizeof(*run->arguments)))
        for (uint32_t i = 0; i < run->argument_count; ++i)
            code_text(codec, &run->arguments[i]);
}

static void
code_site(struct codec *codec, struct scout_site *site)
{
    if (code_list(codec, &site->frames, &site->count, sizeof(*site->frames)))
        for (uint32_t i = 0; i < site->count; ++i) {
            code_reference(codec, &site->frames[i].object, codec->writer == NULL ? codec->log->object_count : 0);
            code_number(codec, &site->frames[i].offset);
        }
}

static void
code_allocation(struct codec *codec, struct scout_alloc *alloc)
{
    code_number(codec, &alloc->bytes);
    code_small(codec, &alloc->ordinal);
    code_small(codec, &alloc->memory);
    code_site_number(codec, &alloc->site);
    code_name(codec, &alloc->name);
    if (codec->writer == NULL && alloc->bytes == 0)
        codec->failed = true;
}

static void
code_place(struct codec *codec, struct scout_place *place, const struct scout_op *op)
{
    code_reference(codec, &place->alloc, codec->writer == NULL ? codec->log->alloc_count : 0);
    code_number(codec, &place->offset);
    code_number(codec, &place->pitch);
    if (codec->writer != NULL || codec->failed || place->alloc == SCOUT_NONE)
        return;
    uint64_t limit = alloc_bytes(codec, place->alloc);
    bool fits = op->rows > 0 && op->bytes <= limit && place->offset <= limit - op->bytes;
    if (fits && op->rows > 1 && op->bytes > 0)
        fits = place->pitch >= op->bytes && op->rows - 1 <= (limit - op->bytes - place->offset) / place->pitch;
    codec->failed = !fits && op->bytes > 0;
}

static void
code_op(struct codec *codec, struct scout_op *op)
{
    code_small(codec, &op->kind);
    code_name(codec, &op->name);
    code_small(codec, &op->stream);
    code_site_number(codec, &op->site);
    if (op->kind == SCOUT_LAUNCH || op->kind == SCOUT_GRAPH) {
        for (int i = 0; i < 3; ++i)
            code_small(codec, &op->grid[i]);
        for (int i = 0; i < 3; ++i)
            code_small(codec, &op->block[i]);
        code_number(codec, &op->scalars);
        if (!code_list(codec, &op->arguments, &op->argument_count, sizeof(*op->arguments)))
            return;
        for (uint32_t i = 0; i < op->argument_count; ++i) {
            struct scout_argument *argument = &op->arguments[i];
            code_small(codec, &argument->slot);
            code_small(codec, &argument->at);
            code_alloc(codec, &argument->alloc);
            code_number(codec, &argument->offset);
            code_number(codec, &argument->end);
            if (codec->writer == NULL &&
                (argument->end > alloc_bytes(codec, argument->alloc) || argument->offset > argument->end))
                codec->failed = true;
        }
        code_small(codec, &op->answers);
        for (uint32_t i = 0; i < op->argument_count; ++i)
            code_small(codec, &op->arguments[i].type);
    } else if (op->kind == SCOUT_FILL || op->kind == SCOUT_COPY) {
        code_number(codec, &op->bytes);
        code_number(codec, &op->rows);
        code_place(codec, &op->to, op);
        code_number(codec, &op->scalars);
        if (op->kind == SCOUT_COPY) {
            code_place(codec, &op->from, op);
            code_number(codec, &op->content);
            code_small(codec, &op->ahead);
        }
    } else {
        codec->failed = true;
    }
}

static void
code_segments(struct codec *codec, struct scout_effect *effect)
{
    if (!code_list(codec, &effect->segments, &effect->segment_count, sizeof(*effect->segments)))
        return;
    for (uint32_t i = 0; i < effect->segment_count; ++i) {
        struct scout_segment *segment = &effect->segments[i];
        code_alloc(codec, &segment->alloc);
        code_number(codec, &segment->lo);
        code_number(codec, &segment->hi);
        code_small(codec, &segment->type);
        code_small(codec, &segment->tested);
        code_ranges(codec, &segment->killed, segment->hi);
        code_ranges(codec, &segment->modified, segment->hi);
        if (codec->writer == NULL && (segment->lo > segment->hi || segment->hi > alloc_bytes(codec, segment->alloc)))
            codec->failed = true;
    }
}

static void
code_dependences(struct codec *codec, struct scout_effect *effect)
{
    if (!code_list(codec, &effect->dependences, &effect->dependence_count, sizeof(*effect->dependences)))
        return;
    for (uint32_t i = 0; i < effect->dependence_count && !codec->failed; ++i) {
        struct scout_dependence *dependence = &effect->dependences[i];
        code_small(codec, &dependence->from);
        code_alloc(codec, &dependence->to);
        if (codec->writer == NULL && dependence->from >= effect->segment_count)
            codec->failed = true;
        if (codec->failed)
            return;
        code_ranges(codec, &dependence->read, codec->writer == NULL ? effect->segments[dependence->from].hi : 0);
        code_ranges(codec, &dependence->changed, alloc_bytes(codec, dependence->to));
    }
}

static void
code_elementwise(struct codec *codec, struct scout_effect *effect)
{
    if (!code_list(codec, &effect->elementwise, &effect->elementwise_count, sizeof(*effect->elementwise)))
        return;
    for (uint32_t i = 0; i < effect->elementwise_count; ++i) {
        struct scout_elementwise *map = &effect->elementwise[i];
        code_alloc(codec, &map->from);
        code_alloc(codec, &map->to);
        code_number(codec, &map->from_base);
        code_number(codec, &map->to_base);
        code_small(codec, &map->from_bytes);
        code_small(codec, &map->to_bytes);
        code_small(codec, &map->samples);
        if (codec->writer == NULL &&
            (map->from_bytes == 0 || map->from_bytes > 64 || map->to_bytes == 0 || map->to_bytes > 64 ||
             map->from_base > alloc_bytes(codec, map->from) || map->to_base > alloc_bytes(codec, map->to)))
            codec->failed = true;
    }
}

static void
code_effect(struct codec *codec, struct scout_effect *effect)
{
    code_small(codec, &effect->verdict);
    code_name(codec, &effect->why);
    code_small(codec, &effect->tests);
    code_small(codec, &effect->hidden_read);
    code_reference(codec, &effect->hidden_write, codec->writer == NULL ? codec->log->alloc_count : 0);
    code_segments(codec, effect);
    if (code_list(codec, &effect->written, &effect->written_count, sizeof(*effect->written)))
        for (uint32_t i = 0; i < effect->written_count; ++i) {
            code_alloc(codec, &effect->written[i].alloc);
            code_ranges(codec, &effect->written[i].ranges, alloc_bytes(codec, effect->written[i].alloc));
        }
    code_dependences(codec, effect);
    code_elementwise(codec, effect);
}

static void
code_annotation(struct codec *codec, struct scout_annotation *annotation)
{
    code_small(codec, &annotation->says);
    code_small(codec, &annotation->group);
    code_reference(codec, &annotation->alloc, codec->writer == NULL ? codec->log->alloc_count : 0);
    code_number(codec, &annotation->offset);
    code_number(codec, &annotation->bytes);
    code_small(codec, &annotation->type);
    code_text(codec, &annotation->text);
    code_text(codec, &annotation->file);
    code_small(codec, &annotation->line);
    uint64_t limit = alloc_bytes(codec, annotation->alloc);
    if (codec->writer == NULL && annotation->alloc != SCOUT_NONE &&
        (annotation->offset > limit || annotation->bytes > limit - annotation->offset))
        codec->failed = true;
}

static void
code_record(struct codec *codec, uint32_t kind, void *record)
{
    switch (kind) {
    case SCOUT_RUN:
        code_run(codec, record);
        break;
    case SCOUT_NAME:
        code_text(codec, record);
        break;
    case SCOUT_OBJECT:
        code_text(codec, &((struct scout_object *)record)->path);
        code_text(codec, &((struct scout_object *)record)->build_id);
        break;
    case SCOUT_SITE:
        code_site(codec, record);
        break;
    case SCOUT_ALLOC:
        code_allocation(codec, record);
        break;
    case SCOUT_FREE:
        code_alloc(codec, record);
        break;
    case SCOUT_OP:
        code_op(codec, record);
        break;
    case SCOUT_EFFECT:
        code_effect(codec, record);
        break;
    case SCOUT_FILE:
        code_text(codec, &((struct scout_file *)record)->path);
        code_small(codec, &((struct scout_file *)record)->writes);
        code_number(codec, &((struct scout_file *)record)->bytes);
        break;
    case SCOUT_CLOCK:
        code_name(codec, &((struct scout_clock *)record)->name);
        code_site_number(codec, &((struct scout_clock *)record)->site);
        break;
    case SCOUT_ANNOTATION:
        code_annotation(codec, record);
        break;
    case SCOUT_END:
        code_small(codec, &((struct scout_end *)record)->finished);
        code_name(codec, &((struct scout_end *)record)->why);
        code_number(codec, &((struct scout_end *)record)->operations);
        code_number(codec, &((struct scout_end *)record)->copied_bytes);
        break;
    default:
        codec->failed = true;
    }
}

/* ---- writing ---- */

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
    if (writer->fd < 0) {
        writer->error = errno;
        return false;
    }
    writer->room = CHUNK_BYTES;
    writer->buffer = mmap(NULL, writer->room, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (writer->buffer == MAP_FAILED) {
        writer->error = errno;
        writer->buffer = NULL;
        (void)scout_writer_close(writer);
        return false;
    }
    return write_all(writer, magic, sizeof(magic));
}

bool
scout_writer_put(struct scout_writer *writer, enum scout_record kind, const void *record)
{
    if (writer->fd < 0 || writer->error != 0)
        return false;
    struct codec codec = {.writer = writer};
    struct record_header header = {.kind = kind};
    writer->bytes = 0;
    put_bytes(&codec, &header, sizeof(header));
    /* A codec that writes reads only. A name is passed as its text, and coded as what points to it. */
    union {
        const void *constant;
        void *plain;
    } cast = {.constant = record};
    char *text = cast.plain;
    code_record(&codec, kind, kind == SCOUT_NAME ? (void *)&text : cast.plain);
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
    if (writer->buffer != NULL)
        (void)munmap(writer->buffer, writer->room);
    writer->fd = -1;
    writer->buffer = NULL;
    return writer->error == 0;
}

/* ---- reading ---- */

/* One more item, zeroed, at the end of an array; the array doubles at each power of two. */
static void *
add_item(struct codec *codec, void *items, uint32_t *count, size_t item_bytes)
{
    void *array;
    memcpy(&array, items, sizeof(array));
    if ((*count & (*count - 1)) == 0) {
        void *larger = realloc(array, (*count == 0 ? 1 : 2 * (size_t)*count) * item_bytes);
        if (larger == NULL) {
            codec->failed = true;
            return NULL;
        }
        array = larger;
        memcpy(items, &array, sizeof(array));
    }
    void *item = (char *)array + *count * item_bytes;
    memset(item, 0, item_bytes);
    *count += 1;
    return item;
}

#define READ_ITEM(codec, kind, name)                                                                \
    do {                                                                                            \
        struct scout_log *log_ = (codec)->log;                                                      \
        void *item_ = add_item(codec, &log_->name##s, &log_->name##_count, sizeof(*log_->name##s)); \
        if (item_ != NULL)                                                                          \
            code_record(codec, kind, item_);                                                        \
        if ((codec)->failed && item_ != NULL)                                                       \
            log_->name##_count -= 1;                                                                \
    } while (0)

static void
read_effect(struct codec *codec)
{
    struct scout_log *log = codec->log;
    struct scout_effect *effect = chunk_take(codec, sizeof(*effect));
    if (log->op_count == 0 || log->ops[log->op_count - 1].effect != NULL)
        codec->failed = true;
    if (codec->failed)
        return;
    memset(effect, 0, sizeof(*effect));
    code_effect(codec, effect);
    if (!codec->failed)
        log->ops[log->op_count - 1].effect = effect;
}

static void
read_free(struct codec *codec)
{
    uint32_t alloc = SCOUT_NONE;
    code_alloc(codec, &alloc);
    if (!codec->failed && codec->log->allocs[alloc].freed_at != UINT64_MAX)
        codec->failed = true;
    if (!codec->failed)
        codec->log->allocs[alloc].freed_at = codec->log->op_count;
}

static void
read_record(struct codec *codec, uint32_t kind)
{
    struct scout_log *log = codec->log;
    switch (kind) {
    case SCOUT_RUN:
        code_run(codec, &log->run);
        log->has_run = !codec->failed;
        break;
    case SCOUT_NAME:
        READ_ITEM(codec, kind, name);
        break;
    case SCOUT_OBJECT:
        READ_ITEM(codec, kind, object);
        break;
    case SCOUT_SITE:
        READ_ITEM(codec, kind, site);
        break;
    case SCOUT_ALLOC:
        READ_ITEM(codec, kind, alloc);
        if (!codec->failed) {
            log->allocs[log->alloc_count - 1].made_at = log->op_count;
            log->allocs[log->alloc_count - 1].freed_at = UINT64_MAX;
        }
        break;
    case SCOUT_FREE:
        read_free(codec);
        break;
    case SCOUT_OP:
        READ_ITEM(codec, kind, op);
        break;
    case SCOUT_EFFECT:
        read_effect(codec);
        break;
    case SCOUT_FILE:
        READ_ITEM(codec, kind, file);
        if (!codec->failed)
            log->files[log->file_count - 1].at = log->op_count;
        break;
    case SCOUT_CLOCK:
        READ_ITEM(codec, kind, clock);
        if (!codec->failed)
            log->clocks[log->clock_count - 1].at = log->op_count;
        break;
    case SCOUT_ANNOTATION:
        READ_ITEM(codec, kind, annotation);
        if (!codec->failed)
            log->annotations[log->annotation_count - 1].at = log->op_count;
        break;
    case SCOUT_END:
        code_record(codec, kind, &log->end);
        log->has_end = !codec->failed;
        break;
    default:
        codec->failed = true;
    }
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
    int fd = open_direct(path, O_RDONLY | O_CLOEXEC, 0);
    if (fd < 0 || fstat(fd, &file) != 0 || !S_ISREG(file.st_mode)) {
        *why = fd < 0 ? "it cannot be opened" : "it is no file";
        if (fd >= 0)
            close(fd);
        return false;
    }
    size_t count = (size_t)file.st_size;
    void *bytes = count > 0 ? mmap(NULL, count, PROT_READ, MAP_PRIVATE, fd, 0) : NULL;
    close(fd);
    if (bytes == MAP_FAILED) {
        *why = "it cannot be read";
        return false;
    }
    bool read = scout_log_read(count > 0 ? bytes : "", count, log, why);
    if (count > 0)
        (void)munmap(bytes, count);
    return read;
}

void
scout_log_free(struct scout_log *log)
{
    while (log->chunks != NULL) {
        struct scout_chunk *chunk = log->chunks;
        log->chunks = chunk->next;
        free(chunk);
    }
    free(log->names);
    free(log->objects);
    free(log->sites);
    free(log->allocs);
    free(log->ops);
    free(log->files);
    free(log->clocks);
    free(log->annotations);
    *log = (struct scout_log){0};
}

const char *
scout_log_name(const struct scout_log *log, uint32_t name)
{
    return name < log->name_count && log->names[name] != NULL ? log->names[name] : "?";
}
