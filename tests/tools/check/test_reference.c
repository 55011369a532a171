/*
 * test_reference.c - the reference of `ddprun check` gives back what was written, and every damaged byte of it is
 * noticed; what the launcher asks of a run and what a rank answers survive their files.
 */
#include "tools/check/format/reference.h"
#include "tools/check/format/run.h"
#include "tools/common/direct.h"

#include "tests/lib/test.h"

enum { CASES = 30, MOST_RECORDS = 40, MOST_BYTES = 3000 };

static char folder[] = "/tmp/ddprun-test-reference-XXXXXX", path[64], copy[64];

/* ---- what is written ---- */

struct record {
    struct reference_key key;
    size_t bytes;
    unsigned char data[MOST_BYTES];
};

static const struct reference_header header = {.steps = 3, .program = 0x123456789abcdef};

static unsigned seed;

static size_t
draw(size_t below)
{
    return (size_t)rand_r(&seed) % below;
}

/* A record number `number`, which no other one is like. */
static struct record
new_record(uint32_t number, size_t most)
{
    struct record record = {
        .key = {.kind = (uint32_t)(1 + draw(6)), .role = (uint32_t)draw(5), .step = number / 3, .number = number},
        .bytes = most == 0 ? 0 : draw(most)};
    for (size_t i = 0; i < record.bytes; ++i)
        record.data[i] = (unsigned char)draw(256);
    return record;
}

/* In one piece, or in several. */
static bool
write_record(struct reference_writer *writer, const struct record *record)
{
    if (draw(2) == 0)
        return reference_put(writer, &record->key, record->data, record->bytes);
    bool ok = reference_begin(writer, &record->key);
    for (size_t at = 0; at < record->bytes && ok;) {
        size_t here = 1 + draw(record->bytes - at);
        ok = reference_append(writer, record->data + at, here);
        at += here;
    }
    return ok && reference_end(writer);
}

static void
write_end(struct reference_writer *writer)
{
    struct reference_key end = {.kind = REFERENCE_END, .step = header.steps};
    ck_assert(reference_put(writer, &end, "", 0));
    ck_assert(reference_close(writer));
}

static void
write_file(struct record *records, size_t count, size_t most)
{
    struct reference_writer writer;
    ck_assert(reference_create(path, &header, &writer));
    for (size_t i = 0; i < count; ++i) {
        records[i] = new_record((uint32_t)i, most);
        ck_assert(write_record(&writer, &records[i]));
    }
    write_end(&writer);
}

/* ---- what is read ---- */

static bool
is_same_header(const struct reference_header *read)
{
    return read->steps == header.steps && read->program == header.program;
}

/* 1: the record is as it was; 0: it is missing or noticed to be damaged; -1: another one is taken for it. */
static int
read_record(struct reference_reader *reader, const struct record *record)
{
    const struct reference_entry *entry = reference_find(reader, &record->key);
    if (entry == NULL || entry->record.bytes != record->bytes)
        return 0;
    unsigned char *data = malloc(record->bytes + 1);
    bool got = reference_get(reader, entry, data, record->bytes);
    bool same = got && memcmp(data, record->data, record->bytes) == 0;
    free(data);
    return !got ? 0 : same ? 1 : -1;
}

/* The file is refused, with a reason in one line, which has these words. */
static void
is_refused(const char *file, const char *words)
{
    struct reference_reader reader;
    const char *why = NULL;
    ck_assert(!reference_open(file, &reader, &why));
    ck_assert(why != NULL && why[0] != '\0' && strchr(why, '\n') == NULL && strstr(why, words) != NULL);
    ck_assert_int_eq(reader.fd, -1);
    ck_assert_ptr_null(reader.entries);
}

static unsigned char *
read_file(const char *file, size_t *bytes_p)
{
    struct stat facts;
    int fd = open(file, O_RDONLY | O_CLOEXEC);
    ck_assert(fd >= 0 && fstat(fd, &facts) == 0);
    unsigned char *bytes = malloc((size_t)facts.st_size + 1);
    ck_assert_int_eq(read(fd, bytes, (size_t)facts.st_size), facts.st_size);
    close(fd);
    *bytes_p = (size_t)facts.st_size;
    return bytes;
}

/* At this place of the file; a new one has these bytes alone. */
static void
put_bytes(const char *file, int flags, const void *bytes, size_t count, size_t at)
{
    int fd = open(file, O_WRONLY | O_CLOEXEC | flags, 0600);
    if (fd < 0 || pwrite(fd, bytes, count, (off_t)at) != (ssize_t)count || close(fd) != 0)
        ck_abort_msg("%s cannot be written", file);
}

static void
put_file(const char *file, const void *bytes, size_t count)
{
    put_bytes(file, O_CREAT | O_TRUNC, bytes, count, 0);
}

