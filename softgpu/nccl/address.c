/*
 * address.c - see address.h.
 */
#include "nccl/address.h"

#include <arpa/inet.h>
#include <errno.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netdb.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

/* ---- addresses ---- */

static bool
from_socket_address(const struct sockaddr *from, struct net_address *address_p)
{
    struct net_address address = {0};
    if (from->sa_family == AF_INET) {
        const struct sockaddr_in *in = (const struct sockaddr_in *)from;
        address.family = 4;
        address.port = in->sin_port;
        memcpy(address.bytes, &in->sin_addr, sizeof(in->sin_addr));
    } else if (from->sa_family == AF_INET6) {
        const struct sockaddr_in6 *in = (const struct sockaddr_in6 *)from;
        address.family = 6;
        address.port = in->sin6_port;
        address.is_local = IN6_IS_ADDR_LINKLOCAL(&in->sin6_addr);
        memcpy(address.bytes, &in->sin6_addr, sizeof(in->sin6_addr));
    } else {
        return false;
    }
    *address_p = address;
    return true;
}

/* The index of the interface that this process uses; 0 if it uses no interface. */
static unsigned chosen_interface(void);

/* The system's form; 0 for no address. */
static socklen_t
to_socket_address(const struct net_address *address, struct sockaddr_storage *to)
{
    memset(to, 0, sizeof(*to));
    if (address->family == 4) {
        struct sockaddr_in *in = (struct sockaddr_in *)to;
        in->sin_family = AF_INET;
        in->sin_port = address->port;
        memcpy(&in->sin_addr, address->bytes, sizeof(in->sin_addr));
        return sizeof(*in);
    }
    if (address->family == 6) {
        struct sockaddr_in6 *in = (struct sockaddr_in6 *)to;
        in->sin6_family = AF_INET6;
        in->sin6_port = address->port;
        memcpy(&in->sin6_addr, address->bytes, sizeof(in->sin6_addr));
        if (address->is_local)
            in->sin6_scope_id = chosen_interface();
        return sizeof(*in);
    }
    return 0;
}

const char *
net_address_text(const struct net_address *address, char *text)
{
    char number[INET6_ADDRSTRLEN] = "?";
    inet_ntop(address->family == 6 ? AF_INET6 : AF_INET, address->bytes, number, sizeof(number));
    snprintf(text, ADDRESS_TEXT_BYTES, address->family == 6 ? "[%s]:%u" : "%s:%u", number,
             (unsigned)ntohs(address->port));
    return text;
}

bool
net_address_is_loopback(const struct net_address *address)
{
    if (address->family == 4)
        return address->bytes[0] == 127;
    return address->family == 6 && memcmp(address->bytes, &in6addr_loopback, sizeof(address->bytes)) == 0;
}

bool
net_address_parse(const char *value, struct net_address *address_p)
{
    char host[256];
    const char *colon = strrchr(value, ':');
    size_t length = colon ? (size_t)(colon - value) : 0;
    if (length == 0 || length >= sizeof(host) || colon[1] < '0' || colon[1] > '9')
        return false;
    char *end;
    unsigned long port = strtoul(colon + 1, &end, 10);
    if (*end != '\0' || port == 0 || port > UINT16_MAX)
        return false;
    bool has_brackets = value[0] == '[' && value[length - 1] == ']';
    snprintf(host, sizeof(host), "%.*s", (int)(has_brackets ? length - 2 : length), value + has_brackets);

    const struct addrinfo hints = {.ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM, .ai_flags = AI_NUMERICSERV};
    struct addrinfo *found = NULL;
    if (getaddrinfo(host, colon + 1, &hints, &found) != 0)
        return false;
    bool good = from_socket_address(found->ai_addr, address_p);
    freeaddrinfo(found);
    return good;
}

/* ---- interfaces ---- */

/* What an interface's name must be like. */
struct name_rule {
    const char *names; /* separated by commas */
    bool is_excluding, is_exact;
};

static struct name_rule
parse_rule(const char *value)
{
    struct name_rule rule = {.names = value};
    rule.is_excluding = *rule.names == '^';
    rule.names += rule.is_excluding;
    rule.is_exact = *rule.names == '=';
    rule.names += rule.is_exact;
    return rule;
}

static bool
rule_allows(const struct name_rule *rule, const char *interface)
{
    for (const char *name = rule->names; *name;) {
        size_t length = strcspn(name, ",");
        if (length > 0 && strncmp(interface, name, length) == 0 && (!rule->is_exact || interface[length] == '\0'))
            return !rule->is_excluding;
        name += length;
        name += *name == ',';
    }
    return rule->is_excluding;
}

/* NCCL_SOCKET_FAMILY as AF_INET, AF_INET6 or AF_UNSPEC; -1 for what it cannot be. */
static int
wanted_family(void)
{
    const char *value = getenv("NCCL_SOCKET_FAMILY");
    if (!value || !*value)
        return AF_UNSPEC;
    if (strcmp(value, "AF_INET") == 0)
        return AF_INET;
    return strcmp(value, "AF_INET6") == 0 ? AF_INET6 : -1;
}

/* The first address that a rule and the family allow; NULL if they allow no address. */
static const struct ifaddrs *
find_address(const struct ifaddrs *all, const struct name_rule *rule, int family, bool may_be_loopback)
{
    for (const struct ifaddrs *one = all; one; one = one->ifa_next) {
        if (!one->ifa_addr || !(one->ifa_flags & IFF_UP))
            continue;
        int its_family = one->ifa_addr->sa_family;
        if ((its_family != AF_INET && its_family != AF_INET6) || (family != AF_UNSPEC && its_family != family))
            continue;
        if (!may_be_loopback && (one->ifa_flags & IFF_LOOPBACK))
            continue;
        if (rule_allows(rule, one->ifa_name))
            return one;
    }
    return NULL;
}

