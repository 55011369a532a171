/*
 * addresses.c - see addresses.h. Interfaces from getifaddrs(3).
 */
#include "launcher/cluster/addresses.h"

#include "base/protocol.h"
#include "launcher/common/network.h"

#include <arpa/inet.h>
#include <errno.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

bool
addresses_take(const struct sockaddr *from, struct host_address *address)
{
    memset(address, 0, sizeof(*address));
    if (from != NULL && from->sa_family == AF_INET) {
        address->family = 4;
        memcpy(address->bytes, &((const struct sockaddr_in *)from)->sin_addr, 4);
        return true;
    }
    if (from == NULL || from->sa_family != AF_INET6)
        return false;
    const struct in6_addr *six = &((const struct sockaddr_in6 *)from)->sin6_addr;
    address->family = 6;
    memcpy(address->bytes, six, 16);
    return !IN6_IS_ADDR_LINKLOCAL(six);
}

bool
addresses_in_network(const struct host_address *address, const char *text)
{
    struct network network;
    if (!network_parse(text, &network) || network.family != address->family)
        return false;
    for (int i = 0; i < network.bits; ++i) {
        int mask = 0x80 >> (i % 8);
        if ((network.bytes[i / 8] & mask) != (address->bytes[i / 8] & mask))
            return false;
    }
    return true;
}

static bool
is_wanted(const struct ifaddrs *interface, const struct host_address *address, const char *wanted)
{
    if (wanted == NULL)
        return (interface->ifa_flags & IFF_LOOPBACK) == 0;
    if (strchr(wanted, '/') != NULL)
        return addresses_in_network(address, wanted);
    return strcmp(interface->ifa_name, wanted) == 0;
}

bool
addresses_find(const char *wanted, struct host_addresses *addresses_p, struct error *error)
{
    struct ifaddrs *interfaces = NULL;
    struct host_addresses found = {0};
    if (getifaddrs(&interfaces) != 0)
        return error_set(error, DDPRUN_EXIT_FAILURE, "cannot list the network interfaces: %s", strerror(errno));
    for (int family = 4; family <= 6; family += 2) {
        for (const struct ifaddrs *i = interfaces; i != NULL && found.count < ADDRESSES_AT_MOST; i = i->ifa_next) {
            struct host_address address;
            if ((i->ifa_flags & IFF_UP) != 0 && addresses_take(i->ifa_addr, &address) && address.family == family &&
                is_wanted(i, &address, wanted))
                found.items[found.count++] = address;
        }
    }
    freeifaddrs(interfaces);
    if (wanted != NULL && found.count == 0)
        return error_set(error, DDPRUN_EXIT_USAGE,
                         "no interface of this host is up with an address that fits '%s', in --interface; give the "
                         "name of one that is, or a network such as 10.1.0.0/16",
                         wanted);
    *addresses_p = found;
    return true;
}

void
addresses_host_id(char id[HOST_ID_BYTES])
{
    char boot[37] = "";
    struct stat space = {0};
    FILE *file = fopen("/proc/sys/kernel/random/boot_id", "re");
    if (file == NULL || fscanf(file, "%36s", boot) != 1)
        gethostname(boot, sizeof(boot) - 1);
    if (file != NULL)
        fclose(file);
    (void)stat("/proc/self/ns/net", &space);
    /* The namespace's number is what is left of the width; of the boot id its first digits tell machines apart. */
    snprintf(id, HOST_ID_BYTES, "%.23s %llx", boot, (unsigned long long)space.st_ino);
}

bool
addresses_is_loopback(const struct host_address *address)
{
    static const unsigned char six[16] = {[15] = 1};
    return address->family == 4 ? address->bytes[0] == 127 : memcmp(address->bytes, six, sizeof(six)) == 0;
}

/* An abstract name, which ends with its socket (unix(7)). */
int
addresses_claim(const char *name)
{
    struct sockaddr_un own = {.sun_family = AF_UNIX};
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    int length = snprintf(own.sun_path + 1, sizeof(own.sun_path) - 1, "ddprun-%u-%s", (unsigned)geteuid(), name);
    socklen_t size = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)length);
    errno = ENAMETOOLONG;
    if (fd >= 0 && (size_t)length < sizeof(own.sun_path) - 1 && bind(fd, (struct sockaddr *)&own, size) == 0)
        return fd;
    int cause = errno;
    if (fd >= 0)
        close(fd);
    errno = cause;
    return -1;
}

socklen_t
addresses_socket_address(const struct host_address *address, uint16_t port, struct sockaddr_storage *to)
{
    memset(to, 0, sizeof(*to));
    if (address->family == 4) {
        struct sockaddr_in *four = (struct sockaddr_in *)to;
        four->sin_family = AF_INET;
        four->sin_port = htons(port);
        memcpy(&four->sin_addr, address->bytes, 4);
        return sizeof(*four);
    }
    struct sockaddr_in6 *six = (struct sockaddr_in6 *)to;
    six->sin6_family = AF_INET6;
    six->sin6_port = htons(port);
    memcpy(&six->sin6_addr, address->bytes, 16);
    return sizeof(*six);
}

bool
addresses_equal(const struct host_address *a, const struct host_address *b)
{
    return a->family == b->family && memcmp(a->bytes, b->bytes, a->family == 4 ? 4 : 16) == 0;
}

bool
addresses_of_peer(int fd, struct host_address *address_p)
{
    struct sockaddr_storage name = {.ss_family = AF_UNSPEC};
    struct host_address address;
    socklen_t length = sizeof(name);
    if (getpeername(fd, (struct sockaddr *)&name, &length) != 0 ||
        !addresses_take((const struct sockaddr *)&name, &address))
        return false;
    *address_p = address;
    return true;
}

const char *
addresses_text(const struct host_address *address, char text[ADDRESS_TEXT_BYTES])
{
    if (inet_ntop(address->family == 4 ? AF_INET : AF_INET6, address->bytes, text, ADDRESS_TEXT_BYTES) == NULL)
        text[0] = '\0';
    return text;
}
