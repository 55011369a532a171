/* network.c - see network.h. */
#include "launcher/common/network.h"

#include "base/printable.h"

#include <arpa/inet.h>
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
