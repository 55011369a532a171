/*
 * network.h - a network by its text, such as 10.1.0.0/16: for the option that names one, and for the search for
 * addresses in it, and for NCCL, which takes names of interfaces; and the name of this host.
 */
#ifndef DDPRUN_LAUNCHER_COMMON_NETWORK_H
#define DDPRUN_LAUNCHER_COMMON_NETWORK_H

#include <stdbool.h>
#include <sys/socket.h>

struct network {
    unsigned char family; /* 4 or 6 */
    unsigned char bytes[16];
    int bits; /* of the address that count */
};

/* Whether the address, which may be NULL, is in the network. Pure. */
bool network_holds(const struct network *network, const struct sockaddr *address);

/* False and untouched `network`: the text is not "ADDRESS/BITS". Pure. */
bool network_parse(const char *text, struct network *network) __attribute__((warn_unused_result));

/* The names of this host's interfaces that are up, with an address in the network that the text names, as
 * "eth0,eth1"; a new string. NULL: there is none, or the text is no network. */
char *network_interfaces(const char *text) __attribute__((warn_unused_result));

/* "localhost" where the system says none. The same string at each call. One thread. */
const char *host_name(void);

/* A port of 127.0.0.1 that no process of this host listened at just now; 0: there is none. */
unsigned network_free_port(void);

#endif
