/* reference.c - see reference.h. */
#include "tools/check/format/reference.h"

#include "tools/common/direct.h"
#include "tools/common/each.h"
#include "tools/near/element.h"

#include <xxhash.h>

#include <fcntl.h>
#include <sys/stat.h>

static const char magic[8] = "ddpcheck";

static uint64_t
header_hash(const struct reference_header *header)
{
    return XXH3_64bits(header, offsetof(struct reference_header, hash));
}

static uint64_t
record_hash(const struct reference_record *record)
{
    return XXH3_64bits(record, offsetof(struct reference_record, hash));
}

/* ---- writing ---- */

bool
reference_create(const char *path, const struct reference_header *header, struct reference_writer *writer)
{
    struct reference_header whole = *header;
    memcpy(whole.magic, magic, sizeof(magic));
    whole.version = REFERENCE_VERSION;
    whole.hash = header_hash(&whole);
    *writer =
        (struct reference_writer){.fd = open_direct(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600)};
    writer->state = XXH3_createState();
    writer->offset = sizeof(whole);
    return writer->fd >= 0 && writer->state != NULL && direct_write(writer->fd, &whole, sizeof(whole), 0);
}

/* The header is written when its hashes are known. */
bool
reference_begin(struct reference_writer *writer, const struct reference_key *key)
{
    writer->record = (struct reference_record){.key = *key};
    writer->record_at = writer->offset;
    writer->offset += sizeof(writer->record);
    return XXH3_64bits_reset(writer->state) == XXH_OK;
}

bool
reference_append(struct reference_writer *writer, const void *data, size_t bytes)
{
    (void)XXH3_64bits_update(writer->state, data, bytes);
    bool ok = direct_write(writer->fd, data, bytes, (off_t)writer->offset);
    writer->offset += bytes;
    writer->record.bytes += bytes;
    return ok;
}

bool
reference_end(struct reference_writer *writer)
{
    writer->record.contents = XXH3_64bits_digest(writer->state);
    writer->record.hash = record_hash(&writer->record);
    return direct_write(writer->fd, &writer->record, sizeof(writer->record), (off_t)writer->record_at);
}

bool
reference_put(struct reference_writer *writer, const struct reference_key *key, const void *data, size_t bytes)
{
    return reference_begin(writer, key) && reference_append(writer, data, bytes) && reference_end(writer);
}

bool
reference_extend(const char *path, struct reference_writer *writer)
{
    struct stat file;
    *writer = (struct reference_writer){.fd = open_direct(path, O_WRONLY | O_CLOEXEC | O_NOFOLLOW, 0)};
    writer->state = XXH3_createState();
    if (writer->fd < 0 || writer->state == NULL || fstat(writer->fd, &file) != 0)
        return false;
    writer->offset = (uint64_t)file.st_size - sizeof(struct reference_record);
    return true;
}

bool
reference_close(struct reference_writer *writer)
{
    bool ok = writer->fd >= 0 && close(writer->fd) == 0;
    XXH3_freeState(writer->state);
    *writer = (struct reference_writer){.fd = -1};
    return ok;
}

/* ---- reading ---- */

#define BY(field, then) COMPARE(&a->record.key, &b->record.key, field, then)
COMPARES(compare_keys, struct reference_entry, BY(kind, BY(role, BY(step, BY(number, 0)))))

/* Reads the headers of all records; the file must end with REFERENCE_END. */
static const char *
read_records(struct reference_reader *reader, uint64_t file_bytes)
{
    uint64_t at = sizeof(reader->header);
    bool ended = false;
    while (at < file_bytes && !ended) {
        struct reference_entry entry = {.offset = at + sizeof(entry.record)};
        if (!direct_read(reader->fd, &entry.record, sizeof(entry.record), (off_t)at) ||
            entry.record.hash != record_hash(&entry.record) || entry.record.bytes > file_bytes - entry.offset)
            return "it is damaged";
        struct reference_entry *grown = realloc(reader->entries, (reader->count + 1) * sizeof(*grown));
        if (grown == NULL)
            return "there is no memory to read it";
        reader->entries = grown;
        reader->entries[reader->count++] = entry;
        at = entry.offset + entry.record.bytes;
        ended = entry.record.key.kind == REFERENCE_END;
        reader->steps_made = entry.record.key.step;
        reader->in_rounds = entry.record.key.number == 1;
    }
    if (!ended)
        return "it is not complete: the run that wrote it did not end";
    return at != file_bytes ? "it is damaged" : NULL;
}

