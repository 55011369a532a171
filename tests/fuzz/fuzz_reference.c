/*
 * fuzz_reference.c - target: the reference of `ddprun check`, which may be a file of any origin (--reference).
 *
 * No random bytes have the hashes that a reference has. So the first byte of the input says whether they are put right
 * in what follows before it is opened: then headers are read whatever they say. Required: what is opened is in order,
 * its records lie within the file, each is found under its key, and read to its end or known to be damaged.
 */
#include "tests/fuzz/fuzz.h"

#include "tools/check/format/reference.h"

#include <xxhash.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { PIECE_BYTES = 1 << 12 };

/* Gives every header that is met on the way the hash that it should have; of odd choices those of contents, too. */
static void
put_hashes_right(uint8_t *bytes, size_t count, uint8_t choice)
{
    struct reference_header header;
    struct reference_record record;
    if (count < sizeof(header))
        return;
    memcpy(&header, bytes, sizeof(header));
    header.hash = XXH3_64bits(&header, offsetof(struct reference_header, hash));
    memcpy(bytes, &header, sizeof(header));
    for (size_t at = sizeof(header); count - at >= sizeof(record);) {
        memcpy(&record, bytes + at, sizeof(record));
        size_t behind = count - at - sizeof(record);
        if ((choice & 2) != 0)
            record.bytes %= behind + 1;
        if ((choice & 4) != 0 && record.bytes <= behind)
            record.contents = XXH3_64bits(bytes + at + sizeof(record), record.bytes);
        record.hash = XXH3_64bits(&record, offsetof(struct reference_record, hash));
        memcpy(bytes + at, &record, sizeof(record));
        if (record.bytes > behind)
            return;
        at += sizeof(record) + record.bytes;
    }
}

/* Reads a record in pieces; whether it is as it was written. */
static bool
read_entry(struct reference_reader *reader, const struct reference_entry *entry)
{
    uint8_t piece[PIECE_BYTES];
    bool ok = reference_start(reader, entry);
    uint64_t left = entry->record.bytes;
    while (ok && left > 0) {
        size_t here = left < sizeof(piece) ? left : sizeof(piece);
        ok = reference_next(reader, piece, here);
        left -= here;
    }
    fuzz_require(!ok || !reference_next(reader, piece, 1), "nothing is behind the end of a record");
    return ok;
}

static void
read_all(struct reference_reader *reader, size_t count, uint8_t choice)
{
    size_t ends = 0;
    fuzz_require(reader->count > 0 && reader->count <= count / sizeof(struct reference_record),
                 "records are within the file");
    for (size_t i = 0; i < reader->count; ++i) {
        const struct reference_entry *entry = &reader->entries[i];
        fuzz_require(entry->offset <= count && entry->record.bytes <= count - entry->offset,
                     "a record is within the file");
        fuzz_require(i == 0 || entry[-1].record.key.kind <= entry->record.key.kind, "records are sorted");
        const struct reference_entry *found = reference_find(reader, &entry->record.key);
        fuzz_require(found != NULL && memcmp(&found->record.key, &entry->record.key, sizeof(found->record.key)) == 0,
                     "a record is found by its key");
        ends += entry->record.key.kind == REFERENCE_END;
        bool whole = read_entry(reader, entry);
        fuzz_require(whole || (choice & 5) != 5, "a record with the right hash is read");
    }
    fuzz_require(ends == 1, "a reference has one end");
}

void
fuzz_reference(const uint8_t *bytes, size_t count)
{
    if (count == 0)
        return;
    uint8_t choice = bytes[0], *copy = fuzz_copy(bytes + 1, count - 1);
    if ((choice & 1) != 0)
        put_hashes_right(copy, count - 1, choice);
    int fd = fuzz_file(copy, count - 1);
    free(copy);
    char path[64];
    snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
    struct reference_reader reader;
    const char *why = NULL;
    if (reference_open(path, &reader, &why)) {
        read_all(&reader, count, choice);
        reference_free(&reader);
    } else {
        fuzz_require(why != NULL && why[0] != '\0' && strchr(why, '\n') == NULL, "a refused file has a reason");
        fuzz_require(reader.fd == -1 && reader.entries == NULL, "a refused file leaves nothing");
    }
    close(fd);
}
