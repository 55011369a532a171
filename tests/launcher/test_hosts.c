/*
 * test_hosts.c - lists of hosts say what they mean or are refused with a place; and the command that --hosts becomes
 * has each option once, ddprun's own behind the launcher's, and the program last.
 */
#include "base/protocol.h"
#include "launcher/hosts.h"
#include "launcher/start/environment.h"

#include "tests/test.h"

#include <stdlib.h>
#include <string.h>

/* The text lies at the end of its memory, so that a sanitizer sees a read beyond it. */
static bool
parse(const char *text, const char *file, struct host_list *list, struct error *error)
{
    size_t length = strlen(text);
    char *bytes = malloc(length > 0 ? length : 1);
    ck_assert_ptr_nonnull(bytes);
    memcpy(bytes, text, length);
    bool ok = host_list_parse(bytes, length, file, list, error);
    free(bytes);
    return ok;
}

static void
expect(const char *text, const char *file, const char *hosts)
{
    struct host_list list;
    struct error error = {0};
    bool ok = parse(text, file, &list, &error);
    ck_assert_msg(ok, "%s: %s", text, error.text);
    char all[512] = "";
    int ranks = 0;
    for (int i = 0; i < list.count; ++i) {
        size_t end = strlen(all);
        snprintf(all + end, sizeof(all) - end, "%s%s:%d", i > 0 ? "," : "", list.hosts[i].name, list.hosts[i].ranks);
        ranks += list.hosts[i].ranks;
    }
    ck_assert_str_eq(all, hosts);
    ck_assert_int_eq(ranks, list.ranks);
    host_list_free(&list);
}

static void
expect_error(const char *text, const char *file, const char *words)
{
    struct host_list list = {.count = 77};
    struct error error = {0};
    ck_assert_msg(!parse(text, file, &list, &error), "%s is taken", text);
    ck_assert_msg(strstr(error.text, words) != NULL, "%s: %s", text, error.text);
    ck_assert_int_eq(error.exit_code, DDPRUN_EXIT_USAGE);
    ck_assert_int_eq(list.count, 77);
}

TEST(lists_of_the_command_line)
{
    expect("h1:8", NULL, "h1:8");
    expect("h1:8,h2:256", NULL, "h1:8,h2:256");
    expect(" node-1.example.org:1 , 10.0.0.2:02", NULL, "node-1.example.org:1,10.0.0.2:2");
    expect_error("", NULL, "'' is not HOST:RANKS, in --hosts");
    expect_error("h1:8,", NULL, "'' is not HOST:RANKS, in --hosts");
    expect_error("h1", NULL, "host h1 has no number of ranks, in --hosts; write for example h1:8");
    expect_error("h1:", NULL, "'' is not a number of ranks from 1 to 256, for host h1, in --hosts");
    expect_error("h1:0", NULL, "'0' is not a number");
    expect_error("h1:257", NULL, "'257' is not a number");
    expect_error("h1:18446744073709551617", NULL, "'18446744073709551617' is not a number");
    expect_error("h1:-1", NULL, "'-1' is not a number");
    expect_error("h1:8x", NULL, "'8x' is not a number");
    expect_error("h1 slots=8", NULL, "'h1 slots=8' is not HOST:RANKS");
    expect_error("h1:8,h2:1,h1:2", NULL, "host h1 is named twice, in --hosts");
    expect_error("-n:3", NULL, "'-n:3' is not HOST:RANKS");
    expect_error("h\n1;:3", NULL, "'h?1;:3' is not HOST:RANKS");
}

TEST(lists_of_a_file)
{
    expect("# ours\n\nh1:8\n  h2 slots=4  # small\r\nh3\tslots = 2", "f", "h1:8,h2:4,h3:2");
    expect_error("", "f", "f names no host");
    expect_error("# h1:8\n", "f", "f names no host");
    expect_error("h1:8\nh2\n", "f", "host h2 has no number of ranks, in line 2 of f");
    expect_error("h1:8\n\nh1 slots=1\n", "f", "host h1 is named twice, in line 3 of f");
    expect_error("h1:8 max_slots=9", "f", "'8 max_slots=9' is not a number of ranks from 1 to 256, for host h1");
    expect_error("h1 max_slots=9", "f", "'h1 max_slots=9' is not HOST:RANKS, in line 1 of f");
    expect_error("h1:8,h2:8", "f", "'8,h2:8' is not a number");
}

TEST(one_name_may_begin_like_another)
{
    expect("h1:8,h:2,h10:3", NULL, "h1:8,h:2,h10:3");
}