/* Opens the file, checks its header, and reads its list of records. NULL: done; else why it cannot be used. The caller
 * closes reader->fd in any case. */
static const char *
open_file(const char *path, struct reference_reader *reader)
{
    struct stat file;
    reader->fd = open_direct(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC, 0); /* a FIFO would wait for its writer */
    if (reader->fd < 0 || fstat(reader->fd, &file) != 0)
        return strerror(errno);
    if (!S_ISREG(file.st_mode) || !direct_read(reader->fd, &reader->header, sizeof(reader->header), 0) ||
        memcmp(reader->header.magic, magic, sizeof(magic)) != 0)
        return "it is not a reference that ddprun check has written";
    if (reader->header.version != REFERENCE_VERSION)
        return "another version of ddprun has written it";
    if (reader->header.hash != header_hash(&reader->header))
        return "it is damaged";
    reader->state = XXH3_createState();
    if (reader->state == NULL)
        return "there is no memory to read it";
    return read_records(reader, (uint64_t)file.st_size);
}

bool
reference_open(const char *path, struct reference_reader *reader, const char **why)
{
    *reader = (struct reference_reader){.fd = -1};
    *why = open_file(path, reader);
    if (*why != NULL) {
        reference_free(reader);
        return false;
    }
    SORT(reader->entries, reader->count, compare_keys);
    return true;
}

struct reference_reader
reference_share(const struct reference_reader *reader)
{
    struct reference_reader second = *reader;
    second.open = NULL;
    second.state = XXH3_createState();
    return second;
}

bool
reference_is_one(const char *path)
{
    char begin[sizeof(magic)];
    struct stat file;
    OWNED_FD int fd = open_direct(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC, 0);
    return fd >= 0 && fstat(fd, &file) == 0 && S_ISREG(file.st_mode) && direct_read(fd, begin, sizeof(begin), 0) &&
           memcmp(begin, magic, sizeof(magic)) == 0;
}

const struct reference_entry *
reference_find(const struct reference_reader *reader, const struct reference_key *key)
{
    struct reference_entry wanted = {.record.key = *key};
    return reader->count == 0
               ? NULL
               : bsearch(&wanted, reader->entries, reader->count, sizeof(*reader->entries), compare_keys);
}

bool
reference_start(struct reference_reader *reader, const struct reference_entry *entry)
{
    reader->open = entry;
    reader->offset = 0;
    return XXH3_64bits_reset(reader->state) == XXH_OK;
}

bool
reference_next(struct reference_reader *reader, void *data, size_t bytes)
{
    const struct reference_entry *entry = reader->open;
    if (bytes > entry->record.bytes - reader->offset ||
        !direct_read(reader->fd, data, bytes, (off_t)(entry->offset + reader->offset)))
        return false;
    (void)XXH3_64bits_update(reader->state, data, bytes);
    reader->offset += bytes;
    return reader->offset < entry->record.bytes || XXH3_64bits_digest(reader->state) == entry->record.contents;
}

bool
reference_get(struct reference_reader *reader, const struct reference_entry *entry, void *data, size_t bytes)
{
    return entry->record.bytes == bytes && reference_start(reader, entry) && reference_next(reader, data, bytes);
}

void
reference_free(struct reference_reader *reader)
{
    if (reader->fd >= 0)
        close(reader->fd);
    free(reader->entries);
    XXH3_freeState(reader->state);
    *reader = (struct reference_reader){.fd = -1};
}
