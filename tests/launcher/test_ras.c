/*
 * test_ras.c - what NCCL's RAS server answers stands in the report, indented and printable; a server that is not there,
 * closes, says something else or falls silent adds nothing but what had come.
 */
#include "launcher/common/ras.h"

#include "tests/lib/test.h"

#include <netinet/in.h>
#include <pthread.h>
#include <sys/socket.h>

static const char heading[] = "above\n  NCCL's RAS server on this host:\n";

/* A server that answers the client's lines in turn; NULL: it says no more. */
static const struct server {
    const char *name;
    const char *answers[3];
    bool stays; /* it does not close after that */
    const char *lines;
} servers[] = {
    {"a status",
     {"SERVER PROTOCOL 2\n", "OK\n", "NCCL version 2.28\nJob summary\n\trank 1 \001\n"},
     false,
     "    NCCL version 2.28\n    Job summary\n    \trank 1 ?\n"},
    {"a status, and no end", {"SERVER PROTOCOL 2\n", "OK\n", "Job summary\n"}, true, "    Job summary\n"},
    {"no status", {"SERVER PROTOCOL 2\n", "OK\n", NULL}, false, NULL},
    {"an error", {"SERVER PROTOCOL 2\n", "ERROR: Unknown command\n", NULL}, false, NULL},
    {"another server", {"HTTP/1.1 400 Bad Request\n", NULL, NULL}, false, NULL},
    {"half a line", {"SERVER", NULL, NULL}, false, NULL},
    {"it closes", {NULL, NULL, NULL}, false, NULL},
};

static int listener;

static void *
serve(void *of)
{
    const struct server *server = of;
    char line[256];
    int fd = accept(listener, NULL, NULL);
    ck_assert_int_ge(fd, 0);
    for (int i = 0; i < 3 && server->answers[i] != NULL; ++i) {
        ck_assert_int_gt(recv(fd, line, sizeof(line), 0), 0);
        ck_assert_int_gt(send(fd, server->answers[i], strlen(server->answers[i]), MSG_NOSIGNAL), 0);
    }
    while (server->stays && recv(fd, line, sizeof(line), 0) > 0) /* until the client leaves */
        ;
    close(fd);
    return NULL;
}

/* On a port that the system gives. */
static void
open_server(void)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
    socklen_t bytes = sizeof(address);
    char text[64];
    listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    ck_assert_int_eq(bind(listener, (struct sockaddr *)&address, sizeof(address)), 0);
    ck_assert_int_eq(listen(listener, 1), 0);
    ck_assert_int_eq(getsockname(listener, (struct sockaddr *)&address, &bytes), 0);
    snprintf(text, sizeof(text), "127.0.0.1:%d", ntohs(address.sin_port));
    setenv("NCCL_RAS_ADDR", text, 1);
    setenv("NCCL_RAS_ENABLE", "1", 1);
}

TABLE_TEST(what_a_server_says_is_appended, servers)
{
    pthread_t thread;
    char text[4096] = "above\n", wanted[4096];
    const char *lines = servers[_i].lines;
    open_server();
    ck_assert_int_eq(pthread_create(&thread, NULL, serve, (void *)&servers[_i]), 0);
    ras_append(text, sizeof(text));
    ck_assert_int_eq(pthread_join(thread, NULL), 0);
    close(listener);
    snprintf(wanted, sizeof(wanted), "%s%s", lines != NULL ? heading : "above\n", lines != NULL ? lines : "");
    ck_assert_msg(strcmp(text, wanted) == 0, "%s: %s", servers[_i].name, text);
}

TEST(a_server_that_is_off_or_away_is_not_asked)
{
    static const char *const addresses[] = {"127.0.0.1", "no such host:1", "[::1]:1", ":", ""};
    char text[256] = "above\n";
    open_server();
    setenv("NCCL_RAS_ENABLE", "0", 1);
    ras_append(text, sizeof(text));
    unsetenv("NCCL_RAS_ENABLE");
    ras_append(text, sizeof(text));
    setenv("NCCL_RAS_ENABLE", "1", 1);
    close(listener);
    ras_append(text, sizeof(text));
    for (size_t i = 0; i < sizeof(addresses) / sizeof(addresses[0]); ++i) {
        setenv("NCCL_RAS_ADDR", addresses[i], 1);
        ras_append(text, sizeof(text));
    }
    ck_assert_str_eq(text, "above\n");
}
