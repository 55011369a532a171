/*
 * transfer.h - whole messages over sockets, with a limit of time. Any thread; one reader and one writer for a socket.
 */
#ifndef DDPRUN_COMM_TRANSFER_H
#define DDPRUN_COMM_TRANSFER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum transfer {
    TRANSFER_DONE,
    TRANSFER_LATE,
    TRANSFER_GONE,   /* the other end is closed */
    TRANSFER_CLOSED, /* this one is: the descriptor is no socket any more */
};

/* Waits until `fd` is ready for `events` (poll); false when the deadline (clock_now_ms) passes. */
bool transfer_wait(int fd, short events, int64_t deadline_ms);

/* All `bytes`, or none that count: the others leave the stream in the middle of a message. */
enum transfer transfer_send(int fd, const void *data, size_t bytes, int64_t deadline_ms);
enum transfer transfer_receive(int fd, void *data, size_t bytes, int64_t deadline_ms);

#endif