/* What was written comes back; what was not is refused with words. Case _i is the seed. */
LOOP_TEST(random_bytes_are_refused_or_read, 0, 10)
{
    static const char letters[] = "h12:,=# \n\tslots-.x\"\1\377";
    srand((unsigned)_i);
    for (int round = 0; round < 200; ++round) {
        char bytes[40];
        size_t length = (size_t)rand() % sizeof(bytes);
        for (size_t i = 0; i < length; ++i)
            bytes[i] = rand() % 20 == 0 ? '\0' : letters[(size_t)rand() % (sizeof(letters) - 1)];
        struct host_list list;
        struct error error = {0};
        if (!host_list_parse(bytes, length, rand() % 2 == 0 ? "f" : NULL, &list, &error)) {
            ck_assert_str_ne(error.text, "");
            for (const char *p = error.text; *p != '\0'; ++p)
                ck_assert(*p >= ' ' && *p <= '~');
            continue;
        }
        ck_assert_int_gt(list.count, 0);
        for (int i = 0; i < list.count; ++i) {
            ck_assert(list.hosts[i].ranks >= 1 && list.hosts[i].ranks <= HOST_LIST_MOST_RANKS);
            ck_assert_str_ne(list.hosts[i].name, "");
        }
        host_list_free(&list);
    }
}

TEST(there_is_a_bound)
{
    char *text = malloc((HOST_LIST_MOST_HOSTS + 1) * 12 + 1), *end = text;
    ck_assert_ptr_nonnull(text);
    for (int i = 0; i < HOST_LIST_MOST_HOSTS; ++i)
        end += sprintf(end, "%sh%d:1", i > 0 ? "," : "", i);
    struct host_list list;
    struct error error;
    ck_assert(host_list_parse(text, (size_t)(end - text), NULL, &list, &error));
    ck_assert_int_eq(list.ranks, HOST_LIST_MOST_HOSTS);
    host_list_free(&list);
    strcpy(end, ",last:1");
    expect_error(text, NULL, "more than 4096 hosts");
    free(text);
}

TEST(launchers_are_distinguished)
{
    static const struct {
        const char *program, *version, *mca;
        bool hides;
    } known[] = {{"mpirun", "mpirun (Open MPI) 4.1.4\n\nReport bugs to ...", "--mca", false},
                 {"mpirun", "mpirun (Open MPI) 5.0.7", "--prtemca", true},
                 {"prterun", "\nprterun (PRRTE) 3.0.2\n", "--prtemca", true}};
    for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); ++i) {
        const struct launcher_traits *traits = host_launcher_recognise(known[i].program, known[i].version);
        ck_assert_ptr_nonnull(traits);
        ck_assert_str_eq(traits->mca, known[i].mca);
        ck_assert_int_eq(traits->hides_lost_hosts, known[i].hides);
    }
    ck_assert_ptr_null(host_launcher_recognise("mpirun", "mpirun (Open MPI) 3.1.6"));
    ck_assert_ptr_null(host_launcher_recognise("mpirun", "HYDRA build details:\n    Version: 4.0.2"));
    ck_assert_ptr_null(host_launcher_recognise("mpirun", "Intel(R) MPI Library for Linux* OS, Version 2021.11"));
    ck_assert_ptr_null(host_launcher_recognise("prterun", "mpirun (Open MPI) 5.0.7"));
    ck_assert_ptr_null(host_launcher_recognise("mpirun", ""));
}

static struct launcher_traits traits = {"--mca", false};

/* The command for a command line, its words joined by '|'. */
static char *
command_for(char *program, bool root, int argc, char **argv, char *const *variables)
{
    struct options options;
    struct error error;
    struct host_list list;
    ck_assert_msg(options_parse(argc, argv, &options, &error) == OPTIONS_RUN, "%s", error.text);
    ck_assert(host_list_take(options.hosts, &list, &error));
    struct host_launcher launcher = {program, traits};
    struct hosts_order order = {&options, &list, &launcher, "/opt/bin/ddprun", "/data/run", variables, root};
    char **command = hosts_command(&order), *all = NULL;
    size_t bytes;
    FILE *out = open_memstream(&all, &bytes);
    for (char **word = command; *word != NULL; ++word)
        fprintf(out, "%s%s", word != command ? "|" : "", *word);
    fclose(out);
    words_free(command);
    host_list_free(&list);
    options_free(&options);
    return all;
}