LOOP_TEST(what_is_written_is_read, 0, CASES)
{
    struct record records[MOST_RECORDS];
    struct reference_reader reader;
    const char *why;
    seed = (unsigned)_i;
    size_t count = draw(MOST_RECORDS);
    write_file(records, count, MOST_BYTES);
    ck_assert_msg(reference_open(path, &reader, &why), "%s", why);
    ck_assert(is_same_header(&reader.header));
    ck_assert_uint_eq(reader.count, count + 1); /* and the end */
    ck_assert_uint_eq(reader.steps_made, header.steps);
    for (size_t i = 0; i < 2 * count; ++i) /* in any order, and again */
        ck_assert_int_eq(read_record(&reader, &records[draw(count)]), 1);
    for (size_t i = 0; i < count; ++i) {
        ck_assert_int_eq(read_record(&reader, &records[i]), 1);
        /* In pieces. */
        const struct reference_entry *entry = reference_find(&reader, &records[i].key);
        unsigned char piece[MOST_BYTES];
        ck_assert(reference_start(&reader, entry));
        for (size_t at = 0, here; at < records[i].bytes; at += here) {
            here = 1 + draw(records[i].bytes - at);
            ck_assert(reference_next(&reader, piece, here));
            ck_assert_mem_eq(piece, records[i].data + at, here);
        }
        ck_assert(!reference_next(&reader, piece, 1)); /* there is no more */
        ck_assert(!reference_get(&reader, entry, piece, records[i].bytes + 1));
        if (records[i].bytes > 0)
            ck_assert(!reference_get(&reader, entry, piece, records[i].bytes - 1));
    }
    ck_assert_ptr_null(reference_find(&reader, &(struct reference_key){.kind = 77}));
    reference_free(&reader);
}

LOOP_TEST(every_damaged_byte_is_noticed, 0, CASES)
{
    enum { RECORDS = 3 };
    struct record records[RECORDS];
    struct reference_reader reader;
    const char *why;
    size_t bytes;
    seed = (unsigned)_i;
    write_file(records, RECORDS, 40);
    unsigned char *file = read_file(path, &bytes);
    for (size_t at = 0; at < bytes; ++at) {
        unsigned char damaged = (unsigned char)(file[at] ^ (1u << draw(8)));
        put_bytes(path, 0, &damaged, 1, at);
        bool opens = reference_open(path, &reader, &why);
        int lost = 0;
        for (size_t i = 0; i < RECORDS && opens; ++i) {
            int read = read_record(&reader, &records[i]);
            if (read < 0)
                ck_abort_msg("byte %zu is damaged, and record %zu is read with other bytes", at, i);
            lost += read == 0;
        }
        if (opens && (lost != 1 || !is_same_header(&reader.header)))
            ck_abort_msg("byte %zu is damaged, and %d records are not read", at, lost);
        put_bytes(path, 0, &file[at], 1, at);
        if (opens)
            reference_free(&reader);
    }
    free(file);
}

TEST(a_file_that_was_cut_is_refused)
{
    enum { RECORDS = 3 };
    struct record records[RECORDS];
    size_t bytes;
    seed = 7;
    write_file(records, RECORDS, 40);
    unsigned char *file = read_file(path, &bytes);
    put_file(copy, file, bytes);
    for (size_t length = bytes; length-- > 0;) {
        ck_assert_int_eq(truncate(copy, (off_t)length), 0);
        is_refused(copy, length == bytes - sizeof(struct reference_record) ? "not complete" : "");
    }
    file[bytes] = 0; /* and one with something behind its end, too */
    put_file(copy, file, bytes + 1);
    is_refused(copy, "");
    free(file);
}

TEST(what_is_no_reference_is_refused)
{
    static const char text[] = "a text of the user's, which is longer than the header of a reference, and is not one";
    struct record record;
    size_t bytes;
    put_file(copy, text, sizeof(text));
    is_refused(copy, "not a reference");
    put_file(copy, "", 0);
    is_refused(copy, "not a reference");
    is_refused("/dev/null", "not a reference");
    is_refused(folder, "not a reference");
    is_refused("/no/such/file", strerror(ENOENT));
    unlink(copy);
    ck_assert_int_eq(mkfifo(copy, 0600), 0);
    is_refused(copy, "not a reference");
    unlink(copy);
    seed = 8;
    write_file(&record, 1, 40);
    unsigned char *file = read_file(path, &bytes);
    ++file[offsetof(struct reference_header, version)];
    put_file(copy, file, bytes);
    is_refused(copy, "another version");
    free(file);
}

