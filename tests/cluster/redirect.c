/*
 * redirect.c - preloaded into a ddprun: connections to any port but those of the meeting, REDIRECT_FROM and the 15
 * behind it, lead to port REDIRECT_TO of REDIRECT_HOST, and the file REDIRECT_FILE names the port that was meant. So
 * relay.py gets between supervisors, and between ranks, whose port is not known before. With REDIRECT_MEETING
 * connections lead where they are meant to, and the 15 ports refuse them: the way to the meeting is the relay's.
 */
#include <arpa/inet.h>
#include <dlfcn.h>
#include <errno.h>
#include <netinet/in.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

int connect(int fd, __CONST_SOCKADDR_ARG address, socklen_t length);

int
connect(int fd, __CONST_SOCKADDR_ARG address, socklen_t length)
{
    static int (*next)(int, const struct sockaddr *, socklen_t);
    const char *from = getenv("REDIRECT_FROM"), *to = getenv("REDIRECT_TO"), *file = getenv("REDIRECT_FILE"),
               *host = getenv("REDIRECT_HOST");
    struct sockaddr_in four;
    void *found = dlsym(RTLD_NEXT, "connect");
    memcpy(&next, &found, sizeof(next));
    const struct sockaddr *given = address.__sockaddr__;
    bool is_meant = from != NULL && to != NULL && file != NULL && host != NULL &&
                    strcmp(program_invocation_short_name, "ddprun") == 0;
    if (is_meant && given->sa_family == AF_INET6) { /* the relay has one address */
        errno = ECONNREFUSED;
        return -1;
    }
    if (!is_meant || given->sa_family != AF_INET || length < sizeof(four))
        return next(fd, given, length);
    memcpy(&four, given, sizeof(four));
    int port = ntohs(four.sin_port), first = atoi(from);
    bool is_meeting = port >= first && port < first + 16, at_meeting = getenv("REDIRECT_MEETING") != NULL;
    if (is_meeting && at_meeting && port != first) {
        errno = ECONNREFUSED;
        return -1;
    }
    if (is_meeting || at_meeting)
        return next(fd, given, length);
    char beside[4096];
    snprintf(beside, sizeof(beside), "%s.new", file);
    FILE *named = fopen(beside, "we");
    if (named == NULL || fprintf(named, "%d", port) < 0 || fclose(named) != 0 || rename(beside, file) != 0)
        abort();
    four.sin_port = htons((uint16_t)atoi(to));
    if (inet_pton(AF_INET, host, &four.sin_addr) != 1)
        abort();
    return next(fd, (const struct sockaddr *)&four, sizeof(four));
}