TEST(the_command_has_all_that_ranks_need)
{
    char *argv[] = {"ddprun",  "-vn",        "3",         "--heartbeat-timeout=0",
                    "--hosts", "h1:2,h2:2",  "--dry-run", "--env",
                    "A=x y",   "--bucket=5", "--env=B=",  "--",
                    "./train", "--hosts",    "-n",        NULL};
    char *variables[] = {"HOME=/h",     "PATH=/bin",      "LD_LIBRARY_PATH=/lib", "NCCL_DEBUG=WARN",
                         "CUDA=1",      "DDPRUN_RANKS=9", "DDPRUN_NCCL=/n",       "SOFTGPU_DEVICES=2",
                         "UCX_TLS=tcp", "CUDA_A%=1",      "CUDA_CACHE_PATH=",     NULL};
    char *all = command_for("/usr/bin/mpirun", false, (int)(sizeof(argv) / sizeof(argv[0])) - 1, argv, variables);
    ck_assert_str_eq(
        all,
        "mpirun|--host|h1:2,h2:2|-n|3|--map-by|slot|--bind-to|none|--wdir|/|-x|_DDPRUN_HOSTS_FOLDER=/data/"
        "run|-x|PATH|-x|"
        "LD_LIBRARY_PATH|-x|NCCL_DEBUG|-x|DDPRUN_NCCL|-x|SOFTGPU_DEVICES|-x|UCX_TLS|-x|"
        "CUDA_CACHE_PATH|/opt/bin/ddprun|--verbose|--heartbeat-timeout=0|--env=A=x y|--bucket-mb=5|--env=B=|--|./train|"
        "--hosts|-n");
    free(all);
}

/* The launcher notices a lost host before ddprun does, in time to report it; and never if ddprun never does. */
TEST(the_launcher_notices_a_lost_host_first)
{
    static const char *const expected[][4] = {{"0", NULL, NULL, NULL},
                                              {"3", "1", "1", "1"},
                                              {"6", "1", "1", "3"},
                                              {"15", "10", "1", "3"},
                                              {"600", "595", "1", "3"}};
    for (size_t i = 0; i < sizeof(expected) / sizeof(expected[0]); ++i) {
        char *argv[] = {"ddprun", "--heartbeat-timeout", (char *)expected[i][0], "--hosts=h1:1", "t", NULL},
             *none[] = {NULL};
        char *all = command_for("/usr/bin/mpirun", false, 5, argv, none), wanted[300] = "";
        if (expected[i][1] != NULL)
            snprintf(
                wanted, sizeof(wanted),
                "|--mca|oob_tcp_keepalive_time|%s|--mca|oob_tcp_keepalive_intvl|%s|--mca|oob_tcp_keepalive_probes|%s|",
                expected[i][1], expected[i][2], expected[i][3]);
        ck_assert_msg(strstr(all, wanted) != NULL, "%s: %s", wanted, all);
        ck_assert((strstr(all, "keepalive") != NULL) == (expected[i][1] != NULL));
        free(all);
    }
}

/* A launcher that would end well then never looks: the look that it takes by itself after a while is switched off. */
TEST(a_launcher_that_hides_lost_hosts_never_looks)
{
    static const char *const limits[] = {"0", "3", "15", "600"};
    traits = (struct launcher_traits){"--prtemca", true};
    for (size_t i = 0; i < sizeof(limits) / sizeof(limits[0]); ++i) {
        char *argv[] = {"ddprun", "--heartbeat-timeout", (char *)limits[i], "--hosts=h1:1", "t", NULL},
             *none[] = {NULL};
        char *all = command_for("/usr/bin/mpirun", false, 5, argv, none);
        char *found = strstr(all, "|--prtemca|oob_tcp_keepalive_time|0|");
        ck_assert_msg(found != NULL && strstr(strchr(found + 1, '0'), "keepalive") == NULL, "%s", all);
        free(all);
    }
    traits = (struct launcher_traits){"--mca", false};
}

TEST(root_and_a_launcher_elsewhere_are_said)
{
    char *argv[] = {"ddprun", "--heartbeat-timeout=0", "--hosts=h1:1,h2:2", "t", NULL}, *variables[] = {NULL};
    char *all = command_for("/opt/openmpi/bin/mpirun", true, 4, argv, variables);
    ck_assert_str_eq(all, "/opt/openmpi/bin/mpirun|--allow-run-as-root|--host|h1:1,h2:2|-n|3|--map-by|slot|--bind-to|"
                          "none|--wdir|/|-x|_DDPRUN_HOSTS_FOLDER=/data/run|/opt/bin/ddprun|--heartbeat-timeout=0|--|t");
    free(all);
}

int
main(void)
{
    /* Settings of the user who runs the tests are not under test. */
    unsetenv("DDPRUN_NCCL");
    return tests_run();
}
