/*
 * search.h - finding the listener of a meeting: resolves the address, and connects to each of the meeting's ports until
 * one takes this process in (auth.h). Nothing blocks, the resolver of names included. Called by meeting.c; one thread.
 */
#ifndef DDPRUN_LAUNCHER_CLUSTER_ADDRESS_SEARCH_H
#define DDPRUN_LAUNCHER_CLUSTER_ADDRESS_SEARCH_H

#include "launcher/cluster/auth.h"

#include <poll.h>
#include <stdbool.h>

enum { MEETING_PORTS = 16 };

struct search;

/* At `port` and the ports behind it. `number`: as which this process is taken in. `address` must outlive it. */
struct search *search_open(const char *address, unsigned port, int number);
void search_close(struct search *search);

/* By which key both ends know each other, and the mark of this process's own listener, whose first half is the run's.
 */
void search_know(struct search *search, const unsigned char key[AUTH_BYTES], const unsigned char mark[AUTH_MARK_BYTES]);

enum search_place {
    PLACE_UNKNOWN, /* no address is known yet */
    PLACE_LOOPBACK,
    PLACE_HERE, /* this host has the address */
    PLACE_ELSEWHERE,
};

/* Asks again for addresses now and then, until there are some: a pod's name is known once the pod is. */
enum search_place search_resolve(struct search *search);

enum search_answer {
    SEARCH_CONTINUES,
    SEARCH_FOUND,   /* *fd_p is the connection, the caller's, and `key` that of its session */
    SEARCH_REFUSED, /* a listener of this run does not take this process in; the search continues */
    SEARCH_SELF,    /* the address leads to this process's own listener */
};

/* Continues. Needs search_know(). *port_p: of the listener that refuses. */
enum search_answer search_step(struct search *search, int *fd_p, unsigned char key[AUTH_BYTES], unsigned *port_p);

/* What it waits for: MEETING_PORTS, fd -1 where there is nothing. */
void search_poll(const struct search *search, struct pollfd polled[MEETING_PORTS]);

/* The protocol of the listener that refused last, where it is another version's; else 0. */
int search_other_version(const struct search *search);

/* Why nothing is found: "no answer". */
const char *search_reason(const struct search *search);

#endif
