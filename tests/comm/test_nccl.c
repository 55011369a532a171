/*
 * test_nccl.c - an NCCL that is missing, is something else, or is too old gets one line that says what is wrong and
 * what to do, and the table stays untouched. One of another version than the build's header gets that version's
 * structures.
 */
#include "comm/nccl.h"

#include "tests/lib/test.h"

static unsigned opened_count;

static void
note_opened(const void *address)
{
    (void)address;
    ++opened_count;
}

static int depth; /* inside NCCL */

static void
note_inside(bool is_inside)
{
    depth += is_inside ? 1 : -1;
}

static const struct nccl_watcher watcher = {note_opened, note_inside};

static void
check_refused(const char *path, const char *words)
{
    struct comm_error error;
    struct nccl nccl = {.version = 77};
    ck_assert(!nccl_open(&nccl, path, &watcher, &error));
    ck_assert_msg(strstr(error.text, words) != NULL, "%s", error.text);
    ck_assert_says(error.text, "--nccl PATH");
    ck_assert_ptr_null(strchr(error.text, '\n'));
    ck_assert_int_eq(nccl.version, 77);
}

TEST(a_missing_library_is_refused)
{
    check_refused("/nowhere/libnccl.so.2", "cannot open NCCL");
}

TEST(another_library_is_refused)
{
    check_refused("libm.so.6", "is not NCCL: it has no ncclGetVersion");
}

TEST(an_old_release_is_refused)
{
    static const struct {
        int version;
        const char *words;
    } old[] = {{2804, "is NCCL 2.8.4; 2.18 or newer is needed"}, {21701, "is NCCL 2.17.1; 2.18 or newer is needed"}};
    for (size_t i = 0; i < sizeof(old) / sizeof(old[0]); ++i) {
        char path[4096];
        snprintf(path, sizeof(path), OLD_NCCL, old[i].version);
        opened_count = 0;
        check_refused(path, old[i].words);
        ck_assert_uint_eq(opened_count, 1); /* exempted from the hooks before it ran */
    }
}

static const int versions[] = {21803, 22105, 22403, 22809, 23203};
enum { VERSIONS = sizeof(versions) / sizeof(versions[0]) };

TEST(each_version_gets_its_own_configuration)
{
    for (int i = 0; i < 2 * VERSIONS; ++i) {
        char path[4096];
        struct comm_error error;
        struct nccl nccl;
        struct nccl_config config;
        ncclComm_t comm = NULL;
        ncclUniqueId id = {.internal = {[0] = 'i', [sizeof(id.internal) - 1] = 'd'}};
        snprintf(path, sizeof(path), FAKE_NCCL, versions[i / 2]);
        ck_assert_msg(nccl_open(&nccl, path, &watcher, &error), "%s", error.text);
        ck_assert_int_eq(nccl.version, versions[i / 2]);
        nccl_config_fill(&config, nccl.version, i % 2 == 1);
        ck_assert_int_eq(config.blocking, i % 2);
        ncclResult_t result = nccl.ncclCommInitRankConfig_p(&comm, 2, id, 1, (ncclConfig_t *)&config);
        ck_assert_msg(result == ncclSuccess, "%s", nccl.ncclGetLastError_p(comm));
        ck_assert_ptr_nonnull(comm);
    }
}

/* The build's own header has one more version to compare with. */
TEST(the_header_of_the_build_agrees)
{
    ncclConfig_t theirs = NCCL_CONFIG_INITIALIZER;
    struct nccl_config ours;
    theirs.blocking = 0;
    nccl_config_fill(&ours, NCCL_VERSION_CODE, false);
    ck_assert_uint_eq(ours.size, sizeof(theirs));
    ck_assert_uint_eq(ours.version, theirs.version);
    ck_assert_mem_eq(&ours, &theirs, offsetof(struct nccl_config, traffic_class)); /* then there may be a hole */
}

/* Of an NCCL of the future nothing is known but that it takes what earlier headers made. */
TEST(a_newer_release_gets_the_newest_known_configuration)
{
    struct nccl_config config;
    nccl_config_fill(&config, NCCL_VERSION(2, 40, 1), false);
    ck_assert_uint_eq(config.size, sizeof(config));
    ck_assert_uint_eq(config.version, NCCL_NEWEST_KNOWN);
}

/* The last tests: what they load stays. An NCCL that the program has, in the scope that all libraries look names up in.
 */
static void *
load_globally(const char *format, int version)
{
    char path[4096];
    snprintf(path, sizeof(path), format, version);
    return dlopen(path, RTLD_NOW | RTLD_GLOBAL);
}

TEST(the_programs_own_nccl_comes_first)
{
    char path[4096];
    struct comm_error error;
    struct nccl nccl;
    ck_assert_ptr_nonnull(load_globally(FAKE_NCCL, 22403));
    snprintf(path, sizeof(path), FAKE_NCCL, 22809);
    ck_assert_msg(nccl_open(&nccl, path, &watcher, &error), "%s", error.text);
    ck_assert_int_eq(nccl.version, 22403);
}
