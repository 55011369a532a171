/*
 * test_parameter_file.c - what is written is what is read, and a file that was damaged in any place is refused: the
 * comparison of two runs rests on it.
 */
#include "common/parameter_file.h"

#include "tests/lib/test.h"

enum { CASES = 50, MOST_TENSORS = 6, MOST_VALUES = 100 };

static char folder[] = "/tmp/test_parameter_file.XXXXXX";
static char path[64], path_of_7[64];

/* Random bits: every float, NaN included, must come back as it was. */
static void
random_parameters(unsigned *seed, struct parameter *parameters, size_t *count)
{
    *count = 1 + (size_t)rand_r(seed) % MOST_TENSORS;
    for (size_t i = 0; i < *count; ++i) {
        snprintf(parameters[i].name, sizeof(parameters[i].name), "t%d", rand_r(seed));
        parameters[i].count = 1 + (size_t)rand_r(seed) % MOST_VALUES;
        parameters[i].values = malloc(parameters[i].count * sizeof(float));
        for (size_t j = 0; j < parameters[i].count; ++j) {
            unsigned bits = (unsigned)rand_r(seed) << 16 ^ (unsigned)rand_r(seed);
            memcpy(&parameters[i].values[j], &bits, sizeof(bits));
        }
    }
}

static void
release(struct parameter *parameters, size_t count)
{
    for (size_t i = 0; i < count; ++i)
        free(parameters[i].values);
}

LOOP_TEST(round_trip, 0, CASES)
{
    unsigned seed = (unsigned)_i;
    struct parameter written[MOST_TENSORS], *read;
    size_t count, read_count;
    random_parameters(&seed, written, &count);
    ck_assert_int_eq(parameter_file_write(path, 7, written, count), 0);
    ck_assert_int_eq(parameter_file_read(path_of_7, &read, &read_count), 0);

    ck_assert_uint_eq(read_count, count);
    for (size_t i = 0; i < count; ++i) {
        ck_assert_str_eq(read[i].name, written[i].name);
        ck_assert_uint_eq(read[i].count, written[i].count);
        ck_assert_mem_eq(read[i].values, written[i].values, written[i].count * sizeof(float));
    }
    parameter_file_free(read, read_count);
    release(written, count);
}

/* Every length but the right one. */
TEST(other_length_is_refused)
{
    unsigned seed = 1;
    struct parameter written[MOST_TENSORS], *read = NULL;
    size_t count, read_count = 99;
    random_parameters(&seed, written, &count);
    ck_assert_int_eq(parameter_file_write(path, 7, written, count), 0);
    release(written, count);

    struct stat status;
    ck_assert_int_eq(stat(path_of_7, &status), 0);
    for (off_t length = status.st_size + 1; length >= 0; --length) {
        if (length == status.st_size)
            continue;
        ck_assert_int_eq(truncate(path_of_7, length), 0);
        ck_assert_int_ne(parameter_file_read(path_of_7, &read, &read_count), 0);
        ck_assert_ptr_null(read);
        ck_assert_uint_eq(read_count, 99);
    }
}

TEST(damaged_header_is_refused)
{
    static const char *const headers[] = {
        "",
        "parameters 2\nW 1\n\n0000",
        "parameters 1\nW 1",
        "parameters 1\nW\n\n0000",
        "parameters 1\nW 0\n\n",
        "parameters 1\nW -1\n\n0000",
        "parameters 1\nW 1 1\n\n0000",
        "parameters 1\nW 99999999999999999999\n\n0000",
        "parameters 1\nW 1\nb 1\n\n0000",
    };
    struct parameter *read = NULL;
    size_t count = 99;
    for (size_t i = 0; i < sizeof(headers) / sizeof(headers[0]); ++i) {
        FILE *file = fopen(path_of_7, "wb");
        ck_assert_ptr_nonnull(file);
        fputs(headers[i], file);
        fclose(file);
        ck_assert_int_ne(parameter_file_read(path_of_7, &read, &count), 0);
        ck_assert_ptr_null(read);
        ck_assert_uint_eq(count, 99);
    }
}

TEST(failed_write_leaves_nothing)
{
    float value = 1.0f;
    struct parameter parameter = {.name = "W", .count = 1, .values = &value};
    ck_assert_int_ne(parameter_file_write("/tmp/no such folder/file", 0, &parameter, 1), 0);

    /* A folder stands where the file should go: the rename fails, and the temporary file must go. */
    ck_assert_int_ne(parameter_file_write(folder, 0, &parameter, 1), 0);
    char temporary[128];
    snprintf(temporary, sizeof(temporary), "%s.tmp%ld", folder, (long)getpid());
    ck_assert_int_ne(access(temporary, F_OK), 0);
}

int
main(void)
{
    if (mkdtemp(folder) == NULL) {
        perror(folder);
        return EXIT_FAILURE;
    }
    snprintf(path, sizeof(path), "%s/rank%%d", folder);
    snprintf(path_of_7, sizeof(path_of_7), "%s/rank7", folder);

    int status = tests_run();
    unlink(path_of_7);
    rmdir(folder);
    return status;
}
