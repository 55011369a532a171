/*
 * listener.c - see listener.h.
 */
#include "launcher/cluster/listener.h"

#include "base/protocol.h"

#include <errno.h>
#include <netinet/in.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

bool
listener_open(struct listener *listener_p, int backlog, struct error *error)
{
    struct sockaddr_in6 six = {.sin6_family = AF_INET6, .sin6_addr = IN6ADDR_ANY_INIT};
    struct sockaddr_in four = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_ANY)}};
    int off = 0, fd = socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    bool ok = fd >= 0 && setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof(off)) == 0 &&
              bind(fd, (struct sockaddr *)&six, sizeof(six)) == 0;
    if (!ok) { /* a host without IPv6 */
        if (fd >= 0)
            close(fd);
        fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
        ok = fd >= 0 && bind(fd, (struct sockaddr *)&four, sizeof(four)) == 0;
    }
    union {
        struct sockaddr any;
        struct sockaddr_in6 six;
        struct sockaddr_in four;
    } name = {.six = {0}};
    socklen_t length = sizeof(name);
    if (!ok || listen(fd, backlog) != 0 || getsockname(fd, &name.any, &length) != 0) {
        error_set(error, DDPRUN_EXIT_FAILURE, "cannot listen for the ddprun of the other ranks: %s", strerror(errno));
        if (fd >= 0)
            close(fd);
        return false;
    }
    in_port_t port = name.any.sa_family == AF_INET6 ? name.six.sin6_port : name.four.sin_port;
    *listener_p = (struct listener){.fd = fd, .port = ntohs(port)};
    return true;
}

void
listener_close(struct listener *listener)
{
    if (listener->fd >= 0)
        close(listener->fd);
    listener->fd = -1;
}
