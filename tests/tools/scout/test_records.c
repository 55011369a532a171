/*
 * test_records.c - which files say how many records they have, and which seem to.
 */
#include "tools/scout/command/report/site.h"

#include "tests/test.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static char path[] = "/tmp/test-records-XXXXXX";

static void
make_place(void)
{
    close(mkstemp(path));
}

static void
remove_place(void)
{
    unlink(path);
    memcpy(path + strlen(path) - 6, "XXXXXX", 6);
}

TEST_GROUP(records, .setup = make_place, .teardown = remove_place);

/* Writes the bytes and `zeros` more, and looks. */
static bool
look(const void *bytes, size_t count, size_t zeros, struct records *records)
{
    FILE *file = fopen(path, "w");
    ck_assert_ptr_nonnull(file);
    ck_assert_uint_eq(fwrite(bytes, 1, count, file), count);
    for (size_t i = 0; i < zeros; ++i)
        fputc(0, file);
    ck_assert_int_eq(fclose(file), 0);
    return records_find(path, count + zeros, records);
}

#define IS(bytes, zeros, wanted_format, wanted_count, wanted_each)  \
    do {                                                            \
        struct records records;                                     \
        ck_assert(look(bytes, sizeof(bytes) - 1, zeros, &records)); \
        ck_assert_str_eq(records.format, wanted_format);            \
        ck_assert_uint_eq(records.count, wanted_count);             \
        ck_assert_uint_eq(records.each, wanted_each);               \
    } while (0)
#define IS_NONE(bytes, zeros)                                        \
    do {                                                             \
        struct records records;                                      \
        ck_assert(!look(bytes, sizeof(bytes) - 1, zeros, &records)); \
    } while (0)

#define IMAGES "\0\0\x08\x03\0\0\0\x0a\0\0\0\x1c\0\0\0\x1c"

TEST(idx)
{
    IS(IMAGES, 7840, "IDX", 10, 784);
    IS("\0\0\x08\x01\0\0\0\x0a", 10, "IDX", 10, 1);
    IS("\0\0\x0d\x02\0\0\0\x02\0\0\0\x05", 40, "IDX", 2, 20);
    IS_NONE(IMAGES, 7839);
    IS_NONE(IMAGES, 7850);
    IS_NONE("\0\0\x0a\x01\0\0\0\x0a", 10);
    IS_NONE("\0\0\x08\x01\0\0\0\0", 0);
    IS_NONE("\0\0\x08\xff\0\0\0\x01", 1);
    /* Sizes whose product is 2 to the 64th. */
    IS_NONE("\0\0\x08\x05\0\0\0\x01\0\x01\0\0\0\x01\0\0\0\x01\0\0\0\x01\0\0", 0);
}

#define NPY_1 "\x93NUMPY\x01\0\x3a\0"
#define NPY_2 "\x93NUMPY\x02\0\x3a\0\0\0"
#define SHAPE "{'descr': '<f4', 'fortran_order': False, 'shape': (6, 8)}\n"

TEST(npy)
{
    IS(NPY_1 SHAPE, 192, "npy", 6, 32);
    IS(NPY_2 SHAPE, 192, "npy", 6, 32);
    IS_NONE(NPY_1 SHAPE, 191);
    IS_NONE(NPY_1, 192);
    IS_NONE(NPY_1 "{'descr': '<f4', 'fortran_order': True, 'shape': (6, 8), }", 192);
    IS_NONE(NPY_1 "{'descr': '<f4', 'fortran_order': False, 'shape': ()     }", 4);
    IS_NONE("\x93NUMPY\x02\0\xff\xff\xff\xff" SHAPE, 192);
}

TEST(text)
{
    IS("1,2,3\n4,5,6\n", 0, "text", 2, 3);
    IS("1\t2\n4\t5\n7\t8", 0, "text", 3, 2);
    IS_NONE("1,2,3\n4,5\n", 0);
    IS_NONE("1,2,3\n", 0);
    IS_NONE("1,2\n\n3,4\n", 0);
    IS_NONE("once\nupon\n", 0);
    IS_NONE("1,2\n3,4\n", 1);
    IS_NONE("", 0);
}

TEST(what_is_no_such_file)
{
    struct records records;
    ck_assert(!records_find("/nonexistent", 4, &records));
    ck_assert(!records_find("/tmp", 4096, &records));
    ck_assert(!look("1,2\n3,4\n", 8, 0, &records) || !records_find(path, 9, &records));
    ck_assert_int_eq(unlink(path), 0);
    ck_assert_int_eq(mkfifo(path, 0600), 0);
    ck_assert(!records_find(path, 0, &records));
}
