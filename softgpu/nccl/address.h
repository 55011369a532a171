/*
 * address.h - where this process can be reached from other hosts, as NCCL's documented environment says, and TCP
 * sockets to and from such places.
 *
 * NCCL_SOCKET_IFNAME: names of interfaces, separated by commas. A name means every interface that begins with it;
 * after a leading `=` only those that are called so; after a leading `^` all others (`^=` as well). Unset: an
 * interface that begins with `ib`; else one that is neither loopback nor begins with `docker`; else docker; else
 * loopback. NCCL_SOCKET_FAMILY: AF_INET or AF_INET6; unset: whichever the interface has first.
 *
 * Called by bootstrap*.c and spread.c. Nothing here blocks, and nothing calls CUDA.
 */
#ifndef SOFTGPU_NCCL_ADDRESS_H
#define SOFTGPU_NCCL_ADDRESS_H

#include <netinet/in.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* An address and a port as they are sent: in a unique id, and between ranks. */
struct net_address {
    uint16_t family;   /* 4, 6, or 0 for none; not AF_..., whose numbers are each system's own */
    uint16_t port;     /* in network order */
    uint32_t is_local; /* an IPv6 address that means something only on its link; the interface is the reader's choice */
    unsigned char bytes[16];
};

enum { ADDRESS_TEXT_BYTES = INET6_ADDRSTRLEN + 16 };

/* "10.0.0.1:4711" or "[::1]:4711", into at least ADDRESS_TEXT_BYTES. Returns `text`. */
const char *net_address_text(const struct net_address *address, char *text);

/*
 * This host's address, port 0, as the environment says. False if it says what cannot be, with the reason in `text`;
 * with family 0 and true if nothing was asked for and there is no network.
 */
bool net_address_choose(struct net_address *address_p, char *text, size_t text_bytes);

/* Reads "ADDRESS:PORT", "[IPV6]:PORT" or "NAME:PORT"; false if it has none of these forms or the name is not known. */
bool net_address_parse(const char *value, struct net_address *address_p);

/* Whether only processes of this host can reach it. */
bool net_address_is_loopback(const struct net_address *address);

/* A non-blocking listening socket at `address`, whose port is set if it was 0; -1 with errno set. */
int net_listen(struct net_address *address, int backlog);

/* A non-blocking socket whose connection has begun, or -1 with errno set; net_connect_result() tells once it is
 * writable. */
int net_connect(const struct net_address *address);

/* 0 or the errno of a connection that has become writable. */
int net_connect_result(int socket);

/*
 * Seconds for which another host may be silent before it counts as lost: SOFTGPU_NCCL_SILENCE_S, 1 to 3600, 10 if it is
 * not set; 0 if it is malformed. A process that is stopped for longer while data are on their way to it counts, too.
 */
int net_silence_s(void);

/*
 * Makes a connection report a dead host or a broken link, with data under way or without, within that time and a little
 * more, and send what is written at once.
 */
void net_watch(int socket);

#endif
