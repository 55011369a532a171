/*
 * addresses.h - under which addresses this host can be reached, and which host it is.
 *
 * Loopback counts only for a peer that finds the same host identity: boot and network namespace. Two containers of one
 * machine have the same boot and another namespace each, two simulated hosts too.
 */
#ifndef DDPRUN_LAUNCHER_CLUSTER_ADDRESSES_H
#define DDPRUN_LAUNCHER_CLUSTER_ADDRESSES_H

#include "launcher/common/error.h"

#include <netinet/in.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>

enum { ADDRESSES_AT_MOST = 32, HOST_ID_BYTES = 48, ADDRESS_TEXT_BYTES = INET6_ADDRSTRLEN };

struct host_address {
    unsigned char family; /* 4 or 6 */
    unsigned char bytes[16];
};

struct host_addresses {
    int count;
    struct host_address items[ADDRESSES_AT_MOST];
};

/*
 * The addresses of interfaces that are up, IPv4 first; without loopback and IPv6's link-local ones, which mean another
 * host elsewhere. `wanted`: NULL, or the name of an interface, or a network such as 10.1.0.0/16. Error
 * (DDPRUN_EXIT_USAGE): no such address; without `wanted`: a host with loopback only.
 */
bool addresses_find(const char *wanted, struct host_addresses *addresses, struct error *error) MUST_USE;

/* An address of getifaddrs(3) or getaddrinfo(3). False: one of another kind, or that means another host elsewhere. */
bool addresses_take(const struct sockaddr *from, struct host_address *address);

/* Whether the address lies in a network, "ADDRESS/BITS"; false: `network` has another form (common/network.h). */
bool addresses_in_network(const struct host_address *address, const char *network);

/* "boot id network namespace", the same in all processes that share a loopback interface. */
void addresses_host_id(char id[HOST_ID_BYTES]);

/* Whether it leads to the host that uses it, and to no other. */
bool addresses_is_loopback(const struct host_address *address);

/* Takes a name, of this user, that one process of this host can have, until the descriptor is closed. -1: errno is
 * EADDRINUSE if another process has it. */
int addresses_claim(const char *name) MUST_USE;

/* For connect(); family 4 or 6, `port` of the host. */
socklen_t addresses_socket_address(const struct host_address *address, uint16_t port, struct sockaddr_storage *to);

bool addresses_equal(const struct host_address *a, const struct host_address *b);

/* Where the other end of a connection is. False: it has no other end, or none that leads there from another socket. */
bool addresses_of_peer(int fd, struct host_address *address) MUST_USE;

const char *addresses_text(const struct host_address *address, char text[ADDRESS_TEXT_BYTES]);

#endif
