/*
 * records.c - see site.h.
 */
#include "tools/scout/command/report/site.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { HEADER_BYTES = 4096, TEXT_BYTES_AT_MOST = 1 << 30 };

struct file {
    FILE *stream;
    uint64_t bytes;
    unsigned char head[HEADER_BYTES + 1]; /* with a zero behind it */
    size_t head_bytes;
};

/* Header and records make up the whole file. */
static bool
fills(const struct file *file, uint64_t header, uint64_t count, uint64_t each)
{
    return count > 0 && each > 0 && file->bytes >= header && (file->bytes - header) % count == 0 &&
           (file->bytes - header) / count == each;
}

/* ---- IDX ---- */

/* Bytes of an element of a type; 0: no such type. */
static unsigned
idx_element_bytes(unsigned type)
{
    switch (type) {
    case 0x08:
    case 0x09:
        return 1;
    case 0x0b:
        return 2;
    case 0x0c:
    case 0x0d:
        return 4;
    case 0x0e:
        return 8;
    default:
        return 0;
    }
}

/* Two zeros, the type, the number of dimensions, and the dimensions as numbers of 4 bytes, the greatest byte first. */
static bool
find_idx(const struct file *file, struct records *records)
{
    const unsigned char *head = file->head;
    uint64_t dimensions = head[3], each = idx_element_bytes(head[2]), count = 0;
    if (file->head_bytes < 8 || head[0] != 0 || head[1] != 0 || each == 0 || dimensions == 0 ||
        4 + 4 * dimensions > file->head_bytes)
        return false;
    for (uint64_t d = 0; d < dimensions; ++d) {
        const unsigned char *at = head + 4 + 4 * d;
        uint64_t size = (uint64_t)at[0] << 24 | (uint64_t)at[1] << 16 | (uint64_t)at[2] << 8 | at[3];
        if (d == 0)
            count = size;
        else if (size == 0 || each > file->bytes / size) /* nor an overflow */
            return false;
        else
            each *= size;
    }
    *records = (struct records){"IDX", count, each};
    return fills(file, 4 + 4 * dimensions, count, each);
}

/* ---- npy ---- */

/* A magic word, the version, the length of a text, the least byte first, and the text, which has the shape. Records are
 * the first dimension, which must be the outermost one. */
static bool
find_npy(const struct file *file, struct records *records)
{
    const unsigned char *head = file->head;
    if (file->head_bytes < 12 || memcmp(head, "\x93NUMPY", 6) != 0)
        return false;
    bool wide = head[6] >= 2;
    uint64_t length = (uint64_t)head[8] | (uint64_t)head[9] << 8;
    if (wide)
        length |= (uint64_t)head[10] << 16 | (uint64_t)head[11] << 24;
    uint64_t begin = wide ? 12 : 10, header = begin + length;
    if (header > file->head_bytes || strstr((const char *)head + begin, "'fortran_order': False") == NULL)
        return false;
    const char *shape = strstr((const char *)head + begin, "'shape': (");
    uint64_t count = shape != NULL ? strtoull(shape + strlen("'shape': ("), NULL, 10) : 0;
    *records = (struct records){"npy", count, count > 0 ? (file->bytes - header) / count : 0};
    return fills(file, header, count, records->each);
}

/* ---- text ---- */

struct lines {
    char separator;
    uint64_t count, fields; /* of whole lines */
    uint64_t seen;          /* fields in this line so far, less one */
    bool is_empty;          /* it has no character yet */
};

/* False: a line with another number of fields, or no text. */
static bool
add_character(struct lines *lines, char character)
{
    if (character == '\0')
        return false;
    lines->seen += character == lines->separator;
    if (character != '\n') {
        lines->is_empty = false;
        return true;
    }
    if (lines->is_empty || (lines->count > 0 && lines->seen + 1 != lines->fields))
        return false;
    lines->fields = lines->seen + 1;
    lines->seen = 0;
    lines->is_empty = true;
    ++lines->count;
    return true;
}

static bool
find_lines(const struct file *file, struct records *records)
{
    size_t first = strcspn((const char *)file->head, ",\t;\n");
    struct lines lines = {.separator = (char)file->head[first], .is_empty = true};
    char part[1 << 16];
    size_t got;
    if (lines.separator == '\n' || lines.separator == '\0' || file->bytes > TEXT_BYTES_AT_MOST)
        return false;
    rewind(file->stream);
    while ((got = fread(part, 1, sizeof(part), file->stream)) > 0) {
        for (size_t i = 0; i < got; ++i) {
            if (!add_character(&lines, part[i]))
                return false;
        }
    }
    if (!lines.is_empty && !add_character(&lines, '\n'))
        return false;
    *records = (struct records){"text", lines.count, lines.fields};
    return lines.count > 1;
}

bool
records_find(const char *path, uint64_t bytes, struct records *records)
{
    struct stat status;
    struct file file = {.bytes = bytes};
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK); /* no waiting for a pipe of this name */
    if (fd < 0)
        return false;
    bool usable = fstat(fd, &status) == 0 && S_ISREG(status.st_mode) && (uint64_t)status.st_size == bytes;
    file.stream = usable ? fdopen(fd, "r") : NULL;
    if (file.stream == NULL) {
        close(fd);
        return false;
    }
    file.head_bytes = fread(file.head, 1, HEADER_BYTES, file.stream);
    bool found = find_idx(&file, records) || find_npy(&file, records) || find_lines(&file, records);
    (void)fclose(file.stream);
    return found;
}
