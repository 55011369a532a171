/* network.c - see network.h. */
#include "launcher/common/network.h"

#include "base/printable.h"
#include "launcher/common/xcalloc.h"

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

bool
network_parse(const char *text, struct network *network_p)
{
    char copy[INET6_ADDRSTRLEN];
    struct network network = {0};
    const char *slash = strchr(text, '/');
    if (slash == NULL || (size_t)(slash - text) >= sizeof(copy))
        return false;
    memcpy(copy, text, (size_t)(slash - text));
    copy[slash - text] = '\0';
    if (inet_pton(AF_INET, copy, network.bytes) == 1)
        network.family = 4;
    else if (inet_pton(AF_INET6, copy, network.bytes) == 1)
        network.family = 6;
    else
        return false;
    char *end;
    if (slash[1] < '0' || slash[1] > '9')
        return false;
    long bits = strtol(slash + 1, &end, 10);
    if (*end != '\0' || bits > (network.family == 4 ? 32 : 128))
        return false;
    network.bits = (int)bits;
    *network_p = network;
    return true;
}

static bool
has_prefix(const unsigned char *bytes, const unsigned char *other, int bits)
{
    for (int i = 0; i < bits; ++i) {
        int mask = 0x80 >> (i % 8);
        if ((bytes[i / 8] & mask) != (other[i / 8] & mask))
            return false;
    }
    return true;
}

bool
network_holds(const struct network *network, const struct sockaddr *address)
{
    unsigned char bytes[16];
    if (address != NULL && address->sa_family == AF_INET && network->family == 4)
        memcpy(bytes, &((const struct sockaddr_in *)address)->sin_addr, 4);
    else if (address != NULL && address->sa_family == AF_INET6 && network->family == 6)
        memcpy(bytes, &((const struct sockaddr_in6 *)address)->sin6_addr, sizeof(bytes));
    else
        return false;
    return has_prefix(network->bytes, bytes, network->bits);
}

/* "eth0,eth1" with the name; itself if it has it. */
static char *
add_name(char *names, const char *name)
{
    size_t length = strlen(name);
    for (const char *at = names; at != NULL && *at != '\0'; at += strcspn(at, ","), at += *at == ',') {
        if (strncmp(at, name, length) == 0 && (at[length] == ',' || at[length] == '\0'))
            return names;
    }
    char *more = names != NULL ? xasprintf("%s,%s", names, name) : xstrdup(name);
    free(names);
    return more;
}

char *
network_interfaces(const char *text)
{
    struct network network;
    struct ifaddrs *interfaces = NULL;
    char *names = NULL;
    if (!network_parse(text, &network) || getifaddrs(&interfaces) != 0)
        return NULL;
    for (const struct ifaddrs *i = interfaces; i != NULL; i = i->ifa_next) {
        if ((i->ifa_flags & IFF_UP) != 0 && network_holds(&network, i->ifa_addr))
            names = add_name(names, i->ifa_name);
    }
    freeifaddrs(interfaces);
    return names;
}

const char *
host_name(void)
{
    static char name[65];
    if (name[0] != '\0')
        return name;
    if (gethostname(name, sizeof(name) - 1) != 0 || name[0] == '\0')
        memcpy(name, "localhost", sizeof("localhost"));
    printable_make(name, ""); /* the kernel takes any byte */
    return name;
}

unsigned
network_free_port(void)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t bytes = sizeof(address);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    bool is_found = fd >= 0 && bind(fd, (struct sockaddr *)&address, bytes) == 0 &&
                    getsockname(fd, (struct sockaddr *)&address, &bytes) == 0;
    if (fd >= 0)
        close(fd);
    return is_found ? ntohs(address.sin_port) : 0;
}
