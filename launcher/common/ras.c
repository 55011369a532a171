/*
 * ras.c - see ras.h. Lines of text, as NCCL's client ncclras sends them (NCCL manual, "RAS"; src/ras/client.cc of NCCL
 * 2.28): each of the first two has an answer of one line, the last one all that comes until the server closes.
 */
#include "launcher/common/ras.h"

#include "base/clock.h"
#include "base/printable.h"

#include <errno.h>
#include <netdb.h>
#include <stdbool.h>
#include <sys/socket.h>
#include <unistd.h>

enum { LINE_BYTES = 256, ANSWER_BYTES = 8192, CALL_S = 1, LIMIT_MS = 4000 };

/* A connection, and when no more is waited for: a call may last CALL_S beyond that. */
struct server {
    int fd;
    int64_t until_ms;
};

static bool
is_on(void)
{
    const char *said = getenv("NCCL_RAS_ENABLE");
    return said != NULL && atoi(said) != 0;
}

static int
connect_to(const struct addrinfo *address)
{
    const struct timeval limit = {.tv_sec = CALL_S};
    int fd = socket(address->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return -1;
    (void)setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof(limit)); /* of connect(), too */
    (void)setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit));
    if (connect(fd, address->ai_addr, address->ai_addrlen) == 0)
        return fd;
    close(fd);
    return -1;
}

/* "host:port", or "[::1]:port". -1: no server. */
static int
connect_server(void)
{
    const char *said = getenv("NCCL_RAS_ADDR");
    char host[LINE_BYTES];
    snprintf(host, sizeof(host), "%s", said != NULL ? said : "localhost:28028");
    char *colon = strrchr(host, ':'), *name = host;
    if (colon == NULL)
        return -1;
    *colon = '\0';
    if (name[0] == '[') {
        ++name;
        name[strcspn(name, "]")] = '\0';
    }
    struct addrinfo *found = NULL, wanted = {.ai_socktype = SOCK_STREAM};
    if (getaddrinfo(name, colon + 1, &wanted, &found) != 0)
        return -1;
    int fd = -1;
    for (const struct addrinfo *i = found; i != NULL && fd < 0; i = i->ai_next)
        fd = connect_to(i);
    freeaddrinfo(found);
    return fd;
}

static bool
say(const struct server *server, const char *line)
{
    return send(server->fd, line, strlen(line), MSG_NOSIGNAL) == (ssize_t)strlen(line);
}

/* How many bytes have come; 0: the server has closed, or the time is over. */
static size_t
receive(const struct server *server, char *bytes, size_t room)
{
    while (clock_now_ms() < server->until_ms) {
        ssize_t got = recv(server->fd, bytes, room, 0);
        if (got >= 0)
            return (size_t)got;
        if (errno != EAGAIN && errno != EINTR)
            return 0;
    }
    return 0;
}

/* Whether the line has an answer that begins so. */
static bool
is_answered(const struct server *server, const char *line, const char *wanted)
{
    char answer[LINE_BYTES];
    size_t used = 0;
    if (!say(server, line))
        return false;
    while (used < sizeof(answer) - 1 && (used == 0 || answer[used - 1] != '\n')) {
        size_t got = receive(server, answer + used, sizeof(answer) - 1 - used);
        if (got == 0)
            return false;
        used += got;
    }
    answer[used] = '\0';
    return strncmp(answer, wanted, strlen(wanted)) == 0;
}

/* All that comes; what came before a server that falls silent counts. */
static void
read_answer(const struct server *server, char answer[ANSWER_BYTES])
{
    size_t used = 0, got;
    do {
        got = receive(server, answer + used, ANSWER_BYTES - 1 - used);
        used += got;
    } while (got > 0 && used < ANSWER_BYTES - 1);
    answer[used] = '\0';
}

static void
append_lines(char *answer, char *text, size_t bytes)
{
    char *rest = answer;
    printable_make(answer, "\n\t");
    for (char *line = strtok_r(answer, "\n", &rest); line != NULL; line = strtok_r(NULL, "\n", &rest))
        printable_append(text, bytes, "    %s\n", line);
}

/* What the server says; "": nothing. */
static void
ask(const struct server *server, char answer[ANSWER_BYTES])
{
    answer[0] = '\0';
    if (!is_answered(server, "CLIENT PROTOCOL 2\n", "SERVER PROTOCOL "))
        return;
    if (!is_answered(server, "TIMEOUT 1\n", "OK")) /* seconds in which it hears other processes */
        return;
    if (say(server, "STATUS\n"))
        read_answer(server, answer);
}

void
ras_append(char *text, size_t bytes)
{
    char answer[ANSWER_BYTES];
    const struct server server = {.fd = is_on() ? connect_server() : -1, .until_ms = clock_now_ms() + LIMIT_MS};
    if (server.fd < 0)
        return;
    ask(&server, answer);
    close(server.fd);
    if (answer[0] == '\0')
        return;
    printable_append(text, bytes, "  NCCL's RAS server on this host:\n");
    append_lines(answer, text, bytes);
}
