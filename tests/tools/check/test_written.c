/*
 * test_written.c - files that several ranks of a check write by one name are found in their private folders, with
 * these ranks, by path; files of one rank, and byte codes of Python, are not.
 */
#include "tools/check/evidence/evidence.h"

#include "tests/lib/test.h"

#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

enum { RANKS = 3 };

static char folder[] = "/tmp/ddprun-test-written-XXXXXX";

/* Makes an empty file, or a link to nothing, and the folders that it lies in. */
static void
make(int rank, const char *path, bool is_link)
{
    char whole[PATH_MAX];
    snprintf(whole, sizeof(whole), "%s/rank-%d/written%s", folder, rank, path);
    for (char *slash = whole + strlen(folder); (slash = strchr(slash + 1, '/')) != NULL;) {
        *slash = '\0';
        (void)mkdir(whole, 0700);
        *slash = '/';
    }
    FILE *file = is_link ? NULL : fopen(whole, "we");
    ck_assert(is_link ? symlink("nowhere", whole) == 0 : file != NULL);
    if (file != NULL)
        ck_assert_int_eq(fclose(file), 0);
}

static void
remove_all(void)
{
    char command[PATH_MAX];
    snprintf(command, sizeof(command), "rm -rf '%s'", folder);
    ck_assert_int_eq(system(command), 0);
}

TEST(names_that_several_ranks_write)
{
    ck_assert_ptr_nonnull(mkdtemp(folder));
    make(0, "/data/model", false);
    make(2, "/data/model", false);
    for (int rank = 0; rank < RANKS; ++rank) {
        char own[64];
        snprintf(own, sizeof(own), "/data/model-%d", rank);
        make(rank, own, false);
        make(rank, "/data/latest", true);
        make(rank, "/data/model.d/part", false);
        make(rank, "/data/__pycache__/train.pyc", false);
    }
    make(1, "/data/log", false);
    struct written written = written_find(folder, RANKS);
    static const struct {
        const char *path;
        int rank_count, ranks[RANKS];
    } expected[] = {{"/data/latest", 3, {0, 1, 2}}, {"/data/model", 2, {0, 2}}, {"/data/model.d/part", 3, {0, 1, 2}}};
    ck_assert_uint_eq(written.count, sizeof(expected) / sizeof(expected[0]));
    for (size_t i = 0; i < written.count; ++i) {
        ck_assert_str_eq(written.files[i].path, expected[i].path);
        ck_assert_int_eq(written.files[i].rank_count, expected[i].rank_count);
        for (int k = 0; k < expected[i].rank_count; ++k)
            ck_assert_int_eq(written.files[i].ranks[k], expected[i].ranks[k]);
    }
    written_free(&written);
    remove_all();
}

TEST(no_folder_has_no_files)
{
    struct written written = written_find("/tmp/ddprun-test-no-such-folder", RANKS);
    ck_assert_uint_eq(written.count, 0);
    written_free(&written);
}