/* By the user's rule, or by NCCL's four. */
static const struct ifaddrs *
find_interface(const struct ifaddrs *all, int family)
{
    static const struct {
        const char *rule;
        bool may_be_loopback;
    } defaults[] = {{"ib", false}, {"^docker", false}, {"docker", false}, {"^", true}};
    const char *value = getenv("NCCL_SOCKET_IFNAME");
    if (value && *value) {
        struct name_rule rule = parse_rule(value);
        return find_address(all, &rule, family, true);
    }
    const struct ifaddrs *found = NULL;
    for (size_t i = 0; i < sizeof(defaults) / sizeof(defaults[0]) && !found; ++i) {
        struct name_rule rule = parse_rule(defaults[i].rule);
        found = find_address(all, &rule, family, defaults[i].may_be_loopback);
    }
    return found;
}

static unsigned
chosen_interface(void)
{
    struct ifaddrs *all;
    if (getifaddrs(&all) < 0)
        return 0;
    const struct ifaddrs *found = find_interface(all, AF_INET6);
    unsigned index = found ? if_nametoindex(found->ifa_name) : 0;
    freeifaddrs(all);
    return index;
}

bool
net_address_choose(struct net_address *address_p, char *text, size_t text_bytes)
{
    const char *names = getenv("NCCL_SOCKET_IFNAME");
    int family = wanted_family();
    if (family < 0) {
        snprintf(text, text_bytes, "NCCL_SOCKET_FAMILY=%s: give AF_INET or AF_INET6", getenv("NCCL_SOCKET_FAMILY"));
        return false;
    }
    struct ifaddrs *all;
    if (getifaddrs(&all) < 0) {
        snprintf(text, text_bytes, "the network interfaces cannot be listed: %s", strerror(errno));
        return false;
    }
    struct net_address address = {0};
    const struct ifaddrs *found = find_interface(all, family);
    if (found) {
        from_socket_address(found->ifa_addr, &address);
        address.port = 0;
    }
    freeifaddrs(all);
    if (!found && ((names && *names) || family != AF_UNSPEC)) {
        snprintf(text, text_bytes, "no network interface that is up fits NCCL_SOCKET_IFNAME=%s%s%s", names ? names : "",
                 family == AF_UNSPEC ? "" : " and NCCL_SOCKET_FAMILY=",
                 family == AF_UNSPEC ? "" : getenv("NCCL_SOCKET_FAMILY"));
        return false;
    }
    *address_p = address;
    return true;
}

/* ---- sockets ---- */

static int
close_with_reason(int socket)
{
    int reason = errno;
    close(socket);
    errno = reason;
    return -1;
}

int
net_listen(struct net_address *address, int backlog)
{
    struct sockaddr_storage storage;
    socklen_t length = to_socket_address(address, &storage);
    int listener = socket(storage.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (listener < 0)
        return -1;
    int one = 1;
    setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one)); /* a port said by the user is used again */
    if (bind(listener, (struct sockaddr *)&storage, length) < 0 || listen(listener, backlog) < 0)
        return close_with_reason(listener);
    length = sizeof(storage);
    struct net_address bound;
    if (getsockname(listener, (struct sockaddr *)&storage, &length) < 0 ||
        !from_socket_address((struct sockaddr *)&storage, &bound))
        return close_with_reason(listener);
    address->port = bound.port;
    return listener;
}

int
net_connect(const struct net_address *address)
{
    struct sockaddr_storage storage;
    socklen_t length = to_socket_address(address, &storage);
    if (length == 0) {
        errno = EADDRNOTAVAIL;
        return -1;
    }
    int connection = socket(storage.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (connection < 0)
        return -1;
    net_watch(connection);
    if (connect(connection, (struct sockaddr *)&storage, length) < 0 && errno != EINPROGRESS && errno != EINTR)
        return close_with_reason(connection);
    return connection;
}

int
net_connect_result(int socket)
{
    int error = 0;
    socklen_t length = sizeof(error);
    return getsockopt(socket, SOL_SOCKET, SO_ERROR, &error, &length) < 0 ? errno : error;
}

int
net_silence_s(void)
{
    const char *value = getenv("SOFTGPU_NCCL_SILENCE_S");
    if (!value || !*value)
        return 10;
    char *end;
    long seconds = strtol(value, &end, 10);
    return *end == '\0' && seconds >= 1 && seconds <= 3600 ? (int)seconds : 0;
}

/* Keepalive notices where nothing is under way, the timeout where something is. */
void
net_watch(int socket)
{
    int silence_s = net_silence_s();
    silence_s = silence_s > 0 ? silence_s : 10;
    const int on = 1, interval_s = silence_s > 5 ? silence_s / 5 : 1;
    const int probes = silence_s / interval_s > 1 ? silence_s / interval_s - 1 : 1;
    const unsigned silence_ms = 1000u * (unsigned)silence_s;
    setsockopt(socket, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
    setsockopt(socket, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof(on));
    setsockopt(socket, IPPROTO_TCP, TCP_KEEPIDLE, &interval_s, sizeof(interval_s));
    setsockopt(socket, IPPROTO_TCP, TCP_KEEPINTVL, &interval_s, sizeof(interval_s));
    setsockopt(socket, IPPROTO_TCP, TCP_KEEPCNT, &probes, sizeof(probes));
    setsockopt(socket, IPPROTO_TCP, TCP_USER_TIMEOUT, &silence_ms, sizeof(silence_ms));
}