LOOP_TEST(a_file_is_extended_in_front_of_its_end, 0, CASES)
{
    struct record records[MOST_RECORDS], more[3];
    struct reference_writer writer;
    struct reference_reader reader;
    const char *why;
    seed = (unsigned)_i;
    size_t count = draw(MOST_RECORDS);
    write_file(records, count, 200);
    ck_assert(reference_extend(path, &writer));
    for (uint32_t i = 0; i < 3; ++i) {
        more[i] = new_record(MOST_RECORDS + i, i == 0 ? 0 : MOST_BYTES);
        ck_assert(write_record(&writer, &more[i]));
    }
    write_end(&writer);
    ck_assert_msg(reference_open(path, &reader, &why), "%s", why);
    ck_assert_uint_eq(reader.count, count + 4);
    for (size_t i = 0; i < count; ++i)
        ck_assert_int_eq(read_record(&reader, &records[i]), 1);
    for (size_t i = 0; i < 3; ++i)
        ck_assert_int_eq(read_record(&reader, &more[i]), 1);
    reference_free(&reader);

    ck_assert(!reference_extend("/no/such/file", &writer));
    ck_assert(!reference_close(&writer));
}

TEST(no_room_is_noticed)
{
    struct reference_writer writer;
    struct reference_key key = {.kind = REFERENCE_VALUES};
    char bytes[64] = "";
    ck_assert(!reference_create("/no/such/folder/file", &header, &writer));
    ck_assert(!reference_close(&writer));
    ck_assert(!reference_create("/dev/full", &header, &writer)); /* has room for nothing */
    ck_assert(!reference_put(&writer, &key, bytes, sizeof(bytes)));
    ck_assert(reference_close(&writer));
    unlink(copy);
    ck_assert_int_eq(symlink("nothing", copy), 0); /* a link in its place is not followed */
    ck_assert(!reference_create(copy, &header, &writer));
    ck_assert(!reference_close(&writer));
    ck_assert_int_eq(unlink(copy), 0);
}

/* ---- run.h ---- */

TEST(what_is_asked_of_a_run_is_read)
{
    static struct check_run asked, read;
    memset(&asked, 0, sizeof(asked));
    asked = (struct check_run){.mode = CHECK_COMPARES,
                               .steps = 5,
                               .perturbed = true,
                               .look = 4,
                               .probes = true,
                               .reference = "/a/reference",
                               .results = "/some/rows"};
    ck_assert(direct_save(path, &asked, sizeof(asked)));
    ck_assert(check_run_load(path, &read));
    ck_assert_mem_eq(&read, &asked, sizeof(read));
    ck_assert_int_eq(truncate(path, sizeof(asked) - 1), 0);
    ck_assert(!check_run_load(path, &read));
    ck_assert(!check_run_load("/no/such/file", &read));
    ck_assert(!direct_save("/dev/full", &asked, sizeof(asked)));
    memset(asked.reference, 'x', sizeof(asked.reference)); /* without an end */
    ck_assert(direct_save(path, &asked, sizeof(asked)));
    ck_assert(check_run_load(path, &read));
    ck_assert_uint_eq(strnlen(read.reference, sizeof(read.reference)), sizeof(read.reference) - 1);
}

TEST(a_torn_row_does_not_count)
{
    enum { ROWS = 5 };
    static struct check_row rows[ROWS];
    char rank_file[sizeof(path) + 8];
    size_t count = 1;
    snprintf(rank_file, sizeof(rank_file), "%s-3", path);
    ck_assert_ptr_null(check_rows_load(path, 3, &count)); /* the rank has not begun */
    ck_assert_uint_eq(count, 0);
    int fd = check_rows_open(path, 3);
    ck_assert_int_ge(fd, 0);
    ck_assert_ptr_null(check_rows_load(path, 3, &count)); /* it has, and has said nothing yet */
    ck_assert_uint_eq(count, 0);
    for (uint32_t i = 0; i < ROWS; ++i) {
        rows[i].kind = i;
        rows[i].step = i + 1;
        rows[i].norms.difference = 1.0 / (i + 1);
        snprintf(rows[i].text, sizeof(rows[i].text), "row %u", i);
        ck_assert(check_rows_add(fd, &rows[i]));
    }
    close(fd);
    for (size_t torn = 0; torn <= ROWS * sizeof(rows[0]); torn += 1 + sizeof(rows[0]) / 7) {
        ck_assert_int_eq(truncate(rank_file, (off_t)(ROWS * sizeof(rows[0]) - torn)), 0);
        size_t whole = ROWS - (torn + sizeof(rows[0]) - 1) / sizeof(rows[0]);
        struct check_row *read = check_rows_load(path, 3, &count);
        ck_assert_uint_eq(count, whole);
        ck_assert_int_eq(read == NULL, whole == 0);
        if (whole > 0)
            ck_assert_mem_eq(read, rows, whole * sizeof(rows[0]));
        free(read);
    }
    unlink(rank_file);
}

int
main(void)
{
    if (mkdtemp(folder) == NULL)
        return EXIT_FAILURE;
    snprintf(path, sizeof(path), "%s/reference", folder);
    snprintf(copy, sizeof(copy), "%s/copy", folder);

    int status = tests_run();
    unlink(path);
    unlink(copy);
    rmdir(folder);
    return status;
}
